"""The notes in their SQLite file. Every workspace has a file of its own: it lies in the workspace's data directory."""

import os
import sqlite3
from contextlib import closing

SCHEMA = """CREATE TABLE IF NOT EXISTS notes (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL,
  words INTEGER  -- filled in by the worker
)"""


def path():
    return os.path.join(os.environ.get("BERTH_DATA_DIR", "."), "notes.db")


def connect(file=None):
    """A connection in autocommit mode. The service and the worker write at the same time, so both wait for a lock."""
    db = sqlite3.connect(file or path(), timeout=10, isolation_level=None)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(SCHEMA)
    return closing(db)


def add(db, body):
    return db.execute("INSERT INTO notes (body) VALUES (?)", (body,)).lastrowid


def delete(db, note):
    return db.execute("DELETE FROM notes WHERE id = ?", (note,)).rowcount > 0


def notes(db):
    return [dict(row) for row in db.execute("SELECT id, body, words FROM notes ORDER BY id")]


def count_words(db):
    """Count the words of every note that has no count yet, and say how many those were."""
    waiting = db.execute("SELECT id, body FROM notes WHERE words IS NULL").fetchall()
    for row in waiting:
        db.execute("UPDATE notes SET words = ? WHERE id = ?", (len(row["body"].split()), row["id"]))
    return len(waiting)


if __name__ == "__main__":
    with connect() as db:
        print(f"{path()}: {len(notes(db))} notes")
