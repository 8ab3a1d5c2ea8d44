"""Files without a sandbox; what a sandbox refuses is tested with one."""

import os
import unittest

from app_under_test import load


class Filesystem(unittest.TestCase):
    def setUp(self) -> None:
        self.app = load()
        self.workspace = self.app.app.ctx.workspace

    def test_a_written_file_is_read_back_and_listed(self) -> None:
        written = self.app.write_file("a/b.txt", "é")
        self.assertEqual(written, {"path": str(self.workspace / "a/b.txt"), "bytes": 2})
        self.assertEqual(self.app.read_file("a/b.txt"), {"content": "é"})
        self.assertEqual(self.app.list_files("a"), {"files": ["b.txt"]})
        self.assertIn("a", self.app.list_files()["files"])

    def test_writing_replaces_the_content_and_keeps_the_file(self) -> None:
        self.app.write_file("a.txt", "long text")
        before = os.stat(self.workspace / "a.txt").st_ino
        self.app.write_file("a.txt", "x")
        self.assertEqual(self.app.read_file("a.txt"), {"content": "x"})
        self.assertEqual(os.stat(self.workspace / "a.txt").st_ino, before)

    def test_a_file_is_cut(self) -> None:
        self.app.write_file("a.txt", "long text")
        self.assertEqual(self.app.truncate_file("a.txt", 4), {"size": 4})
        self.assertEqual(self.app.read_file("a.txt"), {"content": "long"})

    def test_context_files_lie_in_context(self) -> None:
        self.app.write_context_file("plan.md", "later")
        self.assertEqual(self.app.read_context_file("plan.md"), {"content": "later"})
        self.assertEqual(self.app.list_files("context"), {"files": ["plan.md"]})

    def test_a_probe_says_what_the_kernel_answered(self) -> None:
        self.assertEqual(self.app.probe_network_connect("127.0.0.1", 1), {"connected": False, "error": "ECONNREFUSED"})


if __name__ == "__main__":
    unittest.main()
