"""A file store behind HTTP. Names are one path component; a file is complete or it is not there."""

import argparse
import json
import os
import re
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = re.compile(r"/([A-Za-z0-9_][A-Za-z0-9._-]{0,99})")
WORKSPACE = os.environ.get("BERTH_SLUG", "no workspace")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/":
            return self.answer(200, json.dumps({"workspace": WORKSPACE, "files": stored(self.server.root)}).encode())
        try:
            with open(self.file(), "rb") as source:
                return self.answer(200, source.read(), "application/octet-stream")
        except FileNotFoundError:
            return self.answer(404, b'{"error": "no such file"}')

    def do_PUT(self):
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            keep(self.file(), content)
        except FileNotFoundError:
            return self.answer(400, b'{"error": "a name is letters, digits, dots, dashes"}')
        return self.answer(201, json.dumps({"workspace": WORKSPACE, "bytes": len(content)}).encode())

    def do_DELETE(self):
        try:
            os.unlink(self.file())
        except FileNotFoundError:
            return self.answer(404, b'{"error": "no such file"}')
        return self.answer(200, json.dumps({"workspace": WORKSPACE, "deleted": True}).encode())

    def file(self):
        """The file that the request's path names. Raises FileNotFoundError for what is no name."""
        name = NAME.fullmatch(self.path)
        if name is None:
            raise FileNotFoundError(self.path)
        return os.path.join(self.server.root, name[1])

    def answer(self, status, data, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def stored(root):
    return {entry.name: entry.stat().st_size for entry in sorted(os.scandir(root), key=lambda entry: entry.name)}


def keep(path, content):
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), prefix="~", delete=False) as target:
        target.write(content)
    os.replace(target.name, path)


def server(port, root):
    os.makedirs(root, exist_ok=True)
    made = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    made.root = root
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--root", default="files")
    options = parser.parse_args()
    print(f"{WORKSPACE}: {options.root} on http://127.0.0.1:{options.port}", flush=True)
    server(options.port, options.root).serve_forever()
