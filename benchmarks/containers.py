"""Container workspaces measured against the engine's own commands and socat (performance.md C1 to C4).

    python benchmarks/containers.py [C1 C2 C3 C4] [--engine docker|podman] [--rounds N]

Needs the engine with the image berth-base:local (scripts/engines up); C3 also nginx, socat and wrk. Pairs alternate in
one run; each line is the median of ours, of its baseline, and what the mark asks. Nothing is written or left behind.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from berth.tools.engine.client import Engine  # noqa: E402  # found by the line above
from support.boxed import WEB, Boxed  # noqa: E402
from support.engines import IMAGE  # noqa: E402
from support.repos import git  # noqa: E402

PYTHON = sys.executable  # berth's own interpreter in its own environment: the unit of the marks
GUEST = ROOT / "src" / "berth" / "guest"


def timed(deed: Callable[[], object]) -> float:
    begun = time.perf_counter()
    deed()
    return time.perf_counter() - begun


def run(*argv: str, cwd: Path | None = None) -> None:
    subprocess.run(argv, check=True, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def bare() -> float:
    """One start of berth's interpreter: the unit ``py`` of the marks."""
    return timed(lambda: run(PYTHON, "-c", "pass"))


def pairs(ours: Callable[[int], float], baseline: Callable[[int], float], rounds: int) -> tuple[float, float, float]:
    """Medians of ours, of the baseline and of py, alternating, after one warm-up."""
    found = [(ours(number), baseline(number), bare()) for number in range(rounds + 1)][1:]
    first, second, py = (statistics.median(column) for column in zip(*found, strict=True))
    return first, second, py


def report(name: str, ours: float, baseline: float, mark: str, reached: bool) -> None:
    word = "reached" if reached else "MISSED"
    extra = (ours - baseline) * 1000
    print(f"{name}: {ours * 1000:.0f} ms, baseline {baseline * 1000:.0f} ms, +{extra:.0f} ms; mark {mark}: {word}")


def await_answer(port: int) -> None:
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1).close()
            return
        except OSError:
            time.sleep(0.005)


class Bench:
    def __init__(self, directory: Path, engine: str, rounds: int) -> None:
        self.rounds = rounds
        self.engine = Engine(engine, environ=os.environ)
        self.berth = Boxed(directory, engine, self.engine)
        self.directory = directory

    def close(self) -> None:
        self.berth.clear_away()

    def c1(self) -> None:
        """``new --up`` with one service, against the same by hand."""

        def ours(number: int) -> float:
            took = timed(lambda: self.berth.ok("new", f"w{number}", "--up"))
            self.berth.ok("done", f"w{number}", "--force")
            return took

        def by_hand(number: int) -> float:
            where, container = self.directory / f"hand{number}", f"berth-bench-{os.getpid()}-{number}"
            command = ["python3", "-m", "http.server", "8080"]
            took = timed(lambda: self._by_hand(where, container, number, command))
            run(self.engine.name, "rm", "-f", container)
            git(self.berth.repo, "worktree", "remove", "--force", str(where))
            return took

        first, second, _ = pairs(ours, by_hand, min(self.rounds, 5))
        report("C1 new --up", first, second, "+700 ms", first - second <= 0.7)

    def _by_hand(self, where: Path, container: str, number: int, command: list[str]) -> None:
        name = self.engine.name
        git(self.berth.repo, "worktree", "add", "-q", str(where), "-b", f"hand{number}")
        mount = f"type=bind,source={where},target=/workspace"
        run(name, "create", "--name", container, "--mount", mount, "-p", "127.0.0.1:48080:8080", IMAGE, *command)
        run(name, "start", container)
        await_answer(48080)

    def c2(self) -> None:
        """``run -- true`` inside the workspace's directory, against an exec of the same."""
        self.berth.ok("new", "c2")
        time.sleep(2.1)  # a berth.yaml younger than two seconds gives no prepared plan
        inside = self.berth.path("c2")
        self.berth.ok("run", "--", "true", cwd=inside)
        name = self.berth.container("c2")
        env = self.berth.environment()
        argv = [sys.executable, str(ROOT / "scripts" / "berth"), "run", "--", "true"]

        def ours(_: int) -> float:
            return timed(lambda: subprocess.run(argv, cwd=inside, env=env, check=True, stdin=subprocess.DEVNULL))

        def by_hand(_: int) -> float:
            return timed(lambda: run(self.engine.name, "exec", name, "true"))

        first, second, py = pairs(ours, by_hand, self.rounds)
        report("C2 run -- true", first, second, f"+1.5 py ({1500 * py:.0f} ms)", first - second <= 1.5 * py)
        self.berth.ok("done", "c2", "--force")

    def c4(self) -> None:
        """``status --json`` of a workspace that is up, against one inspection."""
        self.berth.ok("new", "c4", "--up")
        name = self.berth.container("c4")
        inside = self.berth.path("c4")

        def ours(_: int) -> float:
            return timed(lambda: self.berth.ok("status", "--json", cwd=inside))

        def by_hand(_: int) -> float:
            return timed(lambda: run(self.engine.name, "container", "inspect", name))

        first, second, py = pairs(ours, by_hand, self.rounds)
        report("C4 status --json", first, second, f"+4 py ({4000 * py:.0f} ms)", first - second <= 4 * py)
        self.berth.ok("done", "c4", "--force")

    def c3(self) -> None:
        """Through the gateway and through ``socat TCP-LISTEN,fork`` to the same nginx."""
        for program in ("nginx", "socat", "wrk"):
            if shutil.which(program) is None:
                print(f"C3: {program} is not here")
                return
        with Servers(self.directory) as servers:
            figures: dict[str, list[dict[str, float]]] = {"gateway": [], "socat": []}
            for _ in range(3):
                for name, port in (("gateway", servers.gateway), ("socat", servers.socat)):
                    figures[name].append(measure(port))
        marks = {"kept": (1.4, True), "fresh": (3.0, True), "p99": (0.2, False), "bulk": (1.4, True)}
        for key, (mark, at_least) in marks.items():
            ours, theirs = (statistics.median(one[key] for one in figures[name]) for name in ("gateway", "socat"))
            ratio = ours / theirs
            reached = ratio >= mark if at_least else ratio <= mark
            word = "reached" if reached else "MISSED"
            sign = "≥" if at_least else "≤"
            print(f"C3 {key}: {ours:.4g}, socat {theirs:.4g}: {ratio:.2f} x; mark {sign} {mark} x: {word}")


class Servers:
    """nginx, and before it the gateway and socat."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.nginx, self.gateway, self.socat = (free_port() for _ in range(3))
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Servers:
        www = self.directory / "www"
        www.mkdir()
        self.directory.chmod(0o755)  # nginx's workers are another user
        (www / "index.html").write_text("hello\n")
        with open(www / "big", "wb") as file:
            file.truncate(1 << 30)
        configuration = self.directory / "nginx.conf"
        configuration.write_text(
            f"daemon off; worker_processes 1; error_log {self.directory}/err.log; pid {self.directory}/pid;\n"
            "events { worker_connections 4096; }\n"
            "http { access_log off; keepalive_requests 100000000; sendfile on; "
            f"server {{ listen 127.0.0.1:{self.nginx}; root {www}; }} }}\n"
        )
        pair = f"{self.gateway}:{self.nginx}"
        forked = f"TCP-LISTEN:{self.socat},fork,reuseaddr,backlog=1024,nodelay"
        for argv in (
            ["nginx", "-c", str(configuration)],
            # As in a container: the distribution's interpreter, not berth's.
            [shutil.which("python3", path="/usr/bin") or PYTHON, "-I", "-S", str(GUEST), "gateway", pair],
            ["socat", forked, f"TCP:127.0.0.1:{self.nginx},nodelay"],
        ):
            self.processes.append(subprocess.Popen(argv, stderr=subprocess.DEVNULL))
        for port in (self.nginx, self.gateway, self.socat):
            await_answer(port)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def measure(port: int) -> dict[str, float]:
    """Requests a second kept alive and with a connection each, p99 in ms of the latter, bulk bytes a second."""
    kept, _ = wrk(port)
    fresh, p99 = wrk(port, "-H", "Connection: close")
    begun = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/big") as answer:
        size = 0
        while block := answer.read(1 << 20):
            size += len(block)
    return {"kept": kept, "fresh": fresh, "p99": p99, "bulk": size / (time.perf_counter() - begun)}


def wrk(port: int, *options: str) -> tuple[float, float]:
    argv = ["wrk", "-t1", "-c64", "-d2", "--latency", *options, f"http://127.0.0.1:{port}/"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    words = said.split()
    rate = float(words[words.index("Requests/sec:") + 1])
    p99 = words[words.index("99%") + 1]
    unit = 1000.0 if p99.endswith("s") and not p99.endswith(("ms", "us")) else 0.001 if p99.endswith("us") else 1.0
    return rate, float(p99.rstrip("mus")) * unit


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["C1", "C2", "C3", "C4"])
    parser.add_argument("--engine", default="docker" if os.getuid() == 0 else "podman")
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed berth has its bytecode
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
        bench = Bench(Path(directory), asked.engine, asked.rounds)
        bench.berth.configure(processes=WEB)
        try:
            for name in asked.names:
                getattr(bench, name.lower())()
        finally:
            bench.close()


if __name__ == "__main__":
    main()
