"""Arbitrary berth.yaml files: a configuration that can be rendered, or complaints with their places; nothing else."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from berth.errors import BerthError
from berth.guest.services.definition import definitions
from berth.spec import keys, schemas
from berth.spec.config import Config, parse
from berth.spec.contract import Contract, differences
from berth.spec.environment import expand, injected
from berth.spec.fields import FIELDS, GC, HOOKS, RUNTIME
from berth.spec.render import render
from berth.spec.scalars import resolve
from berth.tools.yaml import load
from support.fixtures import BERTH_YAMLS

LINE = re.compile(r"berth\.yaml:[1-9][0-9]*:[1-9][0-9]*: \S.*")
SCHEMA = Draft202012Validator(schemas.schema("config"))
fuzz = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def outcome(raw: bytes) -> Config | None:
    """The configuration, or None where it was refused as it should be."""
    try:
        config = parse(load(raw, file="berth.yaml"), file="berth.yaml")
    except BerthError as error:
        refusal = error
    else:
        assert all(LINE.fullmatch(note) for note in config.notes), config.notes
        return config
    assert refusal.code == "config_invalid"
    for line in refusal.message.split("\n"):
        assert LINE.fullmatch(line), line
        assert line.isprintable()
    return None


def use(config: Config) -> None:
    """Everything that the rest of berth does with a configuration."""
    ports = {name: 20000 + number for number, name in enumerate(config.ports)}
    variables = injected(workspace="/w", root="/r", slug="s", branch="b", ports=ports)
    variables.update(expand(config.env, variables))
    rendered = render(config, variables=variables, working_dir="/w", read_file=lambda _: "A=1\n")
    document = json.loads(rendered.text)
    assert set(document["processes"]) == set(config.processes)
    assert load(rendered.text, file="pc.yaml").data == document
    assert math.isfinite(rendered.timeout_seconds)
    if config.processes and config.runtime.supervisor == "berth":
        assert definitions(document), "the supervisor takes what was accepted"
    contract = Contract.of(config)
    assert differences(Contract.from_record(*contract.record(), contract.ports), config) is None


# -- bytes and text ---------------------------------------------------------------------------------------------------


@fuzz
@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    outcome(raw)


TOKENS = st.sampled_from(
    [
        "\n", "\n  ", "\n    ", "- ", ": ", "? ", "{", "}", "[", "]", ",", "&a ", "*a", "<<: ", "!!str ", "!x ",
        "|\n  ", ">-\n  ", "'", '"', "\\", "#", "---\n", "...\n", "%YAML 1.1\n", "\t", "\r", "\0", "\x85", "\u2028",
        "\ufeff", "é", "😀", "\\ud800", "null", "true", "1", "1.5", ".nan", "0x1F", "no", "processes", "web", "command",
        "env", "ports", "runtime", "container", "${BERTH_PORT_WEB}", "A", "~", "=", "$$",
    ]
)  # fmt: skip


@fuzz
@given(st.lists(TOKENS, max_size=40).map("".join))
def test_any_arrangement_of_what_yaml_is_made_of(text: str) -> None:
    outcome(text.encode("utf-8", "surrogatepass"))


@fuzz
@given(st.sampled_from(sorted(BERTH_YAMLS.values())), st.data())
def test_any_damage_to_a_valid_file(text: str, data: st.DataObject) -> None:
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        length = data.draw(st.integers(0, 12))
        raw[at : at + length] = data.draw(st.one_of(st.binary(max_size=4), TOKENS.map(str.encode)))
    config = outcome(bytes(raw))
    if config is not None:
        use(config)


# -- documents --------------------------------------------------------------------------------------------------------

WORDS = (
    "web pg x main native container docker img 1g berth process-compose no process_healthy ${BERTH_PORT_WEB} A=b "
    "$BERTH_SLUG BERTH_X=1 ../x .git a/b -x ("
)
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(WORDS.split()))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def tables(known: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with some of the known keys, mostly with likely values, sometimes with others."""
    likely = {name: st.one_of(strategy, strategy, strategy, VALUES) for name, strategy in known.items()}
    return st.fixed_dictionaries({}, optional=likely)


NAMES = st.sampled_from(["web", "api", "pg", "a b"])
NUMBERS = st.one_of(st.integers(-2, 70000), st.floats(-1, 100))
FLAGS = st.booleans()


def process_values(known: dict[str, keys.Key]) -> dict[str, st.SearchStrategy[Any]]:
    found: dict[str, st.SearchStrategy[Any]] = {}
    for name, key in known.items():
        if key.inner is keys.DEPENDENCY:
            found[name] = st.dictionaries(NAMES, tables(process_values(keys.DEPENDENCY)), max_size=2)
        elif key.inner is not None:
            found[name] = tables(process_values(dict(key.inner)))
        elif key.words:
            found[name] = st.sampled_from(key.words)
        elif key.type in (keys.INTEGER, keys.SECONDS, keys.PORT_NUMBER):
            found[name] = NUMBERS
        elif key.type == keys.BOOLEAN:
            found[name] = FLAGS
        elif key.standing != keys.REFUSED:
            found[name] = st.one_of(st.just(key.example), TEXTS, st.lists(TEXTS, max_size=2))
    return found


PROCESS = tables(process_values(keys.PROCESS))
DOCUMENTS = tables(
    {
        **{name: st.one_of(st.just(field.example), VALUES) for name, field in FIELDS.items()},
        "ports": st.lists(NAMES, max_size=3),
        "listen": st.dictionaries(NAMES, st.integers(0, 70000), max_size=2),
        "env": st.dictionaries(TEXTS, TEXTS, max_size=3),
        "runtime": tables({name: st.one_of(st.just(field.example), TEXTS) for name, field in RUNTIME.items()}),
        "hooks": tables({name: st.one_of(st.just(field.example), TEXTS) for name, field in HOOKS.items()}),
        "gc": tables(dict.fromkeys(GC, NUMBERS)),
        "processes": st.dictionaries(
            NAMES, st.one_of(PROCESS, PROCESS.map(lambda body: {"command": "x", **body})), max_size=3
        ),
    }
)


@fuzz
@given(DOCUMENTS)
def test_any_document_of_likely_fields(document: dict[str, Any]) -> None:
    config = outcome(json.dumps(document).encode())
    if config is not None:
        use(config)
        errors = [error.message for error in SCHEMA.iter_errors(document)]
        if config.runtime.supervisor == "berth":
            assert errors == [], "what is accepted fits the schema"


@fuzz
@given(PROCESS, PROCESS)
def test_any_definition_of_likely_keys_for_either_supervisor(one: dict[str, Any], other: dict[str, Any]) -> None:
    for supervisor in ("berth", "process-compose"):
        document = {
            "ports": ["web"],
            "runtime": {"supervisor": supervisor},
            "processes": {"web": {"command": "x", **one}, "api": {"command": "x", **other}},
        }
        config = outcome(json.dumps(document).encode())
        if config is not None:
            use(config)


@fuzz
@given(VALUES)
def test_json_is_read_as_what_it_says(value: Any) -> None:
    document = load(json.dumps(value).encode(), file="f")
    assert document.complaints == []
    assert document.data == value


# -- scalars ----------------------------------------------------------------------------------------------------------

# The regular expressions of YAML 1.2.2, 10.3.2 (core schema).
CORE = (
    (re.compile(r"null|Null|NULL|~|"), "null"),
    (re.compile(r"true|True|TRUE|false|False|FALSE"), "bool"),
    (re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"), "int"),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), "float"),
    (re.compile(r"[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN"), "float"),
)


@settings(max_examples=600, deadline=None)
@given(st.one_of(st.text(alphabet="0123456789+-.eEoxabfNnuUlLiI~_: ", max_size=8), st.text(max_size=4)))
def test_a_plain_scalar_has_the_type_that_the_specification_gives_it(text: str) -> None:
    types = {"null": type(None), "bool": bool, "int": int, "float": float}
    wanted = next((types[name] for pattern, name in CORE if pattern.fullmatch(text)), str)
    assert type(resolve(text, None)) is wanted
