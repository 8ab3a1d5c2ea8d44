"""berth in a repository with container workspaces, driven as a user would, and everything removed afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import urllib.request
from pathlib import Path
from typing import Any

from berth.runtime.box import home_identity
from berth.spec.container import LABEL_HOME
from berth.tools.engine import containers
from berth.tools.engine.client import Engine
from support import engines
from support.cli import Berth
from support.repos import git, make_repo

WEB = """\
  web:
    command: exec python3 -m http.server 8080 --bind 127.0.0.1
    readiness_probe: {http_get: {host: 127.0.0.1, port: 8080, path: /}}
"""


class Boxed(Berth):
    """``berth`` with a home of its own, in a repository ``app`` on one engine."""

    def __init__(self, tmp_path: Path, kind: str, engine: Engine) -> None:
        self.engine = engine
        self.kind = kind
        repo = make_repo(tmp_path / "app")
        super().__init__(tmp_path / "berth-home", repo)
        self.repo = repo
        self.env = {key: value for key, value in engines.environment().items() if key in ("HOME", "XDG_RUNTIME_DIR")}
        # Another session's workspaces, in another home, are known only by a probe: not the same ports at once.
        first = 21000 + os.getpid() % 180 * 100
        self.env["BERTH_PORT_RANGE"] = f"{first}-{first + 99}"
        self.configure()

    def configure(
        self, *, processes: str = WEB, listen: str = "{web: 8080}", runtime: str = "", more: str = "", image: str = ""
    ) -> None:
        """Commit a berth.yaml; ``runtime`` are further entries of that mapping, ``more`` further top-level lines."""
        ports = "[" + ", ".join(entry.split(":")[0].strip(" {}") for entry in listen.split(",")) + "]"
        text = (
            "version: 1\nbase: main\n"
            f"runtime: {{backend: container, engine: {engines.command(self.kind)}, "
            f'image: "{image or engines.IMAGE}"{runtime}}}\n'
            f"ports: {ports if listen != '{}' else '[]'}\nlisten: {listen}\n{more}processes:\n{processes}"
        )
        (self.repo / "berth.yaml").write_text(text)
        (self.repo / ".gitignore").write_text(".berth/\n")
        git(self.repo, "add", "-A")
        git(self.repo, "commit", "-q", "--allow-empty", "-m", "configure")

    def document(self, slug: str) -> Any:
        return self.doc("status", slug)

    def port(self, slug: str, name: str = "web") -> int:
        return int(self.document(slug)["ports"][name])

    def get(self, slug: str, path: str = "/") -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port(slug)}{path}", timeout=10) as answer:
            return bytes(answer.read())

    def inside(self, slug: str, *argv: str) -> str:
        """Run a command in the workspace, assert success, return what it printed."""
        return self.ok("run", "-w", slug, "--", *argv).out

    def shell(self, slug: str, script: str) -> str:
        return self.inside(slug, "sh", "-c", script)

    def container(self, slug: str) -> str:
        return str(self.document(slug)["container"])

    def inspect(self, slug: str) -> containers.Container:
        found = containers.find(self.engine, self.container(slug))
        assert found is not None
        return found

    def ours(self) -> list[str]:
        """The names of every container of this home."""
        home = str(self.home.resolve())
        return [one.name for one in containers.find_labelled(self.engine, {LABEL_HOME: home_identity(home)})]

    def kill_inside(self, slug: str, words: str) -> None:
        """KILL the process inside whose command line contains ``words``, by a command of ``run``."""
        script = (
            'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline 2>/dev/null | grep -q "guest $1" '
            "&& kill -9 ${p#/proc/}; done"
        )
        self("run", "-w", slug, "--", "sh", "-c", script, "sh", words)

    def clear_away(self) -> None:
        for name in self.ours():
            engines.discard(self.engine, name)

    def host_git(self, slug: str, *words: str) -> str:
        return git(self.path(slug), *words)


@contextlib.contextmanager
def host_server(port: int, answer: bytes) -> Any:
    """A server of the host itself on ``port``, which answers every connection with ``answer``."""
    import threading

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(16)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def say(port: int) -> bytes:
    """What a server on the host says to whoever connects."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        return connection.recv(100)


def outcome_json(text: str) -> Any:
    return json.loads(text)
