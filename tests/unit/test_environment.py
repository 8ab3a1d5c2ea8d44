"""Injected variables, what is inherited, and the values of ``env`` (workspaces.md 3.5, 4)."""

from __future__ import annotations

import pytest

from berth.spec.environment import (
    GIT_LOCATION,
    expand,
    expand_problems,
    inherited,
    injected,
    injected_names,
    merged,
)


def variables() -> dict[str, str]:
    return injected(workspace="/w", root="/r", slug="a", branch="berth/a", ports={"web": 20000, "my-api.v2": 20001})


def test_native_injects_paths_names_and_host_ports() -> None:
    assert variables() == {
        "BERTH_WORKSPACE": "/w",
        "BERTH_ROOT": "/r",
        "BERTH_DATA_DIR": "/w/.berth/data",
        "BERTH_SLUG": "a",
        "BERTH_BRANCH": "berth/a",
        "BERTH_PORT_WEB": "20000",
        "BERTH_PORT_MY_API_V2": "20001",
        "BERTH_HOST_PORT_WEB": "20000",
        "BERTH_HOST_PORT_MY_API_V2": "20001",
    }


def test_a_container_listens_on_other_ports_than_the_host_publishes() -> None:
    found = injected(
        workspace="/workspace", root="/workspace", slug="a", branch=None, ports={"web": 8080}, host_ports={"web": 20000}
    )
    assert (found["BERTH_PORT_WEB"], found["BERTH_HOST_PORT_WEB"]) == ("8080", "20000")
    assert found["BERTH_DATA_DIR"] == "/workspace/.berth/data"
    assert found["BERTH_BRANCH"] == "", "detached"


def test_the_names_are_known_before_the_values() -> None:
    assert sorted(injected_names(["web", "my-api.v2"])) == sorted(variables())


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("${BERTH_PORT_WEB}", "20000"),
        ("a${BERTH_SLUG}b${BERTH_SLUG}", "aaba"),
        ("postgres://127.0.0.1:${BERTH_PORT_WEB}/app", "postgres://127.0.0.1:20000/app"),
        ("$BERTH_SLUG", "$BERTH_SLUG"),
        ("$${BERTH_SLUG}", "$a"),
        ("${HOME} $HOME $$ ' \" # = \\", "${HOME} $HOME $$ ' \" # = \\"),
        ("${A}", "${A}"),
        ("${BERTH_SLUG", "${BERTH_SLUG"),
        ("", ""),
    ],
)
def test_a_value_of_env_knows_references_in_braces_only(value: str, result: str) -> None:
    assert expand({"A": "x", "K": value}, variables())["K"] == result


def test_what_a_reference_became_is_not_expanded_again() -> None:
    assert expand({"K": "${BERTH_BRANCH}"}, {"BERTH_BRANCH": "${BERTH_SLUG}", "BERTH_SLUG": "a"}) == {
        "K": "${BERTH_SLUG}"
    }


def test_every_unknown_reference_is_a_problem_that_names_the_known_ones() -> None:
    assert expand_problems(
        {"A": "${BERTH_X}${BERTH_SLUG}${BERTH_Y}", "B": "$BERTH_Z"}, ["BERTH_SLUG", "BERTH_ROOT"]
    ) == [
        ("A", "unknown variable ${BERTH_X}; known: BERTH_ROOT, BERTH_SLUG"),
        ("A", "unknown variable ${BERTH_Y}; known: BERTH_ROOT, BERTH_SLUG"),
    ]


def test_another_workspaces_variables_and_gits_own_are_not_inherited() -> None:
    foreign = {
        **dict.fromkeys(variables(), "foreign"),
        "BERTH_PORT_OTHER": "1",
        "BERTH_HOST_PORT_OTHER": "1",
        **dict.fromkeys(GIT_LOCATION, "foreign"),
    }
    kept = {
        "PATH": "/bin",
        "BERTH_PORT_RANGE": "1024-2000",
        "BERTH_HOME": "/h",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_AUTHOR_NAME": "x",
    }
    assert inherited({**foreign, **kept}) == kept


def test_the_location_variables_are_those_of_the_contract() -> None:
    names = (
        "GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_NAMESPACE GIT_PREFIX GIT_IMPLICIT_WORK_TREE GIT_GRAFT_FILE GIT_SHALLOW_FILE GIT_REPLACE_REF_BASE",
        "GIT_QUARANTINE_PATH",
    )
    assert set(" ".join(names).split()) == GIT_LOCATION


def test_ours_win_over_the_callers_and_env_may_override_home() -> None:
    assert merged({"HOME": "/home/me", "A": "1", "BERTH_SLUG": "x"}, {"HOME": "/own", "BERTH_SLUG": "a"}) == {
        "HOME": "/own",
        "A": "1",
        "BERTH_SLUG": "a",
    }
