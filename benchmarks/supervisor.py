"""The marks of the supervisor, measured on the machine at hand: start, memory, idleness, many processes, output.

    python benchmarks/supervisor.py [name ...]

Each figure stands beside its baseline of the same run. Nothing is written; the last line of each part is the result.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1] / "tests")]

from berth.guest.core import procfs, wire  # noqa: E402  # found by the line above
from support.supervisor import Supervisor, answer, free_port, http_get, supervised, until  # noqa: E402

PYTHON = os.path.realpath(sys.executable)
ROUNDS = 15


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def bare() -> float:
    begun = time.perf_counter()
    subprocess.run([PYTHON, "-I", "-S", "-c", "pass"], check=True)
    return time.perf_counter() - begun


def call_to_answer(root: Path, number: int) -> float:
    """Seconds from the call until the socket gives its first answer."""
    (root / str(number)).mkdir()
    one = Supervisor(root / str(number), {"a": {"command": "exec sleep 1000"}}, python=PYTHON)
    token = one.control  # made before the clock runs
    try:
        begun = time.perf_counter()
        one.start()
        assert one.ask("GET", "/live")[0] == 200
        took = time.perf_counter() - begun
        one.down()
    finally:
        one.destroy()
    assert token
    return took


def start(root: Path) -> None:
    """Call to socket answering, against a bare interpreter's start (mark: 3 of them)."""
    pairs = [(bare(), call_to_answer(root, number)) for number in range(ROUNDS + 1)][1:]
    floor, took = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratios = sorted(one / base for base, one in pairs)
    print(f"start: {ms(took)}, bare interpreter {ms(floor)}: {took / floor:.2f} x ({ratios[0]:.2f}-{ratios[-1]:.2f})")


def memory_of(pid: int) -> dict[str, int]:
    text = Path(f"/proc/{pid}/status").read_text()
    return {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines() if line.endswith("kB")}


def three_probed(period: float = 10) -> dict[str, object]:
    processes: dict[str, object] = {}
    for name in ("a", "b", "c"):
        port = free_port()
        processes[name] = {
            "command": answer(port),
            "readiness_probe": {**http_get(port), "period_seconds": period},
        }
    return processes


def keepers(one: Supervisor) -> list[int]:
    numbers = {entry.pid: wire.split_tag(procfs.tag(entry.pid) or 0)[1] for entry in one.tagged()}
    return [pid for pid, number in numbers.items() if number == wire.KEEPER_NUMBER]


def memory(root: Path) -> None:
    """Resident memory with three probed services (marks: 16 MiB, RssAnon 8; a keeper 0.3)."""
    with supervised(root, three_probed(), python=PYTHON) as one:
        assert one.wait().word == "settled"
        time.sleep(0.5)
        found = memory_of(one.pid)
        kept = max(memory_of(pid)["RssAnon"] for pid in keepers(one))
        print(
            f"memory: VmRSS {found['VmRSS'] / 1024:.1f} MiB, RssAnon {found['RssAnon'] / 1024:.1f} MiB, "
            f"a keeper's RssAnon {kept / 1024:.2f} MiB"
        )


def idle(root: Path) -> None:
    """System calls in 10 s with nothing due, and with three probes of period 10 (marks: 0, and 3 checks)."""
    for name, processes in (
        ("no probes", {"a": {"command": "exec sleep 1000"}}),
        ("three probes of period 10", three_probed()),
    ):
        (root / name).mkdir()
        with supervised(root / name, processes, python=PYTHON) as one:
            assert one.wait().word == "settled"
            time.sleep(1.5)
            trace = root / f"{name}.trace"
            subprocess.run(
                ["timeout", "10", "strace", "-f", "-o", str(trace), "-p", str(one.pid)],
                stderr=subprocess.DEVNULL,
                check=False,
            )
            calls = [line.split()[1].split("(")[0] for line in trace.read_text().splitlines() if "(" in line]
            # The call that strace finds it in, and the one it leaves it in, are one and the same wait.
            checks = calls.count("connect")
            print(f"idle: {name}: {len(calls) - 1} system calls after the wait it is found in, {checks} checks")


def many(root: Path) -> None:
    """50 processes with sleep: up and down, against starting and ending them by hand (marks: + 0.3 s, + 0.1 s)."""
    floor_up, floor_down = [], []
    for _ in range(3):
        begun = time.perf_counter()
        children = [subprocess.Popen(["/bin/sh", "-c", "sleep 1000"], start_new_session=True) for _ in range(50)]
        floor_up.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        for child in children:
            os.killpg(child.pid, 15)
        for child in children:
            child.wait()
        floor_down.append(time.perf_counter() - begun)
    ups, downs = [], []
    for number in range(5):
        (root / str(number)).mkdir()
        processes: dict[str, object] = {f"p{index}": {"command": "sleep 1000"} for index in range(50)}
        one = Supervisor(root / str(number), processes, python=PYTHON)
        try:
            one.start()
            begun = time.perf_counter()
            assert one.wait().word == "settled"
            ups.append(time.perf_counter() - begun)
            downs.append(one.down())
        finally:
            one.destroy()
    up, down = statistics.median(ups), statistics.median(downs)
    print(
        f"many: 50 processes up {ms(up)} (by hand {ms(statistics.median(floor_up))}), "
        f"down {ms(down)} (by hand {ms(statistics.median(floor_down))})"
    )


def chain(root: Path) -> None:
    """200 processes, one chain of depth 50, 2,000 restarts: memory before and after."""
    processes: dict[str, object] = {}
    for index in range(200):
        processes[f"p{index:03}"] = {"command": "sleep 1000"}
        if 0 < index < 50:
            processes[f"p{index:03}"] = {
                "command": "sleep 1000",
                "depends_on": {f"p{index - 1:03}": {"condition": "process_started"}},
            }
    processes["restarts"] = {
        "command": "exit 1",
        "availability": {"restart": "always", "backoff_seconds": 0.002, "max_restarts": 2000},
    }
    with supervised(root, processes, python=PYTHON) as one:
        begun = time.perf_counter()
        until(lambda: one.state("p199")["status"] == "Running" and one.state("p049")["status"] == "Running", 30)
        up = time.perf_counter() - begun
        until(lambda: int(str(one.state("restarts")["restarts"])) >= 100, 60)
        before = memory_of(one.pid)["RssAnon"]
        until(lambda: one.state("restarts")["status"] == "Completed", 300)
        took = time.perf_counter() - begun
        after = memory_of(one.pid)["RssAnon"]
        down = one.down()
        print(
            f"chain: up {ms(up)}, 2000 restarts in {took:.1f} s, down {ms(down)}, "
            f"RssAnon {before / 1024:.2f} -> {after / 1024:.2f} MiB"
        )


def output(root: Path) -> None:
    """Bytes a second through pipe and keeper, against the process writing to a file itself (mark: 0.7 x)."""
    size = 1 << 29
    writer = f"head -c {size} /dev/zero"
    ratios = []
    for number in range(5):
        begun = time.perf_counter()
        with open(root / "direct", "wb") as file:
            subprocess.run(["/bin/sh", "-c", writer], stdout=file, check=True)
        direct = time.perf_counter() - begun
        os.unlink(root / "direct")
        (root / str(number)).mkdir()
        with supervised(root / str(number), {"a": {"command": writer}}, python=PYTHON) as one:
            log = one.root / ".berth/logs/a.log"
            begun = time.perf_counter()
            until(lambda log=log: log.exists() and log.stat().st_size >= size, 60)
            through = time.perf_counter() - begun
            os.unlink(log)
        ratios.append(direct / through)
    print(f"output: {statistics.median(ratios):.2f} x the throughput of a file ({min(ratios):.2f}-{max(ratios):.2f})")


PARTS: dict[str, Callable[[Path], None]] = {
    "start": start,
    "memory": memory,
    "idle": idle,
    "many": many,
    "chain": chain,
    "output": output,
}


def main(names: list[str]) -> None:
    for name in names or PARTS:
        with tempfile.TemporaryDirectory() as directory:
            PARTS[name](Path(directory))


if __name__ == "__main__":
    main(sys.argv[1:])
