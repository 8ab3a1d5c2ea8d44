"""Opening files without a sandbox."""

import unittest

from app_under_test import load


class CodeEditor(unittest.TestCase):
    def setUp(self) -> None:
        self.app = load()
        self.workspace = self.app.app.ctx.workspace

    def test_a_relative_path_is_one_of_the_workspace(self) -> None:
        (self.workspace / "a.txt").write_text("hi")
        self.assertEqual(self.app.open_file("a.txt"), {"content": "hi"})

    def test_an_absolute_path_is_used_as_it_is(self) -> None:
        (self.workspace / "a.txt").write_text("hi")
        self.assertEqual(self.app.open_file(str(self.workspace / "a.txt")), {"content": "hi"})

    def test_what_is_not_there_is_an_error_with_its_path(self) -> None:
        with self.assertRaises(FileNotFoundError) as caught:
            self.app.open_file("none")
        self.assertEqual(str(caught.exception.filename), str(self.workspace / "none"))


if __name__ == "__main__":
    unittest.main()
