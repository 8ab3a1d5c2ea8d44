"""``doctor``: is everything there that berth needs, and does it work? ``--fix`` repairs what is certain (12)."""

from __future__ import annotations

import os
import sqlite3
import stat

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from berth.ops.setup.context import Context

DIRECTORIES = ("locks", "run", "plans", "guest")


class Check:
    """One finding: ``name``, ``ok``, and ``detail`` for a person."""

    __slots__ = ("detail", "name", "ok")

    def __init__(self, name: str, *, ok: bool, detail: str) -> None:
        self.name = name
        self.ok = ok
        self.detail = detail


class Report:
    """The checks in order, and the ``repairs`` that were made (one line each)."""

    def __init__(self, checks: list[Check], repairs: list[str]) -> None:
        self.checks = checks
        self.repairs = repairs

    @property
    def ok(self) -> bool:
        """True when every check passed."""
        return all(check.ok for check in self.checks)

    @property
    def hint(self) -> str | None:
        """``berth doctor --fix`` where that helps."""
        fixable = any(not check.ok and check.name == "home" for check in self.checks)
        return "berth doctor --fix" if fixable else None

    def document(self) -> dict[str, Any]:
        """The JSON object of ``doctor``."""
        return {
            "ok": self.ok,
            "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in self.checks],
        }

    def lines(self) -> list[str]:
        """``name<TAB>ok or FAIL<TAB>detail``."""
        return [
            f"{check.name}\t{'ok' if check.ok else 'FAIL'}\t{' '.join(check.detail.split())}" for check in self.checks
        ]


def doctor(ctx: Context, *, fix: bool = False) -> Report:
    """Run the checks; with ``fix`` repair first what is certain, telling each repair."""
    repairs = repair(ctx) if fix else []
    for line in repairs:
        ctx.say.note(line)
    checks = [
        _checked("git", lambda: _git(ctx)),
        _checked("sqlite", _sqlite),
        _checked("home", lambda: _home(ctx)),
        _checked("registry", lambda: _registry(ctx)),
    ]
    if _configuration_path(ctx) is not None:
        checks.append(_checked("configuration", lambda: _configuration(ctx)))
        checks += _container_checks(ctx)
    ctx.say.step("starting a supervisor in a scratch directory")
    checks.append(_checked("supervisor", lambda: _supervisor(ctx)))
    return Report(checks, repairs)


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, ok=True, detail=look())
    except (BerthError, OSError) as error:
        message = error.message if isinstance(error, BerthError) else str(error)
        hint = f" ({error.hint})" if isinstance(error, BerthError) and error.hint else ""
        return Check(name, ok=False, detail=message + hint)


def _git(ctx: Context) -> str:
    from berth.tools.git.command import version_finish, version_start

    return ".".join(map(str, version_finish(version_start(env=ctx.environ))))


def _sqlite() -> str:
    if sqlite3.sqlite_version_info < (3, 37):
        raise BerthError(f"SQLite {sqlite3.sqlite_version} is older than 3.37", code="io_error")
    return sqlite3.sqlite_version


def _home(ctx: Context) -> str:
    import fcntl

    from berth.registry import ensure_home

    ensure_home(ctx.home)
    facts = os.stat(ctx.home)
    if facts.st_mode & 0o077:
        raise BerthError(
            f"{ctx.home} is open to others (mode {stat.S_IMODE(facts.st_mode):o})",
            code="io_error",
            hint="berth doctor --fix",
        )
    probe = os.path.join(ctx.home, "locks", "doctor.lock")
    os.makedirs(os.path.dirname(probe), mode=0o700, exist_ok=True)
    descriptor = os.open(probe, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ctx.home  # another doctor holds it, so locks work
    finally:
        os.close(descriptor)
    return ctx.home


def _registry(ctx: Context) -> str:
    verdict = ctx.registry.check_integrity()
    if verdict != "ok":
        raise BerthError(f"{ctx.registry.path}: {verdict}", code="registry_corrupt", hint="restore a copy")
    return ctx.registry.path


def _configuration_path(ctx: Context) -> str | None:
    """The berth.yaml of the checkout around the current directory, when there is one."""
    from berth.tools.git.checkout import toplevel_of

    top = toplevel_of(ctx.cwd) if ctx.cwd is not None else None
    path = os.path.join(top, "berth.yaml") if top is not None else None
    return path if path is not None and os.path.lexists(path) else None


def _configuration(ctx: Context) -> str:
    from berth.ops.setup.configuration import load

    path = _configuration_path(ctx)
    assert path is not None
    load(os.path.dirname(path))
    return path


def _container_checks(ctx: Context) -> list[Check]:
    """Engine and image, where the configuration asks for a container; 10 s for both."""
    from berth.ops.setup.configuration import load

    path = _configuration_path(ctx)
    assert path is not None
    try:
        runtime = load(os.path.dirname(path)).config.runtime
    except BerthError:
        return []  # the check of the configuration says why
    if runtime.backend != "container":
        return []
    from berth.runtime.checks import engine_detail, image_detail

    name, image = runtime.engine or "docker", runtime.image or ""
    return [
        _checked("container-engine", lambda: engine_detail(name, environ=ctx.environ)),
        _checked("runtime-image", lambda: image_detail(name, image, environ=ctx.environ)),
    ]


def _supervisor(ctx: Context) -> str:
    from berth.runtime.scratch import try_supervisor

    return try_supervisor(ctx.home, environ=ctx.environ)


def repair(ctx: Context) -> list[str]:
    """Repair what is certain and destroy nothing; one line for each repair."""
    done = [*_repair_modes(ctx), *_repair_directories(ctx), *_repair_leases(ctx), *_repair_plans(ctx)]
    from berth.runtime.scratch import remove_dead_control_files

    done += remove_dead_control_files(os.path.join(ctx.home, "run"))
    return done


def _repair_modes(ctx: Context) -> list[str]:
    done = []
    # Not ``guest``: processes of any uid in a container read it, and <home> itself is closed.
    wanted = [(ctx.home, 0o700), *((os.path.join(ctx.home, name), 0o700) for name in DIRECTORIES if name != "guest")]
    wanted.append((os.path.join(ctx.home, "registry.db"), 0o600))
    for path, mode in wanted:
        try:
            facts = os.lstat(path)
        except OSError:
            continue
        if facts.st_uid == os.geteuid() and not stat.S_ISLNK(facts.st_mode) and facts.st_mode & 0o077:
            os.chmod(path, mode)
            done.append(f"closed {path} to others")
    return done


def _repair_directories(ctx: Context) -> list[str]:
    done = []
    for name in DIRECTORIES:
        path = os.path.join(ctx.home, name)
        if os.path.isdir(ctx.home) and not os.path.lexists(path):
            os.mkdir(path, 0o755 if name == "guest" else 0o700)
            done.append(f"made {path}")
    return done


def _repair_leases(ctx: Context) -> list[str]:
    from berth.ops.setup.leases import locks_directory
    from berth.tools.locks import remove_dead_runs

    directory = locks_directory(ctx.home)
    return [f"removed the lease of a dead run {path}" for path in remove_dead_runs(directory)] if directory else []


def _repair_plans(ctx: Context) -> list[str]:
    directory = os.path.join(ctx.home, "plans")
    known = {row.plan_file for row in ctx.registry.all()}
    done = []
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        if name not in known:
            os.unlink(os.path.join(directory, name))
            done.append(f"removed the plan {name} that no workspace refers to")
    return done
