"""The variables that berth injects, and how they meet the caller's own (workspaces.md 4). HOT: plain functions.

Order, later wins: host environment, injected variables, ``env``; a service's own entries come after (``spec.render``).
"""

from __future__ import annotations

from berth.spec.names import variable_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Inherited from another workspace's command, and removed before ours are set (4.1). BERTH_PORT_RANGE stays.
_WORKSPACE = ("BERTH_WORKSPACE", "BERTH_ROOT", "BERTH_DATA_DIR", "BERTH_SLUG", "BERTH_BRANCH")
_INHERITED_PREFIXES = ("BERTH_PORT_", "BERTH_HOST_PORT_")
_KEPT = "BERTH_PORT_RANGE"
# Removed from every child's environment (4.4): they would point git at another repository.
GIT_LOCATION = frozenset(
    (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_COMMON_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_NAMESPACE",
        "GIT_PREFIX",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_GRAFT_FILE",
        "GIT_SHALLOW_FILE",
        "GIT_REPLACE_REF_BASE",
        "GIT_QUARANTINE_PATH",
    )
)


def injected(
    *,
    workspace: str,
    root: str,
    slug: str,
    branch: str | None,
    ports: Mapping[str, int],
    host_ports: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """The injected variables of 4.1: paths and ports as the command sees them.

    ``ports`` maps port names to the port a server binds; ``host_ports`` to the published one (default: the same).
    """
    published = host_ports if host_ports is not None else ports
    variables = {
        "BERTH_WORKSPACE": workspace,
        "BERTH_ROOT": root,
        "BERTH_DATA_DIR": f"{workspace}/.berth/data",
        "BERTH_SLUG": slug,
        "BERTH_BRANCH": branch or "",
    }
    variables.update({f"BERTH_PORT_{variable_name(name)}": str(port) for name, port in ports.items()})
    variables.update({f"BERTH_HOST_PORT_{variable_name(name)}": str(port) for name, port in published.items()})
    return variables


def injected_names(ports: Iterable[str]) -> list[str]:
    """The names of the BERTH_ variables of a configuration with these ports."""
    names = [variable_name(name) for name in ports]
    return [*_WORKSPACE, *(f"BERTH_PORT_{name}" for name in names), *(f"BERTH_HOST_PORT_{name}" for name in names)]


def expand(env: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """``env`` of berth.yaml with ``${BERTH_NAME}`` of ``variables`` replaced; everything else is literal (3.5)."""
    return {key: _expanded(value, variables)[0] for key, value in env.items()}


def expand_problems(env: Mapping[str, str], names: Iterable[str]) -> list[tuple[str, str]]:
    """(key, problem) of every value with an unknown ``${BERTH_…}``; the problem names the known ones."""
    known = sorted(names)
    stand_ins = dict.fromkeys(known, "")
    return [
        (key, f"unknown variable ${{{name}}}; known: {', '.join(known)}")
        for key, value in env.items()
        for name in _expanded(value, stand_ins)[1]
    ]


def _expanded(value: str, variables: Mapping[str, str]) -> tuple[str, list[str]]:
    """The value with known references replaced, and the names of unknown ones."""
    first, *parts = value.split("${BERTH_")
    unknown = []
    for part in parts:
        rest, brace, tail = part.partition("}")
        name = f"BERTH_{rest}"
        if brace and name in variables:
            first += variables[name] + tail
        else:
            first += "${BERTH_" + part
            if brace:
                unknown.append(name)
    return first, unknown


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without another workspace's variables and without what would redirect git."""
    return {
        key: value
        for key, value in environ.items()
        if key not in _WORKSPACE
        and key not in GIT_LOCATION
        and (key == _KEPT or not key.startswith(_INHERITED_PREFIXES))
    }


def merged(environ: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """What a native command gets: the caller's environment, then the workspace's variables."""
    return {**inherited(environ), **variables}
