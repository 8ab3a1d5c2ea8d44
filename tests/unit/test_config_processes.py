"""Process definitions: every declared key in every wrong way, probes, dependencies, notes (workspaces.md 3.4)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from berth.spec import keys
from berth.spec.dependencies import cycles
from berth.spec.keys import Key
from support.configuration import complaints, read

CONTAINER = "runtime: {backend: container, image: img}\nports: [web]\nlisten: {web: 8080}\n"
PROCESS_COMPOSE = "runtime: {supervisor: process-compose}\n"


def one(definition: str) -> str:
    return f"processes: {{web: {definition}}}"


def declared(prefix: tuple[str, ...], known: dict[str, Key]) -> Iterator[tuple[tuple[str, ...], Key]]:
    for name, key in known.items():
        yield (*prefix, name), key
        if key.inner is not None:
            below = ("other",) if key.inner is keys.DEPENDENCY else ()
            yield from declared((*prefix, name, *below), dict(key.inner))


ALL = list(declared((), keys.PROCESS))
IDS = [".".join(path) for path, _ in ALL]


# What a mapping needs beside the key in question, unless that is the needed one itself.
NEEDED = {"exec": ("command", "command: x"), "http_get": ("port", "port: 80")}


def definition_with(path: tuple[str, ...], value: str) -> str:
    """A valid definition, but for ``value`` at ``path``, as one line of YAML."""
    text = value
    for number, key in reversed(list(enumerate(path))):
        holder = path[number - 1] if number else ""
        needed, beside = NEEDED.get(holder, ("", ""))
        if holder in ("readiness_probe", "liveness_probe") and key not in NEEDED:
            beside = "exec: {command: x}"
        if not holder:
            needed, beside = "command", "command: x"
        text = f"{{{key}: {text}{', ' + beside if beside and key != needed else ''}}}"
    return text


# What is wrong for a type: the value in YAML, and the problem.
WRONG: dict[str, list[tuple[str, str]]] = {
    keys.STRING: [
        ("[a]", "must be a string, not a list"),
        ("{a: b}", "must be a string, not a mapping"),
        ("1", "must be a string, not the number 1"),
        ('"a\\0"', "must not contain NUL"),
    ],
    keys.HTTP_TEXT: [
        ("[a]", "must be a string, not a list"),
        ('"a\\r\\nb"', "must not contain a line break"),
        ('"a\\0"', "must not contain NUL"),
    ],
    keys.COMMAND: [
        ("[a]", "must be a string, not a list"),
        ("{a: b}", "must be a string, not a mapping"),
        ("1", "must be a string, not the number 1"),
        ('"a\\0"', "must not contain NUL"),
    ],
    keys.STRINGS: [("a", "must be a list, not the string 'a'"), ("{a: b}", "must be a list, not a mapping")],
    keys.FILES: [("1", "must be a string, not the number 1"), ("{a: b}", "must be a string, not a mapping")],
    keys.INTEGER: [
        ("'1'", "must be a whole number, not the string '1'"),
        ("1.5", "must be a whole number, not the number 1.5"),
        ("true", "must be a whole number, not the boolean true"),
        ("[1]", "must be a whole number, not a list"),
    ],
    keys.SECONDS: [
        ("'1'", "must be a number, not the string '1'"),
        ("true", "must be a number, not the boolean true"),
        ("1s", "must be a number, not the string '1s'"),
        (".inf", "must be between"),
        (".nan", "must be at least"),
        ("-1", "must be at least"),
    ],
    keys.BOOLEAN: [
        ("yes", "must be true or false, not the string 'yes'"),
        ("1", "must be true or false, not the number 1"),
        ("'true'", "must be true or false, not the string 'true'"),
    ],
    keys.MAPPING: [("a", "must be a mapping, not the string 'a'"), ("[a]", "must be a mapping, not a list")],
    keys.HEADERS: [("a", "must be a mapping, not the string 'a'"), ("[a]", "must be a mapping, not a list")],
    keys.CODES: [("1", "must be a list, not the number 1")],
    keys.ENVIRONMENT: [("{A: b}", "must be a list"), ("A=b", "must be a list")],
    keys.CHOICE: [("sometimes", "must be"), ("[a]", "must be a string, not a list"), ("1", "must be a string")],
    keys.PORT: [
        ("0", "must be between 1 and 65535, not 0"),
        ("65536", "must be between 1 and 65535, not 65536"),
        ("80.5", "must be a whole number, not the number 80.5"),
        ("true", "must be a whole number, not the boolean true"),
        ("http", "must be a port from 1 to 65535 or a reference to one, not 'http'; known: none"),
        ("'0'", "must be a port from 1 to 65535 or a reference to one, not '0'; known: none"),
        ("'99999'", "must be a port from 1 to 65535 or a reference to one, not '99999'; known: none"),
        ("'٨٠'", "must be a port from 1 to 65535 or a reference to one, not '٨٠'; known: none"),
        ("'${BERTH_PORT_NOPE}'", "must be a port from 1 to 65535 or a reference to one"),
        ("$PORT", "must be a port from 1 to 65535 or a reference to one"),
    ],
    keys.PORT_NUMBER: [("0", "must be between 1 and 65535, not 0"), ("'80'", "must be a whole number")],
    keys.PATH: [
        ("/tmp/x", "'/tmp/x' must be relative to the repository, not absolute"),
        ("../x", "'../x' must not leave the repository through a .. component"),
        (".berth/logs/x", "'.berth/logs/x' must not be .berth or anything below it"),
        ("'${BERTH_DATA_DIR}/x'", "'${BERTH_DATA_DIR}/x' must be relative to the repository, not absolute"),
        ("[a]", "must be a string, not a list"),
    ],
}


@pytest.mark.parametrize(("path", "key"), ALL, ids=IDS)
def test_a_declared_key_takes_its_example_and_null(path: tuple[str, ...], key: Key) -> None:
    ready = "{command: x, readiness_probe: {exec: {command: x}}}"
    other = f"other: {ready}, pg: {ready}"
    if key.standing == keys.REFUSED:
        return
    for value in (key.example, None):
        if value is None and path[-1] in ("command", "exec", "http_get", "port"):
            continue  # nothing would be left to run
        text = f"ports: [web]\nprocesses: {{web: {definition_with(path, json.dumps(value))}, {other}}}"
        read(text)


@pytest.mark.parametrize(("path", "key"), [(path, key) for path, key in ALL if key.standing != keys.REFUSED])
def test_a_value_of_the_wrong_type_is_refused_at_its_place(path: tuple[str, ...], key: Key) -> None:
    for value, problem in WRONG[key.type]:
        definition = definition_with(path, value)
        text = f"processes:\n  other: {{command: x}}\n  web: {definition}\n"
        lines = complaints(text)
        marked = f"{path[-1]}: {value}"
        column = text.split("\n")[2].index(marked) + len(path[-1]) + 3
        dotted = "processes.web." + ".".join(path)
        assert any(line.startswith(f"3:{column}: {dotted}: {problem}") for line in lines), (text, lines)


@pytest.mark.parametrize(("path", "key"), [(path, key) for path, key in ALL if key.least is not None])
def test_a_number_out_of_range_is_refused_and_the_bounds_are_taken(path: tuple[str, ...], key: Key) -> None:
    assert key.least is not None
    for bound in (key.least, key.most):
        if bound is not None:
            read(one(definition_with(path, f"{bound:g}")))
    low = key.least - (1 if key.type == keys.INTEGER else 0.005)
    beyond = [low] if key.most is None else [low, key.most + 1]
    for value in beyond:
        assert re.match(r"1:\d+: processes\.web\..*: must be ", complaints(one(definition_with(path, f"{value:g}")))[0])


@pytest.mark.parametrize(("path", "key"), [(path, key) for path, key in ALL if key.standing == keys.REFUSED])
def test_a_key_of_process_compose_alone_is_refused_with_what_to_write_instead(path: tuple[str, ...], key: Key) -> None:
    dotted = ".".join(path)
    for value in ("x", "~", "{a: b}"):
        (line,) = complaints(one(definition_with(path, value)))
        assert re.match(
            rf"1:\d+: processes\.web\.{re.escape(dotted)}: is not supported by berth's supervisor; use ", line
        )
        assert "runtime.supervisor: process-compose" in line
    assert read(PROCESS_COMPOSE + one(definition_with(path, "{a: b}"))).processes["web"]


@pytest.mark.parametrize("seconds", ["0.5", "2", "1.25"])
def test_numbers_of_seconds_may_be_fractions(seconds: str) -> None:
    text = one(f"{{command: x, readiness_probe: {{exec: {{command: x}}, period_seconds: {seconds}}}}}")
    assert read(text).processes["web"]["readiness_probe"]["period_seconds"] == float(seconds)


# -- names and keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["web", "_a", "9", "A.b-c_d", "x-y", "1.5"])
def test_a_process_is_named_by_letters_digits_and_a_few_signs(name: str) -> None:
    assert list(read(f"processes: {{'{name}': {{command: x}}}}").processes) == [name]


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "é", "a:b", "x" * 201])
def test_another_name_is_refused(name: str) -> None:
    assert complaints(f"processes: {{'{name}': {{command: x}}}}") == [
        f"1:13: processes.{name}: is no process name: letters, digits, _ . -, not beginning with . or -"
    ]


@pytest.mark.parametrize(
    ("value", "kind"), [("~", "null"), ("sh", "the string 'sh'"), ("[sh]", "a list"), ("1", "the number 1")]
)
def test_a_definition_must_be_a_mapping(value: str, kind: str) -> None:
    for header in ("", PROCESS_COMPOSE):
        (line,) = complaints(header + one(value))
        assert line.endswith(f":18: processes.web: must be a mapping, not {kind}")


@pytest.mark.parametrize("header", ["", PROCESS_COMPOSE])
@pytest.mark.parametrize(
    ("definition", "field", "key", "some"),
    [
        ("{command: x, comand: y}", "processes.web", "comand", "command, depends_on"),
        ("{command: x, shutdown: {sig: 2}}", "processes.web.shutdown", "sig", "parent_only"),
        ("{command: x, availability: {a: 2}}", "processes.web.availability", "a", "backoff_seconds"),
        (
            "{command: x, readiness_probe: {exec: {command: x}, perod: 1}}",
            "processes.web.readiness_probe",
            "perod",
            "period_seconds",
        ),
        (
            "{command: x, liveness_probe: {exec: {command: x, dir: y}}}",
            "processes.web.liveness_probe.exec",
            "dir",
            "working_dir",
        ),
        (
            "{command: x, readiness_probe: {http_get: {port: 1, uri: y}}}",
            "processes.web.readiness_probe.http_get",
            "uri",
            "status_code",
        ),
        (
            "{command: x, depends_on: {web2: {cond: y}}}",
            "processes.web.depends_on.web2",
            "cond",
            "condition",
        ),
    ],
)
def test_unknown_keys_are_errors_at_every_level(header: str, definition: str, field: str, key: str, some: str) -> None:
    lines = complaints(f"{header}processes: {{web2: {{command: x}}, web: {definition}}}")
    (line,) = lines
    assert f': {field}: unknown key "{key}"; allowed: ' in line
    assert some in line
    assert line.endswith("x-*")


def test_extension_keys_are_carried_at_every_level() -> None:
    config = read("""
        processes:
          web:
            command: x
            x-note: {a: [1, ~]}
            shutdown: {x-a: 1}
            availability: {x-a: 1}
            readiness_probe: {exec: {command: x, x-a: 1}, x-a: 1}
            liveness_probe: {http_get: {port: 1, x-a: 1}}
            depends_on: {api: {x-a: 1}}
          api: {command: x}
    """)
    assert config.processes["web"]["x-note"] == {"a": [1, None]}


def test_null_keys_are_left_out_and_the_rest_is_as_written() -> None:
    config = read("processes: {web: {command: true, entrypoint: ~, is_tty: ~, replicas: 2}}")
    assert config.processes == {"web": {"command": True, "replicas": 2}}


def test_keys_merged_in_are_checked_at_their_origin() -> None:
    text = "processes:\n  a: &a\n    command: x\n    comand: y\n  b: {<<: *a}\n"
    lines = complaints(text)
    assert [line.partition(";")[0] for line in lines] == [
        '4:5: processes.a: unknown key "comand"',
        '4:5: processes.b: unknown key "comand"',
    ]


# -- what runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["{}", "{command: ~}", "{command: ''}", "{command: ' '}", "{x-a: 1}"])
def test_something_must_run(definition: str) -> None:
    assert complaints(one(definition)) == ["1:18: processes.web: needs a command or an entrypoint"]


def test_an_entrypoint_must_have_a_program_and_arguments_that_can_be_split() -> None:
    assert read(one("{entrypoint: [node], command: 'a \"b c\"'}")).notes == ()
    assert complaints(one("{entrypoint: []}")) == ["1:31: processes.web.entrypoint: must not be empty"]
    assert complaints(one("{entrypoint: [a], command: 'it''s'}")) == [
        "1:45: processes.web.command: cannot be split into arguments: No closing quotation"
    ]
    assert complaints(one("{entrypoint: [a, ~, [b], 1]}")) == [
        "1:35: processes.web.entrypoint[1]: must be a string, not null",
        "1:38: processes.web.entrypoint[2]: must be a string, not a list",
        "1:43: processes.web.entrypoint[3]: must be a string, not the number 1",
    ]


@pytest.mark.parametrize("header", ["", PROCESS_COMPOSE])
@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("A", "must be a string KEY=VALUE"),
        ("=x", "must be a string KEY=VALUE"),
        ("1", "must be a string KEY=VALUE"),
        ("~", "must be a string KEY=VALUE"),
        ("{A: b}", "must be a string KEY=VALUE"),
        ('"A=\\0"', "must be a string KEY=VALUE"),
        ("BERTH_SLUG=x", "BERTH_SLUG is berth's or git's own and cannot be set"),
        ("GIT_DIR=x", "GIT_DIR is berth's or git's own and cannot be set"),
        ("GIT_WORK_TREE=x", "GIT_WORK_TREE is berth's or git's own and cannot be set"),
    ],
)
def test_an_entry_of_environment_is_an_assignment_of_the_projects_own(header: str, entry: str, problem: str) -> None:
    (line,) = complaints(header + one(f"{{command: x, environment: [OK=1, {entry}]}}"))
    assert line.endswith(f":51: processes.web.environment[1]: {problem}")


@pytest.mark.parametrize("header", ["", PROCESS_COMPOSE])
def test_environment_as_a_mapping_must_be_a_list(header: str) -> None:
    (line,) = complaints(header + one("{command: x, environment: {A: b}}"))
    assert line.endswith(":44: processes.web.environment: must be a list")


def test_assignments_may_hold_anything() -> None:
    environment = ["A=", "B=a=b", "C= x ", 'D="q"', "e.f-g=1", "GIT_AUTHOR_NAME=x"]
    config = read(one(f"{{command: x, environment: {json.dumps(environment)}}}"))
    assert config.processes["web"]["environment"] == environment


def test_success_codes_are_exit_codes() -> None:
    assert complaints(one("{command: x, success_exit_codes: [0, 255, 256, -1, x, ~]}")) == [
        "1:60: processes.web.success_exit_codes[2]: must be between 0 and 255, not 256",
        "1:65: processes.web.success_exit_codes[3]: must be between 0 and 255, not -1",
        "1:69: processes.web.success_exit_codes[4]: must be a whole number, not the string 'x'",
        "1:72: processes.web.success_exit_codes[5]: must be a whole number, not null",
    ]


def test_headers_are_single_values_in_one_line() -> None:
    text = one('{command: x, readiness_probe: {http_get: {port: 1, headers: {A: 1, B: [x], C: "a\\r\\nD: b", E: ~}}}}')
    assert [line.partition(": ")[2] for line in complaints(text)] == [
        "processes.web.readiness_probe.http_get.headers.B: must be a single value, not a list",
        "processes.web.readiness_probe.http_get.headers.C: must not contain a line break or NUL",
        "processes.web.readiness_probe.http_get.headers.E: must be a single value, not null",
    ]


def test_copies_must_not_be_called_like_another_process() -> None:
    assert complaints("processes: {w: {command: x, replicas: 3}, w-1: {command: x}}") == [
        "1:39: processes.w.replicas: a copy would be called w-1, as another process is"
    ]
    read("processes: {w: {command: x, replicas: 1}, w-0: {command: x}}")


def test_in_a_container_the_host_reads_env_files_of_the_workspace_only() -> None:
    for name in (".env", "a/b", "/workspace/.env", "${BERTH_WORKSPACE}/.env"):
        read(CONTAINER + one(f"{{command: x, env_file: '{name}'}}"))
    for name in ("/etc/passwd", "../x", "/workspace/../etc/x", "${BERTH_WORKSPACE}/../x"):
        (line,) = complaints(CONTAINER + one(f"{{command: x, env_file: '{name}'}}"))
        assert line.endswith("processes.web.env_file: must lie inside the workspace")
        read(one(f"{{command: x, env_file: '{name}'}}"))


# -- probes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["", PROCESS_COMPOSE])
@pytest.mark.parametrize("probe", ["readiness_probe", "liveness_probe"])
@pytest.mark.parametrize(
    "value", ["{}", "{exec: {command: a}, http_get: {port: 1}}", "{period_seconds: 5}", "{exec: ~}"]
)
def test_a_probe_has_exactly_one_of_exec_and_http_get(header: str, probe: str, value: str) -> None:
    text = header + one(f"{{command: x, {probe}: {value}}}")
    (line,) = complaints(text)
    assert line.endswith(f": processes.web.{probe}: needs exactly one of exec and http_get")


def test_a_probe_needs_what_it_tries() -> None:
    text = one("{command: x, readiness_probe: {exec: {}}, liveness_probe: {http_get: {path: /}}}")
    assert complaints(text) == [
        "1:55: processes.web.readiness_probe.exec: needs a command",
        "1:87: processes.web.liveness_probe.http_get: needs a port",
    ]


@pytest.mark.parametrize("port", ["80", "'8080'", "${BERTH_PORT_WEB}", "$BERTH_PORT_WEB", "'1${BERTH_PORT_WEB}'"])
def test_a_port_is_a_number_or_a_reference_that_becomes_one(port: str) -> None:
    port = f'"{port}"' if port.startswith("$") else port
    for header in ("ports: [web]\n", CONTAINER):
        read(header + one(f"{{command: x, readiness_probe: {{http_get: {{port: {port}}}}}}}"))


def test_an_unknown_reference_as_port_names_the_known_ones() -> None:
    text = "ports: [web, my-api]\n" + one("{command: x, readiness_probe: {http_get: {port: $BERTH_PORT_API}}}")
    assert complaints(text) == [
        "2:66: processes.web.readiness_probe.http_get.port: must be a port from 1 to 65535 or a reference to one, "
        "not '$BERTH_PORT_API'; known: BERTH_PORT_WEB, BERTH_PORT_MY_API"
    ]


@pytest.mark.parametrize("port", ["${BERTH_HOST_PORT_WEB}", "$BERTH_HOST_PORT_WEB"])
@pytest.mark.parametrize("probe", ["readiness_probe", "liveness_probe"])
def test_the_hosts_port_is_refused_in_a_container_and_fine_in_native(port: str, probe: str) -> None:
    text = one(f'{{command: x, {probe}: {{http_get: {{port: "{port}"}}}}}}')
    assert read("ports: [web]\n" + text).processes
    (line,) = complaints(CONTAINER + text)
    assert line.endswith(
        f"processes.web.{probe}.http_get.port: BERTH_HOST_PORT_WEB is the host's port; "
        "a probe in the container uses BERTH_PORT_WEB"
    )


# -- dependencies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["", PROCESS_COMPOSE])
def test_a_dependency_must_be_declared(header: str) -> None:
    (line,) = complaints(header + "processes: {a: {command: x, depends_on: {b: {}, c: ~}}, b: {command: x}}")
    assert line.endswith(":49: processes.a.depends_on.c: is no declared process; declared: a, b")


@pytest.mark.parametrize("header", ["", PROCESS_COMPOSE])
@pytest.mark.parametrize(
    ("edges", "shown"),
    [
        ({"a": "a"}, "a → a"),
        ({"a": "b", "b": "a"}, "a → b → a"),
        ({"x": "a", "a": "b", "b": "c", "c": "a"}, "a → b → c → a"),
    ],
)
def test_a_cycle_is_shown(header: str, edges: dict[str, str], shown: str) -> None:
    body = ", ".join(f"{name}: {{command: x, depends_on: {{{other}: {{}}}}}}" for name, other in edges.items())
    (line,) = complaints(f"{header}processes: {{{body}}}")
    assert line.endswith(f": is a cycle: {shown}")


def test_every_cycle_is_told() -> None:
    graph = {"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"], "e": ["a", "e"]}
    assert cycles(graph) == [["a", "b", "a"], ["c", "d", "c"], ["e", "e"]]
    assert cycles({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) == []


def test_a_chain_of_thousands_is_walked_in_no_time() -> None:
    graph = {str(number): [str(number + 1)] for number in range(30_000)}
    graph["30000"] = []
    started = time.monotonic()
    assert cycles(graph) == []
    graph["30000"] = ["0"]
    assert len(cycles(graph)[0]) == 30_002
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("header", ["", PROCESS_COMPOSE])
def test_a_condition_needs_what_it_waits_for(header: str) -> None:
    text = (
        header + "processes: {a: {command: x, depends_on: "
        "{b: {condition: process_healthy}, c: {condition: process_log_ready}}}, b: {command: x}, c: {command: x}}"
    )
    lines = [line.partition(": ")[2] for line in complaints(text)]
    assert lines == [
        "processes.a.depends_on.b.condition: process_healthy needs a readiness_probe on b",
        "processes.a.depends_on.c.condition: process_log_ready needs a ready_log_line on c",
    ]


@pytest.mark.parametrize("condition", keys.CONDITIONS)
def test_all_conditions_work_where_the_dependency_has_what_they_need(condition: str) -> None:
    read(
        f"processes: {{a: {{command: x, depends_on: {{b: {{condition: {condition}}}}}}}, "
        "b: {command: x, ready_log_line: up, readiness_probe: {exec: {command: y}}}}"
    )


# -- notes ------------------------------------------------------------------------------------------------------------


def test_what_deserves_a_word_is_a_note_and_no_error() -> None:
    config = read("""\
        processes:
          web:
            command: echo $$ > pid
            ready_log_line: "up ("
            shutdown: {command: kill $$}
            readiness_probe: {exec: {command: test $$}}
          args: {entrypoint: [echo], command: $HOME}
    """)
    assert config.notes == (
        "berth.yaml:3:14: processes.web.command: $$ reaches the shell as it is written, not as $",
        "berth.yaml:4:21: processes.web.ready_log_line: is no regular expression "
        "(missing ), unterminated subpattern at position 3), so it is taken literally",
        "berth.yaml:5:25: processes.web.shutdown.command: $$ reaches the shell as it is written, not as $",
        "berth.yaml:6:39: processes.web.readiness_probe.exec.command: $$ reaches the shell as it is written, not as $",
        "berth.yaml:7:39: processes.args.command: follows an entrypoint, so no shell expands its $",
    )


@pytest.mark.parametrize("pattern", ["[[a]", "a{,99999999999}", "(" * 2000, "(?P<n>x)(?P<n>y)", "ready"])
def test_any_text_may_be_a_ready_log_line(pattern: str) -> None:
    read(one(f"{{command: x, ready_log_line: {json.dumps(pattern)}}}"))


# -- runtime.supervisor: process-compose ------------------------------------------------------------------------------


def test_process_compose_gets_values_unchecked_beyond_the_first_points() -> None:
    definition: dict[str, Any] = {
        "availability": {"restart": "on_sunday", "backoff_seconds": 0},
        "shutdown": {"signal": 99, "timeout_seconds": -1},
        "replicas": 0,
        "is_tty": "maybe",
        "schedule": {"cron": "* * * * *"},
        "vars": {"A": [1]},
        "readiness_probe": {"exec": {}, "period_seconds": 0},
        "log_location": "/var/log/x",
        "success_exit_codes": [1000],
        "extends": "base",
    }
    text = PROCESS_COMPOSE + f"processes: {{web: {json.dumps(definition)}}}"
    assert read(text).processes == {"web": definition}
    assert complaints(f"processes: {{web: {json.dumps(definition)}}}")


@pytest.mark.parametrize("port", ["0", "65536", "'x'"])
def test_process_compose_too_is_given_possible_ports_only(port: str) -> None:
    (line,) = complaints(PROCESS_COMPOSE + one(f"{{readiness_probe: {{http_get: {{port: {port}}}}}}}"))
    assert "processes.web.readiness_probe.http_get.port: must be" in line
