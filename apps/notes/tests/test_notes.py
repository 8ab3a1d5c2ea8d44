"""The notebook without a sandbox."""

import threading
import unittest

from app_under_test import load


class Notes(unittest.TestCase):
    def setUp(self) -> None:
        self.app = load()

    def test_notes_are_listed_in_the_order_in_which_they_came(self) -> None:
        self.assertEqual(self.app.list_notes(), {"notes": []})
        ids = [self.app.add_note(text)["id"] for text in ("one", "two")]
        self.assertEqual([note["id"] for note in self.app.list_notes()["notes"]], ids)

    def test_a_note_is_completed_once(self) -> None:
        number = self.app.add_note("one")["id"]
        self.assertEqual(self.app.complete_note(number), {"completed": True})
        self.assertEqual(self.app.complete_note(number), {"completed": False})
        self.assertEqual(self.app.complete_note("nobody"), {"completed": False})

    def test_notes_of_many_threads_all_arrive(self) -> None:
        threads = [threading.Thread(target=self.app.add_note, args=(str(number),)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        notes = self.app.list_notes()["notes"]
        self.assertEqual({note["text"] for note in notes}, {str(number) for number in range(20)})
        self.assertEqual(len({note["id"] for note in notes}), 20)


if __name__ == "__main__":
    unittest.main()
