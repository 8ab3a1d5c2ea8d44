"""Rules 1 to 5 of the preservation test, each with the case that holds and the nearest one that does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import preservation
from support.checkouts import Made, env_of, new, refs_of
from support.repos import commit, git, make_repo, write


def verdict(made: Made, *, base: str = "main") -> str:
    """ "preserved", or the code of the refusal."""
    work = preservation.work_in(
        str(made.path),
        git_dir=made.git_dir,
        common_dir=made.common_dir,
        base=base,
        start_commit=made.start.start_commit,
        own_branch=made.start.branch,
        env=env_of(),
    )
    before = refs_of(Path(made.repo.path)), Path(made.common_dir, "config").read_bytes(), objects(made)
    try:
        preservation.check_preserved(str(made.path), common_dir=made.common_dir, work=work, env=env_of())
    except BerthError as error:
        return error.code
    finally:
        after = refs_of(Path(made.repo.path)), Path(made.common_dir, "config").read_bytes(), objects(made)
        assert after == before
    return "preserved"


def objects(made: Made) -> str:
    return git(made.repo.path, "count-objects", "-v")


def refusal(made: Made, *, base: str = "main") -> str:
    work = preservation.work_in(
        str(made.path),
        git_dir=made.git_dir,
        common_dir=made.common_dir,
        base=base,
        start_commit=made.start.start_commit,
        own_branch=made.start.branch,
        env=env_of(),
    )
    with pytest.raises(BerthError) as caught:
        preservation.check_preserved(str(made.path), common_dir=made.common_dir, work=work, env=env_of())
    assert caught.value.exit_status == 3
    return caught.value.message


def with_remote(repo: Path) -> Path:
    remote = repo.parent / "remote.git"
    git(repo.parent, "clone", "-q", "--bare", str(repo), str(remote))
    git(repo, "remote", "add", "origin", str(remote))
    git(repo, "fetch", "-q", "origin")
    return remote


# Rule 1: clean


def test_a_fresh_workspace_is_preserved(repo: Path) -> None:
    assert verdict(new(repo)) == "preserved"


@pytest.mark.parametrize(
    "setting",
    [
        ("status.showUntrackedFiles", "no"),
        ("core.untrackedCache", "true"),
        ("core.fsmonitor", "true"),
        ("diff.ignoreSubmodules", "all"),
        ("status.branch", "true"),
        ("status.relativePaths", "true"),
    ],
)
def test_one_untracked_file_is_dirty_whatever_the_user_configured(repo: Path, setting: tuple[str, str]) -> None:
    git(repo, "config", *setting)
    made = new(repo)
    write(made.path, {"deep/precious.txt": "x"})
    assert verdict(made) == "dirty"
    assert "deep/precious.txt" in refusal(made)


def test_a_changed_a_staged_and_a_deleted_file_are_dirty(repo: Path) -> None:
    commit(repo, {"b.txt": "b", "c.txt": "c"})
    made = new(repo)
    write(made.path, {"a.txt": "changed"})
    assert verdict(made) == "dirty"
    git(made.path, "add", "a.txt")
    assert verdict(made) == "dirty"
    git(made.path, "commit", "-qm", "x")
    (made.path / "b.txt").unlink()
    assert "b.txt" in refusal(made)


def test_ignored_files_do_not_count(repo: Path) -> None:
    commit(repo, {".gitignore": "data/\n"})
    made = new(repo)
    write(made.path, {"data/x.db": "x"})
    assert verdict(made) == "preserved"


def test_a_refusal_lists_ten_paths_and_counts_the_rest(repo: Path) -> None:
    made = new(repo)
    write(made.path, {f"file-{number:02}": "x" for number in range(13)})
    message = refusal(made)
    assert "file-09" in message
    assert "file-10" not in message
    assert "3 more" in message


def test_a_name_that_is_no_utf8_is_listed_readably(repo: Path) -> None:
    made = new(repo)
    (made.path / os.fsdecode(b"\xff.txt")).write_text("x")
    assert "�.txt" in refusal(made)


# Rule 3a


def test_a_commit_that_is_nowhere_else_is_named(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "b"}, "add the b file")
    message = refusal(made)
    assert verdict(made) == "not_preserved"
    assert "add the b file" in message
    assert git(made.path, "rev-parse", "--short", "HEAD") in message


def test_more_than_ten_commits_are_counted(repo: Path) -> None:
    made = new(repo)
    for number in range(12):
        git(made.path, "commit", "-q", "--allow-empty", "-m", f"step {number:02}")
    message = refusal(made)
    assert "step 11" in message
    assert "step 01" not in message
    assert "12 commits" in message
    assert "2 more" in message


def test_a_merged_branch_is_preserved_by_fast_forward_and_by_a_merge_commit(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "b"})
    git(repo, "merge", "-q", "--no-ff", "-m", "merge", made.start.branch)
    assert verdict(made) == "preserved"


def test_merged_only_on_the_remote_is_preserved_once_it_was_fetched(repo: Path) -> None:
    remote = with_remote(repo)
    made = new(repo)
    work = commit(made.path, {"b.txt": "b"})
    git(made.path, "push", "-q", str(remote), f"{work}:refs/heads/main")
    assert verdict(made) == "not_preserved"  # nothing is fetched
    git(repo, "fetch", "-q", "origin")
    assert verdict(made) == "preserved"


def test_another_local_branch_does_not_count(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "b"}, "kept only locally")
    git(repo, "branch", "backup", made.start.branch)
    assert verdict(made) == "not_preserved"
    assert "kept only locally" in refusal(made)


def test_the_branch_that_would_be_deleted_is_no_base_of_itself(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "b"})
    assert verdict(made, base="berth/a") == "not_preserved"


def test_an_alias_of_the_doomed_branch_is_no_base_either(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "b"})
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/berth/a")
    assert verdict(made, base="alias") == "not_preserved"


@pytest.mark.parametrize("kind", ["tag", "annotated tag", "commit", "remote-tracking branch"])
def test_every_kind_of_base_keeps_what_it_contains(repo: Path, kind: str) -> None:
    made = new(repo)
    work = commit(made.path, {"b.txt": "b"})
    if kind == "tag":
        git(repo, "tag", "kept", work)
        assert verdict(made, base="kept") == "preserved"
    elif kind == "annotated tag":
        git(repo, "tag", "-a", "-m", "x", "kept", work)
        assert verdict(made, base="kept") == "preserved"
    elif kind == "commit":
        assert verdict(made, base=work[:9]) == "preserved"
    else:
        git(repo, "update-ref", "refs/remotes/origin/x", work)
        assert verdict(made, base="origin/x") == "preserved"


def test_a_base_that_is_gone_keeps_nothing(repo: Path) -> None:
    git(repo, "branch", "topic")
    made = new(repo, base="topic")
    git(repo, "branch", "-D", "topic")
    commit(made.path, {"b.txt": "b"})
    assert verdict(made, base="topic") == "not_preserved"


# Rule 3b: picked


def test_commits_that_were_picked_one_by_one_are_preserved(repo: Path) -> None:
    made = new(repo)
    one = commit(made.path, {"b.txt": "b"})
    two = commit(made.path, {"c.txt": "c"})
    commit(repo, {"other.txt": "o"})
    git(repo, "cherry-pick", one, two)
    commit(repo, {"more.txt": "m"})
    assert verdict(made) == "preserved"


def test_one_commit_left_out_of_the_picking_is_not_preserved(repo: Path) -> None:
    made = new(repo)
    one = commit(made.path, {"b.txt": "b"})
    commit(made.path, {"c.txt": "c"}, "left out")
    commit(repo, {"other.txt": "o"})
    git(repo, "cherry-pick", one)
    assert "left out" in refusal(made)


def test_a_merge_of_the_base_without_changes_of_its_own_does_not_matter(repo: Path) -> None:
    made = new(repo)
    one = commit(made.path, {"b.txt": "b"})
    commit(repo, {"other.txt": "o"})
    git(made.path, "merge", "-q", "--no-ff", "-m", "sync", "main")
    git(repo, "cherry-pick", one)
    commit(repo, {"later.txt": "l"})
    assert verdict(made) == "preserved"


def test_a_merge_that_carries_changes_of_its_own_is_not_preserved(repo: Path) -> None:
    made = new(repo)
    one = commit(made.path, {"b.txt": "b"})
    commit(repo, {"other.txt": "o"})
    git(made.path, "merge", "-q", "--no-ff", "--no-commit", "main")
    write(made.path, {"evil.txt": "only in the merge"})
    git(made.path, "add", "-A")
    git(made.path, "commit", "-qm", "sync, and something more")
    git(repo, "cherry-pick", one)
    commit(repo, {"later.txt": "l"})
    assert "something more" in refusal(made)


def test_a_merge_whose_conflict_was_resolved_by_hand_is_not_preserved(repo: Path) -> None:
    made = new(repo)
    one = commit(made.path, {"b.txt": "b"})
    commit(made.path, {"a.txt": "theirs\n"})
    two = git(made.path, "rev-parse", "HEAD")
    commit(repo, {"a.txt": "ours\n"})
    git(made.path, "merge", "-q", "main", check=False)
    write(made.path, {"a.txt": "resolved\n"})
    git(made.path, "add", "-A")
    git(made.path, "commit", "-qm", "resolved")
    git(repo, "cherry-pick", one)
    git(repo, "cherry-pick", "-X", "theirs", two, check=False)
    assert verdict(made) == "not_preserved"


def test_an_octopus_merge_without_changes_of_its_own_does_not_matter(repo: Path) -> None:
    made = new(repo)
    one = commit(made.path, {"b.txt": "b"})
    git(repo, "branch", "x")
    git(repo, "branch", "y")
    for name in ("x", "y"):
        git(repo, "switch", "-q", name)
        commit(repo, {f"{name}.txt": name})
    git(made.path, "merge", "-q", "-m", "octopus", "x", "y")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "-m", "x and y", "x", "y")
    git(repo, "cherry-pick", one)
    commit(repo, {"later.txt": "l"})
    assert git(made.path, "rev-list", "--min-parents=3", "HEAD") != ""
    assert verdict(made) == "preserved"


# Rule 3c: the same files in a base that moved on


def test_the_same_tree_on_a_base_that_moved_on_is_preserved(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "1"})
    commit(made.path, {"b.txt": "2", "c.txt": "c"})
    commit(repo, {"b.txt": "2"})
    commit(repo, {"c.txt": "c"})
    assert verdict(made) == "preserved"


def test_only_empty_commits_on_an_unmoved_base_are_not_preserved(repo: Path) -> None:
    made = new(repo)
    git(made.path, "commit", "-q", "--allow-empty", "-m", "thoughts")
    assert "thoughts" in refusal(made)


def test_self_reverting_commits_on_an_unmoved_base_are_not_preserved(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "b"})
    git(made.path, "revert", "--no-edit", "HEAD")
    assert verdict(made) == "not_preserved"


# Rule 3d: squashed


def squashed(repo: Path) -> Made:
    made = new(repo)
    commit(made.path, {"b.txt": "one\n"})
    commit(made.path, {"b.txt": "one\ntwo\n", "a.txt": "hi there\n"})
    commit(repo, {"before.txt": "x"})
    git(repo, "merge", "-q", "--squash", made.start.branch)
    git(repo, "commit", "-qm", "squashed")
    commit(repo, {"after.txt": "x"})
    return made


def test_a_squash_merge_is_preserved(repo: Path) -> None:
    assert verdict(squashed(repo)) == "preserved"


@pytest.mark.parametrize(
    "setting",
    [
        ("diff.context", "9"),
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.algorithm", "patience"),
        ("diff.renames", "copies"),
        ("diff.external", "false"),
        ("diff.orderFile", "/dev/null"),
        ("diff.interHunkContext", "5"),
        ("diff.suppressBlankEmpty", "true"),
        ("color.ui", "always"),
    ],
)
def test_a_squash_merge_is_preserved_whatever_diff_says(repo: Path, setting: tuple[str, str]) -> None:
    git(repo, "config", *setting)
    assert verdict(squashed(repo)) == "preserved"


def test_a_squash_that_reached_the_base_on_a_side_branch_is_preserved(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"*b [1].txt": "one\n"})
    commit(made.path, {"*b [1].txt": "one\ntwo\n"})
    git(repo, "switch", "-q", "-c", "side")
    git(repo, "merge", "-q", "--squash", made.start.branch)
    git(repo, "commit", "-qm", "squashed")
    git(repo, "revert", "--no-edit", "HEAD")
    git(repo, "switch", "-q", "main")
    commit(repo, {"other.txt": "x"})
    git(repo, "merge", "-q", "--no-ff", "-m", "side", "side")
    assert verdict(made) == "preserved"


@pytest.mark.parametrize("setting", [None, ("diff.context", "9"), ("diff.context", "0")])
def test_one_more_commit_after_the_squash_is_not_preserved(repo: Path, setting: tuple[str, str] | None) -> None:
    if setting is not None:
        git(repo, "config", *setting)
    made = squashed(repo)
    commit(made.path, {"b.txt": "one\ntwo\nthree\n"}, "after the squash")
    assert "after the squash" in refusal(made)


def test_a_squash_of_binary_files_is_preserved_only_with_the_same_bytes(repo: Path) -> None:
    commit(repo, {"x.bin": b"\x00old"})
    made = new(repo)
    commit(made.path, {"x.bin": b"\x00one"})
    commit(made.path, {"x.bin": b"\x00new"})
    commit(repo, {"before.txt": "x"})
    commit(repo, {"x.bin": b"\x00something else"})
    commit(repo, {"after.txt": "x"})
    assert verdict(made) == "not_preserved"
    commit(repo, {"x.bin": b"\x00old"})
    commit(repo, {"x.bin": b"\x00new"})
    commit(repo, {"again.txt": "x"})
    assert verdict(made) == "preserved"


def test_a_change_of_mode_alone_is_work(repo: Path) -> None:
    made = new(repo)
    (made.path / "a.txt").chmod(0o755)
    git(made.path, "commit", "-qam", "executable")
    commit(repo, {"other.txt": "x"})
    assert verdict(made) == "not_preserved"
    (repo / "a.txt").chmod(0o755)
    git(repo, "commit", "-qam", "the same")
    commit(repo, {"after.txt": "x"})
    assert verdict(made) == "preserved"


def test_an_unrelated_history_is_not_preserved(repo: Path) -> None:
    made = new(repo)
    git(made.path, "checkout", "-q", "--orphan", "berth/other")
    commit(made.path, {"b.txt": "b"}, "from nothing")
    assert git(repo, "merge-base", "main", "berth/other", check=False) == ""
    assert verdict(made) == "not_preserved"


def test_a_workspace_without_any_commit_has_nothing_to_lose(repo: Path) -> None:
    made = new(repo)
    git(made.path, "checkout", "-q", "--orphan", "unborn")
    git(made.path, "rm", "-rfq", ".")
    assert verdict(made) == "preserved"


# Rule 4: published


def test_pushed_to_the_tracking_branch_is_preserved_and_one_ahead_is_not(repo: Path) -> None:
    with_remote(repo)
    made = new(repo)
    commit(made.path, {"b.txt": "b"})
    git(made.path, "push", "-q", "-u", "origin", "HEAD:refs/heads/topic")
    assert verdict(made) == "preserved"
    commit(made.path, {"c.txt": "c"}, "one ahead")
    assert "one ahead" in refusal(made)


def test_pushed_without_tracking_to_the_same_name_is_preserved(repo: Path) -> None:
    with_remote(repo)
    made = new(repo)
    commit(made.path, {"b.txt": "b"})
    git(made.path, "push", "-q", "origin", "berth/a")
    git(repo, "fetch", "-q", "origin")
    assert verdict(made) == "preserved"


def test_a_local_tracking_branch_does_not_count(repo: Path) -> None:
    made = new(repo)
    commit(made.path, {"b.txt": "b"})
    git(repo, "branch", "copy", made.start.branch)
    git(made.path, "branch", "-q", "--set-upstream-to=copy")
    assert verdict(made) == "not_preserved"


def test_pushed_under_another_name_without_tracking_does_not_count_but_is_said(repo: Path) -> None:
    with_remote(repo)
    made = new(repo)
    commit(made.path, {"b.txt": "b"}, "pushed elsewhere")
    git(made.path, "push", "-q", "origin", "HEAD:refs/heads/other")
    git(repo, "fetch", "-q", "origin")
    assert "pushed elsewhere" in refusal(made)


# Rule 5: detached


def test_a_detached_head_on_a_branch_is_preserved_and_one_beside_all_is_not(repo: Path) -> None:
    made = new(repo)
    git(made.path, "switch", "-q", "--detach")
    assert verdict(made) == "preserved"
    commit(made.path, {"b.txt": "b"}, "on no branch")
    assert "on no branch" in refusal(made)
    git(repo, "branch", "keeper", git(made.path, "rev-parse", "HEAD"))
    assert verdict(made) == "preserved"


def test_a_detached_head_on_a_remote_branch_is_preserved_and_on_a_tag_is_not(repo: Path) -> None:
    made = new(repo)
    git(made.path, "switch", "-q", "--detach")
    work = commit(made.path, {"b.txt": "b"})
    git(repo, "tag", "t", work)
    assert verdict(made) == "not_preserved"
    git(repo, "update-ref", "refs/remotes/origin/x", work)
    assert verdict(made) == "preserved"


def test_the_commits_of_a_switched_branch_count_and_the_own_branch_may_be_a_base(repo: Path) -> None:
    made = new(repo)
    git(made.path, "switch", "-q", "-c", "elsewhere")
    commit(made.path, {"b.txt": "b"})
    assert verdict(made) == "not_preserved"
    git(repo, "update-ref", "refs/heads/berth/a", git(made.path, "rev-parse", "HEAD"))
    assert verdict(made, base="berth/a") == "preserved"


def test_a_submodule_that_is_configured_to_be_ignored_still_is_work(tmp_path: Path) -> None:
    library = make_repo(tmp_path / "library", {"lib.txt": "1"})
    repo = make_repo(tmp_path / "app")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    git(repo, "config", "-f", ".gitmodules", "submodule.lib.ignore", "all")
    git(repo, "config", "submodule.lib.ignore", "all")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "submodule")
    second = commit(library, {"lib.txt": "2"})
    third = commit(library, {"lib.txt": "3"})
    made = new(repo)
    git(made.path, "update-index", "--cacheinfo", f"160000,{second},lib")
    git(made.path, "commit", "-qm", "second")
    git(repo, "update-index", "--cacheinfo", f"160000,{third},lib")
    git(repo, "commit", "-qm", "third")
    commit(repo, {"after.txt": "x"})
    assert verdict(made) == "not_preserved"
