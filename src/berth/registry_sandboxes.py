"""Sandboxes of this machine, in the same registry file and under the same discipline as workspaces (sandboxes.md 4.10).

Layout::

    sandboxes    one row per sandbox; it outlives ``dev``, so that kept state volumes stay ours
      uuid PK · kind · name · container UNIQUE · engine · engine_id · container_id · image · root · apps (JSON)
      owner_pid · owner_start · unenforced · created_at

Knows nothing of engines; a row says what was decided, not what runs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from berth.registry import Registry

T = TypeVar("T")

SCHEMA = """
CREATE TABLE IF NOT EXISTS sandboxes (
  uuid TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('dev', 'mcp', 'test', 'os', 'boot', 'deploy')),
  name TEXT NOT NULL,
  container TEXT NOT NULL UNIQUE,
  engine TEXT NOT NULL,
  engine_id TEXT,
  container_id TEXT,
  image TEXT NOT NULL,
  root TEXT NOT NULL,
  apps TEXT NOT NULL,
  owner_pid INTEGER,
  owner_start INTEGER,
  unenforced INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL
) STRICT
"""


class Sandbox(NamedTuple):
    """One row. ``apps`` are (name, directory on the host) in order; ``owner_*`` identify the process that holds it."""

    uuid: str
    kind: str
    name: str
    container: str
    engine: str
    engine_id: str | None
    container_id: str | None
    image: str
    root: str
    apps: tuple[tuple[str, str], ...]
    owner_pid: int | None
    owner_start: int | None
    unenforced: bool
    created_at: str

    @property
    def app_names(self) -> list[str]:
        return [name for name, _directory in self.apps]


_COLUMNS = ", ".join(Sandbox._fields)


class Sandboxes:
    """The sandboxes table of ``registry``; made on first use. Errors as in ``Registry``."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def all(self) -> list[Sandbox]:
        """Every row, by kind and name."""
        return self._do(lambda db: _rows(db, "ORDER BY kind, name"))

    def by_container(self, container: str) -> Sandbox | None:
        """The sandbox whose container has exactly that name, or None."""
        found = self._do(lambda db: _rows(db, "WHERE container = ?", container))
        return found[0] if found else None

    def claim(self, wanted: Sandbox, *, may_take: Callable[[Sandbox], None]) -> Sandbox:
        """Write ``wanted``; where its container name has a row, ``may_take`` of that row raises or allows, and the
        row's uuid and time of creation stay. One transaction."""

        def work(db: sqlite3.Connection) -> Sandbox:
            found = _rows(db, "WHERE container = ?", wanted.container)
            row = wanted
            if found:
                may_take(found[0])
                row = wanted._replace(uuid=found[0].uuid, created_at=found[0].created_at)
            marks = ", ".join("?" * len(row))
            db.execute(f"INSERT OR REPLACE INTO sandboxes ({_COLUMNS}) VALUES ({marks})", _stored(row))  # noqa: S608  # fields
            return row

        return self._do(work)

    def update(self, uuid: str, **changes: Any) -> None:
        """Change columns of one row; a row that is gone is left alone."""
        words = ", ".join(f"{name} = ?" for name in changes)
        self._do(lambda db: db.execute(f"UPDATE sandboxes SET {words} WHERE uuid = ?", (*changes.values(), uuid)))  # noqa: S608  # fields

    def delete(self, uuid: str) -> None:
        """Delete a row; one that is gone already is fine."""
        self._do(lambda db: db.execute("DELETE FROM sandboxes WHERE uuid = ?", (uuid,)))

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def whole(db: sqlite3.Connection) -> T:
            db.execute(SCHEMA)
            return work(db)

        return self._registry.transaction(whole)


def _rows(db: sqlite3.Connection, clause: str, *words: str) -> list[Sandbox]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM sandboxes {clause}", words)  # noqa: S608  # fields
    return [_loaded(Sandbox(*row)) for row in rows]


def _loaded(row: Sandbox) -> Sandbox:
    apps = json.loads(str(row.apps))
    return row._replace(apps=tuple((name, directory) for name, directory in apps), unenforced=bool(row.unenforced))


def _stored(row: Sandbox) -> tuple[Any, ...]:
    return tuple(row._replace(apps=json.dumps(row.apps), unenforced=int(row.unenforced)))  # type: ignore[arg-type]  # as columns
