"""What an app is once agent-init is done with it, and that it never is anything when a step fails
(sandboxes.md 6.5, 6.7; T06, T10, T34, T35, T38; attacks.md P18, P22, P27)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth.guest.sandbox import agent_init, kernel, landlock, rules, seccomp
from support.jail import document_of, inside, manifest, needs_kernel
from support.world import PYTHON, World, mount, without

pytestmark = needs_kernel

A = manifest("a", "filesystem:read:/workspace/a", "filesystem:write:/workspace/a", pids=64)
B = manifest("b", "network:connect:*")
MARK = ("import os; open('/tmp/a/ran', 'w').close()",)
RUN_MARK = (PYTHON, "-I", "-S", "-c", *MARK)


def world(*manifests: Any, **options: Any) -> World:
    made = World(document_of(*(manifests or (A, B)), **options))
    os.makedirs("/workspace/a")
    os.chown("/workspace/a", 10000, 10000)
    return made


def test_identity_is_the_position_s_and_every_privilege_is_gone() -> None:
    def work() -> Any:
        fields = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Umask")
        made = world()
        probes = [["identity", "@identity"], ["status", "@status", *fields]]
        return [made.probe("a", probes), made.probe("b", probes)]

    for position, seen in enumerate(inside(work)):
        uid = 10000 + position
        identity, status = seen["identity"], seen["status"]
        assert (identity["uids"], identity["gids"]) == ([uid] * 3, [uid] * 3)
        assert identity["groups"] == [9999, uid]
        assert identity["sid"]
        assert identity["stdin"] == "/dev/null"
        assert status.pop("NoNewPrivs") == "1"
        assert status.pop("Seccomp") == "2"
        assert status.pop("Umask") == "0002"
        assert {int(mask, 16) for mask in status.values()} == {0}


CONTAINER_CAPABILITIES = (0, 1, 5, 6, 7, 8)  # CHOWN DAC_OVERRIDE KILL SETGID SETUID SETPCAP, sandboxes.md 5.1


def as_in_a_container() -> None:
    """The six capabilities of the container and no_new_privs, nothing else."""
    for capability in set(range(41)) - set(CONTAINER_CAPABILITIES):
        kernel.prctl(24, capability)
    mask = sum(1 << capability for capability in CONTAINER_CAPABILITIES)
    kernel.set_capabilities(mask, mask, 0)
    kernel.prctl(38, 1)


def test_the_container_s_six_capabilities_are_enough_for_every_step() -> None:
    def work() -> Any:
        made = world(manifest("a", "filesystem:write:/workspace/a", secrets=["TOKEN"]), B)
        probes = [["status", "@status", "CapEff", "CapBnd"], ["write", "write", "/workspace/a/x"]]
        return made.probe("a", [*probes, ["secret", "read", "/run/berth/secrets/a/TOKEN"]], prepare=as_in_a_container)

    seen = inside(work)
    assert {int(mask, 16) for mask in seen["status"].values()} == {0}
    assert (seen["write"], seen["secret"]) == ("ok", "ok")


@pytest.mark.parametrize(("missing", "step"), [(8, 5), (6, 6), (7, 6)])
def test_a_container_without_one_of_them_runs_no_app(missing: int, step: int) -> None:
    def prepare() -> None:
        as_in_a_container()
        effective, permitted, _inheritable = kernel.capabilities()
        kernel.set_capabilities(effective & ~(1 << missing), permitted & ~(1 << missing), 0)

    def work() -> Any:
        made = world()
        return [made.start("a", *RUN_MARK, prepare=prepare).finish(), os.path.exists("/tmp/a/ran")]

    finished, ran = inside(work)
    assert (finished["status"], finished["events"][-1]["step"], ran) == (78, step, False)


def test_environment_and_directory_are_those_that_were_built() -> None:
    def work() -> Any:
        os.environ["LEAKED"] = "from the supervisor"
        return world().probe("a", [["identity", "@identity"]])["identity"]

    identity = inside(work)
    assert identity["environment"] == {"PATH": "/usr/bin:/bin", "TMPDIR": "/tmp/a", "LANG": "C.UTF-8"}
    assert identity["cwd"] == "/app/apps/a"


def leaky_descriptors() -> list[int]:
    """Descriptors of the supervisor that no app may see, without close-on-exec, at low and high numbers."""
    held = [os.open("/etc/passwd", os.O_RDONLY), socket.socket(socket.AF_UNIX).detach()]
    held.append(fcntl.fcntl(held[0], fcntl.F_DUPFD, 200))
    for descriptor in held:
        os.set_inheritable(descriptor, True)
    return held


def test_an_app_inherits_its_streams_the_ready_pipe_and_its_listeners_only() -> None:
    def work() -> Any:
        made = world()
        leaky_descriptors()
        listeners = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        probes = [["descriptors", "@descriptors"]]
        inherited = made.probe("a", probes, listeners=[sock.fileno() for sock in listeners])
        return [inherited["descriptors"], made.probe("a", probes, become=without("descriptors"))["descriptors"]]

    inherited, unclosed = inside(work)
    assert inherited == {"0": "/dev/null", "1": "pipe", "2": "pipe", "3": "pipe", "4": "socket", "5": "socket"}
    assert "/etc/passwd" in unclosed.values(), "control: without step 1 they are there"


def test_listeners_keep_their_order_whatever_their_numbers_were() -> None:
    """The sources lie exactly where the targets are, crosswise."""

    def work() -> Any:
        made = world()
        for number in range(3, 12):
            with contextlib.suppress(OSError):
                os.fstat(number)
        sockets = [socket.socket(socket.AF_UNIX) for _ in range(6)]
        for index, sock in enumerate(sockets):
            sock.bind(f"/run/listener-{index}")
            sock.listen(1)
        program = "import socket\nfor n in range(4, 10): print(socket.socket(fileno=n).getsockname())"
        numbers = [sock.fileno() for sock in reversed(sockets)]
        return made.start("a", PYTHON, "-I", "-S", "-c", program, listeners=numbers).finish()["log"].split()

    assert inside(work) == [f"/run/listener-{index}" for index in reversed(range(6))]


def test_limits_are_hard_and_the_oom_score_rises() -> None:
    def work() -> Any:
        made = world()
        program = "print(open('/proc/self/oom_score').read()); print(open('/proc/self/limits').read())"
        log = made.start("a", PYTHON, "-I", "-S", "-c", program).finish()["log"]
        lines = {line[:26].strip(): line[26:].split()[:2] for line in log.splitlines()}
        return [lines["Max processes"], lines["Max open files"], lines["Max core file size"]]

    assert inside(work) == [["64", "64"], ["4096", "4096"], ["0", "0"]]


def test_a_lower_hard_limit_of_the_container_is_kept() -> None:
    def work() -> Any:
        made = world()
        return made.probe(
            "a", [["l", "@limits"]], prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
        )

    assert inside(work)["l"][1] == [512, 512]


def test_no_core_is_dumped() -> None:
    seen = inside(lambda: world().probe("a", [["core", "core_dump", "/workspace/a"]]))
    assert seen["core"] == []


def test_bombs_hurt_only_the_app_that_throws_them() -> None:
    def work() -> Any:
        made = world()
        probes = [
            ["forks", "fork_bomb", 200],
            ["threads", "thread_bomb", 200],
            ["descriptors", "open_many", 10000],
            ["bytes", "fill", "/tmp/a/big", 8 * 1024 * 1024],
            ["inodes", "fill_inodes", "/tmp/a", 1000],
            ["few forks", "fork_bomb", 5],
            ["few descriptors", "open_many", 100],
            ["few bytes", "fill", "/tmp/a/small", 65536],
            ["few inodes", "fill_inodes", "/tmp/a", 10],
        ]
        sibling = [
            ["forks", "fork_bomb", 20],
            ["bytes", "fill", "/tmp/b/x", 65536],
            ["inodes", "fill_inodes", "/tmp/b", 10],
        ]
        return [made.probe("a", probes), made.probe("b", sibling)]

    attacker, sibling = inside(work)
    assert attacker == {
        "forks": "EAGAIN",
        "threads": "no more threads",
        "descriptors": "EMFILE",
        "bytes": "ENOSPC",
        "inodes": "ENOSPC",
        **dict.fromkeys(("few forks", "few descriptors", "few bytes", "few inodes"), "ok"),
    }
    assert set(sibling.values()) == {"ok"}


def test_ordinary_programs_work_under_a_full_policy() -> None:
    def work() -> Any:
        return world().probe(
            "a",
            [
                ["everything", "ordinary_work"],
                ["git", "git", "/workspace/a"],
                ["bash", "exec", "/bin/bash", "-c", "for i in 1 2 3; do (exit 0) & done; wait"],
                ["process", "multiprocessing_process"],
                ["queue", "multiprocessing_queue"],
            ],
        )

    seen = inside(work)
    assert seen == {"everything": True, "git": "ok", "bash": 0, "process": 0, "queue": "EACCES"}


def test_a_terminal_app_has_a_pseudo_terminal_and_another_has_none() -> None:
    def work() -> Any:
        made = world(manifest("a", "terminal:attach:*"), B)
        return [made.probe("a", [["p", "open_pty"]])["p"], made.probe("b", [["p", "open_pty"]])["p"]]

    assert inside(work) == ["ok", "EACCES"]


def test_no_app_writes_to_the_terminal_of_another_process() -> None:
    """Row 26a: an administrator's exec session has its terminal in the same /dev/pts."""

    def work() -> Any:
        made = world(manifest("a", "terminal:attach:*"), B)
        _controller, terminal = os.openpty()
        os.fchmod(terminal, 0o620)
        os.fchown(terminal, 0, 5)
        name = os.ttyname(terminal)
        seen = made.probe("a", [["own", "open_pty"], ["other", "overwrite", name]])
        os.fchown(terminal, 10000, 5)
        return [seen, made.probe("a", [["other", "overwrite", name]])["other"]]

    seen, if_it_were_its_own = inside(work)
    assert seen == {"own": "ok", "other": "EACCES"}
    assert if_it_were_its_own == "ok", "control: the owner is what refuses"


def dropped_caches(*, pinned: bool) -> str:
    """What app a can no longer read after the kernel dropped its caches; ``ok`` for nothing."""
    program = """
import os, sys
paths = ["/proc/self/status", "/proc/cpuinfo", "/proc/self/fd", "/usr/bin", "/app/apps/a", "/tmp/a", "/workspace/a"]
def readable(path):
    try: os.listdir(path) if os.path.isdir(path) else open(path).read()
    except OSError as error: return "%s: %s" % (path, error.strerror)
    return "ok"
os.write(3, b"r")
os.read(4, 1)
print(*sorted({readable(p) for p in paths}), sep=",")
"""

    def work() -> Any:
        made = world()
        waiting, go = os.pipe()
        app = made.start("a", PYTHON, "-I", "-S", "-c", program, listeners=[waiting])
        app.await_ready()
        if not pinned:
            for descriptor in (*app.pins, *made.pins):
                os.close(descriptor)
            app.pins = []
        os.sync()
        for _ in range(3):
            Path("/proc/sys/vm/drop_caches").write_text("3")
        os.write(go, b"x")
        return app.finish()["log"].strip()

    return str(inside(work))


def test_rules_survive_a_dropped_dentry_cache() -> None:
    """procfs makes new inodes once its entries are reclaimed; the pins are what keeps the rules alive (T38)."""
    assert dropped_caches(pinned=True) == "ok"


def test_without_the_pins_the_rules_of_procfs_are_lost() -> None:
    assert "/proc/cpuinfo: Permission denied" in dropped_caches(pinned=False)


def test_the_report_says_what_is_in_force() -> None:
    def work() -> Any:
        return world().start("a", PYTHON, "-I", "-S", "-c", "pass").finish()

    finished = inside(work)
    events = {event["event"]: event for event in finished["events"] if isinstance(event, dict)}
    lines = [line for line in finished["events"] if isinstance(line, str)]
    assert finished["status"] == 0
    assert lines == [
        '[agent-init] landlock restrict_self() status: ruleset=FullyEnforced no_new_privs=true app="a"',
        '[agent-init] restricted "a"',
    ]
    assert set(events) == {
        "capability_policy_applied",
        "capabilities_dropped",
        "app_uid_applied",
        "seccomp_applied",
    }
    applied = events["capability_policy_applied"]
    assert (applied["ruleset"], applied["missing"], applied["abi"]) == ("FullyEnforced", [], landlock.abi())
    assert "/workspace/a" in applied["read"]
    assert events["app_uid_applied"]["groups"] == [10000, 9999]
    assert all(event["source"] == "agent-init" and event["app"] == "a" and event["bootId"] for event in events.values())


def test_a_planted_link_gives_no_rule_and_is_told() -> None:
    """Row 42: a sibling, or the app before a restart, put a link where a grant will be opened."""

    def work() -> Any:
        made = world()
        os.rmdir("/workspace/a")
        os.makedirs("/opt/open")
        os.chmod("/opt/open", 0o777)
        os.symlink("/opt/open", "/workspace/a")
        argv = (PYTHON, "-I", "-S", "-c", "open('/workspace/a/x', 'w')")
        through_link = made.start("a", *argv).finish()
        os.unlink("/workspace/a")
        os.mkdir("/workspace/a")
        os.chown("/workspace/a", 10000, 10000)
        return [through_link, made.start("a", *argv).finish()["status"], os.listdir("/opt/open")]

    through_link, control, written = inside(work)
    skipped = [(e["path"], e["reason"]) for e in through_link["events"] if isinstance(e, dict) and "path" in e]
    assert skipped == [("/workspace/a", "symlink"), ("/workspace/a", "symlink")]
    assert '[agent-init] warning: "a" has no rule for /workspace/a: a symlink is in the way' in through_link["events"]
    assert "PermissionError" in through_link["log"]
    assert (control, written) == (0, [])


def test_a_missing_path_gives_no_rule_and_is_told() -> None:
    def work() -> Any:
        made = world()
        os.rmdir("/workspace/a")
        return made.start("a", PYTHON, "-I", "-S", "-c", "pass").finish()["events"]

    reasons = [(e["path"], e["reason"]) for e in inside(work) if isinstance(e, dict) and e["event"] == "path_missing"]
    assert reasons == [("/workspace/a", "missing"), ("/workspace/a", "missing")]


# A filter that makes one system call fail, installed before agent-init starts: how each step is made to fail.
def failing(number: int, code: int, argument: tuple[int, int] | None = None) -> Callable[[], None]:
    """A function that makes system call ``number`` (with that first argument) answer ``code`` from now on."""

    def prepare() -> None:
        answer = (0x06, 0, 0, 0x00050000 | code)
        allow = (0x06, 0, 0, 0x7FFF0000)
        check = [] if argument is None else [(0x20, 0, 0, 16 + 8 * argument[0]), (0x15, 0, 1, argument[1])]
        program = [(0x20, 0, 0, 0), (0x15, 0, len(check) + 1, number), *check, answer, allow]
        kernel.prctl(38, 1)
        seccomp.install(program)

    return prepare


def seventeen_layers() -> None:
    """As many Landlock domains as the kernel stacks, so that one more is E2BIG."""
    kernel.prctl(38, 1)
    for _ in range(16):
        ruleset = landlock.create(7, network=0)
        landlock.allow_path(ruleset, os.open("/", os.O_PATH), 0xFFFF, abi=7)
        landlock.restrict(ruleset, abi=7)
        os.close(ruleset)


def few_descriptors() -> None:
    """Room for the pipes, not for the rules."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


STEPS: list[tuple[str, int, str | None, Callable[[], None]]] = [
    ("no session", 1, "ENOMEM", failing(112, errno.ENOMEM)),
    ("no descriptor", 1, "EMFILE", failing(72, errno.EMFILE, (1, 1030))),
    ("no limit", 3, "EPERM", failing(302, errno.EPERM)),
    ("no ruleset", 4, "EINTR", failing(444, errno.EINTR)),
    ("no rule", 4, "ENOMEM", failing(445, errno.ENOMEM)),
    ("few descriptors", 4, "EMFILE", few_descriptors),
    ("no ambient", 5, "EPERM", failing(157, errno.EPERM, (0, 47))),
    ("no bounding", 5, "EPERM", failing(157, errno.EPERM, (0, 24))),
    ("no groups", 6, "EPERM", failing(116, errno.EPERM)),
    ("no capset", 6, "EPERM", failing(126, errno.EPERM)),
    ("no gid", 6, "EAGAIN", failing(119, errno.EAGAIN)),
    ("no uid", 6, "EAGAIN", failing(117, errno.EAGAIN)),
    ("uid that only seems to change", 6, None, failing(117, 0)),
    ("no no_new_privs", 7, "EINVAL", failing(157, errno.EINVAL, (0, 38))),
    ("no restrict_self", 7, "ENOTSUP", failing(446, errno.EOPNOTSUPP)),
    ("seventeen layers", 7, "E2BIG", seventeen_layers),
    ("no filter", 8, "EINVAL", failing(157, errno.EINVAL, (0, 22))),
    ("no exec", 9, "ENOEXEC", failing(59, errno.ENOEXEC)),
]


@pytest.mark.parametrize(("name", "step", "code", "prepare"), STEPS, ids=[name for name, *_rest in STEPS])
def test_an_app_never_runs_when_a_step_fails(
    name: str, step: int, code: str | None, prepare: Callable[[], None]
) -> None:
    def work() -> Any:
        made = world()
        finished = made.start("a", *RUN_MARK, prepare=prepare).finish()
        ran = os.path.exists("/tmp/a/ran")
        control = made.start("a", *RUN_MARK).finish()["status"]
        return [finished, ran, control, os.path.exists("/tmp/a/ran")]

    finished, ran, control, ran_then = inside(work)
    assert (control, ran_then) == (0, True), "control: without the fault it runs"
    assert not ran
    assert finished["status"] == agent_init.REFUSED
    refused = finished["events"][-1]
    assert (refused["event"], refused["step"], refused["errno"]) == ("capability_enforcement_refused", step, code)
    assert refused["reason"]


def test_a_missing_interpreter_or_directory_is_refused_by_name() -> None:
    def work() -> Any:
        made = world()
        no_program = made.start("a", "/usr/bin/no-such-python", "-c", "pass").finish()
        no_directory = made.start("a", *RUN_MARK, cwd="/app/apps/gone").finish()
        return [no_program, no_directory, os.path.exists("/tmp/a/ran")]

    no_program, no_directory, ran = inside(work)
    assert [no_program["status"], no_directory["status"], ran] == [78, 78, False]
    assert no_directory["events"][-1]["object"] == "/app/apps/gone"
    assert no_program["events"][-1]["errno"] == "ENOENT"


def test_a_changed_document_is_refused_at_step_two() -> None:
    def work() -> Any:
        made = world()
        made.document.apps[0].uid = 0
        finished = made.start("a", *RUN_MARK).finish()
        return [finished, os.path.exists("/tmp/a/ran")]

    finished, ran = inside(work)
    assert (finished["status"], finished["events"][-1]["step"], ran) == (78, 2, False)


def test_nothing_of_a_dead_supervisor_s_child_runs() -> None:
    """The child waits for its pins; a supervisor that dies first closes the gate."""

    def work() -> Any:
        made = world()
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            rules.pin_process = lambda _pid: os._exit(1)  # type: ignore[assignment,return-value]
            made.start("a", *RUN_MARK)
        os.close(write_end)
        os.waitpid(pid, 0)
        os.read(read_end, 1)  # ends once agent-init, the last holder, is gone
        return os.path.exists("/tmp/a/ran")

    assert inside(work) is False


@pytest.mark.parametrize(
    ("abi", "app", "ruleset"),
    [
        (0, "a", None),
        (0, "b", None),
        (1, "a", None),
        (3, "a", None),
        (3, "b", "PartiallyEnforced"),
        (4, "a", "PartiallyEnforced"),
        (5, "b", "PartiallyEnforced"),
        (6, "a", "FullyEnforced"),
        (7, "b", "FullyEnforced"),
    ],
)
def test_an_older_kernel_refuses_or_reduces(abi: int, app: str, ruleset: str | None) -> None:
    """a needs TCP rules, b may connect anywhere; the ABI is what the supervisor was told, the calls are real."""
    finished = inside(lambda: world().start(app, PYTHON, "-I", "-S", "-c", "pass", abi=abi).finish())
    last = finished["events"][-1]
    if ruleset is None:
        assert (finished["status"], last["event"], last["step"]) == (78, "capability_enforcement_refused", 2)
        return
    applied = next(e for e in finished["events"] if isinstance(e, dict) and e["event"] == "capability_policy_applied")
    assert (finished["status"], applied["ruleset"]) == (0, ruleset)
    assert bool(applied["missing"]) == (ruleset != "FullyEnforced")
    if app == "b":
        assert not any("NET" in right for right in applied["missing"])


@pytest.mark.parametrize(
    ("abi", "prepare", "missing"),
    [
        (0, None, "landlock"),
        (7, failing(446, errno.EOPNOTSUPP), "landlock"),
        (7, failing(157, errno.EINVAL, (0, 22)), "seccomp"),
        (3, None, "LANDLOCK_ACCESS_NET_BIND_TCP"),
    ],
)
def test_the_relaxed_mode_starts_with_what_could_be_applied_and_says_so(
    abi: int, prepare: Callable[[], None] | None, missing: str
) -> None:
    def work() -> Any:
        made = world(allow_unenforced=True)
        program = "import os; print(os.getresuid(), open('/etc/passwd').readable())"
        return made.start("a", PYTHON, "-I", "-S", "-c", program, abi=abi, prepare=prepare).finish()

    finished = inside(work)
    assert finished["status"] == 0
    assert finished["log"].startswith("(10000, 10000, 10000)"), "identity is never relaxed"
    line = finished["events"][-1]
    assert line.startswith('[agent-init] NOT RESTRICTED "a": ')
    assert missing in line


@pytest.mark.parametrize("number", [116, 117, 119, 126])
def test_the_relaxed_mode_never_relaxes_identity(number: int) -> None:
    def work() -> Any:
        made = world(allow_unenforced=True)
        return [made.start("a", *RUN_MARK, prepare=failing(number, 1)).finish()["status"], os.path.exists("/tmp/a/ran")]

    assert inside(work) == [78, False]


@pytest.mark.parametrize("left_out", ["no_new_privs"])
def test_no_new_privs_is_what_holds_setuid_programs(left_out: str) -> None:
    def work() -> Any:
        made = world()
        mount("programs", "/usr/local/sbin", "tmpfs")
        Path("/usr/local/sbin/setuid").write_bytes(Path(PYTHON).read_bytes())
        os.chmod("/usr/local/sbin/setuid", 0o4755)
        program = ["exec", "/usr/local/sbin/setuid", "-I", "-S", "-c", "import os; raise SystemExit(os.geteuid() == 0)"]
        plain = made.probe("a", [["s", *program]])["s"]
        open_case = made.probe("a", [["s", *program]], become=without("no_new_privs", "landlock", "seccomp"))["s"]
        return [plain, open_case]

    assert inside(work) == [0, 1]


def test_the_start_of_the_control_is_really_root() -> None:
    """Without step 6 the same probes run as root: the identity rows are held by it."""
    seen = inside(lambda: world().probe("a", [["i", "identity"]], become=without("identity", "bounding")))
    assert seen["i"]["uids"] == [0, 0, 0]


def test_signals_are_as_a_new_program_expects_them() -> None:
    def work() -> Any:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        program = (
            "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn'))])"
        )
        return world().start("a", "/usr/bin/sh", "-c", f'exec {PYTHON} -I -S -c "{program}"').finish()["log"]

    blocked, ignored = eval(inside(work))
    assert int(blocked, 16) == 0
    assert int(ignored, 16) & (1 << (signal.SIGTERM - 1)) == 0
