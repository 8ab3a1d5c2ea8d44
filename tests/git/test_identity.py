"""What the plain files and git say of a checkout, and that planted files make the host run nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import checkout, status, worktrees
from support.checkouts import Made, env_of, new
from support.repos import commit, git, make_repo, write


def verify(made: Made) -> None:
    checkout.verify_plain(str(made.path), git_dir=made.git_dir, common_dir=made.common_dir, primary=made.repo.path)


def refused(made: Made, code: str = "identity_mismatch") -> str:
    """Both ways refuse: the plain files against the record, and the target check that asks git."""
    with pytest.raises(BerthError) as plain:
        verify(made)
    assert plain.value.code == code
    with pytest.raises(BerthError) as asked:
        worktrees.target(str(made.path), repo=made.repo, env=env_of())
    assert asked.value.code == code
    return plain.value.message


def test_a_deleted_git_file_is_a_mismatch(repo: Path) -> None:
    made = new(repo)
    verify(made)
    (made.path / ".git").unlink()
    assert ".git" in refused(made)


def test_a_deleted_git_file_inside_the_repository_is_not_taken_for_the_primary(repo: Path) -> None:
    made = new(repo, path=repo / ".worktrees" / "a")
    (made.path / ".git").unlink()
    refused(made)


def test_a_missing_checkout_is_said_so(repo: Path) -> None:
    made = new(repo)
    made.path.rename(repo.parent / "away")
    refused(made, "checkout_missing")


def test_two_swapped_checkouts_are_a_mismatch(repo: Path) -> None:
    one, two = new(repo, "a"), new(repo, "b")
    one.path.rename(repo.parent / "aside")
    two.path.rename(one.path)
    with pytest.raises(BerthError) as caught:
        verify(one)
    assert caught.value.code == "identity_mismatch"
    assert two.git_dir in caught.value.message


def test_a_clone_at_the_path_is_a_mismatch(repo: Path) -> None:
    made = new(repo)
    made.path.rename(repo.parent / "aside")
    git(repo.parent, "clone", "-q", str(repo), str(made.path))
    refused(made)


def test_an_emptied_directory_and_a_link_to_the_checkout_are_mismatches(repo: Path) -> None:
    made = new(repo)
    made.path.rename(repo.parent / "aside")
    made.path.mkdir()
    refused(made)
    made.path.rmdir()
    made.path.symlink_to(repo.parent / "aside")
    assert "link" in refused(made)


def test_a_dropped_entry_is_a_mismatch(repo: Path) -> None:
    import shutil

    made = new(repo)
    shutil.rmtree(made.git_dir)
    refused(made)


@pytest.mark.parametrize("name", ["commondir", "gitdir"])
def test_a_changed_admin_file_is_a_mismatch_that_names_it(repo: Path, tmp_path: Path, name: str) -> None:
    made = new(repo)
    other = make_repo(tmp_path / "other")
    text = str(other / ".git") + "\n"
    Path(made.git_dir, name).write_text(text)
    assert name in refused(made)


@pytest.mark.parametrize("name", ["commondir", "gitdir"])
def test_an_admin_file_that_became_a_link_is_a_mismatch(repo: Path, name: str) -> None:
    made = new(repo)
    path = Path(made.git_dir, name)
    path.rename(path.with_name("real"))
    path.symlink_to("real")
    with pytest.raises(BerthError) as caught:
        verify(made)
    assert caught.value.code == "identity_mismatch"


def test_a_git_file_that_is_a_fifo_blocks_nothing(repo: Path) -> None:
    made = new(repo)
    (made.path / ".git").unlink()
    os.mkfifo(made.path / ".git")
    with pytest.raises(BerthError):
        verify(made)


def test_a_git_file_that_goes_through_a_link_in_the_checkout_is_a_mismatch(repo: Path) -> None:
    made = new(repo)
    (made.path / "way").symlink_to(made.git_dir)
    (made.path / ".git").write_text(f"gitdir: {made.path}/way\n")
    with pytest.raises(BerthError):
        verify(made)


def test_a_gone_repository_is_repository_missing(repo: Path) -> None:
    made = new(repo)
    repo.rename(repo.parent / "moved")
    refused(made, "repository_missing")


def test_the_primary_and_what_holds_it_are_refused_by_name(repo: Path) -> None:
    made = new(repo)
    for path in (repo, repo.parent, Path("/")):
        with pytest.raises(BerthError) as caught:
            worktrees.target(str(path), repo=made.repo, env=env_of())
        assert caught.value.code == "primary_checkout"


def test_a_worktree_of_another_repository_is_a_mismatch(repo: Path, tmp_path: Path) -> None:
    made, other = new(repo), new(make_repo(tmp_path / "other"))
    with pytest.raises(BerthError) as caught:
        worktrees.target(str(other.path), repo=made.repo, env=env_of())
    assert caught.value.code == "identity_mismatch"
    assert other.common_dir in caught.value.message


def test_a_directory_inside_a_checkout_is_no_target(repo: Path) -> None:
    commit(repo, {"sub/x": "x"})
    made = new(repo)
    with pytest.raises(BerthError) as caught:
        worktrees.target(str(made.path / "sub"), repo=made.repo, env=env_of())
    assert caught.value.code == "identity_mismatch"


def test_relative_paths_in_the_metadata_are_understood(repo: Path) -> None:
    made = new(repo)
    (made.path / ".git").write_text(f"gitdir: {os.path.relpath(made.git_dir, made.path)}\n")
    Path(made.git_dir, "gitdir").write_text(os.path.relpath(made.path / ".git", made.git_dir) + "\n")
    verify(made)


def test_a_checkout_reached_through_a_symlinked_parent_verifies(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo.parent)
    made = new(tmp_path / "link" / "app", path=tmp_path / "link" / "app.berths" / "a")
    real = repo.parent / "app.berths" / "a"
    checkout.verify_plain(str(real), git_dir=made.git_dir, common_dir=made.common_dir)
    verify(made)


def test_head_is_read_in_every_state(repo: Path) -> None:
    made = new(repo)
    first = git(repo, "rev-parse", "HEAD")

    def told() -> tuple[str | None, str | None]:
        return (
            checkout.current_branch(made.git_dir, env=env_of()),
            checkout.head_commit(made.git_dir, common_dir=made.common_dir, env=env_of()),
        )

    assert told() == ("berth/a", first)
    git(repo, "pack-refs", "--all")
    assert told() == ("berth/a", first)
    git(made.path, "switch", "-q", "--detach")
    assert told() == (None, first)
    git(made.path, "switch", "-q", "-c", "功能/é")
    assert told() == ("功能/é", first)
    git(made.path, "checkout", "-q", "--orphan", "unborn")
    assert told() == ("unborn", None)


@pytest.mark.parametrize("damage", ["empty file", "missing commit"])
def test_damage_is_not_taken_for_a_branch_without_commits(repo: Path, damage: str) -> None:
    from berth.tools.git import preservation

    made = new(repo)
    loose = repo / ".git/refs/heads/berth/a"
    loose.write_text("" if damage == "empty file" else "1" * 40 + "\n")

    def answer() -> bool:
        head = checkout.head_commit(made.git_dir, common_dir=made.common_dir, env=env_of())
        work = preservation.Work(
            head, branch="berth/a", base="main", start_commit=made.start.start_commit, doomed="berth/a"
        )
        return preservation.is_preserved(made.common_dir, work, env=env_of())

    with pytest.raises(BerthError) as caught:
        answer()
    assert caught.value.code == "git_failed"


def test_an_unborn_worktree_does_not_break_the_list(repo: Path) -> None:
    made = new(repo)
    git(made.path, "checkout", "-q", "--orphan", "unborn")
    entry = worktrees.worktree_at(worktrees.worktrees(made.common_dir, env=env_of()), str(made.path))
    assert entry is not None
    assert (entry.head, entry.branch) == (None, "refs/heads/unborn")


# Planted files


def tripwire(path: Path, trace: Path) -> str:
    write(path.parent, {path.name: f"#!/bin/sh\necho ran >> '{trace}'\n"})
    path.chmod(0o755)
    return str(path)


def test_a_planted_monitor_in_the_worktree_configuration_does_not_run(repo: Path, tmp_path: Path) -> None:
    made = new(repo)
    trace = tmp_path / "trace"
    program = tripwire(tmp_path / "monitor", trace)
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(made.path, "config", "--worktree", "core.fsmonitor", program)
    git(made.path, "status")
    assert trace.exists()  # plain git does run it
    trace.unlink()
    status.status(str(made.path), env=env_of())
    assert not trace.exists()


def test_planted_hooks_do_not_run_in_any_question(repo: Path, tmp_path: Path) -> None:
    made = new(repo)
    trace = tmp_path / "trace"
    for name in ("post-index-change", "reference-transaction", "post-checkout"):
        tripwire(repo / ".git/hooks" / name, trace)
    from berth.tools.git import creation, refs

    creation.refresh_index(str(made.path), env=env_of())
    status.status(str(made.path), env=env_of())
    refs.create_branch(made.common_dir, "refs/heads/x", made.start.commit, env=env_of())
    refs.delete_branch(made.common_dir, "refs/heads/x", made.start.commit, env=env_of())
    assert not trace.exists()


def test_a_planted_monitor_in_a_submodule_does_not_run(tmp_path: Path) -> None:
    library = make_repo(tmp_path / "library")
    repo = make_repo(tmp_path / "app")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    git(repo, "commit", "-qm", "sub")
    trace = tmp_path / "trace"
    git(repo / "lib", "config", "core.fsmonitor", tripwire(tmp_path / "monitor", trace))
    git(repo / "lib", "status")
    assert trace.exists()
    trace.unlink()
    status.status(str(repo), env=env_of())
    assert not trace.exists()


def test_status_takes_no_lock_and_writes_no_index(repo: Path) -> None:
    made = new(repo)
    index = Path(made.git_dir, "index")
    os.utime(made.path / "a.txt", (1, 1))
    before = index.read_bytes(), index.stat().st_mtime_ns
    Path(made.git_dir, "index.lock").touch()
    assert not status.status(str(made.path), env=env_of()).dirty
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_a_failing_status_is_git_failed_with_the_arguments_and_the_code(repo: Path) -> None:
    made = new(repo)
    Path(made.git_dir, "index").write_bytes(b"garbage")
    with pytest.raises(BerthError) as caught:
        status.status(str(made.path), env=env_of())
    assert caught.value.code == "git_failed"
    assert "status" in caught.value.message
    assert "128" in caught.value.message
    assert "index" in caught.value.message
