"""The closed vocabulary of errors: code, exit status, message, hint (workspaces.md 13).

An error is raised anywhere below ``cli`` and turned into an exit status by ``cli.main`` alone.
"""

from __future__ import annotations

# code -> exit status. A code that is not here is a bug: BerthError refuses it.
EXIT_STATUS: dict[str, int] = {
    **dict.fromkeys(("usage", "invalid_slug", "invalid_port_range", "unknown_agent"), 2),
    **dict.fromkeys(
        (
            "config_invalid",
            "config_exists",
            "not_a_repository",
            "unsupported_repository",
            "git_too_old",
            "git_failed",
            "filter_missing",
            "base_not_found",
            "ports_exhausted",
            "port_in_use",
            "setup_failed",
            "teardown_failed",
            "hook_timeout",
            "copy_failed",
            "env_file_invalid",
            "process_failed",
            "not_ready",
            "supervisor_failed",
            "stop_failed",
            "not_running",
            "exec_failed",
            "open_failed",
            "file_unparsable",
            "unsupported_path",
            "path_busy",
            "busy",
            "registry_busy",
            "registry_corrupt",
            "registry_newer",
            "doctor_failed",
            "io_error",
            "internal",
            "boot_failed",
            "enforcement_refused",
            "app_error",
        ),
        1,
    ),
    **dict.fromkeys(
        (
            "dirty",
            "submodule_unpushed",
            "not_preserved",
            "processes_inside",
            "worktree_locked",
            "foreign_files",
            "identity_mismatch",
            "primary_checkout",
            "repository_missing",
            "checkout_missing",
            "checkout_remains",
            "head_moved",
            "branch_moved",
            "branch_checked_out",
            "path_exists",
            "branch_exists",
            "base_mismatch",
            "contract_changed",
            "removal_pending",
            "inside_run",
            "inside_service",
            "container_mismatch",
            "sandbox_exists",
        ),
        3,
    ),
    **dict.fromkeys(
        (
            "workspace_not_found",
            "workspace_ambiguous",
            "cwd_missing",
            "process_not_found",
            "port_not_found",
            "sandbox_not_found",
            "app_not_found",
        ),
        4,
    ),
    **dict.fromkeys(
        (
            "state_unknown",
            "engine_unavailable",
            "engine_mismatch",
            "image_missing",
            "image_unsuitable",
            "process_compose_missing",
            "unreachable",
            "timeout",
        ),
        5,
    ),
    "command_not_found": 127,
    "command_not_executable": 126,
}


class BerthError(Exception):
    """An expected failure.

    ``code`` is a key of EXIT_STATUS; ``message`` says what is wrong, with the path, pid or file:line:column;
    ``hint`` says the next step, or is None.
    """

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        super().__init__(message)
        assert code in EXIT_STATUS, code
        self.message = message
        self.hint = hint
        self.code = code

    @property
    def exit_status(self) -> int:
        return EXIT_STATUS[self.code]


class Interrupted(BaseException):
    """A signal asked berth to stop. Not an Exception, so that no recovery code swallows it.

    ``signum`` is the signal; the exit status is 128 + signum (129, 130, 143); ``hint`` is the command that continues.
    """

    code = "interrupted"

    def __init__(self, signum: int, hint: str | None = None) -> None:
        super().__init__(signum)
        self.signum = signum
        self.hint = hint

    @property
    def exit_status(self) -> int:
        return 128 + self.signum
