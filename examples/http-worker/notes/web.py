"""The HTTP service. Every answer names the workspace it comes from."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from notes import store

PORT = int(os.environ.get("BERTH_PORT_WEB") or os.environ.get("PORT") or 8000)
WORKSPACE = os.environ.get("BERTH_SLUG", "no workspace")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/healthz":
            return self.answer(200, {"ok": True})
        if self.path not in ("/", "/notes"):
            return self.answer(404, {"error": "no such page"})
        with store.connect() as db:
            found = store.notes(db)
        if self.path == "/notes":
            return self.answer(200, found)
        return self.answer(200, {"workspace": WORKSPACE, "notes": len(found), "database": store.path()})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("utf-8", "replace").strip()
        if self.path != "/notes" or not body:
            return self.answer(400, {"error": "POST a text to /notes"})
        with store.connect() as db:
            note = store.add(db, body)
        return self.answer(201, {"workspace": WORKSPACE, "id": note})

    def do_DELETE(self):
        number = self.path.removeprefix("/notes/")
        if not number.isdecimal():
            return self.answer(404, {"error": "no such page"})
        with store.connect() as db:
            found = store.delete(db, int(number))
        return self.answer(200 if found else 404, {"workspace": WORKSPACE, "deleted": found})

    def answer(self, status, document):
        data = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    print(f"{WORKSPACE}: http://127.0.0.1:{PORT}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
