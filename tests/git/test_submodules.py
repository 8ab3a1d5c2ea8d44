"""Submodules in a new workspace: filled, independent, and guarded when the workspace ends."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import status, submodules
from support.checkouts import Made, env_of, new
from support.repos import commit, git, make_repo, write


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A repository with the submodule ``lib`` (relative URL), which holds the nested submodule ``deep``."""
    make_repo(tmp_path / "deep", {"deep.txt": "d"})
    library = make_repo(tmp_path / "library", {"lib.txt": "1"})
    git(library, "submodule", "add", "-q", "../deep", "deep")
    git(library, "commit", "-qm", "deep")
    repo = make_repo(tmp_path / "app")
    git(repo, "remote", "add", "origin", str(tmp_path / "app"))
    git(repo, "submodule", "add", "-q", "../library", "lib")
    git(repo, "submodule", "-q", "update", "--init", "--recursive")
    git(repo, "commit", "-qm", "submodule")
    return repo


def fill(made: Made) -> list[str]:
    return submodules.initialise(str(made.path), repo=made.repo, env=env_of())


def check(made: Made) -> None:
    submodules.check_pushed(str(made.path), common_dir=made.common_dir, env=env_of())


def refused(made: Made) -> str:
    with pytest.raises(BerthError) as caught:
        check(made)
    assert caught.value.code == "submodule_unpushed"
    return caught.value.message


def configurations(repo: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in [repo / ".git/config", *(repo / ".git/modules").rglob("config")]}


def test_nested_submodules_are_filled_without_a_word_in_any_shared_configuration(app: Path) -> None:
    before = configurations(app)
    made = new(app)
    assert fill(made) == []
    assert (made.path / "lib/lib.txt").read_text() == "1"
    assert (made.path / "lib/deep/deep.txt").read_text() == "d"
    assert not status.status(str(made.path), env=env_of()).dirty
    assert configurations(app) == before


def test_a_primary_that_never_initialised_them_stays_as_it_is(app: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(app), "clone")
    clone = tmp_path / "clone"
    config = (clone / ".git/config").read_bytes()
    made = new(clone)
    assert fill(made) == []
    assert (made.path / "lib/deep/deep.txt").exists()
    assert (clone / ".git/config").read_bytes() == config
    assert not (clone / ".git/modules").exists()


def test_they_are_independent_of_the_primary_checkout_afterwards(app: Path) -> None:
    made = new(app)
    fill(made)
    shutil.rmtree(app / ".git/modules")
    for name in ("lib", "lib/deep"):
        assert git(made.path / name, "fsck", "--full", "--no-dangling") == ""
        git_dir = git(made.path / name, "rev-parse", "--absolute-git-dir")
        assert not os.path.exists(os.path.join(git_dir, "objects/info/alternates"))
        assert git_dir.startswith(made.git_dir + "/modules/")


def test_a_submodule_that_cannot_be_reached_is_a_warning_that_names_it(app: Path, tmp_path: Path) -> None:
    (tmp_path / "library").rename(tmp_path / "gone")
    made = new(app)
    (warning,) = fill(made)
    assert warning.startswith("submodule lib could not be initialised: ")
    assert not status.status(str(made.path), env=env_of()).dirty


def test_without_permission_for_the_file_protocol_there_is_a_warning(app: Path, tmp_path: Path) -> None:
    made = new(app)
    write(tmp_path, {"plain": "[user]\nname = x\nemail = x@example.com\n"})
    env = env_of({"GIT_CONFIG_GLOBAL": str(tmp_path / "plain")})
    assert len(submodules.initialise(str(made.path), repo=made.repo, env=env)) == 1


def test_a_link_without_an_entry_in_gitmodules_is_a_warning(app: Path) -> None:
    head = git(app, "rev-parse", "HEAD")
    git(app, "update-index", "--add", "--cacheinfo", f"160000,{head},lost")
    git(app, "commit", "-qm", "lost")
    made = new(app)
    (warning,) = fill(made)
    assert "lost" in warning
    assert (made.path / "lib/lib.txt").exists()


def test_one_that_the_user_declared_inactive_stays_empty(app: Path) -> None:
    git(app, "config", "submodule.lib.active", "false")
    made = new(app)
    assert fill(made) == []
    assert not (made.path / "lib/lib.txt").exists()


def test_one_outside_of_the_sparse_checkout_stays_empty(app: Path, tmp_path: Path) -> None:
    git(app, "submodule", "add", "-q", "../library", "big/lib")
    commit(app, {"src/x": "x"})
    git(app, "sparse-checkout", "set", "src")
    made = new(app)
    assert fill(made) == []
    assert not (made.path / "big").exists()
    assert (made.path / "lib/lib.txt").exists()
    assert not status.status(str(made.path), env=env_of()).dirty


def test_hooks_of_the_template_do_not_run_in_submodules(app: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    write(tmp_path / "template/hooks", {"post-checkout": f"#!/bin/sh\necho ran >> '{trace}'\n"})
    (tmp_path / "template/hooks/post-checkout").chmod(0o755)
    made = new(app)
    env = env_of({"GIT_TEMPLATE_DIR": str(tmp_path / "template")})
    assert submodules.initialise(str(made.path), repo=made.repo, env=env) == []
    git_dir = git(made.path / "lib", "rev-parse", "--absolute-git-dir")
    assert os.path.exists(f"{git_dir}/hooks/post-checkout")
    assert not trace.exists()


def test_a_checkout_without_submodules_asks_nothing(repo: Path) -> None:
    made = new(repo)
    assert submodules.initialise(str(made.path), repo=made.repo, env={"PATH": "/nowhere"}) == []


def test_a_filled_workspace_may_go(app: Path) -> None:
    made = new(app)
    check(made)
    fill(made)
    check(made)


@pytest.mark.parametrize("where", ["lib", "lib/deep"])
def test_a_commit_of_a_submodule_that_is_nowhere_else_blocks(app: Path, tmp_path: Path, where: str) -> None:
    made = new(app)
    fill(made)
    work = commit(made.path / where, {"new.txt": "n"})
    assert where in refused(made)
    source = tmp_path / {"lib": "library", "lib/deep": "deep"}[where]
    git(made.path / where, "push", "-q", "origin", f"{work}:refs/heads/topic")
    assert git(source, "rev-parse", "topic") == work
    check(made)


def test_a_branch_of_a_submodule_beside_its_head_blocks(app: Path) -> None:
    made = new(app)
    fill(made)
    git(made.path / "lib", "switch", "-q", "-c", "side")
    commit(made.path / "lib", {"new.txt": "n"})
    git(made.path / "lib", "switch", "-q", "--detach", "HEAD~1")
    assert "refs/heads/side" in refused(made)


def test_what_the_primary_checkouts_module_repository_has_is_kept(app: Path) -> None:
    made = new(app)
    fill(made)
    work = commit(made.path / "lib", {"new.txt": "n"})
    refused(made)
    git(app / "lib", "fetch", "-q", str(made.path / "lib"), "HEAD")
    refused(made)  # its objects alone are no reference
    git(app / "lib", "branch", "kept", work)
    check(made)


def test_a_module_repository_that_no_checkout_shows_any_more_still_blocks(app: Path) -> None:
    made = new(app)
    fill(made)
    work = commit(made.path / "lib", {"new.txt": "n"})
    git(made.path, "submodule", "-q", "deinit", "--force", "lib")
    assert not (made.path / "lib/.git").exists()
    assert work[:12] in refused(made)


def test_a_stash_of_a_submodule_blocks(app: Path) -> None:
    made = new(app)
    fill(made)
    write(made.path / "lib", {"lib.txt": "changed"})
    git(made.path / "lib", "stash", "-q")
    assert "stash" in refused(made)


@pytest.mark.parametrize("setting", ["all", "dirty", "untracked"])
def test_a_dirty_submodule_makes_the_workspace_dirty_even_where_it_is_ignored(app: Path, setting: str) -> None:
    made = new(app)
    fill(made)
    git(app, "config", "submodule.lib.ignore", setting)
    git(app, "config", "diff.ignoreSubmodules", setting)
    write(made.path / "lib", {"untracked.txt": "x"})
    assert status.status(str(made.path), env=env_of()).paths == ("lib",)


def test_a_planted_promisor_remote_starts_no_transport(app: Path, tmp_path: Path) -> None:
    made = new(app)
    fill(made)
    trace = tmp_path / "trace"
    write(tmp_path, {"transport": f"#!/bin/sh\necho ran >> '{trace}'\nexit 1\n"})
    (tmp_path / "transport").chmod(0o755)
    library = made.path / "lib"
    for key, value in {
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{tmp_path}/transport",
        "protocol.ext.allow": "always",
    }.items():
        git(library, "config", key, value)
    git_dir = git(library, "rev-parse", "--absolute-git-dir")
    absent = "1234567890" * 4
    Path(git_dir, "HEAD").write_text(absent + "\n")
    git(library, "cat-file", "-e", "HEAD", check=False)
    assert trace.exists()  # plain git starts it
    trace.unlink()
    with pytest.raises(BerthError):
        check(made)
    assert not trace.exists()
