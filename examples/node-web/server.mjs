// A guest book. Every answer names the workspace it comes from; the visits lie in its data directory.
import { readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";

const workspace = process.env.BERTH_SLUG ?? "no workspace";

async function visits(file) {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") return [];
    throw error;
  }
}

export function guestBook(file) {
  let last = Promise.resolve(); // one writer at a time
  const sign = (name) =>
    (last = last.then(async () => {
      const all = [...(await visits(file)), name];
      await writeFile(`${file}.new`, JSON.stringify(all));
      await rename(`${file}.new`, file);
      return all;
    }));

  return createServer(async (request, response) => {
    const answer = (status, document) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(`${JSON.stringify(document)}\n`);
    };
    try {
      const url = new URL(request.url, "http://localhost");
      if (url.pathname !== "/") return answer(404, { error: "no such page" });
      if (request.method === "POST") {
        const name = url.searchParams.get("name");
        if (!name) return answer(400, { error: "POST /?name=…" });
        return answer(201, { workspace, visits: await sign(name) });
      }
      return answer(200, { workspace, visits: await visits(file) });
    } catch (error) {
      return answer(500, { error: String(error) });
    }
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: { port: { type: "string", default: process.env.PORT ?? "3000" } },
  });
  const file = join(process.env.BERTH_DATA_DIR ?? ".", "visits.json");
  guestBook(file).listen(Number(values.port), "127.0.0.1", () => {
    console.log(`${workspace}: http://127.0.0.1:${values.port}`);
  });
}
