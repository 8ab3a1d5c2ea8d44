"""The documents that commands print, against the schemas that berth prints for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema

from berth.cli.index import COMMANDS
from berth.spec.schemas import names, schema
from support.cli import Berth
from support.repos import commit

CONFIG = """
version: 1
ports: [web]
processes:
  web:
    command: exec python3 -m http.server "$BERTH_PORT_WEB" --bind 127.0.0.1
    readiness_probe: {http_get: {host: 127.0.0.1, port: "${BERTH_PORT_WEB}", path: /}}
"""


def valid(name: str, document: Any) -> None:
    """``document`` is what the schema says, and has no key that the schema does not know."""
    wanted = schema(name)
    jsonschema.Draft202012Validator.check_schema(wanted)
    jsonschema.validate(document, wanted, cls=jsonschema.Draft202012Validator)
    if isinstance(document, dict) and "properties" in wanted and name != "schema":
        assert set(document) <= set(wanted["properties"])


def test_what_every_command_prints_is_what_its_schema_says(berth: Berth, repo: Path) -> None:
    commit(repo, {"berth.yaml": CONFIG})
    seen = set()

    def check(name: str, *words: str) -> Any:
        document = berth.doc(*name.split(), *words)
        valid(name, document)
        seen.add(name)
        return document

    check("new", "a")
    check("up", "a")
    check("wait", "a")
    check("ls")
    for name in ("status", "attach", "ports", "plan"):
        check(name, "a")
    for name in ("restart", "stop", "start"):
        check(name, "web", "a")
    check("logs", "web", "a")
    check("down", "a")
    check("reset", "a")
    check("doctor")
    check("done", "a")
    check("gc", "--dry-run")
    check("init", "--force")
    check("skill install")
    check("hook install")
    check("agents")
    check("completion", "bash")
    check("version")
    check("schema", "config")
    of_sandboxes = {name for name in names() if COMMANDS.get(name, ("",))[0] == "sandbox"}  # they need an engine
    assert of_sandboxes
    assert set(names()) - seen - of_sandboxes - {"config", "error", "workspace", "process", "plan"} == {
        "adopt",
        "hook run",
        "open",
        "run",
    }


def test_run_and_its_document(berth: Berth) -> None:
    berth.ok("new", "a")
    outcome = berth("run", "--json", "-w", "a", "--", "sh", "-c", "echo out; exit 3")
    assert outcome.code == 3
    valid("run", outcome.json)
    assert outcome.err == "out\n"


def test_an_error_document(berth: Berth) -> None:
    valid("error", berth("status", "nope", "--json").json)


def test_every_schema_is_valid_and_printed_by_its_name(berth: Berth) -> None:
    for name in names():
        jsonschema.Draft202012Validator.check_schema(schema(name))
    assert berth.doc("schema") == {"names": names()}
    assert berth.ok("schema", "config").json == schema("config")
    assert berth.ok("hook", "install", "--schema").json == schema("hook install")
