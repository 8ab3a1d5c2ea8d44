"""What several apps cannot have at once (sandboxes.md 3.1, 4.1 checks 4 and 5; T31)."""

from __future__ import annotations

from typing import Any

import pytest

from berth.errors import BerthError
from berth.spec.clashes import check
from berth.spec.findings import ManifestError
from support.jail import manifest


def message(*apps: Any) -> str:
    with pytest.raises(BerthError) as caught:
        check(apps)
    assert caught.value.exit_status == 1
    return caught.value.message


@pytest.mark.parametrize(
    ("one", "two", "shown"),
    [
        ("browser:click:*", "browser:type:*", "browser:*"),
        ("terminal:attach:*", "terminal:read:x", "terminal:*"),
        ("network:peer:a", "network:peer:b", "network:peer:*"),
        ("network:host:a.com", "network:host:b.com", "browser:navigate:* or network:host:*"),
    ],
)
def test_a_shared_resource_belongs_to_one_app(one: str, two: str, shown: str) -> None:
    shell, terminal = manifest("shell", one), manifest("terminal", two)
    expected = f"at most one app per sandbox may declare {shown}; declared by: shell, terminal"
    assert message(shell, manifest("other"), terminal) == expected
    check([shell, manifest("other")])
    check([manifest("both", one, two)])


def test_browser_and_host_patterns_count_together() -> None:
    assert "browser:navigate:* or network:host:*" in message(
        manifest("a", "browser:navigate:a.com"), manifest("b", "network:host:b.com")
    )


def test_two_apps_cannot_bind_one_port() -> None:
    assert message(manifest("a", "network:bind:9000"), manifest("b", "network:bind:9000")) == (
        "at most one app per sandbox may bind port 9000; declared by: a, b"
    )
    assert "port 7681" in message(manifest("a", "network:bind:7681"), manifest("b", "terminal:attach:*"))
    check([manifest("a", "network:bind:9000"), manifest("b", "network:bind:9001", "network:connect:9000")])


def test_all_clashes_are_told_at_once() -> None:
    told = message(
        manifest("a", "terminal:attach:*", "network:bind:9000"), manifest("b", "terminal:attach:*", "network:bind:9000")
    )
    assert [line.split("; ")[0] for line in told.split("\n")] == [
        "at most one app per sandbox may declare terminal:*",
        "at most one app per sandbox may bind port 7681",
        "at most one app per sandbox may bind port 9000",
    ]


def test_names_are_unique_and_at_most_64() -> None:
    assert '2 apps are named "a"' in message(manifest("a"), manifest("b"), manifest("a"))
    check([manifest(f"a{i}") for i in range(64)])
    assert "at most 64" in message(*(manifest(f"a{i}") for i in range(65)))


def test_a_private_directory_of_another_app_is_an_issue_of_its_manifest() -> None:
    greedy = manifest("a", "filesystem:read:/workspace", "filesystem:write:/tmp/b/x")
    check([greedy, manifest("c")])
    with pytest.raises(ManifestError) as caught:
        check([greedy, manifest("b")])
    assert [issue.path for issue in caught.value.issues] == [("capabilities", 1)]
    assert 'belongs to app "b"' in caught.value.message


def test_the_own_private_directory_may_be_named() -> None:
    check([manifest("a", "filesystem:write:/tmp/a"), manifest("ab", "filesystem:write:/tmp/ab/x")])
