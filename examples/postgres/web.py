"""The web application: tasks in PostgreSQL. Every answer names the workspace it comes from."""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from database import QueryFailed, query

WORKSPACE = os.environ.get("BERTH_SLUG", "no workspace")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path != "/":
            return self.answer(404, {"error": "no such page"})
        return self.ask(200, "tasks", "SELECT id, title, done FROM tasks ORDER BY id")

    def do_POST(self):
        title = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("utf-8", "replace").strip()
        if not title:
            return self.answer(400, {"error": "POST a title"})
        return self.ask(201, "added", "INSERT INTO tasks (title) VALUES (:'title') RETURNING id, title", title=title)

    def do_DELETE(self):
        number = self.path.removeprefix("/")
        if not number.isdecimal():
            return self.answer(404, {"error": "no such page"})
        return self.ask(200, "deleted", "DELETE FROM tasks WHERE id = :'number'::int RETURNING id", number=number)

    def ask(self, status, key, sql, **values):
        try:
            return self.answer(status, {"workspace": WORKSPACE, key: query(sql, **values)})
        except QueryFailed as error:
            return self.answer(500, {"error": str(error)})

    def answer(self, status, document):
        data = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    print(f"{WORKSPACE}: http://127.0.0.1:{port}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
