"""The background worker: counts the words of new notes."""

import time

from notes import store

PAUSE_SECONDS = 0.1

if __name__ == "__main__":
    print("waiting for notes")
    with store.connect() as db:
        while True:
            if counted := store.count_words(db):
                print(f"counted {counted}")
            time.sleep(PAUSE_SECONDS)
