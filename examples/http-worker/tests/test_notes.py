"""``berth run -- python3 -m unittest -v``: the store on its own, then the running service of this workspace."""

import json
import os
import tempfile
import time
import unittest
import urllib.request

from notes import store

PORT = os.environ.get("BERTH_PORT_WEB") or os.environ.get("PORT")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(path, method="GET", text=None):
    url = f"http://127.0.0.1:{PORT}{path}"
    request = urllib.request.Request(url, data=text.encode() if text else None, method=method)
    with DIRECT.open(request, timeout=5) as answer:
        return json.load(answer)


class Store(unittest.TestCase):
    def test_the_worker_counts_each_note_once(self):
        with tempfile.TemporaryDirectory() as scratch, store.connect(f"{scratch}/notes.db") as db:
            note = store.add(db, "three small words")
            self.assertEqual(store.notes(db), [{"id": note, "body": "three small words", "words": None}])
            self.assertEqual(store.count_words(db), 1)
            self.assertEqual(store.count_words(db), 0)
            self.assertEqual(store.notes(db)[0]["words"], 3)


@unittest.skipUnless(PORT, "no service: start one and set PORT, or run this with berth run")
class Service(unittest.TestCase):
    def test_it_answers_for_this_workspace(self):
        front = ask("/")
        self.assertEqual(front["workspace"], os.environ.get("BERTH_SLUG", "no workspace"))
        self.assertEqual(front["database"], store.path())

    def test_a_note_is_stored_counted_and_deleted(self):
        note = ask("/notes", "POST", "written by the tests")["id"]
        try:
            deadline = time.monotonic() + 5
            while next(entry["words"] for entry in ask("/notes") if entry["id"] == note) is None:
                self.assertLess(time.monotonic(), deadline, "the worker did not count the note")
                time.sleep(0.05)
            stored = next(entry for entry in ask("/notes") if entry["id"] == note)
            self.assertEqual(stored, {"id": note, "body": "written by the tests", "words": 4})
        finally:
            self.assertTrue(ask(f"/notes/{note}", "DELETE")["deleted"])
        self.assertNotIn(note, [entry["id"] for entry in ask("/notes")])


if __name__ == "__main__":
    unittest.main()
