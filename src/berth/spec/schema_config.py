"""The JSON Schema of berth.yaml, made from the declared fields and process keys (draft 2020-12).

It says what can be said without looking at two places at once; what a schema cannot say, ``berth plan`` does.
"""

from __future__ import annotations

from berth.spec import keys
from berth.spec.fields import FIELDS, PROCESS_NAME, RUNTIME, Field
from berth.spec.keys import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def config_schema() -> dict[str, Any]:
    """The JSON Schema of a whole berth.yaml."""
    properties = {name: _property(field) for name, field in FIELDS.items()}
    properties["processes"].update(
        {
            "type": ["object", "null"],
            "patternProperties": {PROCESS_NAME: mapping_schema(keys.PROCESS)},
            "additionalProperties": False,
        }
    )
    return {
        "title": "berth.yaml",
        "description": "Configuration of berth workspaces. A missing field and a null one mean the default.",
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
        **_backends(),
    }


def _property(field: Field) -> dict[str, Any]:
    if field.inner is not None:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: _property(inner) for name, inner in field.inner.items()},
            "additionalProperties": False,
        }
    else:
        schema = dict(field.schema)
    return described(nullable(schema), field.text, default=field.default, example=field.example)


def _backends() -> dict[str, Any]:
    """What depends on the back end: a container needs an image, native has neither limits nor ``listen``."""
    is_container = {
        "type": "object",
        "properties": {
            "runtime": {"type": "object", "properties": {"backend": {"const": "container"}}, "required": ["backend"]}
        },
        "required": ["runtime"],
    }
    only_container = {name: {"type": "null"} for name in RUNTIME if name not in ("backend", "supervisor")}
    return {
        "if": is_container,
        "then": {"properties": {"runtime": {"properties": {"image": {"type": "string"}}, "required": ["image"]}}},
        "else": {
            "properties": {
                "listen": {"type": ["object", "null"], "maxProperties": 0},
                "runtime": {"properties": only_container},
            }
        },
    }


def mapping_schema(declared: Mapping[str, Key]) -> dict[str, Any]:
    """The JSON Schema of a mapping of declared keys; ``x-*`` are free.

    Refused keys are there with what to write instead, because ``runtime.supervisor: process-compose`` takes them.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            name: {"description": f"refused by berth's supervisor: use {key.text}"}
            if key.standing == keys.REFUSED
            else described(nullable(_schema(key)), key.text, default=key.default, example=key.example)
            for name, key in declared.items()
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }
    if declared is keys.PROCESS:
        schema["anyOf"] = [_has("command"), _has("entrypoint")]
    if declared is keys.PROBE:
        # Behind a condition, because null stands for no probe at all.
        schema.update({"if": {"type": "object"}, "then": {"oneOf": [_has("exec"), _has("http_get")]}})
    if declared is keys.EXEC:
        schema["required"] = ["command"]
    if declared is keys.HTTP_GET:
        schema["anyOf"] = [_has("port"), _has("num_port")]
    return schema


def _has(name: str) -> dict[str, Any]:
    """An object in which ``name`` is set, that is not null."""
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


def _schema(key: Key) -> dict[str, Any]:
    if key.type == keys.CHOICE:
        return {"enum": [*key.words]}
    if key.inner is keys.DEPENDENCY:
        return {"type": "object", "additionalProperties": nullable(mapping_schema(keys.DEPENDENCY))}
    if key.inner is not None:
        return mapping_schema(key.inner)
    schema = dict(_TYPES[key.type])
    if key.type in (keys.INTEGER, keys.SECONDS):
        schema.update({"minimum": key.least} if key.least is not None else {})
        schema.update({"maximum": key.most} if key.most is not None else {})
    return schema


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_TYPES: dict[str, dict[str, Any]] = {
    keys.STRING: _TEXT,
    keys.COMMAND: {"type": ["string", "boolean"]},  # true and false are commands; as YAML they are booleans
    keys.STRINGS: {**_TEXTS, "minItems": 1},
    keys.FILES: {"anyOf": [_TEXT, _TEXTS]},
    keys.INTEGER: {"type": "integer"},
    keys.SECONDS: {"type": "number"},
    keys.BOOLEAN: {"type": "boolean"},
    keys.HTTP_TEXT: {"type": "string"},
    keys.PORT_NUMBER: {"type": "integer", "minimum": 1, "maximum": 65535},
    keys.HEADERS: {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    keys.CODES: {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
    keys.ENVIRONMENT: {"type": "array", "items": {"type": "string", "pattern": "^[^=]+="}},
    keys.PORT: {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": 65535},
            {"type": "string", "pattern": "^([0-9]+|.*\\$\\{?BERTH_.*)$"},
        ]
    },
    keys.PATH: {"type": "string", "minLength": 1},
}


def described(schema: dict[str, Any], text: str, *, default: Any, example: Any) -> dict[str, Any]:
    """``schema`` with what a person wants to know about the field."""
    found = {**schema, "description": text}
    if default is not None:
        found["default"] = default
    found["examples"] = [example]
    return found


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field that may also be null, which means its default."""
    found = dict(schema)
    if "const" in found:
        found["enum"] = [found.pop("const"), None]
    elif "enum" in found:
        found["enum"] = [*found["enum"], None]
    elif "type" in found:
        types = found["type"] if isinstance(found["type"], list) else [found["type"]]
        found["type"] = [*types, "null"]
    elif "anyOf" in found:
        found["anyOf"] = [*found["anyOf"], {"type": "null"}]
    return found
