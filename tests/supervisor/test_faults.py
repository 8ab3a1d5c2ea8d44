"""What the supervisor survives: no room, no descriptors, no processes, its own death and stop, no ctypes."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from berth.guest.core import procfs
from berth.tools import supervisor
from support.supervisor import Supervisor, alive, until

Start = Callable[..., Supervisor]
SLEEP = "exec sleep 1000"
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount, another user")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("cannot mount here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@root_only
def test_on_a_full_disk_processes_go_on_and_output_goes_on_when_there_is_room_again(
    supervise: Start, small_disk: Path
) -> None:
    """Section 7: what a keeper had read is lost, the log says so once, nobody dies of SIGPIPE."""
    command = "i=0; while :; do i=$((i+1)); printf '%0400d\n' $i; echo $i > beat; sleep 0.02; done"
    one = supervise({"a": {"command": command, "log_location": str(small_disk / "a.log")}}, begin=False)
    one.start()
    log = small_disk / "a.log"
    until(lambda: log.exists() and log.stat().st_size)
    with open(small_disk / "ballast", "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 512)
        except OSError:
            pass
    until(lambda: "is the disk full?" in one.history(), 20)

    def beat() -> int:
        return int(str(until(lambda: (one.root / "beat").read_text().strip())))

    before = beat()
    time.sleep(2.5)
    assert beat() > before + 20
    assert one.state("a")["status"] == "Running"
    assert one.history().count("is the disk full?") == 1
    (small_disk / "ballast").unlink()
    size = log.stat().st_size
    until(lambda: log.stat().st_size > size + 4000)
    assert one.state("a")["restarts"] == 0
    one.down()


@root_only
def test_a_full_disk_under_the_supervisor_s_own_log_stops_nothing(supervise: Start, small_disk: Path) -> None:
    one = supervise({"a": {"command": SLEEP}}, begin=False)
    one.log = small_disk / "supervisor.log"
    with open(small_disk / "ballast", "wb", buffering=0) as ballast:
        one.log.touch()
        try:
            while True:
                ballast.write(b"x" * 512)
        except OSError:
            pass
    one.start()
    assert one.wait().word == "settled"
    (small_disk / "ballast").unlink()
    one.ask("POST", "/process/restart/a")
    assert one.wait().word == "settled"
    assert "lines of this log were lost" in one.history()
    one.down()


def test_without_descriptors_a_start_is_an_error_and_the_supervisor_lives(supervise: Start) -> None:
    """Section 6: a failure to start is a state with its reason, never a dead supervisor."""
    processes: dict[str, object] = {f"p{number:02}": {"command": SLEEP} for number in range(40)}
    one = supervise(processes, begin=False)
    one.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)))
    until(lambda: one.child is not None and "Error" in one.history())
    time.sleep(0.5)
    os.kill(one.pid, signal.SIGTERM)
    assert one.child is not None
    assert one.child.wait(10) == 0
    assert "Too many open files" in one.history()
    assert "internal error" not in one.history()
    assert one.tagged() == []


def test_clients_that_exhaust_the_descriptors_are_waited_out(supervise: Start) -> None:
    one = supervise({"a": {"command": SLEEP}}, begin=False)
    one.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (28, 28)))
    assert one.wait().word == "settled"
    held = []
    for _ in range(40):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(one.run / "pc.sock"))
        held.append(client)
    until(lambda: "cannot accept a client" in one.history())
    before = os.times()
    time.sleep(0.5)
    busy = Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()
    assert int(busy[11]) + int(busy[12]) < 60, before
    for client in held:
        client.close()
    assert one.ask("GET", "/live", timeout=10)[0] == 200
    one.down()


@root_only
def test_without_processes_a_start_is_an_error_and_later_starts_work(supervise: Start, tmp_path: Path) -> None:
    """As a user of its own with a limit of processes (RLIMIT_NPROC holds for users, not for root)."""
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    uid = 54321
    copy = tmp_path / "guest"
    shutil.copytree(supervisor.guest_directory(), copy)
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == 0 and path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o755)
    one = supervise({f"p{number:02}": {"command": SLEEP} for number in range(20)}, begin=False)
    supervisor.make_token(str(one.run))
    subprocess.run(["chown", "-R", str(uid), str(one.root)], check=True)
    python = "/usr/bin/python3"
    if not os.access(python, os.X_OK):
        pytest.skip("needs a Python that another user can run")
    one.child = subprocess.Popen(
        [
            *("setpriv", "--reuid", str(uid), "--clear-groups", "prlimit", "--nproc=12:12"),
            *(python, "-I", "-S", str(copy), "supervise", "--config", str(one.config), "--socket"),
            *(str(one.run / "pc.sock"), "--token-file", str(one.run / "pc.token"), "--log", str(one.log)),
        ],
        cwd=one.root,
        env=one.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: "Error" in one.history(), what=one.history())
    assert "Resource temporarily unavailable" in one.history()
    time.sleep(0.3)
    os.kill(one.child.pid, signal.SIGTERM)
    assert one.child.wait(10) == 0
    assert "internal error" not in one.history()


def test_a_killed_supervisor_leaves_its_processes_and_the_next_one_starts(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo $$; exec sleep 1000"}})
    pid = int(one.prints("a", "\n"))
    os.kill(one.pid, signal.SIGKILL)
    assert one.child is not None
    one.child.wait()
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: one.tagged() == [])
    one.start()
    assert one.wait().word == "settled"


def test_a_stopped_supervisor_goes_on_where_it_was(supervise: Start) -> None:
    one = supervise(
        {
            "a": {"command": "sleep 0.5; exit 3"},
            "b": {"command": "sleep 0.2; echo b", "availability": {"restart": "always", "backoff_seconds": 1}},
        }
    )
    one.reaches("b", "Running")
    os.kill(one.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(one.pid, signal.SIGCONT)
    assert one.reaches("a", "Completed")["exit_code"] == 3
    until(lambda: int(str(one.state("b")["restarts"])) >= 1)


def test_without_ctypes_it_works_and_says_once_what_is_left_out(supervise: Start, tmp_path: Path) -> None:
    """Section 1: no subreaper and no trimming, everything else."""
    copy = tmp_path / "guest"
    shutil.copytree(supervisor.guest_directory(), copy)
    libc = copy / "core" / "libc.py"
    libc.write_text(libc.read_text().replace("import _ctypes", "raise ImportError"))
    one = supervise(
        {
            "a": {
                "command": "setsid env -i sh -c 'echo $$ > pid; exec sleep 777' & echo ready; exec sleep 1000",
                "ready_log_line": "ready",
                "shutdown": {"timeout_seconds": 1},
            }
        },
        begin=False,
    )
    supervisor.make_token(str(one.run))
    one.child = subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", str(copy), "supervise", "--config", str(one.config), "--socket"),
            *(str(one.run / "pc.sock"), "--token-file", str(one.run / "pc.token"), "--log", str(one.log)),
        ],
        cwd=one.root,
        env=one.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: (one.run / "pc.sock").exists())
    assert one.wait(timeout=5).word == "settled"
    assert one.history().count("no subreaper") == 1
    until(lambda: (one.root / "pid").exists() and (one.root / "pid").read_text().strip())
    pid = int((one.root / "pid").read_text())
    assert one.ask("PATCH", "/process/stop/a")[0] == 200
    assert not alive(pid)
    one.ask("POST", "/process/start/a")
    assert one.wait(timeout=5).word == "settled"
    assert one.down() < 3
    assert "internal error" not in one.history()


def test_a_process_that_stops_its_whole_group_is_ended(supervise: Start) -> None:
    one = supervise({"a": {"command": "echo up; kill -STOP 0; sleep 1000", "shutdown": {"timeout_seconds": 2}}})
    one.prints("a", "up")
    pid = int(str(one.state("a")["pid"]))
    until(lambda: (entry := procfs.read(pid)) is not None and entry.state == "T")
    assert one.down() < 3
    assert not alive(pid)


def test_a_gigabyte_of_output_disturbs_nobody(supervise: Start) -> None:
    one = supervise(
        {"a": {"command": "head -c 1000000000 /dev/zero; touch done; exec sleep 1000"}, "b": {"command": SLEEP}}
    )
    slowest = 0.0
    while not (one.root / "done").exists():
        begun = time.monotonic()
        assert one.ask("GET", "/processes", timeout=10)[0] == 200
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.1)
    assert slowest < 2
    assert one.down() < 3
