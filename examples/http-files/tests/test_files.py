"""``berth run -- python3 -m unittest -v``: a server of the test's own, then the running one of this workspace."""

import json
import os
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import files

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(port, path, method="GET", content=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=content, method=method)
    with DIRECT.open(request, timeout=5) as answer:
        return answer.read()


class OwnServer(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.server = files.server(0, os.path.join(scratch.name, "files"))
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        threading.Thread(target=self.server.serve_forever, args=(0.05,)).start()
        self.port = self.server.server_port

    def test_a_file_is_kept_listed_and_removed(self):
        ask(self.port, "/notes.txt", "PUT", b"\x00\xffbytes")
        self.assertEqual(ask(self.port, "/notes.txt"), b"\x00\xffbytes")
        self.assertEqual(json.loads(ask(self.port, "/"))["files"], {"notes.txt": 7})
        ask(self.port, "/notes.txt", "DELETE")
        self.assertEqual(json.loads(ask(self.port, "/"))["files"], {})

    def test_a_path_outside_the_store_is_refused(self):
        for path in ("/../files.py", "/a/b", "/.hidden", "/"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                ask(self.port, path, "PUT", b"x")
            self.assertEqual(refused.exception.code, 400)
            refused.exception.close()


@unittest.skipUnless(os.environ.get("BERTH_PORT_HTTP"), "no workspace: run this with berth run")
class Workspace(unittest.TestCase):
    def test_the_store_lies_in_this_workspaces_data_directory(self):
        port = os.environ["BERTH_PORT_HTTP"]
        self.assertEqual(json.loads(ask(port, "/"))["workspace"], os.environ["BERTH_SLUG"])
        ask(port, "/from-the-tests", "PUT", b"here")
        try:
            with open(os.path.join(os.environ["BERTH_DATA_DIR"], "files", "from-the-tests"), "rb") as file:
                self.assertEqual(file.read(), b"here")
        finally:
            ask(port, "/from-the-tests", "DELETE")


if __name__ == "__main__":
    unittest.main()
