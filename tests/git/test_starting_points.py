"""Which commit a base names and which branch a workspace gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import refs, repository, worktrees
from support.checkouts import env_of, new, refs_of
from support.repos import commit, git, make_repo


def resolve(repo: Path, name: str) -> refs.Base:
    env = env_of()
    return refs.resolve_base(repository.repository(str(repo), env=env), name, env=env)


def refused(repo: Path, name: str) -> BerthError:
    with pytest.raises(BerthError) as caught:
        resolve(repo, name)
    assert caught.value.code == "base_not_found"
    return caught.value


def upstream(repo: Path, name: str = "origin") -> Path:
    """A bare remote with a branch ``topic/x`` and a tag that nobody has fetched yet."""
    remote = repo.parent / "remote.git"
    git(repo.parent, "clone", "-q", "--bare", str(repo), str(remote))
    other = repo.parent / "other"
    git(repo.parent, "clone", "-q", str(remote), str(other))
    git(other, "switch", "-q", "-c", "topic/x")
    commit(other, {"x.txt": "x"})
    git(other, "tag", "v9")
    git(other, "push", "-q", "origin", "topic/x", "v9")
    git(repo, "remote", "add", name, str(remote))
    return remote


def test_a_branch_goes_before_a_tag_before_a_remote_branch(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    second = commit(repo, {"b.txt": "b"})
    third = commit(repo, {"c.txt": "c"})
    git(repo, "update-ref", "refs/remotes/x", third)
    assert resolve(repo, "x").commit == third
    git(repo, "tag", "x", second)
    assert resolve(repo, "x").commit == second
    git(repo, "branch", "x", first)
    found = resolve(repo, "x")
    assert (found.commit, found.ref) == (first, "refs/heads/x")


def test_a_local_branch_named_like_a_remote_one_wins_with_a_note(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "branch", "origin/foo", first)
    git(repo, "update-ref", "refs/remotes/origin/foo", commit(repo, {"b.txt": "b"}))
    found = resolve(repo, "origin/foo")
    assert found.commit == first
    assert "local branch" in found.notes[0]


def test_an_annotated_tag_of_a_tag_leads_to_its_commit(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "-a", "-m", "x", "inner")
    git(repo, "tag", "-a", "-m", "x", "outer", "inner")
    assert resolve(repo, "outer").commit == first


def test_a_tag_of_a_file_is_no_base(repo: Path) -> None:
    git(repo, "tag", "blob", git(repo, "rev-parse", "HEAD:a.txt"))
    refused(repo, "blob")


def test_a_full_id_and_seven_digits_are_a_commit_and_six_are_not(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    assert resolve(repo, first).commit == first
    assert resolve(repo, first[:7]).commit == first
    assert resolve(repo, first[:12].upper()).commit == first
    refused(repo, first[:6])


def test_the_id_of_a_tag_object_or_a_tree_is_no_commit_id(repo: Path) -> None:
    git(repo, "tag", "-a", "-m", "x", "t")
    refused(repo, git(repo, "rev-parse", "refs/tags/t"))
    refused(repo, git(repo, "rev-parse", "HEAD^{tree}"))


@pytest.mark.parametrize(
    "name",
    ["", " ", "-x", "--help", "..", "HEAD", "@", "a.lock", "main~1", "main^", "main@{0}", "main:a.txt", ":/init",
     "refs/heads/main", "heads/main", "main..main", "main ", "a//b", "/main", "main/", "*", "mai[n]", "日本", "\udcff"],
)  # fmt: skip
def test_revision_syntax_options_and_nonsense_are_no_base(repo: Path, name: str) -> None:
    error = refused(repo, name)
    assert "main" in error.message
    assert "--base main" in (error.hint or "")


def test_a_branch_in_another_script_is_a_base(repo: Path) -> None:
    git(repo, "branch", "功能/é")
    assert resolve(repo, "功能/é").ref == "refs/heads/功能/é"


def test_a_repository_without_commits_has_no_base(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "x")
    refused(tmp_path / "x", "main")


def test_a_branch_that_only_the_remote_has_is_fetched_alone(repo: Path) -> None:
    remote = upstream(repo)
    git(repo, "config", "fetch.prune", "true")
    git(repo, "config", "remote.origin.tagOpt", "--tags")
    git(repo, "config", "--add", "remote.origin.fetch", "+refs/heads/*:refs/remotes/mirror/*")
    git(repo, "update-ref", "refs/remotes/origin/gone", "HEAD")
    before, config = set(refs_of(repo).splitlines()), (repo / ".git/config").read_bytes()
    found = resolve(repo, "origin/topic/x")
    tip = git(remote, "rev-parse", "refs/heads/topic/x")
    assert found.commit == tip
    assert set(refs_of(repo).splitlines()) - before == {f"refs/remotes/origin/topic/x {tip}"}
    assert before <= set(refs_of(repo).splitlines())
    assert (repo / ".git/config").read_bytes() == config
    assert not (repo / ".git/FETCH_HEAD").exists()


def test_a_remote_whose_name_has_a_slash_is_understood(repo: Path) -> None:
    remote = upstream(repo, "our/mirror")
    assert resolve(repo, "our/mirror/topic/x").commit == git(remote, "rev-parse", "refs/heads/topic/x")


def test_a_local_branch_that_begins_like_a_remote_is_not_fetched(repo: Path) -> None:
    git(repo, "remote", "add", "user", ".")
    git(repo, "branch", "user/feature")
    found = resolve(repo, "user/feature")
    assert found.ref == "refs/heads/user/feature"
    assert "refs/remotes" not in refs_of(repo)


def test_a_remote_that_cannot_be_reached_is_base_not_found_and_asks_nothing(repo: Path) -> None:
    git(repo, "remote", "add", "origin", str(repo.parent / "nowhere.git"))
    refused(repo, "origin/main")


def test_a_hook_and_a_monitor_of_the_repository_do_not_run_in_a_fetch(repo: Path) -> None:
    upstream(repo)
    trace = repo.parent / "trace"
    for name in ("reference-transaction", "post-checkout"):
        path = repo / ".git/hooks" / name
        path.write_text(f"#!/bin/sh\necho ran >> '{trace}'\n")
        path.chmod(0o755)
    git(repo, "branch", "control")
    assert trace.exists()
    trace.unlink()
    resolve(repo, "origin/topic/x")
    assert not trace.exists()


def test_a_present_branch_is_reused_as_it_is_and_starts_at_the_merge_base(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "switch", "-q", "-c", "berth/a")
    tip = commit(repo, {"b.txt": "b"})
    git(repo, "switch", "-q", "main")
    commit(repo, {"c.txt": "c"})
    made = new(repo)
    assert not made.start.creates_branch
    assert (made.start.commit, made.start.start_commit) == (tip, first)
    assert "exists already" in made.start.notes[0]
    assert git(made.path, "rev-parse", "HEAD") == tip


def test_a_present_branch_with_a_given_base_is_refused(repo: Path) -> None:
    git(repo, "branch", "berth/a")
    with pytest.raises(BerthError) as caught:
        new(repo, base_given=True)
    assert caught.value.code == "branch_exists"
    assert "drop `--base`" in (caught.value.hint or "")


@pytest.mark.parametrize("where", ["primary", "linked", "missing"])
def test_a_branch_that_is_checked_out_elsewhere_is_refused(repo: Path, where: str) -> None:
    if where == "primary":
        git(repo, "switch", "-q", "-c", "berth/a")
    else:
        git(repo, "worktree", "add", "-q", "-b", "berth/a", str(repo.parent / "elsewhere"))
    if where == "missing":
        (repo.parent / "elsewhere").rename(repo.parent / "moved")
    with pytest.raises(BerthError) as caught:
        new(repo)
    assert caught.value.code == "branch_checked_out"


@pytest.mark.parametrize("other", ["berth", "berth/a/x", "berth/a/x/y"])
def test_a_branch_that_excludes_ours_is_named(repo: Path, other: str) -> None:
    git(repo, "branch", other)
    before = refs_of(repo)
    with pytest.raises(BerthError) as caught:
        new(repo)
    assert caught.value.code == "branch_exists"
    assert f"refs/heads/{other}" in caught.value.message
    assert refs_of(repo) == before


def test_branches_of_other_workspaces_are_in_nobodys_way(repo: Path) -> None:
    new(repo, "a")
    new(repo, "a-b")
    new(repo, "ab")


def test_a_stale_configuration_section_is_noted_and_left(repo: Path) -> None:
    git(repo, "config", "branch.berth/a.remote", "origin")
    config = (repo / ".git/config").read_bytes()
    made = new(repo)
    assert any('[branch "berth/a"]' in note for note in made.start.notes)
    assert (repo / ".git/config").read_bytes() == config
    assert new(repo, "b").start.notes == ()


def test_the_name_rule_is_gits_own() -> None:
    good = ["a", "a/b", "a.b", "é", "-", "-a", "@", "a@"]
    bad = [".a", "a/.b", "a.lock", "a.lock/b", "a..b", "/a", "a/", "a//b", "a.", "a@{b", ""]
    names = good + bad + [f"a{character}b" for character in "~^:?*[\\ \t\x7f"]
    for name in names:
        done = os.spawnlp(os.P_WAIT, "git", "git", "check-ref-format", f"refs/heads/{name}")
        assert refs.is_ref_name(name) == (done == 0), name


def test_a_deletion_compares_before_it_deletes(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "branch", "berth/a")
    second = commit(repo, {"b.txt": "b"})
    with pytest.raises(BerthError) as caught:
        refs.delete_branch(str(repo / ".git"), "refs/heads/berth/a", second, env=env_of())
    assert caught.value.code == "branch_moved"
    assert first in caught.value.message
    refs.delete_branch(str(repo / ".git"), "refs/heads/berth/a", first, env=env_of())
    assert "berth/a" not in refs_of(repo)
    refs.delete_branch(str(repo / ".git"), "refs/heads/berth/a", first, env=env_of())


def test_a_packed_branch_is_deleted_too(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "branch", "berth/a")
    git(repo, "pack-refs", "--all")
    refs.delete_branch(str(repo / ".git"), "refs/heads/berth/a", first, env=env_of())
    assert "berth/a" not in refs_of(repo)


def test_a_link_instead_of_a_branch_is_deleted_without_what_it_leads_to(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "symbolic-ref", "refs/heads/berth/a", "refs/heads/main")
    refs.delete_branch(str(repo / ".git"), "refs/heads/berth/a", first, env=env_of())
    assert refs_of(repo) == f"refs/heads/main {first}"


def test_the_list_tells_locks_reasons_and_missing_directories(repo: Path) -> None:
    locked, moved = new(repo, "locked"), new(repo, "moved")
    git(repo, "worktree", "lock", "--reason", "on a\nremovable disk", str(locked.path))
    moved.path.rename(repo.parent / "away")
    entries = worktrees.worktrees(str(repo / ".git"), env=env_of())
    assert [entry.bare for entry in entries] == [False] * 3
    found = worktrees.worktree_at(entries, str(locked.path))
    assert found is not None
    assert found.lock_reason == "on a\nremovable disk"
    gone = worktrees.worktree_at(entries, str(moved.path))
    assert gone is not None
    assert gone.missing
    assert gone.branch == "refs/heads/berth/moved"
    assert worktrees.lock_reason(locked.git_dir) == "on a\nremovable disk"
    assert worktrees.lock_reason(moved.git_dir) is None


def test_two_repositories_with_one_name_do_not_share_anything(tmp_path: Path) -> None:
    one, two = make_repo(tmp_path / "x/app"), make_repo(tmp_path / "y/app")
    assert new(one).path != new(two).path
