"""Siblings in one container: signals, procfs, sockets by name and by path (attacks.md P01-P05, P29, R01-R08)."""

from __future__ import annotations

import os
import signal
import socket
from typing import Any

import pytest

from berth.guest.sandbox import sockets
from support.jail import document_of, inside, manifest, needs_kernel, note
from support.world import PYTHON, Process, Row, World, run_rows, without

pytestmark = needs_kernel

A = manifest("a", "app:invoke:c")
B = manifest("b", secrets=["TOKEN"])
C = manifest("c")

STAY = """
import os, socket, signal
name = socket.socket(socket.AF_UNIX); name.bind("\\0berth-of-b")
datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); datagrams.bind("\\0berth-datagrams-of-b")
os.write(3, b"r"); signal.pause()
"""


class Siblings:
    """App b at work, a helper with a's uid outside any domain, and listeners where apps have theirs."""

    def __init__(self, *, b_becomes: Any = None) -> None:
        self.world = World(document_of(A, B, C))
        sockets.make_directories(self.world.document)
        self.listeners = sockets.listen_all(self.world.document)
        self.b = self.world.start("b", PYTHON, "-I", "-S", "-c", STAY, become=b_becomes)
        self.b.await_ready()
        self.same_uid = stay_as(10000)
        self.supervisor = os.getpid()
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0berth-outside")
        self.abstract.listen(4)


def stay_as(uid: int) -> int:
    """A process with an app's uid that agent-init never touched, as an administrator's exec session has it."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.set_inheritable(write_end, True)
        os.execv(PYTHON, [PYTHON, "-I", "-S", "-c", f"import os, signal; os.write({write_end}, b'r'); signal.pause()"])
    os.close(write_end)
    assert os.read(read_end, 1) == b"r"
    return pid


def rows_for(siblings: Siblings) -> list[Row]:
    """Every attempt with the pids of this run in it."""
    b, same, top = siblings.b.pid, siblings.same_uid, siblings.supervisor
    status = ["@read", "/proc/self/status"]
    rows = [
        Row("P04 signal a sibling", ["kill", b], "EPERM", ["signal_child"], control_gives=-15),
        Row("P04 tgkill a sibling", ["tgkill", b], "EPERM"),
        Row("P04 sigqueue to a sibling", ["sigqueue", b], "EPERM"),
        Row("P04 signal a sibling by pidfd", ["pidfd_signal", b], "EPERM"),
        Row("P04 signal the supervisor", ["kill", top], "EPERM", ["signal_child"], control_gives=-15),
        Row("row 29 the same uid outside the domain", ["kill", same], "EPERM", ["signal_child"], control_gives=-15),
        Row("row 29 the same uid by pidfd", ["pidfd_signal", same], "EPERM"),
        Row("P03 ptrace the same uid", ["ptrace_attach", same], "EPERM"),
        Row("P03 read the same uid's memory", ["vm_read", same], "EPERM"),
        Row("P03 write the same uid's memory", ["vm_write", same], "EPERM"),
        Row("P03 take the same uid's descriptor", ["pidfd_getfd", same], "EPERM"),
        Row("P03 ptrace a sibling", ["ptrace_attach", b], "EPERM"),
        Row("P29 limits of a sibling", ["prlimit", b], "EPERM"),
        Row("P29 processors of a sibling", ["affinity", b], "EPERM"),
        Row("P29 priority of a sibling", ["priority", b], "EPERM|EACCES"),
        Row("P29 I/O priority of a sibling", ["ioprio", b], "EPERM"),
        Row(
            "R01 a sibling's own socket",
            ["connect_unix", "/run/berth/b/rpc.sock"],
            "EACCES",
            ["connect_unix", "/run/berth/a/rpc.sock"],
        ),
        Row(
            "R02 the own peer path without a grant",
            ["connect_unix", "/run/berth/b/peers/a/rpc.sock"],
            "EACCES",
            ["connect_unix", "/run/berth/c/peers/a/rpc.sock"],
        ),
        Row(
            "R02 somebody else's peer path",
            ["connect_unix", "/run/berth/b/peers/c/rpc.sock"],
            "EACCES",
            ["connect_unix", "/run/berth/c/peers/a/rpc.sock"],
        ),
        Row(
            "R02 peers/../rpc.sock",
            ["connect_unix", "/run/berth/b/peers/../rpc.sock"],
            "EACCES",
            ["connect_unix", "/run/berth/c/peers/../peers/a/rpc.sock"],
        ),
        Row(
            "R02 peers/a/../../b",
            ["connect_unix", "/run/berth/c/peers/a/../../../b/rpc.sock"],
            "EACCES",
            ["connect_unix", "/run/berth/c/peers/a/../a/rpc.sock"],
        ),
        Row(
            "R02 through a link",
            ["through_symlink", "/run/berth/b/rpc.sock", "/tmp/a/l", "connect_unix"],
            "EACCES",
            ["through_symlink", "/run/berth/c/peers/a/rpc.sock", "/tmp/a/l", "connect_unix"],
        ),
        Row(
            "R02 through /proc/self/cwd",
            ["connect_unix", "/proc/self/cwd/../../../run/berth/b/rpc.sock"],
            "EACCES",
            ["connect_unix", "/proc/self/cwd/../../../run/berth/c/peers/a/rpc.sock"],
        ),
        Row(
            "row 33 the grant is not symmetric",
            ["connect_unix", "/run/berth/a/peers/c/rpc.sock"],
            "EACCES",
            ["connect_unix", "/run/berth/c/peers/a/rpc.sock"],
        ),
        Row("7.1 an app that is not there", ["connect_unix", "/run/berth/nobody/rpc.sock"], "ENOENT"),
        Row(
            "R03 unlink a socket",
            ["unlink", "/run/berth/b/rpc.sock"],
            "EACCES",
            ["unlink", "/tmp/a/mine"],
            control_gives="ENOENT",
        ),
        Row("R03 unlink the own socket", ["unlink", "/run/berth/a/rpc.sock"], "EACCES"),
        Row("R03 rename a socket", ["rename", "/run/berth/a/rpc.sock", "/run/berth/a/old"], "EACCES"),
        Row("R03 chmod a sibling's socket", ["chmod", "/run/berth/b/rpc.sock"], "EPERM|EACCES"),
        Row(
            "R03 bind where a future app would be",
            ["bind_unix", "/run/berth/future.sock"],
            "EACCES",
            ["bind_unix", "/tmp/a/future.sock"],
        ),
        Row(
            "R03 make a directory for a future app",
            ["mkdir", "/run/berth/future"],
            "EACCES",
            ["mkdir", "/tmp/a/future"],
        ),
        Row("R03 make an entry among the peers", ["mkdir", "/run/berth/b/peers/x"], "EACCES", ["mkdir", "/tmp/a/x"]),
        Row("R03 list the peers", ["list", "/run/berth/a/peers"], "EACCES", ["list", "/tmp/a"]),
        Row("R04 abstract socket outside the domain", ["connect_unix", "@berth-outside"], "EPERM"),
        Row("R04 abstract datagram to a sibling", ["abstract_datagram", "berth-datagrams-of-b"], "EPERM"),
        Row("R07 credentials of root", ["credentials", 0], "EPERM", ["credentials", 10000]),
        Row("R07 credentials of a sibling", ["credentials", 10001], "EPERM", ["credentials", 10000]),
    ]
    entries = ("environ", "mem", "maps", "fd", "cwd", "root", "cmdline", "status", "stat", "io", "task")
    rows += [Row(f"P01 /proc/b/{name}", ["read", f"/proc/{b}/{name}"], "EACCES", status) for name in entries]
    for name in ("environ", "cmdline", "maps"):
        rows.append(Row(f"P01 /proc/1/{name}", ["read", f"/proc/1/{name}"], "EACCES", status))
        rows.append(Row(f"P01 the same uid's {name}", ["read", f"/proc/{same}/{name}"], "EACCES", status))
    rows.append(Row("P02 /proc/net/unix", ["read", "/proc/net/unix"], "EACCES", ["@read", "/proc/self/mounts"]))
    rows.append(Row("P02 /proc/self/net/tcp", ["read", "/proc/self/net/tcp"], "EACCES", ["@read", "/proc/self/maps"]))
    return rows


def alive(pid: int) -> bool:
    """True while ``pid`` is no zombie."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def run(**options: Any) -> Any:
    """[[row id, expected, seen, control's outcome, control's expectation], …] and who is still alive."""

    def work() -> Any:
        siblings = Siblings()
        rows = rows_for(siblings)
        seen = run_rows(siblings.world, "a", rows, **options)
        table = [[r.id, r.expected, seen[r.id], seen.get(r.id + "+"), r.control and r.control_gives] for r in rows]
        living = [alive(siblings.b.pid), alive(siblings.same_uid)]
        for pid in (siblings.b.pid, siblings.same_uid):
            os.kill(pid, signal.SIGKILL)
        return [table, living]

    return inside(work)


@pytest.fixture(scope="module")
def outcome() -> Any:
    return run()


def test_no_attempt_on_a_sibling_succeeds_and_every_control_does(outcome: Any, request: pytest.FixtureRequest) -> None:
    table, _living = outcome
    wrong = []
    for name, expected, seen, control, control_expected in table:
        note(request, "row", [name, expected, seen, control, ""])
        if seen not in expected.split("|") or control != control_expected:
            wrong.append((name, expected, seen, control))
    assert wrong == []


def test_the_targets_are_alive_afterwards(outcome: Any) -> None:
    _table, living = outcome
    assert living == [True, True]


def killed_by_kill_all(**options: Any) -> list[bool]:
    """[b is alive, the same uid's helper is alive] after app a signalled everybody it may."""

    def work() -> Any:
        siblings = Siblings()
        program = "import os\ntry: os.kill(-1, 15)\nexcept OSError: pass"
        finished = siblings.world.start("a", PYTHON, "-I", "-S", "-c", program, **options).finish()
        assert finished["status"] == 0, finished
        _wait_for_signals(siblings.same_uid)
        living = [alive(siblings.b.pid), alive(siblings.same_uid)]
        for pid in (siblings.b.pid, siblings.same_uid):
            os.kill(pid, signal.SIGKILL)
        return living

    return list(inside(work))


def _wait_for_signals(pid: int) -> None:
    """Return once ``pid`` has no signal pending: a sent one was either delivered or never came."""
    while alive(pid):
        with open(f"/proc/{pid}/status") as file:
            pending = [line.split()[1] for line in file if line.startswith(("SigPnd", "ShdPnd"))]
        if not any(int(mask, 16) for mask in pending):
            return


def test_an_app_that_signals_everybody_reaches_nobody(request: pytest.FixtureRequest) -> None:
    seen = killed_by_kill_all()
    note(request, "row", ["P04 signal everybody", "[True, True]", seen, "", "scope"])
    assert seen == [True, True]


def test_without_the_scope_it_reaches_its_own_uid_only(request: pytest.FixtureRequest) -> None:
    seen = killed_by_kill_all(become=without("landlock"))
    note(request, "removed", ["P04 signal everybody", "Landlock scope", seen])
    assert seen == [True, False]


def named(table: Any) -> dict[str, Any]:
    return {name: seen for name, _expected, seen, _control, _gives in table}


def test_the_signal_scope_is_what_protects_the_same_uid(request: pytest.FixtureRequest) -> None:
    seen = named(run(become=without("landlock"))[0])
    for name in ("row 29 the same uid outside the domain", "row 29 the same uid by pidfd"):
        note(request, "removed", [name, "Landlock scope", seen[name]])
        assert seen[name] == "ok"
    assert seen["P04 signal a sibling"] == "EPERM", "the uid still protects a sibling"


def test_the_abstract_scope_is_what_hides_names(request: pytest.FixtureRequest) -> None:
    seen = named(run(become=without("landlock"))[0])
    for name in ("R04 abstract socket outside the domain", "R04 abstract datagram to a sibling"):
        note(request, "removed", [name, "Landlock scope", seen[name]])
        assert seen[name] == "ok"


def test_the_filter_is_what_protects_memory_of_the_same_uid(request: pytest.FixtureRequest) -> None:
    seen = named(run(become=without("landlock", "seccomp"))[0])
    for name in ("P03 ptrace the same uid", "P03 take the same uid's descriptor"):
        note(request, "removed", [name, "seccomp and Landlock", seen[name]])
        assert seen[name] == "ok"


def test_landlock_is_what_hides_other_processes_in_procfs(request: pytest.FixtureRequest) -> None:
    seen = named(run(become=without("landlock"))[0])
    for name in ("P01 /proc/b/cmdline", "P01 /proc/b/status", "P02 /proc/net/unix", "P01 the same uid's environ"):
        note(request, "removed", [name, "Landlock", seen[name]])
        assert seen[name] == "ok"
    assert seen["P01 /proc/b/environ"] == "EACCES", "the uid still protects what is secret"


def test_the_uid_is_what_protects_sockets_and_siblings(request: pytest.FixtureRequest) -> None:
    """App a with the uid of b: what was refused by owner and mode is open."""
    seen = named(run(become=without("landlock", uid=10001))[0])
    for name in (
        "R01 a sibling's own socket",
        "P04 signal a sibling",
        "P29 limits of a sibling",
        "P01 /proc/b/environ",
    ):
        note(request, "removed", [name, "uid", seen[name]])
        assert seen[name] == "ok"


def test_an_app_with_process_list_reads_names_and_no_secrets() -> None:
    def work() -> Any:
        listing = manifest("a", "process:list:*")
        world = World(document_of(listing, B))
        b = world.start("b", PYTHON, "-I", "-S", "-c", STAY)
        b.await_ready()
        names = ("cmdline", "status", "environ", "mem", "maps", "fd")
        seen = world.probe("a", [["list", "list", "/proc"], *([n, "read", f"/proc/{b.pid}/{n}"] for n in names)])
        os.kill(b.pid, signal.SIGKILL)
        return seen

    assert inside(work) == {
        **dict.fromkeys(("list", "cmdline", "status"), "ok"),
        **dict.fromkeys(("environ", "mem", "maps", "fd"), "EACCES"),
    }


def test_a_process_of_root_outside_can_signal_the_app() -> None:
    """The negative control: the scope binds the app, not those who administer it."""

    def work() -> Any:
        world = World(document_of(A, B, C))
        b: Process = world.start("b", PYTHON, "-I", "-S", "-c", STAY)
        b.await_ready()
        os.kill(b.pid, signal.SIGTERM)
        return b.finish()["status"]

    assert inside(work) == -signal.SIGTERM
