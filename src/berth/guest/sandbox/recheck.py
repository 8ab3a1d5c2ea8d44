"""The guest's own look at a boot document before anything is done with it (sandboxes.md 6.1).

First the shape of every value, then what the values grant: the path rules of the manifest, ids by position, executable
trees that nobody can write, grants and callers that agree. Raises, applies nothing.
"""

from __future__ import annotations

import json
import re

from berth.guest.sandbox import grants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List


class PolicyError(Exception):
    """The boot document cannot be used. ``str()`` names the app, the key and what is wrong with it."""


def decode(data: bytes) -> Any:
    """The JSON value behind ``data``; refuses duplicate keys, NaN and Infinity, over-long and over-deep documents."""
    if len(data) > grants.MAX_DOCUMENT:
        raise PolicyError(f"the boot document is larger than {grants.MAX_DOCUMENT} bytes")
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"the boot document is not JSON: {error}") from error


def document(value: Any) -> None:
    """Return when every rule holds for ``value``, raise PolicyError for the first that does not."""
    keys = ("format", "sandbox", "kind", "allow_unenforced", "apps")
    if type(value) is not dict or set(value) != set(keys):
        raise PolicyError(f"the boot document must hold exactly the keys {', '.join(keys)}")
    if type(value["format"]) is not int or value["format"] != grants.FORMAT:
        raise PolicyError(f"the boot document has format {value['format']!r}; this guest knows {grants.FORMAT}")
    if not _matches(_SANDBOX, value["sandbox"]):
        raise PolicyError("the boot document has no usable sandbox name")
    if value["kind"] not in grants.KINDS or type(value["allow_unenforced"]) is not bool:
        raise PolicyError("the boot document has an unknown kind, or allow_unenforced is no boolean")
    apps = value["apps"]
    if type(apps) is not list or not 1 <= len(apps) <= grants.MAX_APPS:
        raise PolicyError(f"the boot document must hold 1 to {grants.MAX_APPS} apps")
    for position, app in enumerate(apps):
        _check_shape(app, position)
    names = [app["name"] for app in apps]
    if len(set(names)) != len(names):
        raise PolicyError("the boot document holds two apps of the same name")
    for position, app in enumerate(apps):
        for key, holds in _rules(app, position, apps=apps, dev=value["kind"] in grants.DEV_KINDS):
            if not holds:
                raise PolicyError(f'app "{app["name"]}": {key} grants what no manifest can declare')


def _check_shape(app: Any, position: int) -> None:
    if type(app) is not dict:
        raise PolicyError(f"app {position} is no object")
    label = ascii(app.get("name", position))
    for key in app:
        if key not in _SHAPES:
            raise PolicyError(f"app {label}: unknown key {key!a}")
    for key, fits in _SHAPES.items():
        if key not in app:
            raise PolicyError(f"app {label}: {key} is missing")
        if not fits(app[key]):
            raise PolicyError(f"app {label}: {key} is not of the agreed form")


def _rules(app: Dict[str, Any], position: int, *, apps: List[Dict[str, Any]], dev: bool) -> List[Any]:
    """(key, does its value grant only what can be granted?) for one app whose shape is already right."""
    name = app["name"]
    names = [other["name"] for other in apps]
    writes = [path for other in apps for path in other["write"]]
    own = grants.own_reads(name, app["dir"])
    programs = {app["dir"], grants.interpreter_prefix(app["interpreter"])}
    oom = grants.OOM_COMPANION if position else grants.OOM_PRIMARY

    def declared(path: str) -> bool:
        return grants.path_problem(path, name, names) is None

    return [
        ("uid", app["uid"] == grants.FIRST_UID + position),
        ("dir", grants.covers("/workspace", app["dir"]) if dev else app["dir"] == "/app/apps/" + name),
        ("read", all(path in own or declared(path) for path in app["read"])),
        ("write", all(path == "/dev/null" or declared(path) for path in app["write"])),
        ("write_private", app["write_private"] == [grants.home_of(name), grants.state_of(name)]),
        ("exec", "/usr" in app["exec"]),
        (
            "exec",
            all(p == "/usr" or (p in programs and grants.may_execute(p, writes=writes, dev=dev)) for p in app["exec"]),
        ),
        ("listen", app["listen"] == (app["connect_any"] or bool(app["bind"]))),
        ("egress", not app["egress"] or grants.EGRESS_PORT in app["connect"]),
        ("invoke", name not in app["invoke"]),
        (
            "callers",
            app["callers"] == {o["name"]: o["invoke"][name] for o in apps if name in o["invoke"]},
        ),
        ("limits", app["limits"]["oom_score_adj"] == oom),
    ]


def _unique(pairs: List[Any]) -> Dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise PolicyError("the boot document holds a key twice")
    return mapping


def _no_constant(text: str) -> None:
    raise PolicyError(f"the boot document holds {text}, which is no JSON number")


_SANDBOX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _is_list(value: object, item: Callable[[Any], bool]) -> bool:
    return type(value) is list and all(item(entry) for entry in value) and len({*map(str, value)}) == len(value)


def _is_text(value: object) -> bool:
    return type(value) is str and value != "" and grants.is_plain(value)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _texts(value: object) -> bool:
    return _is_list(value, _is_text)


def _ports(value: object) -> bool:
    return _is_list(value, grants.is_port)


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_grant_map(value: object) -> bool:
    return type(value) is dict and all(
        grants.is_app_name(name)
        and (allowed == "*" or (bool(allowed) and _is_list(allowed, lambda e: _matches(grants.EXPORT_NAME, e))))
        for name, allowed in value.items()
    )


def _is_bus(value: object) -> bool:
    return (
        type(value) is dict
        and set(value) == {"publish", "subscribe"}
        and all(p is None or (_texts(p) and all(grants.is_topic_pattern(t) for t in p)) for p in value.values())
    )


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return type(value) is str and pattern.fullmatch(value) is not None


def _is_fields(value: object) -> bool:
    return value is None or (
        type(value) is dict
        and all(
            _matches(grants.FIELD_NAME, name) and type(kind) is str and kind.removesuffix("?") in grants.FIELD_TYPES
            for name, kind in value.items()
        )
    )


def _is_export(value: object) -> bool:
    return (
        type(value) is dict
        and {"name", "input", "output"} <= set(value) <= {"name", "description", "input", "output"}
        and _matches(grants.EXPORT_NAME, value["name"])
        and type(value.get("description", "")) is str
        and _is_fields(value["input"])
        and _is_fields(value["output"])
    )


def _is_limits(value: object) -> bool:
    return (
        type(value) is dict
        and set(value) == {"nproc", "nofile", "core", "oom_score_adj"}
        and all(_is_count(number) for number in value.values())
        and value["nproc"] >= grants.MIN_PIDS
        and (value["nofile"], value["core"]) == (grants.NOFILE, 0)
    )


# key -> is the value of the right shape? In the order of the contract's example; what a value may grant is below.
_SHAPES: Dict[str, Callable[[Any], bool]] = {
    "name": lambda v: type(v) is str and grants.is_app_name(v),
    "uid": _is_count,
    "dir": lambda v: _is_text(v) and grants.is_canonical(v),
    "entry": lambda v: _is_text(v) and grants.is_canonical("/" + v),
    "interpreter": lambda v: type(v) is str and grants.is_interpreter(v),
    "manifest_sha256": lambda v: _matches(_SHA256, v),
    "capabilities": _texts,
    "read": _texts,
    "write": _texts,
    "write_private": _texts,
    "exec": _texts,
    "devices": lambda v: _is_list(v, lambda d: _matches(grants.DEVICE, d)),
    "proc_all": _is_bool,
    "connect": _ports,
    "connect_any": _is_bool,
    "bind": lambda v: _ports(v) and grants.EGRESS_PORT not in v,
    "listen": _is_bool,
    "invoke": _is_grant_map,
    "callers": _is_grant_map,
    "egress": lambda v: _texts(v) and all(grants.is_egress_pattern(p) for p in v),
    "bus": _is_bus,
    "groups": lambda v: v == [grants.SHARED_GID],
    "secrets": lambda v: _texts(v) and all(grants.is_secret_name(s) for s in v),
    "limits": _is_limits,
    "on_install": _is_count,
    "exports": lambda v: type(v) is list and all(_is_export(e) for e in v),
}
KEYS = tuple(_SHAPES)
