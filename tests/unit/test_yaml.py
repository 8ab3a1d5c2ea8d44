"""Reading YAML: the 1.2 core schema, positions, limits, and documents made to hurt (workspaces.md 3.2)."""

from __future__ import annotations

import math
import time

import pytest

from berth.errors import BerthError
from berth.tools.yaml import Malformed, load

MIB = 1024 * 1024


def data(text: str) -> object:
    document = load(text.encode(), file="f")
    assert not document.complaints, [complaint.text("f") for complaint in document.complaints]
    return document.data


def refusal(raw: str | bytes) -> str:
    with pytest.raises(Malformed) as caught:
        load(raw if isinstance(raw, bytes) else raw.encode(), file="f")
    assert caught.value.code == "config_invalid"
    assert "\n" not in caught.value.message
    return caught.value.message


def complaints(text: str) -> list[str]:
    return [complaint.text("f") for complaint in load(text.encode(), file="f").complaints]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("no", "yes", "on", "off", "y", "n", "No", "ON")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("null", "Null", "NULL", "~", "")),
        ("tRUE", "tRUE"),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("0o18", "0o18"),
        ("-0o17", "-0o17"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("190:20:30", "190:20:30"),
        ("2001-01-01", "2001-01-01"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("-1.5e-2", -0.015),
        ("1e", "1e"),
        (".", "."),
        ("+", "+"),
        ("-.5", -0.5),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("+.Inf", math.inf),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ('!!int "12"', 12),
        ("!!float 1", 1.0),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_scalars_mean_what_the_core_schema_says(text: str, value: object) -> None:
    found = data(f"k: {text}\n")
    assert found == {"k": value}
    assert type(found["k"]) is type(value)  # type: ignore[index]  # just seen to be a mapping


def test_not_a_number_is_a_float() -> None:
    assert math.isnan(data("k: .NaN")["k"])  # type: ignore[index]


def test_json_is_yaml_with_its_pairs_of_escapes() -> None:
    assert data('{"k": "\\ud83d\\ude00 \\u00e9\\/", "l": [1, true, null]}') == {"k": "😀 é/", "l": [1, True, None]}


def test_a_number_of_absurd_length_stays_text() -> None:
    assert data("k: " + "9" * 10_000) == {"k": "9" * 10_000}


def test_keys_are_texts_as_they_are_written() -> None:
    assert data("1: a\ntrue: b\n0x10: c\n~: d\n") == {"1": "a", "true": "b", "0x10": "c", "~": "d"}


@pytest.mark.parametrize("raw", [b"", b"\n", b"# nothing\n", b"---\n", b"---\n...\n", b"\xef\xbb\xbf", b"null\n"])
def test_an_empty_document_has_no_data(raw: bytes) -> None:
    assert load(raw, file="f").data is None


def test_a_byte_order_mark_is_accepted_and_counts_as_nothing() -> None:
    document = load("\ufeffa: b\n".encode(), file="f")
    assert document.data == {"a": "b"}
    assert document.position(("a",), key=True) == (1, 1)
    assert document.position(("a",)) == (1, 4)


def test_positions_lead_to_keys_values_and_nearest_holders() -> None:
    document = load(b"a:\n  b: [x, {c: 1.10}]\nd: |\n  text\n", file="f")
    assert document.position(()) == (1, 1)
    assert document.position(("a", "b"), key=True) == (2, 3)
    assert document.position(("a", "b")) == (2, 6)
    assert document.position(("a", "b", 0)) == (2, 7)
    assert document.position(("a", "b", 1, "c"), key=True) == (2, 11)
    assert document.position(("a", "b", 1, "c")) == (2, 14)
    assert document.position(("a", "b", 1, "missing")) == (2, 10)
    assert document.position(("d",)) == (3, 4)
    assert document.text(("a", "b", 1, "c")) == "1.10"
    assert document.text(("a", "b")) is None
    assert document.text(("nowhere",)) is None


def test_columns_count_characters_and_lines_any_line_end() -> None:
    assert load("'é日': 'ü'\r\nb: c\r\n".encode(), file="f").position(("é日",)) == (1, 7)
    assert load(b"a: b\r\nc: d\r\n", file="f").position(("c",), key=True) == (2, 1)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"a: \xff\n", "f:1:4: is not UTF-8"),
        (b"\xef\xbb\xbfa: 1\nb: \xe4\n", "f:2:4: is not UTF-8"),
        ("a: 1".encode("utf-16"), "f:1:1: is not UTF-8"),
        (b"a: 1\n---\nb: 2\n", "f:2:1: more than one document"),
        (b"a: *x\n", "f:1:4: unknown anchor *x"),
        (b"a: &x [*x]\n", "f:1:8: *x refers to itself"),
        (b"a: &x {b: {c: *x}}\n", "f:1:15: *x refers to itself"),
        (b" " * (MIB + 1), "f:1:1: larger than 1024 KiB"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(raw: bytes, message: str) -> None:
    assert refusal(raw) == message


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"a: [1, 2\n", "f:2:1:"),
        (b"a: b: c\n", "f:1:5:"),
        (b"a:\n\tb: 1\n", "f:2:1:"),
        (b"a: 'open\n", "f:2:1:"),
        (b"a: \x00\n", "f:1:4:"),
        (b"a: 1\nb: \x07\n", "f:2:4:"),
        (b'a: "\\q"\n', "f:1:6:"),
        (b'a: "\\UFFFFFFFF"\n', "f:1:1:"),
        (b"%YAML 3.0\n---\na: 1\n", "f:1:1:"),
    ],
)
def test_a_syntax_error_names_line_and_column(raw: bytes, place: str) -> None:
    message = refusal(raw)
    assert message.startswith(f"{place} invalid YAML: "), message


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: 1\nb: 2\na: 3\n", ['f:3:1: duplicate key "a" (first in line 1)']),
        ("a: {b: 1, b: 2}\n", ['f:1:11: a: duplicate key "b" (first in line 1)']),
        ("\"a\": 1\n'a': 2\n", ['f:2:1: duplicate key "a" (first in line 1)']),
        ("? [a, b]\n: c\n", ["f:1:3: a key must be a plain word, not a list or a mapping"]),
        ("a: !foo b\n", ["f:1:4: a: tag !foo is not one of YAML's core schema"]),
        ("a: !!set {b}\n", ["f:1:4: a: tag tag:yaml.org,2002:set is not one of YAML's core schema"]),
        ("a: !!binary aGk=\n", ["f:1:4: a: tag tag:yaml.org,2002:binary is not one of YAML's core schema"]),
        ("a: !!python/object/apply:os.system [x]\n", None),
        ("a: !!map [x]\n", ["f:1:4: a: tag tag:yaml.org,2002:map is not one of YAML's core schema"]),
        ("a: !!int x\n", ["f:1:4: a: tagged !!int, but it is none"]),
        ('a: "\\ud800"\n', ["f:1:4: a: half a surrogate pair is no character"]),
        ("b: &x {c: 1}\na: {<<: *x}\n", ["f:2:5: a: merge keys (<<) work inside processes only"]),
        ("<<: {c: 1}\n", ["f:1:1: merge keys (<<) work inside processes only"]),
        ("processes: {a: {<<: 1}}\n", ["f:1:21: processes.a.<<: must be a mapping or a list of mappings"]),
        ("processes: {a: {<<: {b: 1}, <<: {c: 1}}}\n", ['f:1:29: processes.a: duplicate key "<<"']),
    ],
)
def test_faults_after_which_reading_goes_on_are_all_collected(text: str, lines: list[str] | None) -> None:
    found = complaints(text)
    assert found == lines if lines is not None else len(found) == 1


def test_merge_keys_below_processes_fill_in_what_is_missing() -> None:
    merged = data(
        "processes:\n"
        "  a: &a {x: 1, y: 1}\n"
        "  b: &b {y: 2, z: 2}\n"
        "  c: {<<: [*a, *b], x: 3}\n"
        "  d: {x: 4, <<: *b}\n"
        "  e: {'<<': 5}\n"
        "  f: {q: {<<: *a}}\n"
    )
    assert merged == {
        "processes": {
            "a": {"x": 1, "y": 1},
            "b": {"y": 2, "z": 2},
            "c": {"x": 3, "y": 1, "z": 2},
            "d": {"x": 4, "y": 2, "z": 2},
            "e": {"<<": 5},
            "f": {"q": {"x": 1, "y": 1}},
        }
    }


def test_aliases_become_copies_that_share_nothing() -> None:
    found = data("a: &x [1]\nb: *x\n")
    assert found == {"a": [1], "b": [1]}
    assert found["a"] is not found["b"]  # type: ignore[index]


def test_a_hundred_aliases_are_read_and_one_more_is_not() -> None:
    hundred = "- &a x\n" + "- *a\n" * 100
    assert data(hundred) == ["x"] * 101
    assert refusal(hundred + "- *a\n") == "f:102:3: more than 100 aliases"


def test_fifty_levels_are_read_and_one_more_is_not() -> None:
    assert data("[" * 50 + "x" + "]" * 50)
    assert refusal("[" * 51 + "x" + "]" * 51) == "f:1:51: nested deeper than 50 levels"
    assert data("{a: " * 50 + "x" + "}" * 50)
    assert refusal("{a: " * 51 + "x" + "}" * 51).endswith("nested deeper than 50 levels")


def test_levels_that_aliases_add_are_counted() -> None:
    document = "a: &a " + "[" * 30 + "x" + "]" * 30 + "\nc: " + "[" * 19 + "*a" + "]" * 19 + "\n"
    assert data(document)
    deeper = document.replace("[*a]", "[[*a]]")
    assert refusal(deeper).endswith("nested deeper than 50 levels")


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, after in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]")
    started = time.monotonic()
    assert refusal("\n".join(lines)).endswith("more than 100000 values")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "raw",
    [b"[" * MIB, b"{" * MIB, b"- " * (MIB // 2), b"? " * (MIB // 2), b": " * (MIB // 2), b"---\n" * (MIB // 4)],
    ids=["lists", "mappings", "dashes", "question marks", "colons", "documents"],
)
def test_a_mebibyte_of_openings_is_refused_within_the_limits(raw: bytes) -> None:
    started = time.monotonic()
    refusal(raw)
    assert time.monotonic() - started < 20


def test_a_hundred_thousand_values_are_read_and_one_more_is_not() -> None:
    # The list itself, a hundred times a list of 998, and 99 more.
    most = "- &a [" + "x," * 998 + "]\n" + "- *a\n" * 99 + "- x\n" * 99
    assert len(data(most)) == 199  # type: ignore[arg-type]  # a list
    assert refusal(most + "- x\n") == "f:200:3: more than 100000 values"


def test_a_fault_never_passes_as_another_error() -> None:
    with pytest.raises(BerthError):
        load(b"\x00", file="f")
