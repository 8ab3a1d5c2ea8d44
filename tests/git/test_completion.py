"""A creation that was killed: waited for while git lives, completed afterwards, and nobody's file is touched."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import checkout, completion, creation, refs, repository, status, worktrees
from support.checkouts import env_of, refs_of
from support.repos import commit, git

SLOW = "m-slow.txt"  # between its neighbours a-… and z-… in the order of the checkout


class Killed:
    """A creation that stands in the filter of one file until it is let go or killed."""

    def __init__(self, repo: Path) -> None:
        self.root = repo
        self.path = repo.parent / "app.berths" / "a"
        self.gate = repo.parent / "gate"
        os.mkfifo(self.gate)
        git(repo, "config", "filter.slow.smudge", f"cat '{self.gate}' >/dev/null; cat")
        commit(
            repo,
            {".gitattributes": f"{SLOW} filter=slow\n", "a-first.txt": "first\n", SLOW: "slow\n", "z-last.txt": "z\n"},
        )
        env = env_of()
        self.repo = repository.repository(str(repo), env=env)
        self.start = refs.starting_point(
            self.repo, "a", base=refs.resolve_base(self.repo, "main", env=env), base_given=False, entries=[], env=env
        )

    def begin(self) -> int:
        """Start it in a process of its own, whose pid is returned; git then waits in the filter."""
        pid = os.fork()
        if pid == 0:
            try:
                creation.worktree_add(self.repo, str(self.path), start=self.start, env=env_of())
            finally:
                os._exit(0)
        while not (self.path / "a-first.txt").exists():
            time.sleep(0.01)
        return pid

    def kill_both(self) -> None:
        """kill -9 of berth and of git, as a power failure would."""
        pid = self.begin()
        (creator,) = [found for found, _ in completion._creators(str(self.path))]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.killpg(creator, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while list(completion._creators(str(self.path))):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        git(self.root, "config", "filter.slow.smudge", "cat")

    def let_go(self) -> None:
        with open(self.gate, "w"):
            pass

    def settled(self) -> str | None:
        return completion.settled(self.repo, str(self.path), env=env_of())

    def complete(self) -> None:
        admin = self.settled()
        assert admin is not None
        completion.complete(self.repo, str(self.path), admin=admin, start=self.start, env=env_of())

    def refuse_others(self) -> None:
        completion.refuse_others_files(self.repo, str(self.path), admin=self.settled(), start=self.start, env=env_of())

    def is_whole(self) -> bool:
        admin = worktrees.admin_dir_of(self.repo.common_dir, str(self.path))
        assert admin is not None
        return creation.is_complete(str(self.path), admin=admin, repo=self.repo, start=self.start, env=env_of())


@pytest.fixture
def killed(repo: Path) -> Killed:
    return Killed(repo)


def test_a_git_that_outlives_berth_is_waited_for(killed: Killed) -> None:
    pid = killed.begin()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    opener = threading.Timer(0.5, killed.let_go)
    opener.start()
    admin = killed.settled()
    opener.join()
    assert admin is not None
    assert killed.is_whole()


def test_a_git_that_never_ends_is_busy_and_named(killed: Killed) -> None:
    pid = killed.begin()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    ((creator, _),) = completion._creators(str(killed.path))
    with pytest.raises(BerthError) as caught:
        completion.settled(killed.repo, str(killed.path), env=env_of(), patience=0.1)
    assert caught.value.code == "busy"
    assert str(creator) in caught.value.message
    killed.let_go()
    assert killed.settled() is not None


def test_a_killed_checkout_is_completed(killed: Killed) -> None:
    killed.kill_both()
    git_dir = worktrees.admin_dir_of(killed.repo.common_dir, str(killed.path))
    assert git_dir is not None
    assert worktrees.lock_reason(git_dir) == "initializing"
    assert not os.path.exists(f"{git_dir}/index")
    assert os.path.exists(f"{git_dir}/index.lock")
    killed.complete()
    assert killed.is_whole()
    assert worktrees.lock_reason(git_dir) is None
    assert git(killed.root, "fsck", "--no-dangling") == ""


def test_files_that_berth_did_not_write_are_kept(killed: Killed) -> None:
    killed.kill_both()
    (killed.path / "mine.txt").write_text("mine")
    (killed.path / "z-last.txt").write_text("my own idea of it")
    killed.complete()
    assert (killed.path / "mine.txt").read_text() == "mine"
    assert (killed.path / "z-last.txt").read_text() == "my own idea of it"
    assert (killed.path / SLOW).read_text() == "slow\n"
    assert status.status(str(killed.path), env=env_of()).paths == ("z-last.txt", "mine.txt")


def test_a_file_that_was_cut_short_is_written_again(killed: Killed) -> None:
    killed.kill_both()
    (killed.path / "a-first.txt").write_text("fir")
    (killed.path / SLOW).write_text("")
    killed.complete()
    assert killed.is_whole()


@pytest.mark.parametrize("lost", [".git", "commondir", "HEAD"])
def test_metadata_that_git_had_not_written_yet_is_written(killed: Killed, lost: str) -> None:
    killed.kill_both()
    admin = worktrees.admin_dir_of(killed.repo.common_dir, str(killed.path))
    assert admin is not None
    (killed.path / lost if lost == ".git" else Path(admin, lost)).unlink()
    killed.complete()
    assert killed.is_whole()


def test_without_any_file_the_entry_is_cleared_for_a_fresh_start(killed: Killed) -> None:
    killed.kill_both()
    for name in os.listdir(killed.path):
        if name != ".git":
            (killed.path / name).unlink()
    assert killed.settled() is None
    assert not os.path.lexists(killed.path)
    assert len(worktrees.worktrees(killed.repo.common_dir, env=env_of())) == 1
    creation.worktree_add(killed.repo, str(killed.path), start=killed.start, env=env_of())
    assert killed.is_whole()


def test_an_empty_directory_without_an_entry_is_cleared_and_a_full_one_is_not(killed: Killed) -> None:
    killed.path.mkdir(parents=True)
    assert killed.settled() is None
    assert not os.path.lexists(killed.path)
    killed.path.mkdir()
    (killed.path / "mine.txt").write_text("mine")
    assert killed.settled() is None
    assert (killed.path / "mine.txt").exists()


def test_an_empty_repository_of_somebody_is_not_cleared(killed: Killed) -> None:
    killed.path.mkdir(parents=True)
    git(killed.path, "init", "-q")
    assert killed.settled() is None
    assert (killed.path / ".git/HEAD").exists()


def test_a_lock_that_a_user_set_is_respected(killed: Killed) -> None:
    killed.kill_both()
    admin = killed.settled()
    assert admin is not None
    Path(admin, "locked").write_text("mine\n")
    with pytest.raises(BerthError) as caught:
        killed.complete()
    assert caught.value.code == "worktree_locked"


def test_a_partial_checkout_with_only_the_commits_files_may_go(killed: Killed) -> None:
    killed.kill_both()
    (killed.path / "a-first.txt").write_text("fir")
    before = sorted(os.listdir(killed.path))
    killed.refuse_others()
    assert sorted(os.listdir(killed.path)) == before


@pytest.mark.parametrize("name", ["mine.txt", "a-first.txt", "deep/er.txt"])
def test_a_partial_checkout_with_somebodys_file_may_not_go_and_stays_as_it_is(killed: Killed, name: str) -> None:
    killed.kill_both()
    (killed.path / name).parent.mkdir(exist_ok=True)
    (killed.path / name).write_text("precious")
    before = sorted(os.listdir(killed.path))
    with pytest.raises(BerthError) as caught:
        killed.refuse_others()
    assert caught.value.code == "dirty"
    assert name in caught.value.message
    assert sorted(os.listdir(killed.path)) == before


def test_the_entry_of_a_killed_creation_is_dropped_and_the_rest_stays(killed: Killed) -> None:
    killed.kill_both()
    config = (killed.root / ".git/config").read_bytes()
    killed.path.rename(killed.path.with_name("aside"))
    completion.forget_entry(killed.repo, str(killed.path), env=env_of())
    assert len(worktrees.worktrees(killed.repo.common_dir, env=env_of())) == 1
    assert "refs/heads/berth/a" in refs_of(killed.root)
    assert (killed.root / ".git/config").read_bytes() == config


def test_the_sparse_checkout_is_kept_in_a_completion(killed: Killed) -> None:
    commit(killed.root, {"src/x": "1", "big/y": "2"})
    git(killed.root, "sparse-checkout", "set", "src")
    killed.start = refs.starting_point(
        killed.repo,
        "a",
        base=refs.resolve_base(killed.repo, "main", env=env_of()),
        base_given=False,
        entries=[],
        env=env_of(),
    )
    killed.kill_both()
    killed.complete()
    assert (killed.path / "src/x").exists()
    assert not (killed.path / "big").exists()
    assert killed.is_whole()


def test_completing_a_whole_checkout_changes_nothing(killed: Killed) -> None:
    git(killed.root, "config", "filter.slow.smudge", "cat")
    added = creation.worktree_add(killed.repo, str(killed.path), start=killed.start, env=env_of())
    (killed.path / "a-first.txt").write_text("changed by me")
    git(killed.path, "add", "a-first.txt")
    before = git(killed.path, "status", "--porcelain")
    killed.complete()
    assert git(killed.path, "status", "--porcelain") == before
    checkout.verify_plain(str(killed.path), git_dir=added.git_dir, common_dir=killed.repo.common_dir)
