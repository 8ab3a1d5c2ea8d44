"""Slugs, port names and their variables, port ranges and gateway ports (workspaces.md 1, 3.1, 6, 7.4)."""

from __future__ import annotations

import itertools

import pytest

from berth.errors import BerthError
from berth.spec.names import checked_slug, is_slug, slug_from_directory, variable_name
from berth.spec.ports import BLOCKED_BY_BROWSERS, candidates, gateway_ports, port_range


@pytest.mark.parametrize("slug", ["a", "feature-a", "_x", "0", "a_b-c9", "x" * 63, "a-", "feature/"])
def test_a_slug_is_taken_without_one_trailing_slash(slug: str) -> None:
    assert checked_slug(slug) == slug.removesuffix("/")


@pytest.mark.parametrize(
    "slug",
    ["", "/", "-a", "--force", "A", "a b", "a/b", "a//", "..", ".", "é", "x" * 64, "a\n", "HEAD", "a.lock", "a~1"],
)
def test_another_word_is_no_slug(slug: str) -> None:
    with pytest.raises(BerthError) as caught:
        checked_slug(slug)
    assert (caught.value.code, caught.value.exit_status) == ("invalid_slug", 2)
    assert "1 to 63 characters from a-z 0-9 - _" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("directory", "taken", "slug"),
    [
        ("Feature A", set(), "feature-a"),
        ("--x--", set(), "x"),
        ("_x_", set(), "_x_"),
        ("日本", set(), "ws"),
        ("", set(), "ws"),
        ("İ", set(), "i"),
        ("a.b/c", set(), "a-b-c"),
        ("y" * 70, set(), "y" * 63),
        ("app", {"app"}, "app-2"),
        ("app", {"app", "app-2", "app-3"}, "app-4"),
        ("y" * 70, {"y" * 63}, "y" * 61 + "-2"),
    ],
)
def test_a_directory_becomes_a_free_slug(directory: str, taken: set[str], slug: str) -> None:
    found = slug_from_directory(directory, taken=taken)
    assert found == slug
    assert is_slug(found)


@pytest.mark.parametrize(("port", "variable"), [("web", "WEB"), ("my-api", "MY_API"), ("a.b_c", "A_B_C"), ("Z9", "Z9")])
def test_a_port_name_becomes_part_of_a_variable(port: str, variable: str) -> None:
    assert variable_name(port) == variable


@pytest.mark.parametrize(
    ("text", "limits"),
    [(None, (20000, 39999)), ("1024-65535", (1024, 65535)), ("3000-3000", (3000, 3000)), ("", (20000, 39999))],
)
def test_a_port_range_has_two_ends(text: str | None, limits: tuple[int, int]) -> None:
    assert port_range({} if text is None else {"BERTH_PORT_RANGE": text}) == limits


@pytest.mark.parametrize(
    "text",
    [
        "1023-2000",
        "2000-1999",
        "2000-65536",
        "2000",
        "2000-",
        "-2000",
        "a-b",
        "2000-3000-4000",
        " 2000-3000",
        "٢000-3000",
        "9" * 10_000 + "-3000",
        "+2000-3000",
        "2000 - 3000",
    ],
)
def test_another_port_range_is_refused_with_its_format(text: str) -> None:
    with pytest.raises(BerthError) as caught:
        port_range({"BERTH_PORT_RANGE": text})
    assert (caught.value.code, caught.value.exit_status) == ("invalid_port_range", 2)
    assert "a-b" in (caught.value.hint or "")


def test_candidates_ascend_below_the_ephemeral_range_first() -> None:
    assert list(candidates((2000, 2005), ephemeral_from=2003)) == [2000, 2001, 2002, 2003, 2004, 2005]
    assert list(candidates((40000, 40002), ephemeral_from=32768)) == [40000, 40001, 40002]
    assert list(candidates((2000, 2002), ephemeral_from=60999)) == [2000, 2001, 2002]
    both = list(candidates((32766, 32769), ephemeral_from=32768))
    assert both == [32766, 32767, 32768, 32769]


def test_ports_that_browsers_block_are_never_candidates() -> None:
    blocked = [1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566]
    blocked += [6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080]
    assert sorted(BLOCKED_BY_BROWSERS) == blocked
    found = list(candidates((1024, 65535), ephemeral_from=32768))
    assert not BLOCKED_BY_BROWSERS & set(found)
    assert len(found) == len(set(found)) == 65535 - 1024 + 1 - len(blocked)


def test_gateway_ports_count_down_past_every_listen_value() -> None:
    assert gateway_ports(["web"], {"web": 8080}) == {"web": 65535}
    assert gateway_ports(["web", "api", "db"], {"web": 65535, "api": 65533, "db": 80}) == {
        "api": 65534,
        "db": 65532,
        "web": 65531,
    }
    assert gateway_ports([], {}) == {}


def test_gateway_ports_end_above_the_privileged_ones() -> None:
    names = [f"p{number}" for number in range(65535 - 1024)]
    assert min(gateway_ports(names, {}).values()) == 1025
    with pytest.raises(BerthError):
        gateway_ports([*names, "q"], {})


def test_slugs_of_many_directories_stay_distinct() -> None:
    taken: set[str] = set()
    for name in itertools.repeat("z" * 80, 120):
        slug = slug_from_directory(name, taken=taken)
        assert is_slug(slug)
        assert slug not in taken
        taken.add(slug)
