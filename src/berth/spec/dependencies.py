"""``depends_on``: declared names, conditions that can hold, no cycles (workspaces.md 3.4)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from berth.spec.complaints import Checker, Path


def check_dependencies(checker: Checker, path: Path, processes: Mapping[str, dict[str, Any]]) -> None:
    """Check the ``depends_on`` of all ``processes``, whose definitions are mappings."""
    graph: dict[str, list[str]] = {}
    for name, body in processes.items():
        wanted = body.get("depends_on")
        graph[name] = []
        for other, inner in wanted.items() if isinstance(wanted, dict) else ():
            here = (*path, name, "depends_on", other)
            if other not in processes:
                checker.forbid(here, f"is no declared process; declared: {', '.join(sorted(processes))}")
                continue
            graph[name].append(other)
            problem = _problem(processes[other], inner.get("condition") if isinstance(inner, dict) else None)
            if problem is not None:
                checker.complain((*here, "condition"), f"{problem} {other}")
    for cycle in cycles(graph):
        checker.forbid((*path, cycle[-2], "depends_on", cycle[-1]), f"is a cycle: {' → '.join(cycle)}")


def _problem(dependency: Mapping[str, Any], condition: object) -> str | None:
    """What the awaited process lacks, as the beginning of a sentence that its name ends."""
    if "extends" in dependency:
        return None  # process-compose's own: what it takes from there is not known here
    probes = (dependency.get("readiness_probe"), dependency.get("liveness_probe"))
    if condition == "process_healthy" and probes == (None, None):
        return "process_healthy needs a readiness_probe on"
    if condition == "process_log_ready" and not dependency.get("ready_log_line"):
        return "process_log_ready needs a ready_log_line on"
    return None


def cycles(graph: Mapping[str, list[str]]) -> list[list[str]]:
    """Every way back that a walk through ``graph`` finds: the names on it, the first one again at the end."""
    found = []
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        trail = {start: 0}  # the names from the start to here, with their places
        stack = [(start, iter(graph[start]))]
        while stack:
            name, others = stack[-1]
            other = next(others, None)
            if other is None:
                stack.pop()
                del trail[name]
                done.add(name)
            elif other in trail:
                found.append([*list(trail)[trail[other] :], other])
            elif other not in done:
                trail[other] = len(trail)
                stack.append((other, iter(graph[other])))
    return found
