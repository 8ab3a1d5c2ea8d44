"""Comparing what commits change: patch ids, trees and merges, with plumbing that ignores ``diff.*``.

Every command runs on the repository alone, without a checkout, so attributes and configuration of a checkout have no
say. Trial merges write their objects to a scratch directory, never into the repository.
"""

from __future__ import annotations

import os

from berth.tools.git import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RAW = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
_PATCH = (
    *("diff-tree", "-r", "-p", "-U3", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"),
    *(
        "--diff-algorithm=myers",
        "--no-indent-heuristic",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--inter-hunk-context=0",
    ),
    "--ignore-submodules=none",
)

# path → (old mode, new mode, status letter, new object id)
Changes = dict[bytes, tuple[bytes, bytes, bytes, bytes]]


class History:
    """Questions to the history of one repository (its ``common_dir``)."""

    def __init__(self, common_dir: str, env: Mapping[str, str]) -> None:
        self._common_dir = common_dir
        self._env = env

    def _ask(
        self, args: Sequence[str], *, stdin: bytes | None = None, variables: Mapping[str, str] | None = None
    ) -> bytes:
        return command.output(
            args,
            env=self._env,
            git_dir=self._common_dir,
            cwd=self._common_dir,
            stdin=b"" if stdin is None else stdin,
            variables=variables,
        )

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether ``commit`` is ``of`` or reachable from it. Raises BerthError git_failed."""
        if commit == of:
            return True
        result = command.run(
            ["merge-base", "--is-ancestor", commit, of], env=self._env, git_dir=self._common_dir, cwd=self._common_dir
        )
        return command.checked(result, expected=(0, 1)).code == 0

    def tree(self, commit: str) -> str:
        """The id of the commit's tree. Raises BerthError git_failed."""
        return self._ask(["rev-parse", "--verify", "--end-of-options", commit + "^{tree}"]).decode().strip()

    def unmatched(self, tip: str, head: str) -> tuple[list[str], list[str]]:
        """(commits of ``head`` that ``tip`` lacks, those whose change ``tip`` has), as ``git cherry`` marks them.

        A commit that moves a submodule is never counted as had: ``git cherry`` skips submodules which are configured
        to be ignored. Raises BerthError git_failed.
        """
        lacking: list[str] = []
        had: list[str] = []
        for line in self._ask(["cherry", tip, head]).decode().splitlines():
            mark, commit = line.split()
            (had if mark == "-" else lacking).append(commit)
        for commit in [commit for commit, changes in self._changes_of(had).items() if _moves_submodule(changes)]:
            had.remove(commit)
            lacking.append(commit)
        return lacking, had

    def _changes_of(self, commits: Sequence[str]) -> dict[str, Changes]:
        """What each commit changes against its first parent."""
        if not commits:
            return {}
        told = self._ask([*_RAW, "--root", "--stdin"], stdin="".join(f"{commit}\n" for commit in commits).encode())
        found: dict[str, Changes] = {}
        words = iter(told.split(b"\0"))
        changes: Changes = {}
        for word in words:
            if word.startswith(b":"):
                changes[next(words)] = _raw_fields(word)
            elif word.strip():
                changes = found.setdefault(word.decode().strip(), {})
        return found

    def _difference(self, old: str, new: str) -> Changes:
        words = iter(self._ask([*_RAW, old, new]).split(b"\0"))
        return {next(words): _raw_fields(word) for word in words if word.startswith(b":")}

    def has_squash(self, merge_base: str, head: str, tip: str) -> bool:
        """Whether a commit of ``merge_base..tip`` makes exactly the change ``merge_base..head``, which is not empty.

        Same paths and modes, same ``git patch-id --stable``, and the same content of binary files, for which the patch
        id of git before 2.39 says nothing. Raises BerthError git_failed.
        """
        whole = self._difference(merge_base, head)
        if not whole:
            return False
        candidates = self._changes_of(self._touching(whole, f"{merge_base}..{tip}"))
        binary = self._binary_paths(merge_base, head)
        same = [commit for commit, changes in candidates.items() if _alike(whole, changes, binary)]
        if not same:
            return False
        wanted = self._patch_ids(self._ask([*_PATCH, merge_base, head]))
        patches = self._ask([*_PATCH, "--root", "--stdin"], stdin="".join(f"{commit}\n" for commit in same).encode())
        return bool(wanted and wanted & self._patch_ids(patches))

    def _touching(self, whole: Changes, revisions: str) -> list[str]:
        """The commits in ``revisions`` that change one path of ``whole``: a long history is not compared in full.

        Not by the path of a submodule, which may be configured to be ignored.
        """
        paths = [path for path, (old_mode, new_mode, _, _) in whole.items() if b"160000" not in (old_mode, new_mode)]
        limit = ["--", command.decoded(max(paths, key=len))] if paths else []
        told = self._ask(
            ["rev-list", "--no-merges", "--full-history", revisions, *limit], variables={"GIT_LITERAL_PATHSPECS": "1"}
        )
        return told.decode().split()

    def _binary_paths(self, old: str, new: str) -> set[bytes]:
        told = self._ask(["diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-textconv", old, new])
        return {entry[4:] for entry in told.split(b"\0") if entry.startswith(b"-\t-\t")}

    def _patch_ids(self, patches: bytes) -> set[bytes]:
        return {line.split()[0] for line in self._ask(["patch-id", "--stable"], stdin=patches).splitlines()}

    def has_merge_of_its_own(self, tip: str, head: str) -> bool:
        """Whether a merge commit in ``tip..head`` carries changes that git's automatic merge of its parents does not.

        A merge that git cannot repeat without a conflict does; so does every merge where git (before 2.38) has no
        ``merge-tree --write-tree``. Raises BerthError git_failed.
        """
        merges = self._ask(["rev-list", "--min-parents=2", "--parents", f"{tip}..{head}"]).decode().splitlines()
        if not merges:
            return False
        import tempfile

        with tempfile.TemporaryDirectory(prefix="berth-merge-") as scratch:
            objects = {
                "GIT_OBJECT_DIRECTORY": scratch,
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(os.path.join(self._common_dir, "objects")),
            }
            return any(self._differs(*line.split(), objects=objects) for line in merges)

    def _differs(self, merge: str, *parents: str, objects: Mapping[str, str]) -> bool:
        merged = parents[0]
        tree = ""
        for position, parent in enumerate(parents[1:], start=2):
            result = command.run(
                ["merge-tree", "--write-tree", "--no-messages", merged, parent],
                env=self._env,
                git_dir=self._common_dir,
                cwd=self._common_dir,
                variables=objects,
            )
            if result.code != 0:
                return True
            tree = result.stdout.decode().strip()
            if position < len(parents):
                merged = self._scratch_commit(tree, merged, parent, objects)
        return tree != self.tree(merge)

    def _scratch_commit(self, tree: str, one: str, other: str, objects: Mapping[str, str]) -> str:
        names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
        told = self._ask(
            ["commit-tree", "--no-gpg-sign", "-p", one, "-p", other, "-m", "trial merge", tree],
            variables={**objects, **dict.fromkeys(names, "berth")},
        )
        return told.decode().strip()


def _raw_fields(word: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    old_mode, new_mode, _, new_id, letter = word[1:].split(b" ")
    return old_mode, new_mode, letter, new_id


def _moves_submodule(changes: Changes) -> bool:
    return any(b"160000" in (old_mode, new_mode) for old_mode, new_mode, _, _ in changes.values())


def _alike(whole: Changes, changes: Changes, binary: set[bytes]) -> bool:
    if whole.keys() != changes.keys():
        return False
    return all(
        whole[path][:3] == changes[path][:3] and (path not in binary or whole[path] == changes[path]) for path in whole
    )


def _quoted(path: str) -> str:
    """A path for GIT_ALTERNATE_OBJECT_DIRECTORIES, where ``:`` separates and a leading quote begins a C string."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
