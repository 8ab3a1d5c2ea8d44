"""What a package.json says: how dependencies are installed, how the development server starts and takes its port."""

from __future__ import annotations

import re
from typing import Any

from berth.ops.init.guesses import Guesses, Process, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.init.project import Project

SCRIPTS = ("dev", "develop", "start:dev", "serve", "start")
# Development servers that take --port, and what else they need for it. From each one's own documentation.
TAKES_PORT = {
    "vite": "--strictPort",
    "vite:dev": "--strictPort",
    "next": "",
    "nuxt": "",
    "nuxi": "",
    "astro": "",
    "ng": "",
    "webpack": "",
    "webpack-dev-server": "",
    "vue-cli-service": "",
    "gatsby": "",
    "parcel": "",
    "remix": "",
    "react-router": "",
    "svelte-kit": "",
    "rsbuild": "",
    "eleventy": "",
}
RUNNERS = frozenset(("node", "nodemon", "tsx", "ts-node", "bun", "ts-node-dev"))
PREFIXES = frozenset(("npx", "cross-env", "dotenv", "exec", "pnpm", "yarn", "bunx", "env"))
HTTP = '{http_get: {host: localhost, port: "${BERTH_PORT_WEB}", path: /}}'
# An answer of any kind: a page that is not there is a running server too.
ANSWERS = (
    """{exec: {command: 'node -e "require(\\"net\\").connect(process.env.BERTH_PORT_WEB, \\"localhost\\")"""
    """.on(\\"connect\\", () => process.exit(0)).on(\\"error\\", () => process.exit(1))"'}}"""
)


def look(project: Project, guesses: Guesses, *, serves: bool) -> None:
    """Add what package.json says; ``serves`` = its development server too."""
    package = project.json("package.json")
    if not package:
        return
    manager = _manager(project, package)
    _install(project, package, manager, guesses)
    scripts = package.get("scripts")
    if not isinstance(scripts, dict) or not serves:
        return
    name = next((name for name in SCRIPTS if isinstance(scripts.get(name), str)), None)
    if name is not None:
        _server(project, manager, name, scripts[name], guesses)


def _manager(project: Project, package: dict[str, Any]) -> str:
    """npm, pnpm, yarn or bun: what package.json says, else the lock file's."""
    declared = str(package.get("packageManager", "")).partition("@")[0]
    if declared in ("npm", "pnpm", "yarn", "bun"):
        return declared
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
    return next((manager for lock, manager in locks.items() if project.has(lock)), "npm")


def _install(project: Project, package: dict[str, Any], manager: str, guesses: Guesses) -> None:
    if not any(package.get(key) for key in ("dependencies", "devDependencies", "workspaces")):
        return
    lock = project.first(
        "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"
    )
    commands = {
        "npm": "npm ci" if lock else "npm install --no-package-lock",
        "pnpm": "pnpm install --frozen-lockfile" if lock else "pnpm install --no-lockfile",
        "yarn": "yarn install --immutable" if project.has(".yarnrc.yml") else "yarn install --frozen-lockfile",
        "bun": "bun install --frozen-lockfile" if lock else "bun install --no-save",
    }
    guesses.setup.append(Step(commands[manager], lock or "package.json has dependencies"))
    guesses.copy_dirs.append("node_modules")


def _server(project: Project, manager: str, name: str, script: str, guesses: Guesses) -> None:
    """The development server behind one script."""
    run = f"{manager} run {name}"
    reason = f'package.json: "{name}" is {script!r}'
    guesses.set_env("PORT", "${BERTH_PORT_WEB}", "most servers read it")
    words = _last_command(script)
    fixed = re.search(r"(?:--port|-p)[ =]\d+", script)
    if words is None:
        doubt = f'"{name}" starts several things; give each a process of its own, with its own port'
        guesses.add(Process("web", run, reason, HTTP, doubt=doubt), port="web")
    elif words[0] in TAKES_PORT and not fixed:
        arguments = f'--port "$BERTH_PORT_WEB" {TAKES_PORT[words[0]]}'.strip()
        separator = " --" if manager == "npm" else ""
        guesses.add(Process("web", f"{run}{separator} {arguments}", reason, HTTP), port="web")
    elif words[0] == "react-scripts":
        guesses.set_env("BROWSER", "none", "react-scripts would open one")
        guesses.add(Process("web", run, reason, HTTP), port="web")
    elif fixed:
        doubt = (
            f'"{name}" fixes a port ({fixed[0]}); take it out there, or write the command here with "$BERTH_PORT_WEB"'
        )
        guesses.add(Process("web", run, reason, HTTP, doubt=doubt), port="web")
    else:
        _own_server(project, manager, run, reason, words, guesses)


def _own_server(project: Project, manager: str, run: str, reason: str, words: list[str], guesses: Guesses) -> None:
    """A server of the project's own: its source says how it takes its port."""
    file = next((word for word in words[1:] if not word.startswith("-")), "") if words[0] in RUNNERS else ""
    source = project.text(file) if file else ""
    separator = " --" if manager == "npm" else ""
    if re.search(r"env(\.|\[['\"])PORT\b", source):
        guesses.add(Process("web", run, f"{reason}, and {file} reads PORT", ANSWERS), port="web")
    elif re.search(r"--port\b|\bport: *\{ *type|\.option\(['\"](-p, )?--port", source):
        command = f'{run}{separator} --port "$BERTH_PORT_WEB"'
        guesses.add(Process("web", command, f"{reason}, and {file} takes --port", ANSWERS), port="web")
    else:
        where = f"{file} does not show" if source else "it is not clear"
        option = f'{separator} --port "$BERTH_PORT_WEB"'
        doubt = f"{where} how it takes its port: PORT is set; if it takes an option, add{option}"
        guesses.add(Process("web", run, reason, ANSWERS, doubt=doubt), port="web")


def _last_command(script: str) -> list[str] | None:
    """The words of the command that arguments would be appended to; None when several run side by side."""
    words = script.split()
    if "&" in words or any(word in ("concurrently", "turbo", "nx", "lerna", "npm-run-all", "run-p") for word in words):
        return None
    last = re.split(r"&&|;|\|\|", script)[-1].split()
    while last and (last[0] in PREFIXES or "=" in last[0]):
        del last[0]
    return last or None
