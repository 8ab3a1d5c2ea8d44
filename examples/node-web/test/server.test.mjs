// berth run -- node --test : a server of the test's own, then the running one of this workspace.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { guestBook } from "../server.mjs";

test("every visitor is kept, also when they come at once", async (t) => {
  const scratch = await mkdtemp(join(tmpdir(), "guest-book-"));
  const server = guestBook(join(scratch, "visits.json"));
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
    await rm(scratch, { recursive: true });
  });
  const url = `http://127.0.0.1:${server.address().port}/`;
  const names = ["ann", "bob", "cem", "dan"];
  await Promise.all(names.map((name) => fetch(`${url}?name=${name}`, { method: "POST" })));
  const { visits } = await (await fetch(url)).json();
  assert.deepEqual(visits.sort(), names);
});

const port = process.env.BERTH_PORT_WEB;

test("the running server answers with this workspace's visits", { skip: !port && "no workspace" }, async () => {
  const answer = await (await fetch(`http://127.0.0.1:${port}/`)).json();
  const file = join(process.env.BERTH_DATA_DIR, "visits.json");
  const stored = await readFile(file, "utf8").catch(() => "[]");
  assert.equal(answer.workspace, process.env.BERTH_SLUG);
  assert.deepEqual(answer.visits, JSON.parse(stored));
});
