"""``skill install``, ``hook install`` and ``agents`` in real repositories and home directories."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from support.cli import ROOT, Berth
from support.repos import git, make_repo, write

FILES = ("SKILL.md", "references/berth-yaml.md", "references/recovery.md")
NAMES = [
    *("shared", "claude", "cline", "codex", "cursor", "copilot", "gemini", "opencode"),
    *("windsurf", "roo", "kilo", "zed", "junie", "antigravity", "pi"),
]


@pytest.fixture
def home(tmp_path: Path, berth: Berth) -> Path:
    """A home directory that the program sees as the user's."""
    directory = tmp_path / "user home"
    directory.mkdir()
    berth.env["HOME"] = str(directory)
    return directory


def snapshot(*roots: Path) -> dict[str, tuple[bytes, int]]:
    """Content and modification time of every file below ``roots``."""
    files = [path for root in roots for path in root.rglob("*") if path.is_file() and ".git/" not in str(path)]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


# -- skill install --------------------------------------------------------------------------------------------------


def test_the_skill_goes_to_the_shared_place_of_the_primary_checkout(berth: Berth, repo: Path) -> None:
    outcome = berth.ok("skill", "install")
    target = repo / ".agents/skills/berth"
    assert outcome.out == f"project\tshared\t{target}\tinstalled\n"
    for name in FILES:
        assert (target / name).read_bytes() == (ROOT / "skills/berth" / name).read_bytes()
        assert stat.S_IMODE((target / name).stat().st_mode) == 0o644


def test_a_second_install_writes_nothing(berth: Berth, repo: Path) -> None:
    berth.ok("skill", "install", "--all")
    before = snapshot(repo)
    again = berth.doc("skill", "install", "--all")["installed"]
    assert [(row["agent"], row["changed"]) for row in again] == [("shared", False), ("claude", False), ("cline", False)]
    assert snapshot(repo) == before
    assert berth.ok("skill", "install").out.endswith("\talready installed\n")


def test_a_changed_file_alone_is_replaced(berth: Berth, repo: Path) -> None:
    berth.ok("skill", "install")
    target = repo / ".agents/skills/berth"
    kept = (target / "SKILL.md").stat().st_mtime_ns
    (target / "references/recovery.md").write_text("older\n")
    (target / "mine.md").write_text("mine\n")
    assert berth.doc("skill", "install")["installed"][0]["changed"] is True
    assert (target / "references/recovery.md").read_bytes() == (
        ROOT / "skills/berth/references/recovery.md"
    ).read_bytes()
    assert (target / "SKILL.md").stat().st_mtime_ns == kept
    assert (target / "mine.md").read_text() == "mine\n"


def test_agents_are_named_in_lists_and_repeats_and_equal_directories_collapse(berth: Berth, repo: Path) -> None:
    rows = berth.doc("skill", "install", "--agent", "codex,cline", "--agent", "cursor")["installed"]
    assert rows == [
        {"scope": "project", "agent": "codex", "path": str(repo / ".agents/skills/berth"), "changed": True},
        {"scope": "project", "agent": "cline", "path": str(repo / ".cline/skills/berth"), "changed": True},
    ]


@pytest.mark.parametrize("value", ["", "codex,", ",codex", "a,,b"])
def test_an_empty_element_is_a_usage_error(berth: Berth, value: str) -> None:
    berth.fails("usage", "skill", "install", "--agent", value)


def test_an_unknown_agent_is_answered_with_the_valid_names(berth: Berth, repo: Path) -> None:
    error = berth.fails("unknown_agent", "skill", "install", "--agent", "codex,emacs")
    assert "emacs" in error["message"]
    assert all(name in error["hint"] for name in [*NAMES, "--all"])
    assert not (repo / ".agents").exists()


def test_user_scope_needs_no_repository_and_writes_below_the_home_directory(
    berth: Berth, home: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outcome = berth.ok("skill", "install", "--scope", "user", "--agent", "claude", cwd=outside)
    assert outcome.out == f"user\tclaude\t{home}/.claude/skills/berth\tinstalled\n"
    assert (home / ".claude/skills/berth/SKILL.md").is_file()
    berth_error = berth("skill", "install", "--json", cwd=outside)
    assert berth_error.code == 1
    assert berth_error.error["code"] == "not_a_repository"


def test_from_a_worktree_the_primary_checkout_is_meant(berth: Berth, repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "linked"))
    berth.ok("skill", "install", cwd=tmp_path / "linked")
    assert (repo / ".agents/skills/berth/SKILL.md").is_file()
    assert not (tmp_path / "linked/.agents").exists()


@pytest.mark.parametrize("link", [".agents", ".agents/skills", ".agents/skills/berth", ".agents/skills/berth/SKILL.md"])
def test_a_link_that_leads_outside_is_refused_and_nothing_is_written(
    berth: Berth, repo: Path, tmp_path: Path, link: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo / link).parent.mkdir(parents=True, exist_ok=True)
    (repo / link).symlink_to(outside / "SKILL.md" if link.endswith(".md") else outside)
    error = berth.fails("unsupported_path", "skill", "install", "--agent", "claude,shared")
    assert str(outside) in error["message"]
    assert list(outside.iterdir()) == []
    assert not (repo / ".claude").exists()


def test_a_link_that_stays_inside_is_followed(berth: Berth, repo: Path) -> None:
    (repo / "tools").mkdir()
    (repo / ".agents").symlink_to("tools")
    berth.ok("skill", "install")
    assert (repo / "tools/skills/berth/SKILL.md").is_file()
    assert (repo / ".agents").is_symlink()


def test_the_skill_has_front_matter_that_harnesses_read() -> None:
    text = (ROOT / "skills/berth/SKILL.md").read_text()
    front = dict(line.split(": ", 1) for line in text.split("---\n")[1].splitlines())
    assert front["name"] == "berth"
    assert len(front["description"]) >= 40


# -- hook install ---------------------------------------------------------------------------------------------------


def test_hooks_that_are_not_opt_in_are_installed_without_a_name(berth: Berth, repo: Path) -> None:
    rows = berth.doc("hook", "install")["installed"]
    assert rows == [
        {"scope": "project", "agent": "cursor", "path": str(repo / ".cursor/worktrees.json"), "changed": True},
        {"scope": "project", "agent": "windsurf", "path": str(repo / ".windsurf/hooks.json"), "changed": True},
    ]
    assert not (repo / ".claude").exists()
    assert stat.S_IMODE((repo / ".cursor/worktrees.json").stat().st_mode) == 0o644
    before = snapshot(repo)
    for words in ((), ("all",), ("--all",)):
        assert [row["changed"] for row in berth.doc("hook", "install", *words)["installed"]] == [False, False]
    assert snapshot(repo) == before


@pytest.mark.parametrize("words", [("all", "--agent", "claude"), ("claude", "--all")])
def test_claude_is_installed_beside_all_when_it_is_named(berth: Berth, words: tuple[str, ...]) -> None:
    rows = berth.doc("hook", "install", *words)["installed"]
    assert [row["agent"] for row in rows] == ["claude", "cursor", "windsurf"]


def test_claude_alone_advises_to_ignore_its_worktrees_until_git_does(berth: Berth, repo: Path) -> None:
    assert ".claude/worktrees/" in berth.ok("hook", "install", "claude").err
    write(repo, {".gitignore": ".claude/worktrees/\n"})
    assert berth.ok("hook", "install", "claude").err == ""


def test_a_harness_without_a_hook_is_answered_with_those_that_have_one(berth: Berth) -> None:
    for words in (("zed",), ("--agent", "zed"), ("nonsense",), ("zed", "--scope", "user")):
        error = berth.fails("unknown_agent", "hook", "install", *words)
        assert all(name in error["hint"] for name in ("claude", "cursor", "windsurf"))


def test_user_scope_explains_and_writes_nothing(berth: Berth, home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outcome = berth.ok("hook", "install", "--scope", "user", cwd=outside)
    assert outcome.out == ""
    assert "repository" in outcome.err
    assert berth.doc("hook", "install", "--scope", "user", cwd=outside) == {"installed": []}
    assert list(home.iterdir()) == []
    assert not berth.home.exists()


def test_a_broken_file_stops_everything_before_anything_is_written(berth: Berth, repo: Path) -> None:
    broken = b'{"hooks": oops}\r\n'
    write(repo, {".windsurf/hooks.json": broken})
    error = berth.fails("file_unparsable", "hook", "install")
    assert f"{repo}/.windsurf/hooks.json:1:11" in error["message"]
    assert (repo / ".windsurf/hooks.json").read_bytes() == broken
    assert not (repo / ".cursor").exists()


def test_a_linked_file_is_written_through_inside_the_repository_and_refused_outside(
    berth: Berth, repo: Path, tmp_path: Path
) -> None:
    write(repo, {"config/claude.json": '{"model": "x"}', ".claude/.keep": ""})
    (repo / ".claude/settings.json").symlink_to("../config/claude.json")
    berth.ok("hook", "install", "claude")
    assert (repo / ".claude/settings.json").is_symlink()
    assert list(json.loads((repo / "config/claude.json").read_text())) == ["model", "hooks"]

    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text("{}")
    write(repo, {".cursor/.keep": ""})
    (repo / ".cursor/worktrees.json").symlink_to(elsewhere)
    berth.fails("unsupported_path", "hook", "install", "cursor")
    assert elsewhere.read_text() == "{}"


def test_a_place_that_cannot_be_written_is_an_error_of_the_system(berth: Berth, repo: Path) -> None:
    write(repo, {".cursor": "a file where the directory should be"})
    assert ".cursor" in berth.fails("io_error", "hook", "install", "cursor")["message"]
    write(repo, {".windsurf/hooks.json/x": "a directory where the file should be"})
    berth.fails("io_error", "hook", "install", "windsurf")
    assert os.listdir(repo / ".windsurf") == ["hooks.json"], "no temporary file is left"


# -- agents ---------------------------------------------------------------------------------------------------------


def test_agents_lists_every_harness_in_order_and_what_is_installed(berth: Berth, repo: Path, home: Path) -> None:
    berth.ok("skill", "install", "--agent", "shared")
    berth.ok("skill", "install", "--agent", "claude", "--scope", "user")
    berth.ok("hook", "install", "cursor")
    document = berth.doc("agents")
    assert (document["repo"], document["home"]) == (str(repo), str(home))
    rows = {row["name"]: row for row in document["agents"]}
    assert list(rows) == NAMES
    assert [name for name, row in rows.items() if not row["reads_shared"]] == ["claude", "cline"]
    assert rows["shared"]["covers"] == NAMES[3:]
    assert all(row["covers"] == [] for name, row in rows.items() if name != "shared")
    assert rows["zed"]["installed_project"] is True
    assert rows["zed"]["installed_user"] is False
    assert rows["claude"]["installed_project"] is False
    assert rows["claude"]["installed_user"] is True
    assert {name for name, row in rows.items() if row["hook_installed"]} == {"cursor"}
    assert rows["claude"]["hook_opt_in"] is True
    assert rows["claude"]["hook_file"] == str(repo / ".claude/settings.json")
    assert list(rows["pi"]) == [
        *("name", "display", "reads_shared", "project_path", "user_path", "hook", "hook_file", "hook_opt_in"),
        *("installed_project", "installed_user", "hook_installed", "covers", "note"),
    ]


def test_agents_in_text_names_repository_and_home_and_then_the_table(berth: Berth, repo: Path, home: Path) -> None:
    lines = berth.ok("agents").out.splitlines()
    assert lines[:2] == [f"repo\t{repo}", f"home\t{home}"]
    assert lines[2].split("\t") == ["NAME", "SHARED", "PROJECT", "USER", "HOOK", "INSTALLED", "NOTE"]
    assert [line.split("\t")[0] for line in lines[3:]] == NAMES
    assert all(len(line.split("\t")) == 7 for line in lines[3:])


def test_agents_needs_a_repository(berth: Berth, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert berth("agents", "--json", cwd=outside).error["code"] == "not_a_repository"


def test_an_action_that_is_missing_or_unknown_is_a_usage_error(berth: Berth) -> None:
    for words in (("skill",), ("hook",), ("hook", "remove")):
        assert "install" in berth.fails("usage", *words)["hint"]
    assert "hook install" in berth.ok("hook", "-h").out


def test_odd_repository_paths_work(berth: Berth, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "my répo 日本 'q\" $x & (1)")
    assert berth.doc("hook", "install", cwd=repo)["installed"][0]["path"] == f"{repo}/.cursor/worktrees.json"
    assert berth.doc("skill", "install", cwd=repo)["installed"][0]["path"] == f"{repo}/.agents/skills/berth"
