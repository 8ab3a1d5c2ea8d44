"""What berth decided, written down: one SQLite file per machine, short transactions (workspaces.md 5.2).

Layout::

    workspaces   one row per workspace; intent columns say what an interrupted command was about to do
      id PK · slug · path UNIQUE · repo · common_dir · git_dir · branch · base · start_commit · ownership · phase
      setup_complete · reset_pending · removal_head · removal_branch · removal_dir · last_error · warnings (JSON)
      runtime (JSON) · listen (JSON) · engine_id · guest · plan_file · created_at · last_used_at
    ports        port UNIQUE · workspace_id → workspaces (cascade) · name

Knows nothing of git, engines or configuration files, and never repairs or deletes the file.
"""

from __future__ import annotations

import os
import sqlite3
import time

from berth.errors import BerthError
from berth.tools import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")

SCHEMA_VERSION = 1
BUSY_SECONDS = 10.0

SCHEMA = """
CREATE TABLE workspaces (
  id TEXT PRIMARY KEY,
  slug TEXT NOT NULL,
  path TEXT NOT NULL UNIQUE,
  repo TEXT NOT NULL,
  common_dir TEXT NOT NULL,
  git_dir TEXT NOT NULL,
  branch TEXT,
  base TEXT NOT NULL,
  start_commit TEXT,
  ownership TEXT NOT NULL CHECK (ownership IN ('berth-created', 'adopted')),
  phase TEXT NOT NULL
    CHECK (phase IN ('creating', 'preparing', 'ready', 'running', 'stopped', 'failed', 'removing')),
  setup_complete INTEGER NOT NULL DEFAULT 0,
  reset_pending INTEGER NOT NULL DEFAULT 0,
  removal_head TEXT,
  removal_branch TEXT,
  removal_dir TEXT,
  last_error TEXT,
  warnings TEXT NOT NULL DEFAULT '[]',
  runtime TEXT NOT NULL,
  listen TEXT NOT NULL,
  engine_id TEXT,
  guest TEXT,
  plan_file TEXT,
  created_at TEXT NOT NULL,
  last_used_at TEXT NOT NULL,
  UNIQUE (repo, slug)
) STRICT;
CREATE INDEX workspaces_slug ON workspaces (slug);
CREATE TABLE ports (
  port INTEGER NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  UNIQUE (workspace_id, name)
) STRICT;
"""

COLUMNS = (
    "id",
    "slug",
    "path",
    "repo",
    "common_dir",
    "git_dir",
    "branch",
    "base",
    "start_commit",
    "ownership",
    "phase",
    "setup_complete",
    "reset_pending",
    "removal_head",
    "removal_branch",
    "removal_dir",
    "last_error",
    "warnings",
    "runtime",
    "listen",
    "engine_id",
    "guest",
    "plan_file",
    "created_at",
    "last_used_at",
)
_SELECT = "SELECT " + ", ".join(COLUMNS) + " FROM workspaces"  # noqa: S608  # the names above
_LOOKUP_WORDS = 200  # well below SQLite's limit of bound variables


class Workspace:
    """A registry row with its ports. Immutable: a row changes by ``Registry.update``.

    Every attribute is the column of that name; ``ports`` maps port names to host ports, sorted by name.
    ``setup_complete`` and ``reset_pending`` are booleans; ``warnings``, ``runtime`` and ``listen`` are JSON text.
    """

    id: str
    slug: str
    path: str
    repo: str
    common_dir: str
    git_dir: str
    branch: str | None
    base: str
    start_commit: str | None
    ownership: str
    phase: str
    setup_complete: bool
    reset_pending: bool
    removal_head: str | None
    removal_branch: str | None
    removal_dir: str | None
    last_error: str | None
    warnings: str
    runtime: str
    listen: str
    engine_id: str | None
    guest: str | None
    plan_file: str | None
    created_at: str
    last_used_at: str
    ports: dict[str, int]

    def __init__(self, values: Sequence[Any], ports: dict[str, int]) -> None:
        for name, value in zip(COLUMNS, values, strict=True):
            setattr(self, name, value)
        self.setup_complete = bool(self.setup_complete)
        self.reset_pending = bool(self.reset_pending)
        self.ports = ports

    @property
    def owned(self) -> bool:
        """True when berth made the checkout and may remove it."""
        return self.ownership == "berth-created"

    @property
    def removing(self) -> bool:
        """True when a removal intent is recorded (workspaces.md 10.4)."""
        return self.phase == "removing"


def timestamp(seconds: float) -> str:
    """``seconds`` since the epoch as RFC 3339 UTC with milliseconds, ending in Z."""
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1000):03d}Z"


class Registry:
    """The machine's registry below ``home``; opened on first use.

    Every method may raise BerthError: registry_busy, registry_corrupt, registry_newer, io_error.
    """

    def __init__(self, home: str) -> None:
        self.home = home
        self.path = os.path.join(home, "registry.db")
        self._connection: sqlite3.Connection | None = None

    # -- reading ------------------------------------------------------------------------------------------------

    def by_id(self, workspace_id: str) -> Workspace | None:
        """The workspace with that id, or None."""
        return self._one("WHERE id = ?", (workspace_id,))

    def by_path(self, path: str) -> Workspace | None:
        """The workspace whose root is exactly ``path`` (canonical), or None."""
        return self._one("WHERE path = ?", (path,))

    def by_slug(self, slug: str, *, repo: str | None = None) -> list[Workspace]:
        """The workspaces of that slug, in one repository or machine-wide, by path."""
        if repo is not None:
            return self._many("WHERE slug = ? AND repo = ? ORDER BY path", (slug, repo))
        return self._many("WHERE slug = ? ORDER BY path", (slug,))

    def containing(self, path: str) -> Workspace | None:
        """The workspace with the deepest root that is ``path`` or a parent of it, or None."""
        ancestors = [path]
        while (parent := os.path.dirname(ancestors[-1])) != ancestors[-1]:
            ancestors.append(parent)
        marks = ", ".join("?" * len(ancestors))
        return self._one(f"WHERE path IN ({marks}) ORDER BY length(path) DESC LIMIT 1", ancestors)

    def all(self) -> list[Workspace]:
        """Every workspace, most recently used first, ties by path."""
        return self._many("ORDER BY last_used_at DESC, path", ())

    def of_repository(self, repo: str) -> list[Workspace]:
        """The workspaces of one repository, by path."""
        return self._many("WHERE repo = ? ORDER BY path", (repo,))

    def repository_of(self, common_dir: str) -> str | None:
        """The primary checkout on record for a git common directory, or None."""
        rows = self._many("WHERE common_dir = ? LIMIT 1", (common_dir,))
        return rows[0].repo if rows else None

    def taken_ports(self) -> set[int]:
        """Every port that some record on this machine holds."""
        return self._guard(lambda db: {port for (port,) in db.execute("SELECT port FROM ports")})

    def count_owned(self, repo: str) -> int:
        """How many workspaces of ``repo`` berth created."""
        query = "SELECT count(*) FROM workspaces WHERE repo = ? AND ownership = 'berth-created'"
        return self._guard(lambda db: int(db.execute(query, (repo,)).fetchone()[0]))

    # -- writing ------------------------------------------------------------------------------------------------

    def insert(self, values: dict[str, Any], choose_ports: Callable[[set[int]], dict[str, int]]) -> Workspace:
        """Register a workspace and its ports in one transaction and return the row.

        ``values`` maps column names to values. ``choose_ports`` gets the taken ports and returns name → port; it runs
        inside the transaction and may only probe sockets.
        Raises identity_mismatch when the path or (repository, slug) is registered already.
        """

        def work(db: sqlite3.Connection) -> None:
            chosen = choose_ports({port for (port,) in db.execute("SELECT port FROM ports")})
            names = ", ".join(values)
            marks = ", ".join("?" * len(values))
            db.execute(f"INSERT INTO workspaces ({names}) VALUES ({marks})", tuple(values.values()))  # noqa: S608  # columns
            db.executemany(
                "INSERT INTO ports (port, workspace_id, name) VALUES (?, ?, ?)",
                [(port, values["id"], name) for name, port in chosen.items()],
            )

        self.transaction(work)
        row = self.by_id(values["id"])
        assert row is not None
        return row

    def update(self, workspace_id: str, **changes: Any) -> Workspace:
        """Change columns of one row and return it. Raises identity_mismatch when the row is gone."""
        words = ", ".join(f"{name} = ?" for name in changes)

        def work(db: sqlite3.Connection) -> None:
            done = db.execute(f"UPDATE workspaces SET {words} WHERE id = ?", (*changes.values(), workspace_id))  # noqa: S608  # columns
            if done.rowcount != 1:
                raise _gone(workspace_id)

        self.transaction(work)
        row = self.by_id(workspace_id)
        if row is None:
            raise _gone(workspace_id)
        return row

    def delete(self, workspace_id: str) -> None:
        """Delete a row and release its ports; a row that is gone already is fine."""
        self.transaction(lambda db: db.execute("DELETE FROM workspaces WHERE id = ?", (workspace_id,)))

    def transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in one BEGIN IMMEDIATE transaction: all of it is written or nothing.

        Inside it no process runs and nothing is waited for (architecture.md, invariant 1).
        """

        def whole(db: sqlite3.Connection) -> T:
            steps.reach("before a transaction")
            db.execute("BEGIN IMMEDIATE")
            try:
                result = work(db)
                steps.reach("in a transaction")
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            steps.reach("after a transaction")
            return result

        return self._guard(whole)

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def check_integrity(self) -> str:
        """SQLite's own verdict: ``ok`` or the first complaint."""
        return self._guard(lambda db: str(db.execute("PRAGMA integrity_check").fetchone()[0]))

    # -- inside -------------------------------------------------------------------------------------------------

    def _one(self, clause: str, words: Sequence[Any]) -> Workspace | None:
        rows = self._many(clause, words)
        return rows[0] if rows else None

    def _many(self, clause: str, words: Sequence[Any]) -> list[Workspace]:
        def read(db: sqlite3.Connection) -> list[Workspace]:
            db.execute("BEGIN")  # one snapshot for rows and ports
            try:
                rows = db.execute(f"{_SELECT} {clause}", words).fetchall()
                ports = self._ports_of(db, [row[0] for row in rows])
            finally:
                db.execute("COMMIT")
            return [Workspace(row, ports.get(row[0], {})) for row in rows]

        return self._guard(read)

    def _ports_of(self, db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        query = "SELECT workspace_id, name, port FROM ports"
        rows: Iterable[Any]
        if len(ids) > _LOOKUP_WORDS:
            rows = db.execute(query + " ORDER BY name")
        else:
            rows = db.execute(f"{query} WHERE workspace_id IN ({', '.join('?' * len(ids))}) ORDER BY name", ids)
        for workspace_id, name, port in rows:
            found.setdefault(workspace_id, {})[name] = port
        return found

    def _guard(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on the open registry; a busy file is waited for, other failures get their code."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return work(self._open())
            except sqlite3.IntegrityError as error:
                raise BerthError(
                    f"the registry already holds such a workspace ({error})",
                    code="identity_mismatch",
                    hint="berth ls",
                ) from error
            except sqlite3.Error as error:
                busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if busy and time.monotonic() < deadline:
                    continue
                raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> BerthError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return BerthError(
                f"{self.path} was busy for {BUSY_SECONDS:.0f} s ({error})", code="registry_busy", hint="retry"
            )
        environmental = (
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_PERM,
            sqlite3.SQLITE_AUTH,
            sqlite3.SQLITE_NOMEM,
        )
        if code in environmental:
            return BerthError(
                f"{self.path}: {error}", code="io_error", hint=f"check disk and permissions of {self.path}"
            )
        return BerthError(
            f"{self.path} is not a valid registry ({error})",
            code="registry_corrupt",
            hint=f"restore a copy of {self.path}; berth never repairs or deletes it",
        )

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        ensure_home(self.home)
        self._ensure_file()
        db = sqlite3.connect(self.path, timeout=1.0, isolation_level=None)
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise BerthError(
                    f"{self.path} has schema version {version}; this berth knows {SCHEMA_VERSION}",
                    code="registry_newer",
                    hint="install the newer berth that wrote it",
                )
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA synchronous = FULL")
            if version == 0:
                self._create_schema(db)
        except BaseException:
            db.close()
            raise
        self._connection = db
        return db

    def _ensure_file(self) -> None:
        """An empty file with mode 0600 is there before SQLite would make one with the umask's."""
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return
        except OSError as error:
            raise BerthError(f"{self.path}: {error.strerror}", code="io_error", hint=f"check {self.home}") from error

    def _create_schema(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            if db.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in SCHEMA.split(";"):
                    if statement.strip():
                        db.execute(statement)
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def ensure_home(home: str) -> None:
    """Create ``home`` (0700) when absent. Raises io_error when it is another user's or cannot be used."""
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        facts = os.stat(home)
    except OSError as error:
        raise BerthError(
            f"{home}: {error.strerror}", code="io_error", hint="set BERTH_HOME to a directory of yours"
        ) from error
    if facts.st_uid != os.geteuid():
        raise BerthError(
            f"{home} belongs to uid {facts.st_uid}", code="io_error", hint="set BERTH_HOME to a directory of yours"
        )


def _gone(workspace_id: str) -> BerthError:
    return BerthError(
        f"workspace replaced during operation (id {workspace_id} is gone)", code="identity_mismatch", hint="berth ls"
    )
