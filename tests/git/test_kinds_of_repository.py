"""Repositories of other kinds live the whole cycle: made, asked, ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import checkout, preservation, removal, submodules
from support.checkouts import Made, env_of, new, refs_of
from support.repos import commit, git, make_repo, write


def live(made: Made) -> None:
    """Verify, refuse while work is nowhere else, and end."""
    where, config = str(made.path), Path(made.common_dir, "config").read_bytes()
    checkout.verify_plain(where, git_dir=made.git_dir, common_dir=made.common_dir, primary=made.repo.path)
    first = git(made.path, "rev-parse", "HEAD")
    commit(made.path, {"work.txt": "w"}, "the work")
    with pytest.raises(BerthError, match="the work"):
        check(made)
    git(made.path, "reset", "-q", "--hard", first)
    check(made)
    made.path.rename(made.path.with_name("away"))
    removal.drop_admin_entry(made.common_dir, where, git_dir=made.git_dir, env=env_of())
    removal.delete_workspace_branch(made.common_dir, made.start.branch, expected=first, env=env_of())
    assert "berth/" not in refs_of(Path(made.common_dir))
    assert Path(made.common_dir, "config").read_bytes() == config


def check(made: Made) -> None:
    work = preservation.work_in(
        str(made.path),
        git_dir=made.git_dir,
        common_dir=made.common_dir,
        base="main",
        start_commit=made.start.start_commit,
        own_branch=made.start.branch,
        env=env_of(),
    )
    preservation.check_preserved(str(made.path), common_dir=made.common_dir, work=work, env=env_of())


def test_a_repository_with_long_object_ids(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", "app")
    head = commit(tmp_path / "app", {"a.txt": "a"})
    assert len(head) == 64
    made = new(tmp_path / "app")
    assert made.start.commit == head
    live(made)


def test_a_partial_clone_fetches_what_the_checkout_needs(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(repo, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repo}", "clone")
    clone = tmp_path / "clone"
    assert "?" in git(clone, "rev-list", "--objects", "--missing=print", "HEAD")
    made = new(clone)
    assert (made.path / "a.txt").read_text() == "hi\n"
    live(made)


def test_a_shallow_clone(repo: Path, tmp_path: Path) -> None:
    commit(repo, {"b.txt": "b"})
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "clone")
    live(new(tmp_path / "clone"))


def test_packed_references_and_a_commit_graph(repo: Path) -> None:
    made = new(repo)
    git(repo, "pack-refs", "--all")
    git(repo, "commit-graph", "write", "--reachable")
    live(made)


def test_a_repository_whose_checkouts_use_relative_paths(repo: Path) -> None:
    made = new(repo)
    (made.path / ".git").write_text(f"gitdir: {os.path.relpath(made.git_dir, made.path)}\n")
    Path(made.git_dir, "gitdir").write_text(os.path.relpath(made.path / ".git", made.git_dir) + "\n")
    checkout.verify_plain(str(made.path), git_dir=made.git_dir, common_dir=made.common_dir)
    check(made)


def test_a_nested_repository_that_was_added_without_gitmodules_is_guarded(repo: Path) -> None:
    made = new(repo)
    nested = make_repo(made.path / "nested")
    git(made.path, "add", "nested")
    git(made.path, "commit", "-qm", "a link to it")
    with pytest.raises(BerthError) as caught:
        submodules.check_pushed(str(made.path), common_dir=made.common_dir, env=env_of())
    assert caught.value.code == "submodule_unpushed"
    assert str(nested) in caught.value.message
    git(nested, "update-ref", "refs/remotes/origin/main", "HEAD")
    submodules.check_pushed(str(made.path), common_dir=made.common_dir, env=env_of())


def test_a_repository_in_which_everything_is_configured_against_us(repo: Path) -> None:
    for key, value in {
        "core.fsmonitor": "false-command",
        "core.untrackedCache": "true",
        "core.logAllRefUpdates": "false",
        "branch.autoSetupMerge": "always",
        "checkout.guess": "true",
        "worktree.guessRemote": "true",
        "status.showUntrackedFiles": "no",
        "status.submoduleSummary": "true",
        "log.showSignature": "true",
        "log.date": "relative",
        "color.ui": "always",
        "core.pager": "false",
        "core.quotePath": "false",
        "core.abbrev": "4",
        "diff.external": "false",
        "diff.noprefix": "true",
        "format.pretty": "fuller",
        "i18n.logOutputEncoding": "latin1",
        "submodule.recurse": "true",
        "advice.detachedHead": "false",
        "gc.auto": "1",
        "transfer.fsckObjects": "true",
        "commit.status": "false",
        "core.commentChar": "!",
    }.items():
        git(repo, "config", key, value)
    write(repo, {".git/info/exclude": "*.ignored\n"})
    live(new(repo))
