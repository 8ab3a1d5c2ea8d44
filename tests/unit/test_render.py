"""The rendered pc.yaml: substitution, environments, defaults, determinism (workspaces.md 3.5, 8.3, 8.9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.errors import BerthError
from berth.spec.config import Config
from berth.spec.environment import expand, injected
from berth.spec.references import names, replaced
from berth.spec.render import Rendered, read_assignments, render
from berth.tools.yaml import load
from support.configuration import read

PORTS = {"web": 20000, "pg": 20001}
HEADER = "ports: [web, pg]\n"


def view(config: Config, *, workspace: str = "/w") -> dict[str, str]:
    variables = injected(workspace=workspace, root="/r", slug="a", branch="berth/a", ports=PORTS)
    return {**variables, **expand(config.env, variables)}


def rendered(config: Config, files: dict[str, str] | None = None, *, workspace: str = "/w") -> Rendered:
    return render(
        config,
        variables=view(config, workspace=workspace),
        working_dir=workspace,
        read_file=lambda name: (files or {})[name],
    )


def processes(text: str, files: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rendered(read(text), files).text)["processes"]
    return found


def web(definition: str, files: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = processes(f"{HEADER}processes: {{web: {definition}}}", files)["web"]
    return found


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$BERTH_SLUG", "a"),
        ("${BERTH_SLUG}", "a"),
        ("x$BERTH_SLUG-y${BERTH_SLUG}z", "xa-yaz"),
        ("$BERTH_SLUGGISH", "$BERTH_SLUGGISH"),
        ("${BERTH_SLUG:-x}", "${BERTH_SLUG:-x}"),
        ("${BERTH_SLUG", "${BERTH_SLUG"),
        ("${BERTH_NOPE}$BERTH_NOPE", "${BERTH_NOPE}$BERTH_NOPE"),
        ("$$BERTH_SLUG", "$a"),
        ("$HOME ${HOME} $ $$ {BERTH_SLUG}", "$HOME ${HOME} $ $$ {BERTH_SLUG}"),
        ("$BERTH_TRAP", "${BERTH_SLUG}"),
        ("$BERTH_", "$BERTH_"),
        ("", ""),
    ],
)
def test_known_references_are_replaced_once_and_all_else_is_literal(text: str, result: str) -> None:
    assert replaced(text, {"BERTH_SLUG": "a", "BERTH_TRAP": "${BERTH_SLUG}"}) == result


def test_the_names_in_a_text_are_found_known_or_not() -> None:
    assert names("$BERTH_A ${BERTH_B} ${BERTH_C $HOME") == ["BERTH_A", "BERTH_B"]


def test_shell_strings_are_left_alone() -> None:
    body = web(
        """{command: 'a "$BERTH_SLUG" ${BERTH_SLUG} $$', shutdown: {command: $BERTH_SLUG},
            readiness_probe: {exec: {command: $BERTH_SLUG, working_dir: $BERTH_SLUG}}}"""
    )
    assert body["command"] == 'a "$BERTH_SLUG" ${BERTH_SLUG} $$'
    assert body["shutdown"]["command"] == "$BERTH_SLUG"
    assert body["readiness_probe"]["exec"] == {"command": "$BERTH_SLUG", "working_dir": "a"}


def test_every_other_string_has_its_references_replaced() -> None:
    body = web("""
        {entrypoint: [x, --port, $BERTH_PORT_WEB, "$HOME"], working_dir: "${BERTH_WORKSPACE}/sub",
         environment: ["A=${BERTH_PORT_PG}", "B=$HOME"], ready_log_line: "on $BERTH_PORT_WEB",
         log_location: "logs/${BERTH_SLUG}.log", description: "$BERTH_SLUG", x-a: ["${BERTH_SLUG}", {b: $BERTH_SLUG}],
         liveness_probe:
           {http_get: {host: "$BERTH_SLUG", port: 1, path: "/$BERTH_SLUG", headers: {$BERTH_SLUG: $BERTH_SLUG}}}}
    """)
    assert body["entrypoint"] == ["x", "--port", "20000", "$HOME"]
    assert body["working_dir"] == "/w/sub"
    assert body["environment"][-2:] == ["A=20001", "B=$HOME"]
    assert body["ready_log_line"] == "on 20000"
    assert body["log_location"] == "logs/a.log"
    assert body["description"] == "a"
    assert body["x-a"] == ["a", {"b": "a"}]
    http_get = body["liveness_probe"]["http_get"]
    assert (http_get["host"], http_get["path"]) == ("a", "/a")
    assert http_get["headers"] == {"$BERTH_SLUG": "a"}, "keys are never expanded"


@pytest.mark.parametrize("port", ['"${BERTH_PORT_WEB}"', "$BERTH_PORT_WEB", "'20000'", "20000"])
def test_a_port_of_digits_becomes_a_number(port: str) -> None:
    body = web(f"{{command: x, readiness_probe: {{http_get: {{port: {port}}}}}}}")
    assert body["readiness_probe"]["http_get"]["port"] == 20000


def test_other_numeric_looking_strings_stay_strings() -> None:
    body = web("{command: x, description: '12', x-a: {port: 'a', other: '12', port-2: '1'}, entrypoint: ['5']}")
    assert body["description"] == "12"
    assert body["x-a"] == {"port": "a", "other": "12", "port-2": "1"}
    assert body["entrypoint"] == ["5"]


def test_a_command_that_yaml_takes_for_a_boolean_is_text_again() -> None:
    body = web("{command: true, shutdown: {command: false}}")
    assert (body["command"], body["shutdown"]["command"]) == ("true", "false")


def test_the_environment_begins_with_what_berth_injects_and_ends_with_what_the_process_sets() -> None:
    config = read(
        HEADER + "env: {PORT: '${BERTH_PORT_WEB}', B: env, Z: env}\n"
        "processes: {web: {command: x, env_file: [one, two], environment: [Z=own, A=own]}}"
    )
    files = {"one": "B=one\nC=one\nexport D='one $B ${B}'\n", "two": "C=two\nE\nBERTH_SLUG=stale\nGIT_DIR=/x\n"}
    body = json.loads(rendered(config, files).text)["processes"]["web"]
    assert body["environment"] == [
        "B=one",
        "BERTH_BRANCH=berth/a",
        "BERTH_DATA_DIR=/w/.berth/data",
        "BERTH_HOST_PORT_PG=20001",
        "BERTH_HOST_PORT_WEB=20000",
        "BERTH_PORT_PG=20001",
        "BERTH_PORT_WEB=20000",
        "BERTH_ROOT=/r",
        "BERTH_SLUG=a",
        "BERTH_WORKSPACE=/w",
        "C=two",
        "D=one $B ${B}",
        "PORT=20000",
        "Z=own",
        "A=own",
    ]
    assert "env_file" not in body


def test_an_env_file_is_found_from_the_workspace_also_where_that_has_another_path_inside() -> None:
    config = read(HEADER + 'processes: {web: {command: x, env_file: "${BERTH_WORKSPACE}/conf/.env"}}')
    text = rendered(config, {"conf/.env": "A=b"}, workspace="/workspace").text
    assert "A=b" in json.loads(text)["processes"]["web"]["environment"]


def test_an_env_file_is_read_like_python_dotenv_without_interpolation() -> None:
    text = "# comment\nA=1\n B = 'two words' # comment\nC=\"line\\nbreak\"\nD='$A ${A}'\nexport E=x\nF\nG=\nH='a\nb'\n"
    assert read_assignments(text, name=".env") == {
        "A": "1",
        "B": "two words",
        "C": "line\nbreak",
        "D": "$A ${A}",
        "E": "x",
        "G": "",
        "H": "a\nb",
    }


def test_a_line_of_an_env_file_that_is_no_assignment_is_named() -> None:
    with pytest.raises(BerthError, match=r"^env_file conf/\.env:2: not KEY=VALUE$") as caught:
        read_assignments("A=1\n'x\nB=2\n", name="conf/.env")
    assert caught.value.code == "config_invalid"


def test_working_dir_and_timeout_are_filled_in() -> None:
    text = HEADER + "shutdown_timeout_seconds: 4\nprocesses:\n  a: {command: x}\n"
    text += "  b: {command: x, working_dir: sub, shutdown: {timeout_seconds: 2.5, signal: 2}}\n"
    found = processes(text)
    assert found["a"]["working_dir"] == "/w"
    assert found["a"]["shutdown"] == {"timeout_seconds": 4}
    assert found["b"]["working_dir"] == "sub"
    assert found["b"]["shutdown"] == {"timeout_seconds": 2.5, "signal": 2}
    assert rendered(read(text)).timeout_seconds == 4


def test_null_and_empty_parts_leave_nothing_behind() -> None:
    body = web("{command: x, shutdown: ~, availability: {restart: ~}, depends_on: ~}")
    assert sorted(body) == ["availability", "command", "environment", "shutdown", "working_dir"]
    assert body["availability"] == {}


def test_the_document_is_json_that_yaml_reads_as_the_same() -> None:
    odd = "\x85\u2028\ufeff\x7f日本😀\"'\\\t\n"
    config = read(
        HEADER + f"processes: {{web: {{command: {json.dumps('echo ' + odd)}, x-a: [.inf, -.inf, .nan, 1.5]}}}}"
    )
    text = rendered(config).text
    document = json.loads(text)
    assert document["version"] == "0.5"
    assert sorted(document) == ["processes", "version"]
    assert document["processes"]["web"]["command"] == "echo " + odd
    assert document["processes"]["web"]["x-a"] == ["inf", "-inf", "nan", 1.5]
    assert load(text, file="pc.yaml").data == document


def test_the_same_configuration_gives_the_same_bytes_in_whatever_order_it_is_written() -> None:
    one = "processes: {a: {command: x, is_tty: true}, b: {command: y, depends_on: {a: {}}}}"
    other = "processes: {b: {depends_on: {a: {}}, command: y}, a: {is_tty: true, command: x}}"
    assert rendered(read(HEADER + one)).text == rendered(read(HEADER + other)).text
    assert rendered(read(HEADER + one)).text != rendered(read(HEADER + one.replace("command: y", "command: z"))).text


def test_process_compose_is_kept_from_expanding_and_writes_where_logs_are_looked_for() -> None:
    config = read(
        HEADER + "runtime: {supervisor: process-compose}\n"
        "processes: {a: {command: x}, b: {command: x, log_location: own.log, vars: {V: 1}}}"
    )
    document = json.loads(rendered(config).text)
    assert document["disable_env_expansion"] is True
    assert document["processes"]["a"]["log_location"] == ".berth/logs/a.log"
    assert document["processes"]["a"]["is_template_disabled"] is True
    assert document["processes"]["b"]["log_location"] == "own.log"
    assert "is_template_disabled" not in document["processes"]["b"]
