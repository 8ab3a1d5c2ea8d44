"""berth.yml: what is read, what is refused, and where it says so (sandboxes.md 2 and 3; attacks.md M01-M09; T30)."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.cli.output import Output
from berth.guest.sandbox import grants
from berth.spec.app import Manifest
from berth.spec.boot import Placed, compile_document
from berth.spec.capabilities import matches, parse, problem, tier
from berth.spec.findings import ManifestError
from berth.spec.manifest import Validated
from berth.tools import manifest as reader

EXAMPLE = """name: notes
version: 1.0.0
description: A small shared notebook
capabilities:
  - filesystem:read:/workspace
  - filesystem:write:/workspace
  - app:invoke:filesystem
exports:
  - name: add_note
    input: {text: string, tags: array?}
    output: {id: string}
on_install: ["pip install --break-system-packages markdown-it-py==3.0.0"]
secrets: [NOTES_TOKEN]
resources: {cpu: 0.5, memory_mb: 128, pids: 64}
"""
HEAD = "name: notes\nversion: 1.0.0\n"
SHOWN = "apps/notes/berth.yml"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app directory with an entry file and no manifest."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("")
    return tmp_path


def load(app: Path, text: str | bytes) -> Validated:
    (app / "berth.yml").write_bytes(text.encode() if isinstance(text, str) else text)
    return reader.load(str(app), shown=SHOWN)


def issues(app: Path, text: str | bytes) -> list[str]:
    """The lines of the error without the file's name; AssertionError when there is none."""
    with pytest.raises(ManifestError) as caught:
        load(app, text)
    first, *lines = caught.value.message.split("\n")
    assert first == f"{SHOWN} is invalid"
    assert len(lines) == len(caught.value.issues)
    return [line.removeprefix(SHOWN).removeprefix(":") for line in lines]


def test_the_contract_s_example_is_read(app: Path) -> None:
    manifest, warnings = load(app, EXAMPLE)
    assert warnings == []
    assert (manifest.name, manifest.version, manifest.entry) == ("notes", "1.0.0", "src/app.py")
    assert [str(c) for c in manifest.capabilities] == [
        "filesystem:read:/workspace",
        "filesystem:write:/workspace",
        "app:invoke:filesystem",
    ]
    assert manifest.exports[0].input == {"text": "string", "tags": "array?"}
    assert manifest.resources.cpu == 0.5
    assert manifest.pids == 64
    assert manifest.sha256 == hashlib.sha256(EXAMPLE.encode()).hexdigest()


def test_a_minimal_manifest_has_the_defaults(app: Path) -> None:
    manifest = load(app, HEAD).manifest
    assert (manifest.description, manifest.interpreter, manifest.pids) == ("", "/usr/bin/python3", 256)
    assert (manifest.capabilities, manifest.exports, manifest.on_install, manifest.secrets) == ((), (), (), ())


def test_all_issues_come_at_once_in_file_order_with_line_and_column(app: Path) -> None:
    text = (
        "name: no\n"
        "version: 1.0\n"
        "capabilities:\n"
        "  - filesystem:read:/workspace\n"
        "  - filesystem:read:/etc\n"
        "exports: [{name: A, foo: 1}, 3]\n"
        "resources: {cpu: true, pids: 3}\n"
        "secrets: [PATH]\n"
    )
    assert issues(app, text) == [
        "1:7 name: must be a string, not a boolean",
        "2:10 version: must be a string, not a number",
        '5:5 capabilities.1: scope "/etc" is not beneath /workspace, /context, /tmp or /app',
        "6:18 exports.0.name: must be a lower-case letter, then up to 30 lower-case letters, digits or underscores",
        "6:21 exports.0.foo: is not known here; known are name, description, input, output, example, check",
        "6:30 exports.1: must be a mapping, not an integer",
        "7:18 resources.cpu: must be a number, not a boolean",
        "7:30 resources.pids: must be at least 32",
        '8:11 secrets.0: "PATH" is a name that steers programs',
    ]


def test_an_issue_is_one_object_in_json(app: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load(app, HEAD + "capabilities:\n  - a:b:c\n  - x:y:z\n  - filesystem:read:/etc\n")
    assert caught.value.issues[0].as_dict() == {
        "file": SHOWN,
        "line": 6,
        "column": 5,
        "path": ["capabilities", 2],
        "message": 'scope "/etc" is not beneath /workspace, /context, /tmp or /app',
    }


def test_what_is_missing_is_told_at_the_mapping_it_is_missing_from(app: Path) -> None:
    assert issues(app, "\nexports:\n  - {input: {}}\n") == [
        "2:1 name: is required",
        "2:1 version: is required",
        "3:5 exports.0.name: is required",
    ]


NAMES = [
    *(
        "../x",
        "/etc",
        "a/b",
        ".",
        "..",
        "-rf",
        "a b",
        '"a\\nb"',
        '"a\\0"',
        "x" * 300,
        '""',
        "1",
        "1.5",
        "No",
        "yes",
        "on",
    ),
    *("аdmin", '"a\\u200bb"', '"a\\u202eb"', "ａｂ", "é", "Notes", "2001-01-01", "~", "null", "[]", "{}", "true"),
    *("x" * 32, "a_b", "a.b", *sorted(grants.RESERVED_NAMES)),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_name_is_refused_with_its_place(app: Path, name: str) -> None:
    assert [line.split(":")[0] for line in issues(app, f"version: 1.0.0\nname: {name}\n")] == ["2"]


@pytest.mark.parametrize("name", ["a", "a1", "code-editor", "x" * 31, "x-"])
def test_a_good_name_is_accepted(app: Path, name: str) -> None:
    assert load(app, f"name: {name}\nversion: 0.10.20\n").manifest.name == name


@pytest.mark.parametrize(
    "version", ["1", "1.0", '"1.0"', "1.0.0.0", "01.0.0", "1.00.0", "v1.0.0", "1.0.0-rc1", "1.0.0\u0661", "null"]
)
def test_a_bad_version_is_refused(app: Path, version: str) -> None:
    assert issues(app, f"name: notes\nversion: {version}\n")[0].startswith("2:10 version: ")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("2", "upgrade berth"),
        ("0", "must be 1"),
        ("-1", "must be 1"),
        ("true", "integer"),
        ('"1"', "integer"),
        ("1.0", "integer"),
        ("null", "integer"),
    ],
)
def test_the_schema_version_is_checked_before_everything_else(app: Path, value: str, says: str) -> None:
    (only,) = issues(app, f"name: NO\nfoo: [\nbar]\nschema_version: {value}\n")
    assert only.startswith("4:17 schema_version: ")
    assert says in only


FIELDS = [
    ("description", "x" * 1025),
    ("description", "3"),
    ("description", "null"),
    ("runtime", "node"),
    ("runtime", "1"),
    ("entry", "/etc/passwd"),
    ("entry", "../app.py"),
    ("entry", "src"),
    ("entry", "src/../src/app.py"),
    ("entry", "gone.py"),
    ("entry", '""'),
    ("entry", "src//app.py"),
    ("entry", "true"),
    ("interpreter", "/bin/sh"),
    ("interpreter", "/usr/../bin/sh"),
    ("interpreter", "/opt/bin/x"),
    ("interpreter", "/usr/"),
    ("interpreter", "python3"),
    ("interpreter", "/opt/a/lib/x"),
    ("interpreter", "/usr//bin/python3"),
    ("capabilities", "filesystem:read:/workspace"),
    ("capabilities", "null"),
    ("capabilities", "{}"),
    ("capabilities", "[1]"),
    ("capabilities", "[null]"),
    ("capabilities", "[" + ",".join(f"a:b:{i}" for i in range(257)) + "]"),
    ("exports", "{}"),
    ("exports", "[{name: a}, {name: a}]"),
    ("exports", "[{name: a, input: []}]"),
    ("exports", "[{name: a, input: {x: text}}]"),
    ("exports", "[{name: a, input: {1x: string}}]"),
    ("exports", "[{name: a, input: {x: 'string??'}}]"),
    ("exports", "[{name: a, input: {x: {}}}]"),
    ("exports", "[{name: a, input: null}]"),
    ("exports", "[{name: a, check: 1}]"),
    ("exports", "[{name: a, check: 'yes'}]"),
    ("exports", "[{name: a, example: [1]}]"),
    ("exports", "[{name: a, example: {x: .nan}}]"),
    ("exports", "[{}]"),
    ("exports", "[{name: a-b}]"),
    ("exports", "[{name: A}]"),
    ("exports", "[{name: _a}]"),
    ("exports", "[" + ",".join(f"{{name: e{i}}}" for i in range(257)) + "]"),
    ("on_install", "pip install x"),
    ("on_install", "['']"),
    ("on_install", "['  ']"),
    ("on_install", '["a\\0"]'),
    ("on_install", "[1]"),
    ("test", "[[]]"),
    ("test", "null"),
    ("resources", "[]"),
    ("resources", "{cpus: 1}"),
    ("resources", "{cpu: 0}"),
    ("resources", "{cpu: -1}"),
    ("resources", "{cpu: .inf}"),
    ("resources", "{cpu: .nan}"),
    ("resources", "{cpu: 1e999}"),
    ("resources", "{cpu: '1'}"),
    ("resources", "{memory_mb: 15}"),
    ("resources", "{memory_mb: 16.5}"),
    ("resources", "{memory_mb: true}"),
    ("resources", "{gpu: 0}"),
    ("resources", "{gpu: yes}"),
    ("resources", "{pids: 31}"),
    ("resources", "{pids: 1e3}"),
    ("resources", "{pids: 064}"),
    ("resources", "{pids: 99999999999999999999999}"),
    ("resources", "{pids: null}"),
    ("secrets", "TOKEN"),
    ("secrets", "[PATH]"),
    ("secrets", "[BERTH_X]"),
    ("secrets", "[LD_PRELOAD]"),
    ("secrets", "[PYTHONPATH]"),
    ("secrets", "[BASH_ENV]"),
    ("secrets", "[ENV]"),
    ("secrets", "[SHELL]"),
    ("secrets", "[HOME]"),
    ("secrets", "['a=b']"),
    ("secrets", "['a\n\nb']"),
    ("secrets", "[1a]"),
    ("secrets", "[é]"),
    ("secrets", f"[{'x' * 129}]"),
    ("secrets", "['']"),
]


@pytest.mark.parametrize(("field", "value"), FIELDS)
def test_a_wrong_field_is_one_issue_at_its_place(app: Path, field: str, value: str) -> None:
    (only,) = issues(app, f"{HEAD}{field}: {value}\n")
    assert only.startswith("3:")
    assert f" {field}" in only


def test_what_has_no_effect_is_told_and_accepted(app: Path) -> None:
    manifest, warnings = load(app, HEAD + "expose: [80]\ngoverns: x\ngovernance: null\non_agent_ready: []\nfoo: 1\n")
    assert manifest == load(app, HEAD).manifest or manifest.sha256 != load(app, HEAD).manifest.sha256
    assert [w.text("warning: ").removeprefix(SHOWN + ":") for w in warnings] == [
        "3:1 expose: warning: is reserved and has no effect",
        "4:1 governs: warning: is reserved and has no effect",
        "5:1 governance: warning: is reserved and has no effect",
        "6:1 on_agent_ready: warning: is reserved and has no effect",
        "7:1 foo: warning: is not known and has no effect",
    ]


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (b"\xff\xfe", "1:1", "UTF-8"),
        (b"a: b\nc: \xe9\n", "2:4", "UTF-8"),
        (b"a" * (256 * 1024 + 1), "", "256 KiB"),
        ("a: &x 1\n", "1:4", "anchor"),
        ("a: *x\n", "1:4", "alias"),
        ("a: !!str 1\n", "1:4", "tag"),
        ("a: !!python/object:os.system x\n", "1:4", "tag"),
        ("a: !x 1\n", "1:4", "tag"),
        ("<<: {a: b}\n", "1:1", "merge key"),
        ("a: 1\n---\nb: 2\n", "2:1", "document"),
        ("a: 1\n...\n---\nb: 2\n", "3:1", "document"),
        ("a: 1\nb: {c: 1, c: 2}\n", "2:11", "twice"),
        ("a: " + "[" * 30, "1:23", "deeper"),
        ("? [a]\n: b\n", "1:3", "no string"),
        ("1: b\n", "1:1", "no string"),
        ("on: b\n", "1:1", "no string"),
        ("a: b\n\tc: d\n", "2:1", "YAML"),
        ("a: [1\n", "2:1", "YAML"),
        ("a: \x07\n", "1:4", "YAML"),
        ('a: "\\UFFFFFFFF"\n', "1:1", "YAML"),
        ('a: "\\U00110000"\n', "1:1", "YAML"),
        ("a: b: c\n", "1:5", "YAML"),
        ("", "", "mapping, not null"),
        ("- a\n", "1:1", "mapping, not a list"),
        ("text\n", "1:1", "mapping, not a string"),
        ("a: " + "\n".join(f"  k{i}: v" for i in range(11_000)), "", ""),
    ],
)
def test_what_is_not_plain_yaml_is_refused(app: Path, text: str | bytes, place: str, says: str) -> None:
    (only,) = issues(app, text)
    assert only.strip().startswith(place)
    assert says in only


def test_capabilities_twice_in_the_file_name_the_second(app: Path) -> None:
    text = HEAD + "capabilities: [a:b:c]\ncapabilities: [network:connect:*]\n"
    assert issues(app, text) == ["4:1 capabilities: is there twice"]


def test_a_bomb_is_refused_with_little_memory(app: Path) -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(20)
    )
    many = "a:\n" + "".join(f"  k{i}: v\n" for i in range(25_000))
    for text in (bomb, many, "a: " + "[" * 200_000, "a: " + "{a: " * 60_000):
        tracemalloc.start()
        try:
            issues(app, text)
            _now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 50_000_000


def test_a_byte_order_mark_and_comments_are_no_matter(app: Path) -> None:
    assert load(app, b"\xef\xbb\xbf# notes\n---\n" + HEAD.encode() + b"...\n").manifest.name == "notes"


def test_duplicate_capabilities_collapse_and_keep_their_order(app: Path) -> None:
    text = HEAD + "capabilities: [b:b:b, 'a:a:a', b:b:b]\nsecrets: [X, Y, X]\n"
    manifest = load(app, text).manifest
    assert [str(c) for c in manifest.capabilities] == ["b:b:b", "a:a:a"]
    assert manifest.secrets == ("X", "Y")


def test_a_manifest_that_is_a_link_is_refused(app: Path, tmp_path: Path) -> None:
    (tmp_path / "real.yml").write_text(EXAMPLE)
    (app / "berth.yml").symlink_to(tmp_path / "real.yml")
    with pytest.raises(ManifestError) as caught:
        reader.load(str(app), shown=SHOWN)
    assert caught.value.message == f"could not read {SHOWN}: it is a symlink"
    assert caught.value.issues == []


def test_an_unreadable_manifest_is_named_with_the_reason(app: Path) -> None:
    for make in (lambda: None, lambda: os.mkfifo(app / "berth.yml")):
        make()
        with pytest.raises(ManifestError) as caught:
            reader.load(str(app), shown=SHOWN)
        assert caught.value.message.startswith(f"could not read {SHOWN}: ")
        assert caught.value.exit_status == 1


def test_what_was_validated_is_what_was_read(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file changes right after it was opened; the bytes of the descriptor count, and their hash."""
    (app / "berth.yml").write_text(EXAMPLE)
    data = reader.read_once(str(app / "berth.yml"), shown=SHOWN)
    (app / "berth.yml").write_text(HEAD.replace("notes", "other"))
    source = reader.parse(data, file=SHOWN)
    assert source.sha256 == hashlib.sha256(EXAMPLE.encode()).hexdigest()
    assert source.value["name"] == "notes"


def test_an_entry_may_be_a_link_inside_the_app_and_not_out_of_it(app: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside") / "x.py"
    outside.write_text("")
    (app / "inside.py").symlink_to("src/app.py")
    (app / "outside.py").symlink_to(outside)
    (app / "up").symlink_to(outside.parent)
    assert load(app, HEAD + "entry: inside.py\n").manifest.entry == "inside.py"
    for entry in ("outside.py", "up/x.py"):
        (only,) = issues(app, HEAD + f"entry: {entry}\n")
        assert "leaves the app directory" in only


def test_manifest_text_is_shown_with_control_characters_escaped(app: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load(app, HEAD + 'secrets: ["\\e]8;;x\\a"]\nresources: {"\\e[31mred": 1}\n')
    assert "\x1b" not in caught.value.message
    assert "\\x1b[31mred" in caught.value.message


REFUSED_PATHS = [
    "/",
    "/etc",
    "/proc",
    "/run/berth",
    "/workspacex",
    "/tmpfoo",
    "/tmp",
    "*",
    "workspace",
    "~",
    "/workspace/../etc",
    "/workspace/./x",
    "/workspace//x",
    "/workspace/",
    "/workspace/*",
    "/workspace/*/src",
    "$HOME",
    "~/x",
    "/workspace/$HOME",
    "/workspace/~",
    "relative/path",
    ".",
    "..",
    "/workspace/..",
    "//workspace",
    "/Workspace",
    "/contextual",
    "/application",
    "/app/",
    "/usr",
    "/dev",
    "/sys",
    "/var/tmp",
    "/workspace/x/",
]


@pytest.mark.parametrize("action", ["read", "write"])
@pytest.mark.parametrize("path", REFUSED_PATHS)
def test_a_refused_path_is_exactly_one_issue(app: Path, path: str, action: str) -> None:
    (only,) = issues(app, HEAD + f"capabilities: ['filesystem:{action}:{path}']\n")
    assert only.startswith("3:16 capabilities.0: ")


@pytest.mark.parametrize(
    "path",
    ["/workspace", "/workspace/a/b", "/context", "/tmp/notes", "/app", "/workspace/a b", "/workspace/é", "/tmp/n2"],
)
def test_an_accepted_path_is_accepted(app: Path, path: str) -> None:
    assert load(app, HEAD + f"capabilities: ['filesystem:read:{path}']\n").manifest.capabilities[0].scope == path


REFUSED = [
    "network:connect:0",
    "network:connect:65536",
    "network:connect:-1",
    "network:connect:80,443",
    "network:connect:1.5",
    "network:connect:true",
    "network:connect:0443",
    "network:connect:+443",
    "network:connect:٤٤٣",
    "network:connect:443 ",
    "network:bind:*",
    "network:bind:8090",
    "network:bind:0",
    "network:bind:http",
    "network:host:EXAMPLE.com",
    "network:host:exa mple.com",
    "network:host:exämple.com",
    "network:host:a:0",
    "network:host:a:65536",
    "network:host:a:http",
    "network:host:[::1]",
    "network:host:a/b",
    "network:host:u@h",
    "network:host:" + "a" * 254,
    "browser:navigate:https://x",
    "app:invoke:*",
    "app:invoke:notes",
    "app:invoke:notes/x",
    "app:invoke:Other",
    "app:invoke:host",
    "app:invoke:other/X",
    "app:invoke:other/",
    "app:invoke:other/a/b",
    "bus:publish:*",
    "bus:publish:a.*.b",
    "bus:publish:.a",
    "bus:publish:a..b",
    "bus:publish:A",
    "bus:subscribe:#",
    "bus:subscribe:>",
    "bus:publish:" + "a" * 129,
    "filesystem:read",
    "filesystem",
    ":a:b",
    "a::b",
    "a:b:",
    "A:b:c",
    "a b:c:d",
    "x:y:" + "z" * 256,
    "x:y:\x7f",
    "filesystem:read:",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_capability_that_cannot_be_meant_is_refused(text: str) -> None:
    assert problem(text, "notes") is not None
    assert problem("network:connect:443", "notes") is None, "control"


TIERS = {
    "filesystem:read:/workspace": "kernel",
    "network:connect:443": "kernel",
    "network:connect:*": "recorded",
    "network:bind:443": "kernel",
    "network:host:*": "broker",
    "network:host:*.example.com:*": "broker",
    "browser:navigate:example.com:8443": "broker",
    "browser:click:*": "recorded",
    "terminal:attach:*": "kernel",
    "terminal:attach:x": "recorded",
    "app:invoke:other": "kernel",
    "app:invoke:other/x": "broker",
    "process:list:*": "kernel",
    "process:list:x": "recorded",
    "bus:publish:notes.*": "broker",
    "bus:subscribe:a.b": "broker",
    "network:peer:x": "recorded",
    "github:read:a/b:c": "recorded",
    "what:ever:you say": "recorded",
    "filesystem:execute:/etc": "recorded",
}


@pytest.mark.parametrize(("text", "expected"), TIERS.items())
def test_every_capability_has_the_tier_of_the_contract(text: str, expected: str) -> None:
    assert problem(text, "notes") is None
    capability = parse(text)
    assert capability is not None
    assert (str(capability), tier(capability)) == (text, expected)


@pytest.mark.parametrize(
    ("granted", "requested", "expected"),
    [
        ("a:b:c", "a:b:c", True),
        ("a:b:c", "a:b:cc", False),
        ("a:b:*", "a:b:x/y.z:1", True),
        ("a:b:x*z", "a:b:xyyz", True),
        ("a:b:x*z", "a:b:xyy", False),
        ("a:b:*.com", "a:b:x.com", True),
        ("a:b:*.com", "a:b:xcom", False),
        ("a:b:?", "a:b:x", False),
        ("a:b:[x]", "a:b:x", False),
        ("a:b:x.y", "a:b:xzy", False),
        ("a:*:x", "a:b:x", False),
        ("*:b:x", "a:b:x", False),
        ("a:b:x", "a:c:x", False),
        ("a:b:c:d", "a:b:c:d", True),
        ("a:b:*", "a:b:", False),
        ("", "", False),
    ],
)
def test_matching_knows_one_wildcard(granted: str, requested: str, expected: bool) -> None:
    assert matches(granted, requested) is expected


SCRAPS = st.sampled_from(
    [
        "name",
        "version",
        "capabilities",
        "exports",
        "resources",
        "secrets",
        ":",
        "- ",
        "\n",
        "  ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&a ",
        "*a",
        "!!x ",
        "<<",
        "'",
        '"',
        "|",
        ">",
        "#",
        "filesystem:read:/workspace",
        "filesystem:write:/",
        "/tmp/x",
        "network:connect:",
        "*",
        "443",
        "notes",
        "1.0.0",
        "yes",
        "~",
        "\t",
        "\0",
        "\x1b",
        "é",
        "---",
        "...",
        "\ud7ff",
        "0o17",
        "1e3",
        "?",
        "%YAML 1.1",
        "input",
        "string?",
        '"\\UFFFFFFFF"',
    ]
)


def check_issues(error: ManifestError) -> None:
    """At least one issue, and each can be printed."""
    assert error.issues
    assert all(issue.text().isprintable() for issue in error.issues)


def paths_of(manifest: Manifest) -> set[str]:
    app = compile_document([Placed(manifest, f"/app/apps/{manifest.name}")], sandbox="s", kind="os").apps[0]
    return {*app.read, *app.write}


@settings(max_examples=500, deadline=None)
@given(st.lists(SCRAPS, max_size=40).map("".join))
def test_no_text_raises_anything_else_or_grants_a_path_outside(text: str) -> None:
    try:
        source = reader.parse((HEAD + text).encode(), file=SHOWN)
        manifest = reader.validate(source, entry_problem=lambda _entry: None).manifest
    except ManifestError as error:
        check_issues(error)
        return
    name = manifest.name
    own = {"/dev/null", f"/app/apps/{name}", f"/run/berth/policy/{name}.json", f"/run/berth/secrets/{name}"}
    declared = {c.scope for c in manifest.capabilities if c.namespace == "filesystem"}
    assert paths_of(manifest) <= own | declared
    for path in declared:
        assert any(grants.covers(root, path) for root in grants.ROOTS)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(REFUSED + REFUSED_PATHS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "name",
        "version",
        "schema_version",
        "description",
        "runtime",
        "entry",
        "interpreter",
        "capabilities",
        "exports",
        "on_install",
        "test",
        "resources",
        "secrets",
        "expose",
        "foo",
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_no_value_of_any_field_raises_anything_else(value: dict[str, Any]) -> None:
    from berth.spec.findings import Source

    complete = {"name": "notes", "version": "1.0.0", **value}
    source = Source(file=SHOWN, sha256="0" * 64, value=complete, places={}, keys={})
    try:
        manifest = reader.validate(source, entry_problem=lambda _entry: None).manifest
    except ManifestError as error:
        check_issues(error)
        return
    paths_of(manifest)


def test_the_issues_stand_in_the_one_json_document(app: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = Output({})
    out.configure(json=True, quiet=False, color=False)
    with pytest.raises(ManifestError) as caught:
        load(app, HEAD + "capabilities: ['filesystem:read:/etc']\n")
    out.error(caught.value)
    (issue,) = json.loads(capfd.readouterr().out)["error"]["issues"]
    assert (issue["line"], issue["column"], issue["path"]) == (3, 16, ["capabilities", 0])


def test_the_text_names_the_file_then_one_line_per_issue(app: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = Output({})
    with pytest.raises(ManifestError) as caught:
        load(app, HEAD + "capabilities: [a, 'filesystem:read:/etc']\n")
    out.error(caught.value)
    first, second, third = capfd.readouterr().err.splitlines()
    assert first == f"berth: {SHOWN} is invalid"
    assert second.startswith(f"{SHOWN}:3:16 capabilities.0: ")
    assert third == f'{SHOWN}:3:19 capabilities.1: scope "/etc" is not beneath /workspace, /context, /tmp or /app'
