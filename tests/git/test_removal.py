"""The single steps of ending a worktree: each takes only what it names, and repeats safely."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import checkout, removal, worktrees
from support.checkouts import Made, env_of, new, refs_of
from support.repos import commit, git, make_repo, write


def drop(made: Made) -> None:
    removal.drop_admin_entry(made.common_dir, str(made.path), git_dir=made.git_dir, env=env_of())


def delete(made: Made, expected: str | None = None) -> None:
    removal.delete_workspace_branch(
        made.common_dir, made.start.branch, expected=expected or made.start.commit, env=env_of()
    )


def move_away(made: Made) -> Path:
    away = made.path.parent / ".berth-removing-1"
    made.path.rename(away)
    return away


def test_only_the_one_entry_goes_and_missing_ones_of_others_stay(repo: Path) -> None:
    made, other, lost = new(repo, "a"), new(repo, "b"), new(repo, "lost")
    lost.path.rename(repo.parent / "elsewhere")
    config, before = (repo / ".git/config").read_bytes(), refs_of(repo)
    away = move_away(made)
    drop(made)
    assert [entry.path for entry in worktrees.worktrees(made.common_dir, env=env_of())[1:]] == [
        str(other.path),
        str(lost.path),
    ]
    assert (away / "a.txt").exists()
    assert ((repo / ".git/config").read_bytes(), refs_of(repo)) == (config, before)
    drop(made)


def test_the_last_entry_goes_too(repo: Path) -> None:
    made = new(repo)
    move_away(made)
    drop(made)
    assert len(worktrees.worktrees(made.common_dir, env=env_of())) == 1
    assert git(repo, "fsck", "--no-dangling") == ""


def test_a_checkout_that_is_still_there_is_never_removed(repo: Path) -> None:
    made = new(repo)
    with pytest.raises(BerthError) as caught:
        drop(made)
    assert caught.value.code == "path_exists"
    assert (made.path / "a.txt").exists()
    assert os.path.isdir(made.git_dir)


def test_a_locked_entry_stays_and_its_reason_is_shown(repo: Path) -> None:
    made = new(repo)
    git(repo, "worktree", "lock", "--reason", "on a stick", str(made.path))
    move_away(made)
    with pytest.raises(BerthError) as caught:
        drop(made)
    assert caught.value.code == "worktree_locked"
    assert "on a stick" in caught.value.message
    assert f"git worktree unlock {made.path}" in (caught.value.hint or "")
    assert os.path.isdir(made.git_dir)


def test_an_entry_that_names_another_place_by_now_remains(repo: Path) -> None:
    made = new(repo)
    git(repo, "worktree", "move", str(made.path), str(repo.parent / "moved"))
    with pytest.raises(BerthError) as caught:
        drop(made)
    assert caught.value.code == "checkout_remains"
    assert str(repo.parent / "moved") in caught.value.message
    assert git(repo.parent / "moved", "status", "--porcelain") == ""


def test_an_entry_that_git_keeps_remains(repo: Path, tmp_path: Path) -> None:
    made = new(repo)
    move_away(made)
    write(tmp_path / "bin", {"git": "#!/bin/sh\nexit 0\n"})
    (tmp_path / "bin/git").chmod(0o755)
    env = env_of({"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
    with pytest.raises(BerthError) as caught:
        removal.drop_admin_entry(made.common_dir, str(made.path), git_dir=made.git_dir, env=env)
    assert caught.value.code == "checkout_remains"


def test_a_gone_repository_is_said_so(repo: Path) -> None:
    made = new(repo)
    move_away(made)
    repo.rename(repo.parent / "moved")
    with pytest.raises(BerthError) as caught:
        drop(made)
    assert caught.value.code == "repository_missing"


def test_the_branch_goes_when_it_is_where_it_was_and_again_is_fine(repo: Path) -> None:
    made = new(repo)
    git(repo, "config", "branch.berth/a.remote", "origin")
    config = (repo / ".git/config").read_bytes()
    move_away(made)
    drop(made)
    delete(made)
    assert "berth/a" not in refs_of(repo)
    delete(made)
    assert (repo / ".git/config").read_bytes() == config


def test_a_moved_branch_stays(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "b"})
    move_away(made)
    drop(made)
    before = refs_of(repo)
    with pytest.raises(BerthError) as caught:
        delete(made)
    assert caught.value.code == "branch_moved"
    assert refs_of(repo) == before


def test_a_branch_that_is_checked_out_a_second_time_stays_usable(repo: Path) -> None:
    made = new(repo)
    second = repo.parent / "second"
    git(repo, "worktree", "add", "-q", "-f", str(second), made.start.branch)
    move_away(made)
    drop(made)
    with pytest.raises(BerthError) as caught:
        delete(made)
    assert caught.value.code == "branch_checked_out"
    assert str(second) in caught.value.message
    assert git(second, "status", "--porcelain") == ""


def test_a_branch_that_the_primary_checkout_is_on_stays(repo: Path) -> None:
    made = new(repo)
    move_away(made)
    drop(made)
    git(repo, "switch", "-q", made.start.branch)
    with pytest.raises(BerthError) as caught:
        delete(made)
    assert caught.value.code == "branch_checked_out"


def test_a_lock_on_the_packed_references_is_waited_for(repo: Path) -> None:
    made = new(repo)
    git(repo, "pack-refs", "--all")
    move_away(made)
    drop(made)
    lock = repo / ".git/packed-refs.lock"
    lock.touch()
    release = threading.Timer(1.5, lock.unlink)
    release.start()
    delete(made)
    release.join()
    assert "berth/a" not in refs_of(repo)


def test_stashes_of_the_repository_stay(repo: Path) -> None:
    made = new(repo)
    write(made.path, {"a.txt": "stashed"})
    git(made.path, "stash", "-q")
    before = git(repo, "stash", "list")
    move_away(made)
    drop(made)
    delete(made)
    assert git(repo, "stash", "list") == before != ""


def test_a_checkout_with_submodules_is_dropped(tmp_path: Path) -> None:
    library = make_repo(tmp_path / "library")
    repo = make_repo(tmp_path / "app")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    git(repo, "commit", "-qm", "sub")
    made = new(repo)
    git(made.path, "submodule", "-q", "update", "--init")
    config = (repo / ".git/config").read_bytes()
    move_away(made)
    drop(made)
    assert not os.path.exists(made.git_dir)
    assert (repo / ".git/config").read_bytes() == config


def test_a_moved_away_and_returned_checkout_verifies_again(repo: Path) -> None:
    made = new(repo)
    away = move_away(made)
    away.rename(made.path)
    checkout.verify_plain(str(made.path), git_dir=made.git_dir, common_dir=made.common_dir)
    assert git(made.path, "status", "--porcelain") == ""


def test_thirty_rounds_of_parallel_creation_and_removal_lose_no_object(repo: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def life(number: int) -> str:
        made = new(repo, f"w{number}")
        kept = commit(made.path, {f"{number}.txt": str(number)}, f"work {number}")
        git(repo, "tag", f"kept-{number}", kept)
        made.path.rename(made.path.parent / f".berth-removing-{number}")
        drop(made)
        delete(made, kept)
        return kept

    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(life, range(30)))
    assert git(repo, "rev-list", "--count", "--all") == "31"
    assert git(repo, "fsck", "--full", "--no-dangling") == ""
    assert set(git(repo, "rev-list", "--all").split()) >= set(kept)
    assert "berth/" not in refs_of(repo)
