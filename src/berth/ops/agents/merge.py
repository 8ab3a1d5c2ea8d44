"""Adding berth's entry to a harness's own JSON file without disturbing anything else in it (workspaces.md 11.3).

Values in, values out. A file is read strictly (RFC 8259, no key twice) so that nothing is lost by writing it again;
numbers keep the text they had.
"""

from __future__ import annotations

import json
from typing import Any

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ADOPT = "berth adopt --setup"
CLAUDE = "berth hook run claude || exit 0"
# An entry that contains one of these is berth's, whatever else was put around it.
OURS = ("berth adopt", "berth hook run")


class Number(str):
    """A number as it was written; ``1.10`` and ``1e3`` stay what they are."""

    __slots__ = ()


class Complaint:
    """Makes the error for one file: ``at(what)`` names the file and the place in it."""

    def __init__(self, file: str, wanted: str) -> None:
        self.file = file
        self.wanted = wanted

    def at(self, what: str, *, line: int | None = None, column: int | None = None) -> BerthError:
        place = self.file if line is None else f"{self.file}:{line}:{column}"
        return BerthError(
            f"{place}: {what}; the file is left as it is",
            code="file_unparsable",
            hint=f"mend it and repeat the command, or add `{self.wanted}` by hand",
        )


def merged(
    content: bytes | None, merge: Callable[[dict[str, Any], Complaint], None], complaint: Complaint
) -> bytes | None:
    """The new content of a file, or None when it holds berth's entry already. Raises file_unparsable."""
    document = parse(content, complaint) if content is not None else {}
    before = rendered(document)
    merge(document, complaint)
    after = rendered(document)
    return None if after == before else after.encode("utf-8", "backslashreplace")


def parse(content: bytes, complaint: Complaint) -> dict[str, Any]:
    """The JSON object in ``content``. Raises file_unparsable, with line and column where there is one."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise complaint.at(f"not UTF-8 at byte {error.start}") from None

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise complaint.at(f"the key {json.dumps(twice, ensure_ascii=False)} is there twice")
        return found

    def refuse(word: str) -> Any:
        raise complaint.at(f"{word} is not JSON")

    try:
        document = json.loads(
            text, object_pairs_hook=unique, parse_float=Number, parse_int=Number, parse_constant=refuse
        )
    except json.JSONDecodeError as error:
        raise complaint.at(f"not JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise complaint.at("nested too deeply") from None
    if not isinstance(document, dict):
        raise complaint.at(f"a JSON object is needed, this is {kind(document)}", line=1, column=1)
    return document


def kind(value: object) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, Number):
        return "a number"
    return {"str": "a string", "list": "an array", "dict": "an object"}[type(value).__name__]


def rendered(document: dict[str, Any]) -> str:
    """JSON with 2-space indentation and a newline at the end; text as it is, numbers as they were."""
    return _rendered(document, "\n") + "\n"


def _rendered(value: Any, line: str) -> str:
    inner = line + "  "
    if isinstance(value, dict) and value:
        parts = [f"{_string(key)}: {_rendered(item, inner)}" for key, item in value.items()]
        return "{" + inner + f",{inner}".join(parts) + line + "}"
    if isinstance(value, list) and value:
        return "[" + inner + f",{inner}".join(_rendered(item, inner) for item in value) + line + "]"
    if isinstance(value, Number):
        return str.__str__(value)
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def is_ours(entry: object) -> bool:
    """True when a string anywhere in ``entry`` contains a command of berth's."""
    if isinstance(entry, str):
        return any(command in entry for command in OURS)
    inside: Iterable[object] = ()
    if isinstance(entry, dict):
        inside = entry.values()
    elif isinstance(entry, list):
        inside = entry
    return any(map(is_ours, inside))


def _child(parent: dict[str, Any], key: str, of: type, complaint: Complaint, path: str) -> Any:
    """``parent[key]``, made empty when it is absent. Raises file_unparsable when it is of another type."""
    value = parent.setdefault(key, of())
    if type(value) is not of:
        wanted = "an array" if of is list else "an object"
        raise complaint.at(f"{path} is {kind(value)}, not {wanted}")
    return value


def cursor(document: dict[str, Any], complaint: Complaint) -> None:
    """``.cursor/worktrees.json``: one string in each of three arrays.

    A missing array for one operating system starts as a copy of the general one: the harness prefers it and would skip
    the general commands otherwise.
    """
    general = _child(document, "setup-worktree", list, complaint, "setup-worktree")
    commands = list(general)
    for key in ("setup-worktree", "setup-worktree-unix", "setup-worktree-windows"):
        if key not in document:
            document[key] = list(commands)
        entries = _child(document, key, list, complaint, key)
        if not any(map(is_ours, entries)):
            entries.append(ADOPT)


def windsurf(document: dict[str, Any], complaint: Complaint) -> None:
    """``.windsurf/hooks.json``: one object in ``hooks.post_setup_worktree``."""
    hooks = _child(document, "hooks", dict, complaint, "hooks")
    entries = _child(hooks, "post_setup_worktree", list, complaint, "hooks.post_setup_worktree")
    if not any(map(is_ours, entries)):
        entries.append({"command": ADOPT, "powershell": ADOPT, "show_output": True})


def claude(document: dict[str, Any], complaint: Complaint) -> None:
    """``.claude/settings.json``: one matcher group in ``hooks.WorktreeCreate``."""
    hooks = _child(document, "hooks", dict, complaint, "hooks")
    entries = _child(hooks, "WorktreeCreate", list, complaint, "hooks.WorktreeCreate")
    if not any(map(is_ours, entries)):
        entries.append({"hooks": [{"type": "command", "command": CLAUDE}]})


# harness -> how its file is merged, and what to add by hand where that fails
MERGES: dict[str, tuple[Callable[[dict[str, Any], Complaint], None], str]] = {
    "claude": (claude, CLAUDE),
    "cursor": (cursor, ADOPT),
    "windsurf": (windsurf, ADOPT),
}
