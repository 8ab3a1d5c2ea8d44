"""Render what the supervisor is started with: ``pc.yaml`` from configuration, variables and the env files."""

from __future__ import annotations

import os

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.runtime.base import Launch
    from berth.spec.config import Config


def launch_of(ctx: Context, row: Workspace, config: Config, env: dict[str, str]) -> Launch:
    """Everything ``Runtime.up`` needs. Raises config_invalid without processes or with an unreadable env_file."""
    from berth.runtime.base import Launch
    from berth.spec.render import render

    if not config.processes:
        raise BerthError(
            f"{os.path.join(row.path, 'berth.yaml')}: no processes are declared, so there is nothing to start",
            code="config_invalid",
            hint="declare processes, or use berth run",
        )
    if config.runtime.supervisor == "process-compose":
        raise BerthError(
            "runtime.supervisor: process-compose is not there yet",
            code="process_compose_missing",
            hint="drop runtime.supervisor: berth's own supervisor keeps the same definitions",
        )
    in_container = config.runtime.backend == "container"
    working_dir = "/workspace" if in_container else row.path
    rendered = render(config, variables=env, working_dir=working_dir, read_file=lambda name: _read(row.path, name))
    return Launch(
        definition=rendered.text,
        names=sorted(config.processes),
        env=env,
        timeout_seconds=rendered.timeout_seconds,
    )


def _read(root: str, name: str) -> str:
    path = os.path.join(root, name)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BerthError(
            f"env_file {path}: {error}", code="config_invalid", hint="create it, or drop env_file"
        ) from error
