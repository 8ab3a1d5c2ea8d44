"""Which repository we are in: every layout, from every place in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.tools.git import repository, worktrees
from support.checkouts import env_of, new
from support.repos import commit, git, make_repo, write


def find(cwd: Path, recorded: str | None = None) -> repository.Repository:
    return repository.repository(str(cwd), env=env_of(), recorded=lambda _common: recorded)


def refused(cwd: Path) -> BerthError:
    with pytest.raises(BerthError) as caught:
        find(cwd)
    return caught.value


def test_the_primary_checkout_is_found_from_every_place(repo: Path) -> None:
    commit(repo, {"sub/x": "x"})
    made = new(repo)
    for cwd in (repo, repo / "sub", repo / ".git", repo / ".git/refs", made.path, made.path / "sub"):
        found = find(cwd)
        assert (found.path, found.common_dir, found.bare, found.name) == (str(repo), str(repo / ".git"), False, "app")
        assert found.branch == "main"


def test_another_spelling_of_the_path_is_the_same_repository(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo)
    assert find(tmp_path / "link").path == str(repo)
    assert find(repo / ".." / "app").common_dir == str(repo / ".git")


def test_a_workspace_made_from_inside_a_workspace_is_its_sibling(repo: Path) -> None:
    first = new(repo, "a")
    second = new(first.path, "b")
    assert second.path.parent == first.path.parent


def test_outside_of_any_repository(tmp_path: Path) -> None:
    assert refused(tmp_path).code == "not_a_repository"


def test_a_git_file_that_leads_nowhere_is_a_missing_repository(repo: Path) -> None:
    made = new(repo)
    repo.rename(repo.parent / "moved")
    error = refused(made.path)
    assert error.code == "repository_missing"
    assert str(repo) in error.message


def test_a_broken_repository_is_said_in_gits_words(repo: Path) -> None:
    (repo / ".git/config").write_text("[core\n")
    assert refused(repo).code == "git_failed"


def test_a_submodule_is_refused_and_its_parent_is_named(tmp_path: Path) -> None:
    library = make_repo(tmp_path / "library")
    repo = make_repo(tmp_path / "app")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    error = refused(repo / "lib")
    assert error.code == "unsupported_repository"
    assert str(repo) in error.message
    assert find(repo).path == str(repo)


def test_a_repository_without_commits_is_found(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk", "x")
    found = find(tmp_path / "x")
    assert (found.branch, repository.head_of(found, env=env_of())) == ("trunk", None)


@pytest.mark.parametrize(
    ("directory", "stands_for", "name"),
    [("b/.bare", "b", "b"), ("b/.git", "b", "b"), ("app.git", "app.git", "app"), ("plain", "plain", "plain")],
)
def test_a_bare_repository_is_its_directory_or_the_one_that_holds_it(
    repo: Path, tmp_path: Path, directory: str, stands_for: str, name: str
) -> None:
    root = tmp_path / "bare"
    root.mkdir()
    git(root, "clone", "-q", "--bare", str(repo), directory)
    bare = root / directory
    if directory == "b/.bare":
        (root / "b/.git").write_text("gitdir: ./.bare\n")
        assert find(root / "b").path == str(root / "b")
    git(bare, "worktree", "add", "-q", str(root / "main"), "main")
    config = (bare / "config").read_bytes()
    for cwd in (bare, root / "main"):
        found = find(cwd)
        assert (found.path, found.common_dir, found.bare) == (str(root / stands_for), str(bare), True)
        assert (found.name, found.branch) == (name, "main")
    made = new(root / "main")
    assert made.path == root / f"{stands_for}.berths" / "a"
    assert git(made.path, "status", "--porcelain") == ""
    assert (bare / "config").read_bytes() == config
    assert worktrees.worktrees(str(bare), env=env_of())[0].bare


def test_a_bare_repository_with_worktree_configuration_stays_bare(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "b/.bare")
    bare = tmp_path / "b/.bare"
    git(bare, "worktree", "add", "-q", str(tmp_path / "b/main"), "main")
    git(bare, "config", "extensions.worktreeConfig", "true")
    git(bare, "config", "--unset", "core.bare")
    git(bare, "config", "--worktree", "core.bare", "true")
    before = (bare / "config").read_bytes(), (bare / "config.worktree").read_bytes()
    assert git(tmp_path / "b/main", "status", "--porcelain") == ""
    found = find(tmp_path / "b/main")
    assert (found.path, found.bare) == (str(tmp_path / "b"), True)
    made = new(tmp_path / "b/main")
    assert git(made.path, "status", "--porcelain") == ""
    assert git(made.path, "rev-parse", "--is-bare-repository") == "false"
    assert ((bare / "config").read_bytes(), (bare / "config.worktree").read_bytes()) == before


def test_a_separate_git_directory_is_known_from_inside_or_by_the_record(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--separate-git-dir", str(tmp_path / "store.git"), "app")
    repo = tmp_path / "app"
    commit(repo, {"sub/a.txt": "x"})
    assert find(repo / "sub").path == str(repo)
    made = new(repo)
    error = refused(made.path)
    assert error.code == "unsupported_repository"
    assert find(made.path, recorded=str(repo)).path == str(repo)


def test_a_file_of_a_commit_is_shown_and_links_and_directories_are_none(repo: Path) -> None:
    (repo / "link.yaml").symlink_to("a.txt")
    write(repo, {"berth.yaml": "base: main\n", "dir/x": "x", "*.yaml": "glob", ":(top)x": "magic"})
    head = commit(repo, {})
    (repo / "berth.yaml").write_text("not committed")
    found = find(repo)

    def show(path: str) -> bytes | None:
        return repository.show_file(found, commit=head, path=path, env=env_of())

    assert show("berth.yaml") == b"base: main\n"
    assert show("dir/x") == b"x"
    assert show("*.yaml") == b"glob"
    assert show(":(top)x") == b"magic"
    assert [show(name) for name in ("link.yaml", "dir", "none.yaml", "dir/none")] == [None] * 4


def test_an_old_git_is_refused_with_its_version(repo: Path, tmp_path: Path) -> None:
    write(tmp_path / "bin", {"git": "#!/bin/sh\necho git version 2.35.9\n"})
    (tmp_path / "bin/git").chmod(0o755)
    with pytest.raises(BerthError) as caught:
        repository.repository(str(repo), env=env_of({"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}))
    assert caught.value.code == "git_too_old"
    assert "2.35.9" in caught.value.message
    assert "2.36" in (caught.value.hint or "")


def test_a_vendors_version_is_understood(repo: Path, tmp_path: Path) -> None:
    script = 'case "$*" in *version) echo "git version 2.39.5 (Apple Git-154)";; *) exec "$REAL" "$@"; esac'
    write(tmp_path / "bin", {"git": f"#!/bin/sh\n{script}\n"})
    (tmp_path / "bin/git").chmod(0o755)
    import shutil

    env = env_of({"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "REAL": shutil.which("git") or ""})
    assert repository.repository(str(repo), env=env).path == str(repo)


def test_no_git_at_all_is_an_exec_failure_that_names_it(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(BerthError) as caught:
        repository.repository(str(repo), env=env_of({"PATH": str(tmp_path)}))
    assert caught.value.code == "exec_failed"
    assert "git" in caught.value.message
