"""Making a checkout: what exists afterwards, and that a failure leaves nothing."""

from __future__ import annotations

import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import checkout, status, worktrees
from support.checkouts import env_of, new, refs_of
from support.repos import commit, git, make_repo, write


def hook(repo: Path, name: str, text: str) -> None:
    path = repo / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_a_new_checkout_is_clean_and_on_its_own_branch_without_upstream(repo: Path) -> None:
    config = (repo / ".git/config").read_bytes()
    made = new(repo)
    assert git(made.path, "symbolic-ref", "HEAD") == "refs/heads/berth/a"
    assert git(made.path, "status", "--porcelain") == ""
    assert git(repo, "for-each-ref", "--format=%(upstream)", "refs/heads/berth/a") == ""
    assert (repo / ".git/config").read_bytes() == config
    assert made.start.creates_branch


def test_no_tracking_is_configured_even_where_the_user_always_wants_it(repo: Path) -> None:
    git(repo, "config", "branch.autoSetupMerge", "always")
    git(repo, "config", "branch.autoSetupRebase", "always")
    config = (repo / ".git/config").read_bytes()
    new(repo)
    assert (repo / ".git/config").read_bytes() == config


def test_parents_are_made_0755_whatever_the_umask(repo: Path) -> None:
    before = os.umask(0o077)
    try:
        made = new(repo, path=repo.parent / "deep" / "er" / "a")
    finally:
        os.umask(before)
    for parent in (made.path.parent, made.path.parent.parent):
        assert stat.S_IMODE(parent.stat().st_mode) == 0o755


def test_the_plain_files_of_a_new_checkout_agree_with_git(repo: Path) -> None:
    made = new(repo)
    checkout.verify_plain(str(made.path), git_dir=made.git_dir, common_dir=made.common_dir, primary=str(repo))
    assert git(made.path, "rev-parse", "--absolute-git-dir") == made.git_dir
    facts = worktrees.target(str(made.path), repo=made.repo, env=env_of())
    assert (facts.git_dir, facts.common_dir, facts.linked) == (made.git_dir, str(repo / ".git"), True)


@pytest.mark.parametrize("script", ["exit 7", "kill -PIPE $$", "exec no-such-npx-here"])
def test_a_post_checkout_hook_that_fails_after_a_complete_checkout_is_a_warning(repo: Path, script: str) -> None:
    hook(repo, "post-checkout", f"#!/bin/sh\necho said by the hook\n{script}\n")
    made = new(repo)
    assert git(made.path, "status", "--porcelain") == ""
    assert (made.path / "a.txt").read_text() == "hi\n"


def test_the_warning_of_a_failed_hook_names_its_code_and_keeps_its_output(repo: Path) -> None:
    from berth.tools.git import creation, refs, repository

    hook(repo, "post-checkout", "#!/bin/sh\necho said by the hook\nexit 7\n")
    env = env_of()
    where = repository.repository(str(repo), env=env)
    start = refs.starting_point(
        where, "a", base=refs.resolve_base(where, "main", env=env), base_given=False, entries=[], env=env
    )
    added = creation.worktree_add(where, str(repo.parent / "a"), start=start, env=env)
    assert "code 7" in added.warnings[0]
    assert b"said by the hook" in added.output


def test_a_failing_hook_that_left_the_checkout_dirty_rolls_everything_back(repo: Path) -> None:
    hook(repo, "post-checkout", "#!/bin/sh\necho x > dirt\nexit 7\n")
    before = refs_of(repo)
    with pytest.raises(BerthError) as caught:
        new(repo)
    assert caught.value.code == "git_failed"
    assert "7" in caught.value.message
    assert refs_of(repo) == before
    assert not (repo.parent / "app.berths").exists()
    assert len(worktrees.worktrees(str(repo / ".git"), env=env_of())) == 1


def test_directories_that_nobody_can_write_do_not_survive_the_roll_back(repo: Path) -> None:
    hook(repo, "post-checkout", "#!/bin/sh\nmkdir -p d/e && : > d/e/f && chmod 0500 d/e d\nexit 7\n")
    with pytest.raises(BerthError):
        new(repo)
    assert not (repo.parent / "app.berths").exists()


def test_an_impossible_destination_leaves_no_branch_no_entry_and_no_directory(repo: Path) -> None:
    before = refs_of(repo)
    (repo.parent / "app.berths").write_text("a file in the way")
    with pytest.raises(BerthError) as caught:
        new(repo)
    assert caught.value.code == "io_error"
    assert "app.berths" in caught.value.message
    assert refs_of(repo) == before
    assert not (repo / ".git/worktrees").exists()


def test_a_reused_branch_survives_the_roll_back(repo: Path) -> None:
    git(repo, "branch", "berth/a")
    before = refs_of(repo)
    hook(repo, "post-checkout", "#!/bin/sh\necho x > dirt\nexit 7\n")
    with pytest.raises(BerthError):
        new(repo)
    assert refs_of(repo) == before


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_whatever_is_at_the_path_is_refused_and_kept(repo: Path, kind: str) -> None:
    target = repo.parent / "app.berths" / "a"
    target.parent.mkdir()
    if kind == "file":
        target.write_text("precious")
    elif kind == "directory":
        write(target, {"precious.txt": "x"})
    else:
        target.symlink_to("nowhere")
    before = refs_of(repo)
    with pytest.raises(BerthError) as caught:
        new(repo)
    assert caught.value.code == "path_exists"
    assert os.path.lexists(target)
    assert refs_of(repo) == before


def test_an_interruption_takes_everything_back(repo: Path) -> None:
    from berth.errors import Interrupted

    hook(repo, "post-checkout", "#!/bin/sh\n: > ../../reached\nexec sleep 60\n")
    before = refs_of(repo)
    import signal

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted(signal.SIGTERM)

    previous = signal.signal(signal.SIGTERM, interrupt)

    def kill_when_reached() -> None:
        while not (repo.parent / "reached").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=kill_when_reached)
    watcher.start()
    try:
        with pytest.raises(Interrupted):
            new(repo)
    finally:
        signal.signal(signal.SIGTERM, previous)
        watcher.join()
    assert refs_of(repo) == before
    assert not (repo.parent / "app.berths").exists()
    assert len(worktrees.worktrees(str(repo / ".git"), env=env_of())) == 1


def test_twelve_at_once_all_succeed_while_config_lock_is_held(repo: Path) -> None:
    lock = repo / ".git" / "config.lock"
    lock.touch()
    release = threading.Timer(2.0, lock.unlink)
    release.start()
    with ThreadPoolExecutor(12) as pool:
        made = list(pool.map(lambda number: new(repo, f"t{number}"), range(12)))
    release.join()
    assert len({item.git_dir for item in made}) == 12
    assert all(git(item.path, "status", "--porcelain") == "" for item in made)
    assert git(repo, "fsck", "--no-dangling") == ""


def test_an_entry_that_another_git_is_writing_is_waited_for(repo: Path) -> None:
    half = repo / ".git/worktrees/other"
    half.mkdir(parents=True)
    (half / "locked").write_text("initializing")
    (half / "gitdir").write_text(f"{repo.parent}/other/.git\n")
    (half / "HEAD").write_text("0" * 40 + "\n")
    (half / "commondir").write_text("")
    with pytest.raises(AssertionError, match="commondir"):
        git(repo, "worktree", "list")
    release = threading.Timer(1.0, (half / "commondir").write_text, ["../..\n"])
    release.start()
    made = new(repo)
    release.join()
    assert git(made.path, "status", "--porcelain") == ""


def test_a_failure_of_ones_own_is_not_repeated(repo: Path) -> None:
    trace = repo.parent / "trace"
    git(repo, "config", "filter.bad.smudge", f"echo ran >> '{trace}'; exit 1")
    git(repo, "config", "filter.bad.clean", "cat")
    git(repo, "config", "filter.bad.required", "true")
    commit(repo, {".gitattributes": "*.bad filter=bad\n"})
    commit(repo, {"x.bad": "x"})
    with pytest.raises(BerthError) as caught:
        new(repo)
    assert caught.value.code == "git_failed"
    assert trace.read_text() == "ran\n"


@pytest.mark.parametrize("name", ["packed-refs.lock", "refs/heads/berth/a.lock"])
def test_a_reference_lock_of_another_process_is_waited_for(repo: Path, name: str) -> None:
    lock = repo / ".git" / name
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    release = threading.Timer(1.5, lock.unlink)
    release.start()
    made = new(repo)
    release.join()
    assert git(made.path, "status", "--porcelain") == ""


def test_a_required_filter_that_is_not_there_is_named_and_leaves_nothing(repo: Path) -> None:
    commit(repo, {".gitattributes": "*.bin filter=lfs\n", "x.bin": b"\x00data"})
    git(repo, "config", "filter.lfs.required", "true")
    git(repo, "config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    git(repo, "config", "filter.lfs.process", "git-lfs filter-process")
    before = refs_of(repo)
    with pytest.raises(BerthError) as caught:
        new(repo)
    assert caught.value.code == "filter_missing"
    assert "'lfs'" in caught.value.message
    assert "git-lfs" in caught.value.message
    assert "GIT_LFS_SKIP_SMUDGE=1" in (caught.value.hint or "")
    assert refs_of(repo) == before
    assert not (repo.parent / "app.berths").exists()


def test_other_git_variables_reach_the_filter(repo: Path) -> None:
    git(repo, "config", "filter.show.smudge", 'sh -c "cat >/dev/null; printf %s \\"$GIT_LFS_SKIP_SMUDGE\\""')
    commit(repo, {".gitattributes": "*.bin filter=show\n"})
    commit(repo, {"x.bin": "1"})
    made = new(repo, env=env_of({"GIT_LFS_SKIP_SMUDGE": "1"}))
    assert (made.path / "x.bin").read_text() == "1"


def test_the_sparse_checkout_of_the_primary_is_inherited(repo: Path) -> None:
    commit(repo, {"src/x": "1", "big/y": "2", "root.txt": "3"})
    git(repo, "sparse-checkout", "set", "src")
    config = (repo / ".git/config").read_bytes()
    made = new(repo)
    assert sorted(name for name in os.listdir(made.path) if name != ".git") == ["a.txt", "root.txt", "src"]
    assert git(made.path, "status", "--porcelain") == ""
    assert (repo / ".git/config").read_bytes() == config


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"])
def test_inherited_location_variables_mean_nothing(repo: Path, tmp_path: Path, variable: str) -> None:
    other = make_repo(tmp_path / "other", {"other.txt": "x"})
    made = new(repo, env=env_of({variable: str(other / ".git")}))
    assert (made.path / "a.txt").exists()
    assert refs_of(other).count("\n") == 0


def test_a_path_with_spaces_quotes_and_other_scripts_works(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "my répo 日本 'q\" $x & (1)")
    made = new(repo)
    assert git(made.path, "status", "--porcelain") == ""
    checkout.verify_plain(str(made.path), git_dir=made.git_dir, common_dir=made.common_dir)
    assert worktrees.worktree_at(worktrees.worktrees(made.common_dir, env=env_of()), str(made.path)) is not None


@pytest.mark.parametrize("character", ["\n", "\r"])
def test_a_path_with_a_line_break_is_refused(repo: Path, character: str) -> None:
    before = refs_of(repo)
    with pytest.raises(BerthError) as caught:
        new(repo, path=repo.parent / f"a{character}b")
    assert caught.value.code == "unsupported_path"
    assert refs_of(repo) == before


def test_a_file_name_that_is_no_utf8_is_checked_out_and_status_survives_it(repo: Path) -> None:
    (repo / os.fsdecode(b"bad\xff")).write_text("x")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "bytes")
    made = new(repo, env=env_of({"LC_ALL": "C"}))
    (made.path / os.fsdecode(b"bad\xff")).write_text("changed")
    found = status.status(str(made.path), env=env_of({"LC_ALL": "C"}))
    assert found.paths == ("bad�",)


def test_a_branch_checked_out_nowhere_else_but_tagged_alike_is_the_branch(repo: Path) -> None:
    git(repo, "branch", "berth/a")
    first = git(repo, "rev-parse", "HEAD")
    commit(repo, {"b.txt": "2"})
    git(repo, "tag", "berth/a")
    made = new(repo)
    assert git(made.path, "rev-parse", "HEAD") == first
    assert git(made.path, "symbolic-ref", "HEAD") == "refs/heads/berth/a"
