"""Prepare a workspace (7.5): survivors, wipe, includes, copies, data, env_file, setup hooks; repeated until done."""

from __future__ import annotations

import os

from berth.ops.setup.configuration import usable
from berth.ops.setup.identity import METADATA, check_identity
from berth.ops.setup.planning import drop_plan, runtime_environment, write_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.configuration import Loaded
    from berth.ops.setup.context import Context
    from berth.ops.setup.lifecycle import Held
    from berth.registry import Workspace
    from berth.spec.config import Config

DATA = "data"


def is_incomplete(row: Workspace) -> bool:
    """True while a creation, a setup or a reset was not finished."""
    return row.phase == "creating" or not row.setup_complete or row.reset_pending


def settle(held: Held) -> Loaded:
    """Finish whatever an interrupted command left of the held workspace, then hand out its configuration.

    The one function of recovery (architecture.md, invariant 2). Raises removal_pending, and whatever preparing raises.
    """
    held.refuse_pending_removal()
    if held.row.phase == "creating":
        from berth.ops.setup.creation import complete_creation

        complete_creation(held)
    check_identity(held.row)
    loaded = usable(held.ctx, held.row)
    if is_incomplete(held.row):
        prepare(held, loaded)
    return loaded


def prepare(held: Held, loaded: Loaded, *, replace_includes: bool = False) -> None:
    """Run the steps of 7.5 for the held workspace.

    ``replace_includes``: includes and copies overwrite what is there (``reset``). Raises what the steps raise; the
    failure is recorded by ``Held`` and everything is kept.
    """
    from berth.ops.setup.back_end import runtime_of

    ctx, config = held.ctx, loaded.config
    drop_plan(ctx, held.row)
    replace_includes = replace_includes or held.row.reset_pending
    held.update(phase="preparing")
    runtime = runtime_of(ctx, held.row)
    runtime.require_known()
    runtime.sweep()
    check_identity(held.row)
    if held.row.reset_pending:
        ctx.say.step("clearing the data directory")
        runtime.destroy()
        clear_data(held.row)
        held.update(reset_pending=False)
    bring_files(ctx, held.row, config, replace=replace_includes)
    make_data(held.row)
    env = runtime_environment(ctx, held.row, config)
    write_env_file(ctx, held.row, config, env)
    warnings = runtime.ready()
    for number, script in enumerate(config.hooks.setup, start=1):
        ctx.say.step(f"running setup hook {number} of {len(config.hooks.setup)}")
        runtime.hook(script, kind="setup", env=env, timeout_seconds=config.hooks.timeout_seconds)
    remember_warnings(held, warnings)
    held.update(phase="ready", setup_complete=True, last_error=None)
    write_plan(ctx, held.row, loaded)


def remember_warnings(held: Held, warnings: list[str]) -> None:
    """Add lasting warnings to the row, each once, and tell them."""
    import json

    known: list[str] = json.loads(held.row.warnings)
    fresh = [warning for warning in warnings if warning not in known]
    for warning in fresh:
        held.ctx.say.warning(warning)
    if fresh:
        held.update(warnings=json.dumps([*known, *fresh]))


def make_data(row: Workspace) -> None:
    """Make ``.berth/data`` (0700); every component is a real directory."""
    from berth.tools.trees import make_directories

    make_directories(row.path, (METADATA, DATA), mode=0o700)


def clear_data(row: Workspace) -> None:
    """Delete ``.berth/data``, never following a link (10.1)."""
    from berth.tools.deletion import delete_below

    delete_below(row.path, (METADATA, DATA))


def bring_files(ctx: Context, row: Workspace, config: Config, *, replace: bool) -> None:
    """``.worktreeinclude`` and ``copy_dirs`` of the primary checkout (7.6)."""
    from berth.tools.copies import copy_into
    from berth.tools.git.paths import tracked_below
    from berth.tools.git.repository import repository
    from berth.tools.includes import read_includes

    wanted = [*read_includes(os.path.join(row.repo, ".worktreeinclude")), *config.copy_dirs]
    if not wanted:
        return
    if repository(row.repo, env=ctx.environ, recorded=lambda _common: row.repo).bare:
        ctx.say.warning(f"{row.repo} is a bare repository: includes and copy_dirs are skipped")
        return
    excluded = [other.path for other in ctx.registry.of_repository(row.repo)]
    excluded.append(os.path.dirname(row.path) if row.owned else row.path)
    for name in wanted:
        ctx.say.step(f"copying {name}")
        tracked = tracked_below(row.path, name, env=ctx.environ) if replace else frozenset()
        for warning in copy_into(
            row.repo,
            row.path,
            name,
            exclude=excluded,
            replace=lambda path: replace and path not in tracked,  # noqa: B023  # called now
        ):
            ctx.say.warning(warning)


def write_env_file(ctx: Context, row: Workspace, config: Config, env: dict[str, str]) -> None:
    """Write the block of ``env_file`` (7.7), and warn when git does not ignore the file."""
    if config.env_file is None:
        return
    from berth.tools.envfile import write_block
    from berth.tools.git.paths import ignores

    write_block(row.path, config.env_file, env)
    if not ignores(row.path, config.env_file, env=ctx.environ):
        ctx.say.warning(f"git does not ignore {config.env_file}: the workspace will be dirty")
