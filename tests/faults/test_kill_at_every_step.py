"""kill -9 at every step of every command that changes something: the next commands converge (workspaces.md 14).

Each scenario is run once to learn its steps; then, for each of them, from a fresh start: kill there, run one of the
commands of the table, look at what must hold, and put the workspace away without leaving anything.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import Berth, alive, await_true, command_lines
from support.repos import commit, git, make_repo, write

SLEEP = f"sleep {1_000_000 + os.getpid()}"  # test processes run beside each other: this one's services
CONFIG = f"""
version: 1
ports: [web, api]
env_file: .env.berth
copy_dirs: [deps]
hooks:
  setup: ['echo once >> "$BERTH_DATA_DIR/setup"']
  teardown: ['true']
processes:
  one: {{command: exec {SLEEP}}}
  two: {{command: exec {SLEEP}, shutdown: {{timeout_seconds: 2}}}}
"""
DRIVER = Path(__file__).with_name("driver.py")
SHARDS = int(os.environ.get("BERTH_FAULT_SHARDS", "2"))
EVERYTHING = bool(os.environ.get("BERTH_FAULTS_ALL"))  # every step × every command of the table; takes an hour
STRIDE = 1 if EVERYTHING else 3  # otherwise every third step, with one of the commands in turn


class Scenario:
    """A command to kill, what comes before it, and the commands that must converge after it."""

    def __init__(self, words: list[str], before: list[list[str]], after: list[list[str]]) -> None:
        self.words = words
        self.before = before
        self.after = after


SCENARIOS = {
    "new": Scenario(["new", "a"], [], [["new", "a"], ["up", "a"], ["done", "a"], ["run", "-w", "a", "true"]]),
    "new-up": Scenario(["new", "a", "--up"], [], [["up", "a"], ["new", "a", "--up"], ["down", "a"], ["done", "a"]]),
    "adopt": Scenario(["adopt", "../mine", "--setup"], [], [["adopt", "../mine", "--setup"], ["adopt", "../mine"]]),
    "up": Scenario(["up", "a"], [["new", "a"]], [["up", "a"], ["down", "a"], ["done", "a"]]),
    "down": Scenario(["down", "a"], [["new", "a", "--up"]], [["down", "a"], ["up", "a"], ["done", "a"]]),
    "restart": Scenario(["restart", "one", "a"], [["new", "a", "--up"]], [["restart", "one", "a"], ["down", "a"]]),
    "run": Scenario(["run", "-w", "a", "true"], [["new", "a"]], [["run", "-w", "a", "true"], ["down", "a"]]),
    "reset": Scenario(
        ["reset", "a"], [["new", "a", "--up"]], [["reset", "a"], ["up", "a"], ["new", "a"], ["done", "a"]]
    ),
    "done": Scenario(["done", "a"], [["new", "a", "--up"]], [["done", "a"]]),
    "gc": Scenario(["gc"], [["new", "a"], ["new", "b", "--up"]], [["gc"], ["done", "a"]]),
}


class Place:
    """A fresh repository and home in which one scenario is played."""

    def __init__(self, root: Path) -> None:
        self.repo = make_repo(
            root / "app", {"berth.yaml": CONFIG, ".gitignore": "deps/\n.env.berth\n", "src/x.txt": "hi\n" * 50}
        )
        write(self.repo, {"deps/lib/one.js": "1", "deps/lib/two.js": "2"})
        self.berth = Berth(root / "home", self.repo)
        self.record = root / "steps"
        self.shared_config = (self.repo / ".git/config").read_bytes()
        self.precious = ""

    def prepare(self, name: str, scenario: Scenario) -> None:
        if name == "adopt":
            git(self.repo, "worktree", "add", "-q", "-b", "mine", "../mine")
            self.precious = commit(self.repo.parent / "mine", {"work.txt": "mine"})
        for words in scenario.before:
            self.berth.ok(*words)
        if name == "gc":
            config = CONFIG + "gc: {remove_after_days: 1}\n"
            git(self.repo.parent / "app.berths/a", "commit", "-q", "--allow-empty", "-m", "w")
            write(self.repo.parent / "app.berths/a", {"berth.yaml": config})
            git(self.repo.parent / "app.berths/a", "commit", "-qam", "gc")
            git(self.repo, "merge", "-q", "--ff-only", "berth/a")
            with sqlite3.connect(self.berth.home / "registry.db") as db:
                db.execute("UPDATE workspaces SET last_used_at = '2001-01-01T00:00:00.000Z' WHERE slug = 'a'")
            db.close()
            for lock in (self.berth.home / "locks").glob("*.lock"):
                os.utime(lock, (1, 1))
            self.berth.home.joinpath("plans").mkdir(exist_ok=True)
            self.berth.home.joinpath("plans/1-2").write_text("left over")

    def drive(self, number: int, words: list[str]) -> int:
        done = subprocess.run(
            [sys.executable, str(DRIVER), str(number), str(self.record), "--", *words],
            cwd=self.repo,
            env=self.berth.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done.returncode

    def check(self) -> None:
        """What must hold at any time."""
        assert (self.repo / ".git/config").read_bytes() == self.shared_config
        fsck = git(self.repo, "fsck", "--full", "--strict", check=False)
        assert "error" not in fsck, fsck
        assert "missing" not in fsck, fsck
        if self.precious:
            assert git(self.repo, "cat-file", "-t", self.precious) == "commit"
            assert self.precious in git(self.repo, "rev-list", "--branches")
        with sqlite3.connect(self.berth.home / "registry.db") as db:
            ports = [port for (port,) in db.execute("SELECT port FROM ports")]
            ids = [one for (one,) in db.execute("SELECT id FROM workspaces")]
        db.close()
        assert len(ports) == len(set(ports))
        assert len(ids) == len(set(ids))

    def supervisors(self) -> list[str]:
        return [line for line in command_lines(str(self.berth.home)) if "supervise" in line]

    def converge(self, words: list[str]) -> None:
        """The next command succeeds and leaves what it is for."""
        outcome = self.berth(*words)
        if outcome.code == 4 and "a" not in {row["slug"] for row in self.berth.doc("ls")["workspaces"]}:
            self.berth.ok(
                "new", "a"
            )  # killed before the transaction, or after the record was deleted: it starts afresh
            self.check()
            return
        gone = words[0] == "restart" and outcome.code == 1
        assert outcome.code == 0 or gone, outcome
        if outcome.code == 1:
            assert words[0] == "restart", outcome
            assert "not running" in outcome.err, outcome
        self.check()
        rows = self.berth.doc("ls")["workspaces"]
        if words[0] in ("up", "new", "run", "reset", "adopt"):
            (row,) = [row for row in rows if row["slug"] in ("a", "mine")]
            assert row["error"] is None, row
            assert row["dirty"] is False, (row, git(row["path"], "status", "--porcelain"))
            path = Path(row["path"])
            if "--setup" in words or words[0] != "adopt":
                assert (path / "deps/lib/two.js").read_text() == "2"
                assert "BERTH_PORT_WEB" in (path / ".env.berth").read_text()
        if words[0] == "up" or "--up" in words:
            assert row["running"] is True
            assert [one["status"] for one in row["processes"]] == ["Running", "Running"]
            assert len(self.supervisors()) == 1, self.supervisors()
            assert len(command_lines(SLEEP)) == 2, command_lines(SLEEP)
        if words[0] in ("down", "done"):
            assert not [line for line in command_lines(SLEEP) if self.is_of(line, "a")]

    def is_of(self, line: str, slug: str) -> bool:
        try:
            return os.readlink(f"/proc/{line.split()[0]}/cwd").endswith(f"/{slug}")
        except OSError:
            return False

    def put_away(self) -> None:
        """Everything goes, and nothing is left: process, branch, worktree, file, port."""
        for row in self.berth.doc("ls")["workspaces"]:
            self.berth.ok("done", row["path"], "--force")
        self.check()
        assert git(self.repo, "branch", "--list", "berth/*") == ""
        listed = git(self.repo, "worktree", "list", "--porcelain").count("worktree ")
        assert listed == (2 if self.precious else 1)
        await_true(lambda: not command_lines(SLEEP))
        assert self.supervisors() == []
        found = self.berth.doc("gc")
        assert found["warnings"] == [], found
        berths = self.repo.parent / "app.berths"
        assert not berths.exists() or list(berths.iterdir()) == []
        left = {p.relative_to(self.berth.home).parts[0] for p in self.berth.home.rglob("*") if p.is_file()}
        # The journal is SQLite's own: a transaction was killed before it had written anything.
        assert left <= {"registry.db", "registry.db-journal", "locks"}, left


def steps_of(name: str, scenario: Scenario, tmp_path: Path) -> list[str]:
    place = Place(tmp_path / "learning")
    place.prepare(name, scenario)
    assert place.drive(-1, scenario.words) == 0
    place.check()
    place.put_away()
    return place.record.read_text().split("\n")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_any_step_the_next_command_converges(name: str, shard: int, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    steps = steps_of(name, scenario, tmp_path)
    assert len(steps) >= 3
    violations = []
    for number in range(shard * STRIDE, len(steps), SHARDS * STRIDE):
        commands = scenario.after if EVERYTHING else [scenario.after[number // (SHARDS * STRIDE) % len(scenario.after)]]
        for words in commands:
            place = Place(tmp_path / f"{number}-{'-'.join(words).replace('/', '_')}")
            try:
                place.prepare(name, scenario)
                assert place.drive(number, scenario.words) == -9
                place.converge(words)
                place.put_away()
            except AssertionError as error:
                violations.append(f"step {number} ({steps[number]}), then berth {' '.join(words)}: {error}")
            finally:
                for line in command_lines(SLEEP):
                    pid = int(line.split()[0])
                    if alive(pid):
                        os.kill(pid, 9)
                for line in place.supervisors():
                    os.kill(int(line.split()[0]), 9)
    assert not violations, f"{len(violations)} of {len(steps)} steps\n" + "\n".join(violations)


def test_there_are_enough_steps(tmp_path: Path) -> None:
    counts = {name: len(steps_of(name, scenario, tmp_path / name)) for name, scenario in SCENARIOS.items()}
    assert sum(counts.values()) >= 120, counts
    print(counts)
