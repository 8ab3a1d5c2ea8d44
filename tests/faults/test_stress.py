"""Eight workers, random commands on six slugs, random kill -9: what must hold at any time holds, and it all goes away.

30 s in the ordinary run; ``BERTH_STRESS_SECONDS=300`` is the long one. The seed is printed: a run can be repeated.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

from support.cli import PROGRAM, Berth, await_true, command_lines
from support.repos import git, make_repo

SECONDS = float(os.environ.get("BERTH_STRESS_SECONDS", "30"))
WORKERS = 8
SLUGS = ["a", "b", "c", "d", "e", "f"]
SLEEP = f"sleep {2_000_000 + os.getpid()}"
CONFIG = f"""
version: 1
ports: [web]
env_file: .env.berth
hooks: {{setup: ['date > "$BERTH_DATA_DIR/made"']}}
processes:
  one: {{command: exec {SLEEP}}}
  two: {{command: exec {SLEEP}, depends_on: {{one: {{condition: process_started}}}}}}
shutdown_timeout_seconds: 2
"""
COMMANDS = [
    ["new", "{}"],
    ["new", "{}", "--up"],
    ["up", "{}"],
    ["down", "{}"],
    ["restart", "one", "{}"],
    ["stop", "two", "{}"],
    ["start", "two", "{}"],
    ["reset", "{}"],
    ["done", "{}"],
    ["status", "{}", "--json"],
    ["ls", "--json"],
    ["ports", "{}"],
    ["plan", "{}"],
    ["run", "-w", "{}", "--", "git", "commit", "-q", "--allow-empty", "-m", "work"],
    ["run", "-w", "{}", "--", "sh", "-c", 'test -n "$BERTH_PORT_WEB"'],
    ["logs", "one", "{}"],
    ["gc"],
]
# 1: a failure that names its reason; 3: refused; 4: not there (any more); 5: state unknown while somebody kills it.
ALLOWED = {0, 1, 3, 4, 5, -signal.SIGKILL}


class Worker(threading.Thread):
    """Runs random commands one after the other, and kills some of them."""

    def __init__(self, number: int, berth: Berth, until: float, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed * 100 + number)
        self.berth = berth
        self.until = until
        self.count = self.killed = 0
        self.complaints: list[str] = []

    def run(self) -> None:
        while time.monotonic() < self.until:
            words = [word.format(self.random.choice(SLUGS)) for word in self.random.choice(COMMANDS)]
            with subprocess.Popen(
                [*PROGRAM, *words],
                cwd=self.berth.cwd,
                env=self.berth.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as process:
                if self.random.random() < 0.15:
                    try:
                        process.wait(self.random.uniform(0.02, 1.0))
                    except subprocess.TimeoutExpired:
                        process.kill()
                        self.killed += 1
                out, err = process.communicate(timeout=120)
            self.count += 1
            text = (out + err).decode("utf-8", "replace")
            if process.returncode not in ALLOWED or "Traceback" in text or "unforeseen" in text:
                self.complaints.append(f"berth {' '.join(words)} -> {process.returncode}\n{text}")


@pytest.mark.timeout(900)
def test_nothing_is_lost_and_nothing_left_under_stress(tmp_path: Path) -> None:
    seed = int(os.environ.get("BERTH_STRESS_SEED", time.time()))
    print(f"seed {seed}")
    repo = make_repo(tmp_path / "app", {"berth.yaml": CONFIG, ".gitignore": ".env.berth\n"})
    berth = Berth(tmp_path / "home", repo)
    shared_config = (repo / ".git/config").read_bytes()
    berth.ok("ls")
    until = time.monotonic() + SECONDS
    workers = [Worker(number, berth, until, seed) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    commits: set[str] = set()
    while any(worker.is_alive() for worker in workers):
        look(berth, repo, commits)
        time.sleep(0.2)
    complaints = [complaint for worker in workers for complaint in worker.complaints]
    assert not complaints, "\n\n".join(complaints[:5])
    print(f"{sum(w.count for w in workers)} commands, {sum(w.killed for w in workers)} killed")
    assert sum(worker.count for worker in workers) > WORKERS

    kept = set(git(repo, "rev-list", "--all").split())
    for row in berth.doc("ls")["workspaces"]:
        if Path(row["path"]).is_dir():
            kept |= set(git(row["path"], "rev-list", "HEAD").split())
    assert commits <= kept, f"lost: {commits - kept}"
    fsck = git(repo, "fsck", "--full", check=False)
    assert "missing" not in fsck
    assert (repo / ".git/config").read_bytes() == shared_config

    for slug in SLUGS:
        outcome = berth("done", slug, "--force")
        assert outcome.code in (0, 4), outcome
    assert berth.doc("ls")["workspaces"] == []
    assert git(repo, "worktree", "list", "--porcelain").count("worktree ") == 1
    berth.ok("gc")
    await_true(lambda: not command_lines(SLEEP), seconds=20)
    await_true(lambda: not [line for line in command_lines(str(berth.home)) if "supervise" in line])
    left = {p.relative_to(berth.home).parts[0] for p in berth.home.rglob("*") if p.is_file()}
    assert left <= {"registry.db", "locks"}, left


def look(berth: Berth, repo: Path, commits: set[str]) -> None:
    """What must hold in the middle of it: no port twice, and every commit that a branch of ours has is remembered."""
    with sqlite3.connect(f"file:{berth.home / 'registry.db'}?mode=ro", uri=True, timeout=10) as db:
        ports = [port for (port,) in db.execute("SELECT port FROM ports")]
    db.close()
    assert len(ports) == len(set(ports))
    commits |= set(git(repo, "rev-list", "--branches=berth/*", check=False).split())
