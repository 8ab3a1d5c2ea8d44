"""A notebook: one JSON file in the workspace, replaced whole, so that a reader sees the old one or the new one."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from berth.sdk import App

FILE = "notes.json"
app = App()
_lock = threading.Lock()


@app.export
def add_note(text: str) -> dict:
    with _lock:
        notes = _load()
        note = {"id": str(1 + max((int(note["id"]) for note in notes), default=0)), "text": text, "done": False}
        _save([*notes, note])
    return {"id": note["id"]}


@app.export
def list_notes() -> dict:
    return {"notes": _load()}


@app.export
def complete_note(id: str) -> dict:
    with _lock:
        notes = _load()
        open_ones = [note for note in notes if note["id"] == id and not note["done"]]
        for note in open_ones:
            note["done"] = True
        if open_ones:
            _save(notes)
    return {"completed": bool(open_ones)}


def _load() -> list:
    try:
        return json.loads(_path().read_text())
    except FileNotFoundError:
        return []


def _save(notes: list) -> None:
    draft = _path().with_suffix(".draft")
    draft.write_text(json.dumps(notes, indent=2) + "\n")
    os.replace(draft, _path())


def _path() -> Path:
    return Path(app.ctx.workspace) / FILE
