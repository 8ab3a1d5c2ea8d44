"""A catalogue that is large from the start. Every answer names the workspace it comes from."""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from database import query

WORKSPACE = os.environ.get("BERTH_SLUG", "no workspace")
IN_TEMPLATE = 50000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        books = query("SELECT count(*) AS books FROM books")[0]["books"]
        added = query("SELECT title FROM books WHERE id > :'last'::int ORDER BY id", last=IN_TEMPLATE)
        self.answer(200, {"workspace": WORKSPACE, "books": books, "added": [row["title"] for row in added]})

    def do_POST(self):
        title = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("utf-8", "replace").strip()
        query("INSERT INTO books (title, pages) VALUES (:'title', 1) RETURNING id", title=title or "untitled")
        self.answer(201, {"workspace": WORKSPACE, "added": title})

    def answer(self, status, document):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(document).encode() + b"\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    print(f"{WORKSPACE}: http://127.0.0.1:{port}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
