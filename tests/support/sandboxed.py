"""Sandboxes for tests: a project with boundary apps, ``berth`` as a process, and nothing left afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.tools.engine.client import Engine
from support import engines

ROOT = Path(__file__).parents[2]
APPS = ROOT / "tests" / "apps"
SRC = ROOT / "src"


class Project:
    """A workspace root with copies of apps, a berth home of its own, and one engine."""

    def __init__(self, directory: Path, engine: Engine, image: str) -> None:
        self.root = directory / "project"
        self.home = directory / "home"
        self.started = Outcome(0, "", "")  # of the command that started what the tests share
        self.engine = engine
        (self.root / "apps").mkdir(parents=True)
        for path in (directory, self.root, self.root / "apps"):
            path.chmod(0o755)
        (self.root / "pnpm-workspace.yaml").write_text('packages: ["apps/*"]\n')
        (self.root / "README.md").write_text("# a project\n")
        self.env: dict[str, str] = {
            **engines.environment(),
            "BERTH_HOME": str(self.home),
            "BERTH_ENGINE": engine.name,
            "BERTH_SANDBOX_IMAGE": image,
            "PYTHONPATH": str(SRC),
        }

    def add(self, source: Path) -> Path:
        """Copy an app into ``apps/``, readable by everybody."""
        target = self.root / "apps" / source.name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return target

    def app(self, name: str, manifest: str = "", code: str = "") -> Path:
        """A small app with one export ``ping``, or with ``manifest`` lines and ``code`` added."""
        target = self.root / "apps" / name
        (target / "src").mkdir(parents=True)
        ping = "exports:\n  - name: ping\n    input: {}\n    output: {message: string}\n"
        (target / "berth.yml").write_text(f"name: {name}\nversion: 1.0.0\n{manifest}\n{ping}")
        head = "from berth.sdk import App\napp = App()\n@app.export\ndef ping():\n    return {'message': 'pong'}\n"
        (target / "src/app.py").write_text(head + code)
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return target

    def berth(self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Outcome:
        """Run ``berth`` to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "berth", *words],
            cwd=cwd or self.root,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def call(self, container: str, name: str, function: str, /, **fields: Any) -> dict[str, Any]:
        """The response object of one call through the relay, as the host library gives it."""
        outcome = self.berth(
            "rpc", name, f"--container={container}", f"--export={function}", f"--input={json.dumps(fields)}"
        )
        assert outcome.code in (0, 1), outcome
        return {"result": json.loads(outcome.out)} if outcome.code == 0 else {"error": outcome.err}

    def probe(self, container: str, app: str, kind: str, *args: Any) -> dict[str, Any]:
        """The result of a boundary app's ``probe``."""
        answer = self.call(container, app, "probe", kind=kind, args=list(args))
        assert "result" in answer, answer
        return dict(answer["result"])

    def inside(self, container: str, *argv: str, user: str = "0:0") -> str:
        """What a command prints that an administrator runs in the container."""
        words = ["exec", "-u", user, container, *argv]
        return self.engine.attempt(words).text

    def logs(self, container: str) -> str:
        """The container's log."""
        result = self.engine.attempt(["logs", container])
        return (result.stdout + result.stderr).decode("utf-8", "replace")

    def clean(self) -> None:
        """Remove what berth made in this home, and the files that apps made in the dev workspace."""
        ids = self.engine.call(["container", "ls", "-a", "-q", "--filter", f"label=dev.berth.root={self.root}"]).text
        names = set(ids.split())
        for app in (self.root / "apps").iterdir():
            found = self.engine.call(["container", "ls", "-a", "-q", "--filter", f"label=dev.berth.root={app}"]).text
            names |= set(found.split())
        if names:
            engines.discard(self.engine, *names)
        for where in (self.root, *(self.root / "apps").iterdir()):
            volumes = self.engine.call(["volume", "ls", "-q", "--filter", f"label=dev.berth.root={where}"]).text.split()
            if volumes:
                self.engine.attempt(["volume", "rm", "-f", *volumes])
            listed = ["image", "ls", "-q", "--filter", f"label=dev.berth.root={where}"]
            for image in set(self.engine.call(listed).text.split()):
                self.engine.attempt(["image", "rm", "-f", image])
        self._give_back()

    def _give_back(self) -> None:
        """Files of rootless apps belong to ids that only the engine can remove."""
        if (self.root / ".berth").exists() and os.getuid() != 0:
            mount = f"type=bind,source={self.root}/.berth,target=/emptied"
            image = self.env["BERTH_SANDBOX_IMAGE"]
            words = ["run", "--rm", "--user", "0:0", "--mount", mount, "--entrypoint", "find", image, "/emptied"]
            self.engine.attempt([*words, "-mindepth", "1", "-delete"])


class Outcome:
    """How a command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Dev:
    """A running ``berth dev``; ``stop`` sends TERM and gives its exit status."""

    def __init__(self, project: Project, app: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        self.directory = project.home.parent
        self.out_path = self.directory / f"dev-{app.name}.out"
        self.err_path = self.directory / f"dev-{app.name}.err"
        with self.out_path.open("wb") as out, self.err_path.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "berth", "dev", *words],
                cwd=app,
                env={**project.env, **(env or {})},
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self.out_path.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.err_path.read_text(errors="replace")

    def await_text(self, text: str, *, count: int = 1, seconds: float = 60, stream: str = "err") -> None:
        """Return once ``text`` was printed ``count`` times; AssertionError with everything otherwise."""
        deadline = time.monotonic() + seconds
        while getattr(self, stream).count(text) < count:
            assert time.monotonic() < deadline, f"no {text!r}:\n{self.out}\n{self.err}"
            assert self.process.poll() is None, f"dev ended with {self.process.returncode}:\n{self.out}\n{self.err}"
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=60)
