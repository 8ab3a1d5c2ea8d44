"""The verbs that make a workspace: ``new`` from a base, ``adopt`` from a worktree that is there already (7.2, 7.4)."""

from __future__ import annotations

import os
import uuid

from berth.errors import BerthError
from berth.ops.setup.configuration import load, parse
from berth.ops.setup.creation import create_checkout
from berth.ops.setup.describe import View, view
from berth.ops.setup.identity import METADATA, read_marker, write_marker
from berth.ops.setup.lifecycle import Held, refuse_inside_service
from berth.ops.setup.locate import current_directory
from berth.ops.setup.planning import runtime_environment, write_plan
from berth.ops.setup.prepare import is_incomplete, make_data, prepare, settle, write_env_file
from berth.ops.setup.young_index import refresh_young_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.spec.config import Config
    from berth.tools.git.refs import Start
    from berth.tools.git.repository import Repository


class Made:
    """What ``new`` did: ``outcome`` is created, resumed or exists."""

    __slots__ = ("outcome", "path", "view")

    def __init__(self, outcome: str, found: View) -> None:
        self.outcome = outcome
        self.path = found.path
        self.view = found


def new(ctx: Context, slug: str, *, base: str | None = None, used: bool = False) -> Made:
    """Create the workspace ``slug`` of the current directory's repository, or finish or print the registered one.

    ``base`` is the REF of ``--base``. ``used`` says that ``up`` follows. Raises what 7.2 names, nothing being left
    behind, and what preparing raises, everything being kept.
    """
    from berth.spec.names import checked_slug

    slug = checked_slug(slug)
    repo = repository_here(ctx)
    primary = primary_configuration(ctx, repo)
    path = workspace_path(repo, primary, slug)
    refuse_inside_service(ctx, registered(ctx, repo, slug, path), "new")
    with Held(ctx, "new", path, words=f"berth new {slug}") as held:
        row = registered(ctx, repo, slug, held.path)
        if row is not None:
            held.row = row
            refresh_young_index(ctx, row)
            return resume(held, base)
        create_checkout(held, repo, register(held, repo, primary, slug, base=base))
        settle(held)
        return Made("created", view(ctx, held.row, env=True))


def resume(held: Held, base: str | None) -> Made:
    """``new`` on a registered slug: finish what is incomplete, then print it."""
    row = held.row
    held.refuse_pending_removal()
    if base is not None and base != row.base:
        raise BerthError(
            f"{row.slug} was started from {row.base}, not from {base}",
            code="base_mismatch",
            hint="drop --base, or use another slug",
        )
    outcome = "resumed" if is_incomplete(row) else "exists"
    loaded = settle(held)
    write_plan(held.ctx, held.row, loaded)
    if outcome == "resumed":
        held.used()
    return Made(outcome, view(held.ctx, held.row, env=True))


def register(held: Held, repo: Repository, primary: Config, slug: str, *, base: str | None) -> Start:
    """Steps 2 to 6 of 7.2: everything is looked at, then one transaction writes row and ports (phase ``creating``)."""
    from berth.tools.git.refs import resolve_base, starting_point
    from berth.tools.git.worktrees import worktrees

    ctx, env = held.ctx, held.ctx.environ
    refuse_what_is_there(ctx, repo, held.path)
    ctx.say.step("resolving the base")
    name = base if base is not None else primary.base
    start = starting_point(
        repo,
        slug,
        base=resolve_base(repo, name, env=env),
        base_given=base is not None,
        entries=worktrees(repo.common_dir, env=env),
        env=env,
    )
    for note in start.notes:
        ctx.say.note(note)
    config = configuration_at(ctx, repo, start.commit)
    now = ctx.timestamp()
    held.row = insert(
        ctx,
        config,
        {
            "id": uuid.uuid4().hex,
            "slug": slug,
            "path": held.path,
            "repo": repo.path,
            "common_dir": repo.common_dir,
            "git_dir": "",
            "branch": start.branch,
            "base": name,
            "start_commit": start.start_commit,
            "ownership": "berth-created",
            "phase": "creating",
            "created_at": now,
            "last_used_at": now,
        },
    )
    return start


def insert(ctx: Context, config: Config, values: dict[str, object]) -> Workspace:
    """Register a workspace with free ports for every declared name, in one transaction. Raises ports_exhausted."""
    from berth.spec.contract import Contract

    runtime, listen = Contract.of(config).record()
    return ctx.registry.insert(
        {**values, "runtime": runtime, "listen": listen},
        lambda taken: choose_ports(ctx, config, taken),
    )


def choose_ports(ctx: Context, config: Config, taken: set[int]) -> dict[str, int]:
    """A free port for each declared name, in declaration order, none of ``taken``. Raises ports_exhausted."""
    from berth.spec import ports as rules
    from berth.tools.ports import ephemeral_range, is_free

    limits = rules.port_range(ctx.environ)
    avoided = taken | set(config.listen.values())
    candidates = rules.candidates(limits, ephemeral_from=ephemeral_range()[0])
    free = (port for port in candidates if port not in avoided and is_free(port))
    chosen = {}
    for name in config.ports:
        port = next(free, None)
        if port is None:
            raise rules.exhausted(limits, name)
        chosen[name] = port
    return chosen


def adopt(ctx: Context, path: str | None, *, setup: bool = False) -> View:
    """Register the worktree around ``path`` (default: the current directory), never to be removed by berth (7.4)."""
    from berth.tools.git.checkout import toplevel_of
    from berth.tools.git.worktrees import refuse_line_breaks, target

    start = os.path.join(current_directory(ctx), os.path.expanduser(path)) if path else current_directory(ctx)
    if not os.path.isdir(start):
        raise BerthError(f"{start} is not a directory", code="not_a_repository", hint="give the path of a worktree")
    repo = repository_here(ctx, start)
    top = toplevel_of(start)
    assert top is not None
    refuse_line_breaks(top)
    refuse_inside_service(ctx, ctx.registry.by_path(top), "adopt")
    with Held(ctx, "adopt", top, words=f"berth adopt {top}") as held:
        found = target(top, repo=repo, env=ctx.environ)
        row = ctx.registry.by_path(top)
        if row is not None:
            held.row = row
            held.refuse_pending_removal()
            settle_adopted(held, setup=setup)
        else:
            held.row = adopt_new(held, repo, found.git_dir, setup=setup)
            settle_adopted(held, setup=setup)
        return view(ctx, held.row, env=True)


def adopt_new(held: Held, repo: Repository, git_dir: str, *, setup: bool) -> Workspace:
    """Marker first, then one transaction: a kill between leaves a marker that the next ``adopt`` overwrites."""
    from berth.spec.names import slug_from_directory
    from berth.tools.git.checkout import current_branch, head_commit

    ctx, path = held.ctx, held.path
    refuse_foreign_marker(ctx, path)
    loaded = load(path)
    taken = {row.slug for row in ctx.registry.of_repository(repo.path)}
    now = ctx.timestamp()
    values: dict[str, object] = {
        "id": uuid.uuid4().hex,
        "slug": slug_from_directory(os.path.basename(path), taken=taken),
        "path": path,
        "repo": repo.path,
        "common_dir": repo.common_dir,
        "git_dir": git_dir,
        "branch": current_branch(git_dir, env=ctx.environ),
        "base": loaded.config.base,
        "start_commit": head_commit(git_dir, common_dir=repo.common_dir, env=ctx.environ),
        "ownership": "adopted",
        "phase": "ready",
        "setup_complete": not setup,
        "created_at": now,
        "last_used_at": now,
    }
    write_marker(path, workspace_id=str(values["id"]), repo=repo.path, git_dir=git_dir)
    return insert(ctx, loaded.config, values)


def settle_adopted(held: Held, *, setup: bool) -> None:
    """Prepare with ``--setup`` (also one that was interrupted); without it only the env_file is written."""
    ctx = held.ctx
    make_data(held.row)
    if setup:
        held.used()
        loaded = load(held.path)
        if held.row.setup_complete:
            held.update(setup_complete=False)
        prepare(held, loaded)
    else:
        loaded = load(held.path)
        write_env_file(ctx, held.row, loaded.config, runtime_environment(ctx, held.row, loaded.config))
    write_plan(ctx, held.row, loaded)


def refuse_foreign_marker(ctx: Context, path: str) -> None:
    """A marker whose id is registered at another path belongs to a workspace that was moved here."""
    marker = read_marker(path)
    known = ctx.registry.by_id(str(marker.get("ID"))) if marker else None
    if known is not None and known.path != path:
        raise BerthError(
            f"{os.path.join(path, METADATA)} belongs to the workspace {known.slug} registered at {known.path}",
            code="identity_mismatch",
            hint=f"move it back to {known.path}, or berth gc and adopt again",
        )


def repository_here(ctx: Context, path: str | None = None) -> Repository:
    """The repository around ``path`` (default: the current directory)."""
    from berth.tools.git.repository import repository

    def recorded(common_dir: str) -> str | None:
        return ctx.registry.repository_of(common_dir)

    return repository(path or current_directory(ctx), env=ctx.environ, recorded=recorded)


def primary_configuration(ctx: Context, repo: Repository) -> Config:
    """The configuration that supplies ``base`` and ``worktree_root``: the primary checkout's, or a bare HEAD's."""
    from berth.tools.git.repository import head_of, show_file

    if not repo.bare:
        return load(repo.path).config
    head = head_of(repo, env=ctx.environ)
    raw = show_file(repo, commit=head, path="berth.yaml", env=ctx.environ) if head else None
    return parse(raw or b"", "berth.yaml")


def configuration_at(ctx: Context, repo: Repository, commit: str) -> Config:
    """The configuration of the commit to be checked out, with the warning that it must be committed to count."""
    from berth.tools.git.repository import show_file

    raw = show_file(repo, commit=commit, path="berth.yaml", env=ctx.environ)
    if raw is None and not repo.bare and os.path.exists(os.path.join(repo.path, "berth.yaml")):
        ctx.say.warning(f"{repo.path}/berth.yaml is not committed: the new workspace starts without a configuration")
    config = parse(raw or b"", "berth.yaml")
    ctx.tell_once(config.notes)
    return config


def workspace_path(repo: Repository, primary: Config, slug: str) -> str:
    """Where the workspace goes: ``<parent>/<name>.berths/<slug>``, or below ``worktree_root`` (3.1)."""
    from berth.tools.git.worktrees import refuse_line_breaks

    if primary.worktree_root is None:
        root = os.path.join(os.path.dirname(repo.path), f"{repo.name}.berths")
    else:
        root = os.path.join(repo.path, primary.worktree_root)
    path = os.path.join(os.path.realpath(root), slug)
    refuse_line_breaks(path)
    return path


def registered(ctx: Context, repo: Repository, slug: str, path: str) -> Workspace | None:
    """The workspace of that slug in this repository, read under the lock; it may live at another path."""
    for row in ctx.registry.by_slug(slug):
        if row.common_dir == repo.common_dir:
            if row.path != path:
                raise BerthError(
                    f"{slug} is registered at {row.path}",
                    code="path_exists",
                    hint=f"berth up {row.path}, or another slug",
                )
            return row
    return None


def refuse_what_is_there(ctx: Context, repo: Repository, path: str) -> None:
    """Anything at the path is somebody's; a worktree that git still lists there is missing, not free."""
    from berth.tools.git.worktrees import admin_dir_of

    if os.path.lexists(path):
        raise BerthError(f"{path} exists", code="path_exists", hint="berth adopt it, or use another slug")
    admin = admin_dir_of(repo.common_dir, path)
    if admin is not None:
        raise BerthError(
            f"git lists a worktree at {path} whose directory is missing",
            code="checkout_missing",
            hint=f"move it back, or git worktree remove {path}",
        )
