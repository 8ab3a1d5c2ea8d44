"""Measure berth's workspaces beside doing the same by hand, and hold each figure against its goal.

    python benchmarks/run.py [--quick] [row ...]        e.g. W1 W5

Method: berth is installed (compiled, not editable) into an environment of its own. Each row alternates its command and
its baseline in one run, after one round that does not count, and takes medians; ``py`` is that environment's
interpreter doing nothing. Ratios are the result, absolute times are context. Writes ``results.md`` and ``results.json``
beside this file when all rows were run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SERVICE = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
PROBED = """version: 1
ports: [a, b, c]
processes:
"""
for _name in ("a", "b", "c"):
    PROBED += f"""  {_name}:
    command: exec "$BENCH_PYTHON" serve.py "$BERTH_PORT_{_name.upper()}"
    readiness_probe: {{http_get: {{port: "${{BERTH_PORT_{_name.upper()}}}"}}, period_seconds: 10}}
"""
ONE = """version: 1
ports: [web]
processes:
  web:
    command: exec "$BENCH_PYTHON" serve.py "$BERTH_PORT_WEB"
    readiness_probe: {http_get: {port: "${BERTH_PORT_WEB}"}, period_seconds: 10}
"""


class Bench:
    """The scratch directory, the installed berth, and what was measured."""

    def __init__(self, scratch: Path, *, quick: bool) -> None:
        self.scratch = scratch
        self.rounds = 5 if quick else 15
        self.quick = quick
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "PYTHON"))}
        subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
        install = [scratch / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", ROOT]
        subprocess.run(install, check=True, env=self.env)
        self.python = str(scratch / "venv/bin/python")
        self.berth = str(scratch / "venv/bin/berth")
        self.env |= {"BERTH_HOME": str(scratch / "home"), "BENCH_PYTHON": sys.executable}
        self.env |= {"GIT_AUTHOR_NAME": "b", "GIT_AUTHOR_EMAIL": "b@b", "GIT_COMMITTER_NAME": "b"}
        self.env |= {"GIT_COMMITTER_EMAIL": "b@b", "BERTH_PORT_RANGE": "24000-31999"}
        self.results: list[dict[str, object]] = []

    def run(self, *words: str, cwd: Path | None = None, check: bool = True) -> float:
        """Seconds that a program takes; its output is thrown away."""
        began = time.perf_counter()
        done = subprocess.run(words, cwd=cwd, env=self.env, stdin=subprocess.DEVNULL, capture_output=True)
        took = time.perf_counter() - began
        if check and done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
        return took

    def do(self, *words: str, cwd: Path | None = None) -> float:
        return self.run(self.berth, *words, cwd=cwd)

    def py(self) -> float:
        return self.run(self.python, "-c", "pass")

    def repo(self, name: str, *, files: int, config: str) -> Path:
        path = self.scratch / name
        (path / "src").mkdir(parents=True)
        for number in range(files):
            (path / "src" / f"f{number}").write_text(f"{number}\n")
        (path / "serve.py").write_text(SERVICE)
        (path / "berth.yaml").write_text(config)
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "init"]):
            self.run("git", *words, cwd=path)
        return path

    def paired(self, *columns: Callable[[], float]) -> list[list[float]]:
        """Alternate the measurements; one list of seconds for each, without the first round."""
        rows = [[column() for column in columns] for _ in range(self.rounds + 1)][1:]
        return [list(column) for column in zip(*rows, strict=True)]

    def note(self, row: str, what: str, *, figure: str, goal: str, met: bool, detail: str) -> None:
        self.results.append({"row": row, "what": what, "figure": figure, "goal": goal, "met": met, "detail": detail})
        print(f"{row:4} {'ok  ' if met else 'MISS'} {figure:>12}  (goal {goal})  {what}: {detail}", flush=True)

    def ratio(self, row: str, what: str, took: list[float], py: list[float], goal: float) -> None:
        """A figure in bare interpreter starts."""
        found = statistics.median(took) / statistics.median(py)
        detail = f"{span(took)} against py {span(py)}"
        self.note(row, what, figure=f"{found:.2f} × py", goal=f"≤ {goal:g} × py", met=found <= goal, detail=detail)

    def over(self, row: str, what: str, took: list[float], base: list[float], py: list[float], starts: float) -> None:
        """A figure as what it takes beyond its baseline, in bare interpreter starts."""
        extra = (statistics.median(took) - statistics.median(base)) / statistics.median(py)
        detail = f"{span(took)} against {span(base)}, py {span(py)}"
        self.note(
            row, what, figure=f"{extra:+.2f} × py", goal=f"≤ + {starts:g} × py", met=extra <= starts, detail=detail
        )


def span(times: list[float]) -> str:
    """Median and range in milliseconds."""
    return f"{statistics.median(times) * 1000:.1f} ms ({min(times) * 1000:.1f}-{max(times) * 1000:.1f})"


def w1(bench: Bench) -> None:
    repo = bench.repo("w1", files=10, config=ONE)
    bench.do("new", "a", cwd=repo)
    time.sleep(2.1)  # a plan rests on a file that is two seconds old
    place = repo.parent / "w1.berths/a"
    bench.do("run", "true", cwd=place)
    true = shutil.which("true") or "/bin/true"
    took, base, py = bench.paired(lambda: bench.do("run", "--", true, cwd=place), lambda: bench.run(true), bench.py)
    extra = [one - two for one, two in zip(took, base, strict=True)]
    bench.ratio("W1", "berth run -- true, beyond true", extra, py, 1.3)


def w2(bench: Bench) -> None:
    repo = bench.repo("w2", files=5000, config=PROBED)
    bench.do("new", "a", "--up", cwd=repo)
    place = repo.parent / "w2.berths/a"
    time.sleep(2.1)
    bench.do("up", cwd=place)
    took, py = bench.paired(lambda: bench.do("status", "--json", cwd=place), bench.py)
    bench.ratio("W2", "status --json, 3 probed services, 5,000 files", took, py, 4)
    plan, ports, complete, py = bench.paired(
        lambda: bench.do("plan", cwd=place),
        lambda: bench.do("ports", cwd=place),
        lambda: bench.do("__complete", "workspaces", cwd=place),
        bench.py,
    )
    bench.ratio("W4", "plan", plan, py, 3)
    bench.ratio("W4", "ports", ports, py, 3)
    bench.ratio("W4", "completion of a slug", complete, py, 3)
    supervisor(bench)
    bench.do("down", cwd=place)


def supervisor(bench: Bench) -> None:
    """W13: the running supervisor of W2."""
    pids = [int((one / "pc.pid").read_text().split()[0]) for one in (bench.scratch / "home/run").iterdir()]
    status = Path(f"/proc/{pids[-1]}/status").read_text()
    resident = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
    bench.note(
        "W13",
        "resident memory of a supervisor, 3 probed services",
        figure=f"{resident:.1f} MiB",
        goal="≤ 16 MiB",
        met=resident <= 16,
        detail=f"pid {pids[-1]}",
    )


def w3(bench: Bench) -> None:
    count = 10 if bench.quick else 50
    repo = bench.repo("w3", files=100, config=ONE.replace("readiness", "x-readiness"))
    for number in range(count):
        bench.do("new", f"s{number}", "--up", cwd=repo)
    time.sleep(2.1)
    took, py = bench.paired(lambda: bench.do("ls", "--json", cwd=repo), bench.py)
    bench.ratio("W3", f"ls --json, {count} workspaces, all up", took, py, 10)
    memory = sum(
        _pss(int((one / "pc.pid").read_text().split()[0]))
        for one in (bench.scratch / "home/run").iterdir()
        if (one / "pc.pid").exists()
    )
    bench.note(
        "W15",
        f"memory of {count} supervisors (PSS)",
        figure=f"{memory / 1024:.0f} MiB",
        goal=f"≤ {0.6 * 1024 * count / 50:.0f} MiB",
        met=memory / 1024 <= 0.6 * 1024 * count / 50,
        detail="",
    )
    downs = [bench.do("down", f"s{number}", cwd=repo) for number in range(count)]
    bench.note(
        "W15",
        "down of each",
        figure=f"{statistics.median(downs) * 1000:.0f} ms",
        goal="≤ 200 ms",
        met=statistics.median(downs) <= 0.2,
        detail=span(downs),
    )


def _pss(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])


def w5(bench: Bench) -> None:
    repo = bench.repo("w5", files=5000, config=ONE)
    numbers = iter(range(10_000))

    def new() -> float:
        return bench.do("new", f"n{next(numbers)}", cwd=repo)

    def by_hand() -> float:
        name = f"h{next(numbers)}"
        return bench.run("git", "worktree", "add", "-q", "-b", name, f"../w5.hand/{name}", cwd=repo)

    took, base, py = bench.paired(new, by_hand, bench.py)
    bench.over("W5", "new in a repository of 5,000 files, beyond git worktree add", took, base, py, 8)
    time.sleep(1.1)
    names = [path.name for path in sorted((repo.parent / "w5.berths").iterdir())]
    hands = [path.name for path in sorted((repo.parent / "w5.hand").iterdir())]
    done = [bench.do("done", name, cwd=repo) for name in names]
    base = []
    for name in hands:
        began = bench.run("git", "worktree", "remove", f"../w5.hand/{name}", cwd=repo)
        base.append(began + bench.run("git", "branch", "-q", "-d", name, cwd=repo))
    bench.over("W8", "done on a clean, merged workspace of 5,000 files, beyond git", done[1:], base[1:], py, 8)


def w6(bench: Bench) -> None:
    repo = bench.repo("w6", files=100, config=ONE)
    bench.do("new", "a", cwd=repo)
    place = repo.parent / "w6.berths/a"
    downs: list[float] = []
    stops: list[float] = []

    def up() -> float:
        took = bench.do("up", cwd=place)
        downs.append(bench.do("down", cwd=place))
        return took

    def by_hand() -> float:
        began = time.perf_counter()
        service = subprocess.Popen([sys.executable, "serve.py", "23999"], cwd=repo, env=bench.env)
        while not _answers(23999):
            time.sleep(0.001)
        took = time.perf_counter() - began
        began = time.perf_counter()
        service.send_signal(signal.SIGTERM)
        service.wait()
        stops.append(time.perf_counter() - began)
        return took

    took, base, py = bench.paired(up, by_hand, bench.py)
    bench.over("W6", "up of one probed service (period 10 s), beyond its first good answer", took, base, py, 8)
    extra = statistics.median(downs) - statistics.median(stops)
    bench.note(
        "W7",
        "down, beyond SIGTERM until it is gone",
        figure=f"{extra * 1000:+.0f} ms",
        goal="≤ + 200 ms",
        met=extra <= 0.2,
        detail=f"{span(downs)} against {span(stops)}",
    )


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False


def w9(bench: Bench) -> None:
    repo = bench.repo("w9", files=1000, config=ONE)
    numbers = iter(range(10_000))

    def several(count: int) -> float:
        began = time.perf_counter()
        running = [
            subprocess.Popen(
                [bench.berth, "new", f"n{next(numbers)}", "--up"],
                cwd=repo,
                env=bench.env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(count)
        ]
        assert [one.wait() for one in running] == [0] * count
        return time.perf_counter() - began

    rounds, bench.rounds = bench.rounds, min(bench.rounds, 5)
    four, one = bench.paired(lambda: several(4), lambda: several(1))
    bench.rounds = rounds
    factor = statistics.median(four) / statistics.median(one)
    bench.note(
        "W9",
        "four new --up at once, against one",
        figure=f"{factor:.2f} ×",
        goal="≤ 2.2 ×",
        met=factor <= 2.2,
        detail=f"{span(four)} against {span(one)}",
    )
    for row in json.loads(
        subprocess.run([bench.berth, "ls", "--json"], env=bench.env, cwd=repo, capture_output=True, check=True).stdout
    )["workspaces"]:
        bench.do("done", row["path"], cwd=repo)


def w10(bench: Bench) -> None:
    count = 16 if bench.quick else 64
    repo = bench.repo("w10", files=500, config=ONE)
    hands = bench.scratch / "w10.hand"

    def berth() -> float:
        began = time.perf_counter()
        running = [
            subprocess.Popen(
                [bench.berth, "new", f"n{number}"],
                cwd=repo,
                env=bench.env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for number in range(count)
        ]
        failed = [one for one in running if one.communicate() and one.returncode]
        assert not failed
        return time.perf_counter() - began

    took = berth()
    with sqlite3.connect(bench.scratch / "home/registry.db") as db:
        ports = [port for (port,) in db.execute("SELECT port FROM ports")]
    db.close()
    assert len(ports) == len(set(ports))
    names = "\n".join(f"h{number}" for number in range(count))
    began = time.perf_counter()
    subprocess.run(
        ["xargs", "-P8", "-I{}", "git", "worktree", "add", "-q", "-b", "{}", f"{hands}/{{}}"],
        input=names.encode(),
        cwd=repo,
        env=bench.env,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    base = time.perf_counter() - began
    bench.note(
        "W10",
        f"{count} new at once, against git worktree add under xargs -P8",
        figure=f"{took / base:.2f} ×",
        goal="≤ 1.3 ×",
        met=took / base <= 1.3,
        detail=f"{took:.2f} s against {base:.2f} s",
    )


def w11(bench: Bench) -> None:
    repo = bench.repo("w11", files=100, config=ONE)
    bench.do("new", "a", cwd=repo)
    time.sleep(2.1)
    place = repo.parent / "w11.berths/a"
    bench.do("run", "true", cwd=place)
    many = 1000 if bench.quick else 10_000
    small, large = bench.scratch / "home", bench.scratch / "home-large"
    shutil.copytree(small, large, symlinks=True)
    with sqlite3.connect(large / "registry.db") as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(workspaces)")]
        row = dict(zip(columns, db.execute("SELECT * FROM workspaces LIMIT 1").fetchone(), strict=True))
        rows = [
            tuple((row | {"id": f"{number:032x}", "slug": f"x{number}", "path": f"/nowhere/x{number}"}).values())
            for number in range(many)
        ]
        db.executemany(f"INSERT INTO workspaces VALUES ({', '.join('?' * len(columns))})", rows)
    db.close()
    numbers = iter(range(10_000))

    def at(home: Path, *words: str) -> float:
        bench.env["BERTH_HOME"] = str(home)
        try:
            return bench.do(*[word.format(next(numbers)) for word in words], cwd=place)
        finally:
            bench.env["BERTH_HOME"] = str(small)

    for words, goal in ((["ls", "--json"], 5.0), (["status", "--json"], 1.2), (["new", "n{}"], 1.2)):
        big, little = bench.paired(lambda w=words: at(large, *w), lambda w=words: at(small, *w))
        factor = statistics.median(big) / statistics.median(little)
        bench.note(
            "W11",
            f"{words[0]} with {many} rows, against few",
            figure=f"{factor:.2f} ×",
            goal=f"≤ {goal:g} ×",
            met=factor <= goal,
            detail=f"{span(big)} against {span(little)}",
        )


def w12(bench: Bench) -> None:
    count = 6000 if bench.quick else 60_000
    repo = bench.repo("w12", files=10, config="version: 1\n")
    for number in range(count):
        target = repo / "deps" / f"d{number % 300}" / f"f{number}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"x" * (number % 4096))
    (repo / ".gitignore").write_text("deps/\n")
    (repo / "berth.yaml").write_text("version: 1\ncopy_dirs: [deps]\n")
    bench.run("git", "add", "-A", cwd=repo)
    bench.run("git", "commit", "-qm", "copy", cwd=repo)
    rounds, bench.rounds = bench.rounds, 3
    numbers = iter(range(1000))
    took, plain, base = bench.paired(
        lambda: bench.do("new", f"n{next(numbers)}", cwd=repo),
        lambda: bench.run("git", "worktree", "add", "-q", "--detach", f"../w12.hand/{next(numbers)}", cwd=repo),
        lambda: bench.run("cp", "-a", "--reflink=auto", "deps", f"../w12.copy{next(numbers)}", cwd=repo),
    )
    bench.rounds = rounds
    copying = [one - two for one, two in zip(took, plain, strict=True)]
    factor = statistics.median(copying) / statistics.median(base)
    bench.note(
        "W12",
        f"copy_dirs of {count} files, against cp -a --reflink=auto",
        figure=f"{factor:.2f} ×",
        goal="≤ 1.2 ×",
        met=factor <= 1.2,
        detail=f"{span(copying)} against {span(base)}",
    )


def w14(bench: Bench) -> None:
    count = 20 if bench.quick else 200
    repo = bench.repo("w14", files=200, config="version: 1\ngc: {remove_after_days: 1}\n")
    for number in range(count):
        bench.do("new", f"g{number}", cwd=repo)
    with sqlite3.connect(bench.scratch / "home/registry.db") as db:
        db.execute("UPDATE workspaces SET last_used_at = '2001-01-01T00:00:00.000Z' WHERE slug LIKE 'g%'")
    db.close()
    for lock in (bench.scratch / "home/locks").glob("*.lock"):
        os.utime(lock, (1, 1))
    rounds, bench.rounds = bench.rounds, 3
    places = sorted((repo.parent / "w14.berths").iterdir())
    took, base = bench.paired(
        lambda: bench.do("gc", "--dry-run", cwd=repo),
        lambda: sum(bench.run("git", "status", "--porcelain", cwd=place) for place in places),
    )
    bench.rounds = rounds
    factor = statistics.median(took) / statistics.median(base)
    bench.note(
        "W14",
        f"gc --dry-run over {count} workspaces, against git status in each",
        figure=f"{factor:.2f} ×",
        goal="≤ 0.6 ×",
        met=factor <= 0.6,
        detail=f"{span(took)} against {span(base)}",
    )


ROWS: dict[str, Callable[[Bench], None]] = {
    "W1": w1, "W2": w2, "W3": w3, "W5": w5, "W6": w6, "W9": w9, "W10": w10, "W11": w11, "W12": w12, "W14": w14,
}  # fmt: skip


def write_results(bench: Bench) -> None:
    """The table and the JSON, with what they were measured on."""
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    machine = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, {git}"
    date = time.strftime("%Y-%m-%d")
    lines = [
        "# Benchmarks", "", f"{date} · {machine}" + (" · quick" if bench.quick else ""), "",
        "How it is measured stands at the top of `run.py`; `python benchmarks/run.py W5` repeats one row.", "",
        "| row | what | figure | goal | | medians (ranges) |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for one in bench.results:
        verdict = "met" if one["met"] else "**missed**"
        lines.append(
            f"| {one['row']} | {one['what']} | {one['figure']} | {one['goal']} | {verdict} | {one['detail']} |"
        )
    (HERE / "results.md").write_text("\n".join(lines) + "\n")
    document = {"date": date, "machine": machine, "quick": bench.quick, "results": bench.results}
    (HERE / "results.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes, under 3 minutes")
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}; default: all")
    args = parser.parse_args()
    scratch = Path(
        tempfile.mkdtemp(prefix="berth-bench-", dir=os.environ.get("BENCH_DIRECTORY", tempfile.gettempdir()))
    )
    bench = Bench(scratch, quick=args.quick)
    try:
        for name in args.rows or ROWS:
            ROWS[name](bench)
    finally:
        subprocess.run([bench.berth, "ls", "--json"], env=bench.env, capture_output=True)
        for row in json.loads(
            subprocess.run([bench.berth, "ls", "--json"], env=bench.env, capture_output=True, cwd="/").stdout or "{}"
        ).get("workspaces", []):
            subprocess.run([bench.berth, "down", row["path"]], env=bench.env, capture_output=True, cwd="/")
        shutil.rmtree(scratch, ignore_errors=True)
    if not args.rows:
        write_results(bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
