"""What code inside a container may plant, and that it does nothing to the host."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.boxed import Boxed
from support.cli import await_true
from support.engines import on_one_engine
from support.repos import git

pytestmark = on_one_engine

PLANT = {
    "a regular file": "rm -f pc.sock; echo x > pc.sock",
    "a link to a file of the host": "rm -f pc.sock; ln -s '{secret}' pc.sock",
    "a link to another socket": "rm -f pc.sock; ln -s '{other}' pc.sock",
    "a pipe": "rm -f pc.sock; mkfifo pc.sock",
    "a directory": "rm -f pc.sock; mkdir pc.sock",
    "nothing below a link": "cd ..; rm -rf run; ln -s '{directory}' run",
}
SERVER = """
import os, socket, sys, time
os.chdir("/workspace/.berth/run")
if os.path.lexists("pc.sock"): os.unlink("pc.sock")
s = socket.socket(socket.AF_UNIX); s.bind("pc.sock"); os.chmod("pc.sock", 0o600); s.listen(16)
open("/workspace/planted", "w").close()
while True:
    c, _ = s.accept()
    try:
        if sys.argv[1] == "silent":
            time.sleep(1000)
        elif sys.argv[1] == "endless":
            c.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
            while True: c.sendall(b"[" * 1000000)
        elif sys.argv[1] == "nested":
            c.recv(4096); c.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n" + b"[" * 200000); c.close()
        elif sys.argv[1] == "wrong":
            c.recv(4096); b = b"{}"
            c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(b) + b); c.close()
    except OSError:
        pass
"""


class Host:
    """Things of the host that must stay as they are: a file, a socket that records who connects, a directory."""

    def __init__(self, tmp_path: Path) -> None:
        self.secret = tmp_path / "secret"
        self.secret.write_text("of the host\n")
        self.directory = tmp_path / "hosts-directory"
        self.directory.mkdir()
        self.other = self.directory / "pc.sock"
        self.heard: list[bytes] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.other))
        self.listener.listen(8)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                self.heard.append(connection.recv(100))

    def assert_untouched(self) -> None:
        assert self.secret.read_text() == "of the host\n"
        assert self.heard == []
        assert [each.name for each in self.directory.iterdir()] == ["pc.sock"]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    found = Host(tmp_path)
    yield found
    found.listener.shutdown(socket.SHUT_RDWR)
    found.listener.close()


@pytest.mark.parametrize("what", PLANT)
def test_what_is_planted_as_control_socket_is_not_followed(boxed: Boxed, host: Host, what: str) -> None:
    boxed.ok("new", "a", "--up")
    script = PLANT[what].format(secret=host.secret, other=host.other, directory=host.directory)
    boxed.shell("a", f"cd .berth/run && {script}")
    began = time.monotonic()
    found = boxed.document("a")
    assert time.monotonic() - began < 20
    assert found["running"] is not True
    assert found["error"]
    for words in (("up", "a"), ("stop", "web", "a"), ("ls",), ("logs", "web", "a")):
        boxed(*words)
    host.assert_untouched()


@pytest.mark.parametrize("manner", ["silent", "endless", "nested", "wrong"])
def test_a_hostile_listener_costs_time_and_memory_within_limits(boxed: Boxed, manner: str) -> None:
    boxed.ok("new", "a", "--up")
    if manner != "silent":  # there the true supervisor stays: it is alive and silent, and down ends it
        boxed.kill_inside("a", "supervise")
    boxed.shell("a", f"python3 -c '{SERVER}' {manner} >/dev/null 2>&1 </dev/null &")
    await_true(lambda: (boxed.path("a") / "planted").exists())
    began = time.monotonic()
    found = boxed.document("a")
    assert time.monotonic() - began < 25
    assert found["running"] is None
    if manner == "silent":
        assert "does not answer" in found["error"]
        boxed.ok("down", "a")
    else:
        assert "process state unknown" in found["error"]
        error = boxed.fails("state_unknown", "stop", "web", "a")
        assert "process state unknown" in error["message"]
        for words in (("up", "a"), ("down", "a"), ("done", "a", "--force")):
            assert boxed.container("a") in boxed.fails("state_unknown", *words)["hint"]
        # Whoever stops the container, as the hint says, is free of it.
        boxed.engine.call(["container", "stop", "-t", "1", boxed.container("a")])
        boxed.ok("down", "a")
    boxed.ok("up", "a")
    assert boxed.document("a")["running"] is True


def test_planted_definition_end_and_logs_do_nothing_to_the_host(boxed: Boxed, host: Host) -> None:
    boxed.ok("new", "a", "--up")
    names = "pc.yaml run/pc.exit logs/web.log supervisor.log"
    boxed.shell("a", f"cd .berth && for f in {names}; do rm -f $f && ln -s {host.secret} $f; done")
    outcome = boxed("logs", "web", "a")
    assert "of the host" not in outcome.out + outcome.err
    boxed.kill_inside("a", "supervise")
    assert "of the host" not in boxed.ok("status", "a").out
    outcome = boxed("up", "a")  # whatever becomes of it, nothing goes through the links
    assert "of the host" not in outcome.out + outcome.err
    boxed.ok("down", "a")
    host.assert_untouched()


def test_pipes_and_endless_nesting_in_their_place_do_not_hang_anything(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    boxed.shell(
        "a",
        "cd .berth && rm -f pc.yaml run/pc.exit logs/web.log && mkfifo run/pc.exit logs/web.log && "
        "python3 -c 'print(\"[\" * 500000)' > pc.yaml",
    )
    boxed("logs", "web", "a", timeout=20)
    boxed.kill_inside("a", "supervise")
    boxed("status", "a", timeout=30)
    boxed.ok("down", "a")
    boxed.shell("a", "rm -f .berth/run/pc.exit .berth/logs/web.log")
    boxed.ok("up", "a")
    assert boxed.document("a")["running"] is True


def test_a_long_time_limit_planted_in_the_definition_does_not_delay_down(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    boxed.shell("a", 'sed -i \'s/"timeout_seconds": 15/"timeout_seconds": 1e300/\' .berth/pc.yaml')
    began = time.monotonic()
    boxed.ok("down", "a")
    assert time.monotonic() - began < 40


def test_a_metadata_directory_that_became_a_link_is_refused(boxed: Boxed, host: Host) -> None:
    boxed.ok("new", "a", "--up")
    boxed.shell("a", f"mv .berth elsewhere && ln -s {host.directory} .berth")
    boxed.fails("identity_mismatch", "up", "a")
    boxed("status", "a")
    boxed("logs", "web", "a")
    boxed("down", "a")
    host.assert_untouched()


def planted(script: Path) -> str:
    return (
        f"git config --file .git/config core.fsmonitor {script}; git config core.fsmonitor {script}; "
        f"git config --worktree core.fsmonitor {script}; "
        f'printf "[core]\\n\\tfsmonitor = {script}\\n" > "$GIT_DIR/config.worktree"; '
        f'printf "[core]\\n\\tfsmonitor = {script}\\n" >> /berth/git/config.worktree; '
        f'printf "[core]\\n\\tfsmonitor = {script}\\n" >> "$GIT_DIR/config"; '
        "mkdir -p evil/hooks && printf '[core]\\n\\tfsmonitor = "
        + str(script)
        + "\\n\\tbare = false\\n' > evil/config; "
        'echo /workspace/evil > "$GIT_DIR/commondir"; echo "gitdir: evil" > .git; '
        'mkdir -p "$GIT_DIR/modules/x"; '
        "git init -q nested && git -C nested config core.fsmonitor " + str(script) + "; "
        f"printf '#!/bin/sh\\n{script}\\n' > /berth/git/hooks/post-checkout; true"
    )


@pytest.mark.parametrize("worktree_config", [False, True])
def test_planted_git_configuration_is_not_run_by_the_host(boxed: Boxed, tmp_path: Path, worktree_config: bool) -> None:
    mark = tmp_path / "pwned"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\necho run >> {mark}\n")
    script.chmod(0o755)
    if worktree_config:
        git(boxed.repo, "config", "extensions.worktreeConfig", "true")
    # Positive control: git on this host does run such a program.
    git(boxed.repo, "-c", f"core.fsmonitor={script}", "status")
    assert mark.exists()
    mark.unlink()
    boxed.ok("new", "a", "--up")
    boxed("run", "-w", "a", "--", "sh", "-c", planted(script))
    for words in (
        ("status", "a"),
        ("ls",),
        ("up", "a"),
        ("down", "a"),
        ("gc",),
        ("done", "a"),
        ("done", "a", "--force"),
    ):
        boxed(*words)
    git(boxed.repo, "status")
    assert not mark.exists()
