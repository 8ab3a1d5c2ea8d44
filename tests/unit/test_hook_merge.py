"""Merging berth's entry into a harness's JSON file: everything else stays as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import BerthError
from berth.ops.agents import merge

CLAUDE_SETTINGS = """{
    "$schema": "https://json.schemastore.org/claude-code-settings.json",
    "permissions": {"allow": ["Bash(npm run lint)", "Read(~/.zshrc)"], "deny": ["Bash(curl:*)"]},
    "env": {"MAX_THINKING_TOKENS": "1024", "RATE": 1.10, "BIG": 1e3},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "a && b > \\"c\\" & ü 日本"}]}]
    },
\t"model": null, "cleanupPeriodDays": 20
}"""
CURSOR_WORKTREES = """{"setup-worktree":["npm ci","cp $ROOT_WORKTREE_PATH/.env .env"],
"setup-worktree-unix": ["pnpm install && echo 'done & dusted'"], "other": {"b": 1, "a": [true, false, null]}}
"""
WINDSURF_HOOKS = """{
  "hooks": {
    "post_write_code": [{"command": "python3 fmt.py", "show_output": false, "working_directory": "tools"}],
    "post_setup_worktree": [{"command": "bash -c 'npm ci'", "show_output": true}]
  }
}
"""
ENTRY = {"command": "berth adopt --setup", "powershell": "berth adopt --setup", "show_output": True}
GROUP = {"hooks": [{"type": "command", "command": "berth hook run claude || exit 0"}]}


def change(name: str, text: str | None) -> bytes | None:
    function, by_hand = merge.MERGES[name]
    content = None if text is None else text.encode()
    return merge.merged(content, function, merge.Complaint("file.json", by_hand))


def changed(name: str, text: str | None) -> Any:
    content = change(name, text)
    assert content is not None
    assert change(name, content.decode()) is None, "a second run changes nothing"
    return json.loads(content)


def refusal(name: str, text: str) -> BerthError:
    with pytest.raises(BerthError) as raised:
        change(name, text)
    assert raised.value.code == "file_unparsable"
    return raised.value


def test_an_absent_file_becomes_an_object_with_the_entry_alone() -> None:
    ours = ["berth adopt --setup"]
    assert changed("cursor", None) == {
        "setup-worktree": ours,
        "setup-worktree-unix": ours,
        "setup-worktree-windows": ours,
    }
    assert changed("windsurf", None) == {"hooks": {"post_setup_worktree": [ENTRY]}}
    assert changed("claude", None) == {"hooks": {"WorktreeCreate": [GROUP]}}


def test_a_missing_array_for_one_system_starts_as_a_copy_of_the_general_commands() -> None:
    document = changed("cursor", CURSOR_WORKTREES)
    general = ["npm ci", "cp $ROOT_WORKTREE_PATH/.env .env"]
    assert document["setup-worktree"] == [*general, "berth adopt --setup"]
    assert document["setup-worktree-unix"] == ["pnpm install && echo 'done & dusted'", "berth adopt --setup"]
    assert document["setup-worktree-windows"] == [*general, "berth adopt --setup"]
    assert list(document) == ["setup-worktree", "setup-worktree-unix", "other", "setup-worktree-windows"]


def test_a_copied_array_that_has_the_entry_gets_no_second_one() -> None:
    document = changed("cursor", '{"setup-worktree": ["berth adopt --setup || true"]}')
    assert document["setup-worktree-unix"] == ["berth adopt --setup || true"]


def test_the_entry_goes_behind_those_that_are_there() -> None:
    document = changed("windsurf", WINDSURF_HOOKS)
    before = json.loads(WINDSURF_HOOKS)
    assert document["hooks"]["post_setup_worktree"] == [*before["hooks"]["post_setup_worktree"], ENTRY]
    assert document["hooks"]["post_write_code"] == before["hooks"]["post_write_code"]


def test_foreign_keys_their_order_and_their_text_are_kept() -> None:
    content = change("claude", CLAUDE_SETTINGS)
    assert content is not None
    text = content.decode()
    document = json.loads(text)
    assert list(document) == ["$schema", "permissions", "env", "hooks", "model", "cleanupPeriodDays"]
    assert document["hooks"].pop("WorktreeCreate") == [GROUP]
    assert document == json.loads(CLAUDE_SETTINGS)
    for piece in ('"RATE": 1.10', '"BIG": 1e3', 'a && b > \\"c\\" & ü 日本', '"model": null'):
        assert piece in text
    assert text.endswith("\n}\n")
    assert '\n  "permissions": {\n    "allow": [\n' in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cursor", '{"setup-worktree-windows":["x"], "setup-worktree" : [ "cd app && berth adopt" ],'
                   '"setup-worktree-unix":["berth adopt --setup # ours"]}'),
        ("windsurf", '{"hooks":{"post_setup_worktree":[{"command":"true; berth adopt --setup"}]}}'),
        ("claude", '{"hooks":{"WorktreeCreate":[{"hooks":[{"type":"command","command":"berth hook run claude"}]}]}}'),
    ],
)  # fmt: skip
def test_an_entry_of_ours_in_any_wording_is_enough(name: str, text: str) -> None:
    content = change(name, text)
    if name == "cursor":
        assert content is not None
        assert json.loads(content)["setup-worktree"] == ["cd app && berth adopt"]
        assert json.loads(content)["setup-worktree-windows"] == ["x", "berth adopt --setup"]
    else:
        assert content is None, "odd formatting alone is no reason to write"


NO_OBJECTS = [
    *("null", "[]", '"x"', "3", "true", "", " ", "{", '{"a": 1,}', "// note\n{}"),
    *('{"a": NaN}', '{"a": 1, "a": 2}', "\ufeff{}", "[" * 100_000),
]


@pytest.mark.parametrize("text", NO_OBJECTS, ids=lambda text: repr(text)[:20])
def test_what_is_no_json_object_is_refused_with_its_place(text: str) -> None:
    error = refusal("claude", text)
    assert error.message.startswith("file.json")
    assert "berth hook run claude" in (error.hint or "")


def test_a_syntax_error_is_named_by_line_and_column() -> None:
    assert refusal("cursor", '{\n  "a": oops\n}').message.startswith("file.json:2:8: not JSON")


def test_bytes_that_are_not_utf8_are_refused() -> None:
    function, by_hand = merge.MERGES["cursor"]
    with pytest.raises(BerthError, match="not UTF-8 at byte 2"):
        merge.merged(b'{"\xff": 1}', function, merge.Complaint("file.json", by_hand))


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("cursor", '{"setup-worktree": "setup.sh"}', "setup-worktree is a string, not an array"),
        ("cursor", '{"setup-worktree-unix": null}', "setup-worktree-unix is null, not an array"),
        ("windsurf", '{"hooks": []}', "hooks is an array, not an object"),
        ("windsurf", '{"hooks": {"post_setup_worktree": {}}}', "hooks.post_setup_worktree is an object, not an array"),
        ("claude", '{"hooks": {"WorktreeCreate": 7}}', "hooks.WorktreeCreate is a number, not an array"),
        ("claude", '{"hooks": true}', "hooks is a boolean, not an object"),
    ],
)
def test_a_key_of_another_type_is_named(name: str, text: str, place: str) -> None:
    assert place in refusal(name, text).message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    foreign=st.dictionaries(st.text().filter(lambda key: key != "hooks"), JSON), indent=st.sampled_from([None, 1, 4])
)
def test_whatever_else_is_in_the_file_survives(foreign: dict[str, Any], indent: int | None) -> None:
    document = changed("claude", json.dumps(foreign, indent=indent))
    assert document.pop("hooks") == {"WorktreeCreate": [GROUP]}
    assert document == foreign


def test_a_lone_surrogate_survives_as_an_escape() -> None:
    content = change("claude", '{"a": "\\ud800"}')
    assert content is not None
    assert b'"a": "\\ud800"' in content
