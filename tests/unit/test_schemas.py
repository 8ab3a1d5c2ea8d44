"""JSON Schemas: complete, valid in draft 2020-12, of one mind with what reads and prints (workspaces.md 2.3, 2.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from berth.errors import EXIT_STATUS, BerthError
from berth.spec import keys, schemas
from berth.spec.fields import FIELDS
from berth.spec.plan import plan_document
from berth.tools.yaml import load
from support.configuration import read
from support.fixtures import BERTH_YAMLS, INVALID_BERTH_YAMLS

COMMANDS = (
    "init", "new", "adopt", "attach", "ls", "status", "ports", "plan", "up", "down", "start", "stop", "restart", "wait",
    "logs", "run", "reset", "done", "gc", "doctor", "open", "skill install", "hook install", "hook run", "agents",
    "schema", "completion", "version",
)  # fmt: skip


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schemas.schema(name))


def test_there_is_a_schema_for_every_object_and_every_command() -> None:
    assert schemas.names()[:5] == ["config", "error", "workspace", "process", "plan"]
    assert set(COMMANDS) <= set(schemas.names())
    assert len(schemas.names()) == len(set(schemas.names()))


@pytest.mark.parametrize("name", schemas.names())
def test_each_is_a_valid_schema_of_the_draft_it_names(name: str) -> None:
    schema = schemas.schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        schemas.schema("nope")


def properties(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    holders = [schema, *(value for value in schema.get("patternProperties", {}).values())]
    if isinstance(schema.get("additionalProperties"), dict):
        holders.append(schema["additionalProperties"])
    for holder in holders:
        for name, inner in holder.get("properties", {}).items():
            yield f"{path}.{name}", inner
            yield from properties(inner, f"{path}.{name}")


def test_every_field_of_the_configuration_has_a_description_and_a_fitting_example() -> None:
    found = dict(properties(schemas.schema("config")))
    assert len(found) > 100
    for path, schema in found.items():
        assert schema["description"], path
        if not schema["description"].startswith("refused"):
            (example,) = schema["examples"]
            assert Draft202012Validator(schema).is_valid(example), path
            assert Draft202012Validator(schema).is_valid(schema.get("default")), path


def test_the_configurations_schema_knows_every_declared_field_and_key() -> None:
    schema = schemas.schema("config")
    assert list(schema["properties"]) == list(FIELDS)
    (definition,) = schema["properties"]["processes"]["patternProperties"].values()
    assert list(definition["properties"]) == list(keys.PROCESS)


@pytest.mark.parametrize("text", BERTH_YAMLS.values(), ids=BERTH_YAMLS.keys())
def test_valid_configurations_fit_the_schema(text: str) -> None:
    read(text)
    data = load(text.encode(), file="f").data
    assert [error.message for error in validator("config").iter_errors(data)] == []


@pytest.mark.parametrize("text", INVALID_BERTH_YAMLS.values(), ids=INVALID_BERTH_YAMLS.keys())
def test_what_the_schema_can_see_is_refused_by_both(text: str) -> None:
    with pytest.raises(BerthError):
        read(text)
    assert not validator("config").is_valid(load(text.encode(), file="f").data)


def test_every_code_of_error_is_in_the_schema_of_error() -> None:
    for code in (*EXIT_STATUS, "interrupted"):
        validator("error").validate({"error": {"code": code, "message": "m", "hint": None}})
    assert not validator("error").is_valid({"error": {"code": "nope", "message": "m", "hint": None}})


class Row:
    """What the plan needs of a registry row."""

    path = "/w"
    ports = {"web": 20000}

    def __init__(self, runtime: str, listen: str) -> None:
        self.runtime = runtime
        self.listen = listen


def test_a_plan_has_the_keys_of_its_schema_in_their_order() -> None:
    native = plan_document(Row('{"backend": "native"}', "{}"))
    container = plan_document(Row('{"backend": "container", "engine": "docker", "image": "i"}', '{"web": 80}'))
    for document in (native, container):
        validator("plan").validate(document)
        assert list(document) == list(schemas.schema("plan")["properties"])


def workspace(**changes: object) -> dict[str, Any]:
    return {
        "id": "0" * 32, "slug": "a", "path": "/w", "repo": "/r", "branch": None, "ports": {"web": 20000},
        "urls": {"web": "http://a.localhost:20000"}, "listen": {}, "env": {"A": "b"}, "running": None, "dirty": None,
        "processes": [
            {"name": "w", "status": "Running", "ready": "-", "healthy": True, "pid": 1, "exit_code": None,
             "restarts": 0, "listening": [20000]}
        ],
        "created_at": "2026-01-31T09:00:00Z", "last_used_at": "2026-01-31T09:00:00Z", "phase": "ready",
        "ownership": "adopted", "error": None, "runtime": plan_document(Row('{"backend": "native"}', "{}")),
        "warnings": [], **changes,
    }  # fmt: skip


def test_a_workspace_has_its_variables_only_where_the_contract_says_so() -> None:
    full = workspace()
    bare = {key: value for key, value in full.items() if key != "env"}
    for name in ("new", "attach", "adopt", "status"):
        validator(name).validate(full)
        assert not validator(name).is_valid(bare)
    for name in ("up", "reset", "wait"):
        validator(name).validate(bare)
        assert "env" not in schemas.schema(name)["properties"]
    validator("ls").validate({"workspaces": [bare]})
    validator("workspace").validate(full)
    validator("workspace").validate(bare)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "x"),
        ("slug", "-a"),
        ("path", "relative"),
        ("ports", {"web": 0}),
        ("running", "yes"),
        ("phase", "done"),
        ("ownership", "mine"),
        ("created_at", "2026-01-31 09:00"),
        ("processes", [{}]),
        ("container", "other"),
        ("error", 1),
    ],
)
def test_a_workspace_that_is_none_does_not_fit(key: str, value: object) -> None:
    validator("workspace").validate(workspace())
    assert not validator("workspace").is_valid(workspace(**{key: value}))


@pytest.mark.parametrize("name", schemas.names())
def test_a_missing_key_is_noticed(name: str) -> None:
    if name not in ("config", "logs", "schema", "rpc"):  # the last is whatever an export returns
        assert not validator(name).is_valid({})
