"""From a workspace and its configuration to what a run needs: variables, plan, rendered processes."""

from __future__ import annotations

import json
import os

from berth.errors import BerthError
from berth.ops.setup.configuration import FILE, load
from berth.tools import plans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.configuration import Loaded
    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.spec.config import Config


def branch_of(ctx: Context, row: Workspace) -> str | None:
    """The current branch of the checkout, None when detached."""
    from berth.tools.git.checkout import current_branch

    return current_branch(row.git_dir, env=ctx.environ)


def runtime_environment(ctx: Context, row: Workspace, config: Config) -> dict[str, str]:
    """The variables that a hook, service or ``run`` command gets: injected ones, then ``env`` (4.1)."""
    return _environment(ctx, row, config.env, host=False)


def host_view(ctx: Context, row: Workspace, config: Config) -> dict[str, str]:
    """The same as seen from the host: host paths, host ports (``attach`` and the JSON ``env``)."""
    return _environment(ctx, row, config.env, host=True)


def _environment(ctx: Context, row: Workspace, env: dict[str, str], *, host: bool) -> dict[str, str]:
    from berth.runtime.select import backend_of
    from berth.spec.environment import expand, injected

    branch = branch_of(ctx, row)
    if not host and backend_of(row) == "container":
        variables = _inside(ctx, row, branch)
    else:
        variables = injected(workspace=row.path, root=row.repo, slug=row.slug, branch=branch, ports=row.ports)
    return {**variables, **expand(env, variables)}


def _inside(ctx: Context, row: Workspace, branch: str | None) -> dict[str, str]:
    """The injected variables as a container's processes get them: paths inside, listen ports, git's metadata (4.1)."""
    from berth.spec.container import ROOT, git_variables
    from berth.spec.environment import injected
    from berth.tools.git.identity import identity

    listen: dict[str, int] = json.loads(row.listen)
    own = injected(workspace=ROOT, root=ROOT, slug=row.slug, branch=branch, ports=listen, host_ports=row.ports)
    return {**own, **git_variables(row.git_dir, identity=identity(row.path, env=ctx.environ))}


def host_environment(ctx: Context, row: Workspace) -> tuple[dict[str, str], str | None]:
    """The host view for ``status`` and ``attach``, and the configuration's error or None.

    From the prepared plan while its stamps hold; with a broken berth.yaml the last plan's ``env`` is shown.
    """
    plan = plans.load(ctx.home, row.path)
    if plan is not None and plan.workspace_id == row.id and plan.holds(ctx.environ):
        return plan.host_view or plan.environment, None
    try:
        config = load(row.path).config
        return host_view(ctx, row, config), None
    except BerthError as error:
        known = dict(plan.host_view or plan.environment) if plan is not None and plan.workspace_id == row.id else {}
        try:
            return {**known, **_environment(ctx, row, {}, host=True)}, error.message
        except BerthError:
            return known, error.message


def make_plan(ctx: Context, row: Workspace, loaded: Loaded) -> plans.PreparedPlan:
    """Decide the plan of a run from the row and the configuration that was read."""
    from berth.runtime.select import backend_of
    from berth.spec.plan import plan_document
    from berth.tools.locks import lock_key

    backend = backend_of(row)
    stamps = plans.stamps(row.path, row.git_dir, backend, ctx.environ)
    stamps["config"] = loaded.stamp
    return plans.PreparedPlan(
        workspace_id=row.id,
        path=row.path,
        slug=row.slug,
        git_dir=row.git_dir,
        lock_key=lock_key(row.path),
        backend=backend,
        engine=[loaded.config.runtime.engine or "docker"] if backend == "container" else [],
        environment=runtime_environment(ctx, row, loaded.config),
        host_view=host_view(ctx, row, loaded.config) if backend == "container" else {},
        processes=sorted(loaded.config.processes),
        ports=list(row.ports),
        document=json.dumps(plan_document(row), indent=2, ensure_ascii=False),
        stamps=stamps,
    )


def write_plan(ctx: Context, row: Workspace, loaded: Loaded) -> plans.PreparedPlan:
    """Decide the plan of the next runs and write it down, if it may rest on what was read (8.8).

    Only a holder of the workspace lock calls this. Returns the plan, written or not.
    """
    plan = make_plan(ctx, row, loaded)
    sound = row.setup_complete and not row.reset_pending and not row.removing
    if sound and not plans.is_fresh(os.path.join(row.path, FILE), ctx.now()):
        # The row names the file before it exists, so that whoever invalidates it knows what to delete.
        name = plans.plan_name(row.path)
        if name != row.plan_file:
            ctx.registry.update(row.id, plan_file=name)
        plans.save(ctx.home, plan)
    return plan


def drop_plan(ctx: Context, row: Workspace) -> None:
    """Delete the plan, by the name that the row refers to."""
    plans.delete(ctx.home, row.plan_file)
