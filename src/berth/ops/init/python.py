"""What a Python project says: how it is installed, and whether Django, an ASGI application or Flask serves it."""

from __future__ import annotations

import re

from berth.ops.init.guesses import Guesses, Process, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.init.project import Project

APPLICATION = re.compile(r"^(\w+)(?:: *\w+)? *= *(FastAPI|Starlette|Flask)\(", re.MULTILINE)
VENV = '"$BERTH_DATA_DIR/venv/bin/python"'


def look(project: Project, guesses: Guesses, *, serves: bool) -> None:
    """Add what the project's Python files say; ``serves`` = its server too."""
    python = _install(project, guesses)
    if not serves:
        return
    if project.has("manage.py") and "DJANGO_SETTINGS_MODULE" in project.text("manage.py"):
        name, port = _free(guesses)
        command = f'{python} manage.py runserver 127.0.0.1:"${port}"'
        guesses.add(Process(name, command, "manage.py is Django's", answers(port)), port=name)
        reason = (
            "unsure: right only if the database is the workspace's own (settings read DATABASE_URL or BERTH_DATA_DIR)"
        )
        guesses.setup.append(Step(f"{python} manage.py migrate", reason, sure=False))
        return
    found = [
        (file, match[1], match[2])
        for file in project.python_files()
        for match in APPLICATION.finditer(project.text(file))
    ]
    if len(found) == 1:
        _application(python, *found[0], guesses)
    elif found:
        files = ", ".join(sorted({file for file, _, _ in found}))
        doubt = f"there are several applications ({files}); this is the first"
        _application(python, *found[0], guesses, doubt=doubt)


def _install(project: Project, guesses: Guesses) -> str:
    """Add the setup steps; returns how the project's Python is called."""
    for lock, step, python in (
        ("uv.lock", "uv sync --locked", "uv run python"),
        ("poetry.lock", "poetry install", "poetry run python"),
        ("pdm.lock", "pdm sync", "pdm run python"),
        ("Pipfile.lock", "pipenv sync", "pipenv run python"),
    ):
        if project.has(lock):
            guesses.setup.append(Step(step, lock))
            return python
    wanted = "-r requirements.txt" if project.has("requirements.txt") else ""
    if not wanted and re.search(r"^\[(project|build-system)\]", project.text("pyproject.toml"), re.MULTILINE):
        wanted = "-e ."
    if not wanted:
        return "python3"
    reason = "requirements.txt" if wanted.startswith("-r") else "pyproject.toml"
    guesses.setup.append(Step('python3 -m venv "$BERTH_DATA_DIR/venv"', "an environment of the workspace's own"))
    guesses.setup.append(Step(f"{VENV} -m pip install --quiet {wanted}", reason))
    return VENV


def _application(python: str, file: str, name: str, kind: str, guesses: Guesses, *, doubt: str | None = None) -> None:
    path = file.removesuffix(".py")
    inside = path.removeprefix("src/")
    module = inside.replace("/", ".").removesuffix(".__init__")
    process, port = _free(guesses)
    if kind == "Flask":
        command = f'{python} -m flask --app {module}:{name} run --port "${port}"'
    else:
        where = " --app-dir src" if inside != path else ""
        command = f'{python} -m uvicorn {module}:{name}{where} --port "${port}"'
    guesses.add(Process(process, command, f"{file}: {name} = {kind}(…)", answers(port), doubt=doubt), port=process)


def _free(guesses: Guesses) -> tuple[str, str]:
    """A name for the server's process and port, and the port's variable: ``web``, or ``api`` beside a front end."""
    name = "api" if "web" in guesses.processes else "web"
    return name, f"BERTH_PORT_{name.upper()}"


def answers(port: str) -> str:
    """A probe that takes an answer of any kind: a page that is not there is a running server too."""
    connect = f'socket.create_connection((\\"127.0.0.1\\", int(os.environ[\\"{port}\\"])), 1)'
    return f"{{exec: {{command: 'python3 -c \"import os, socket; {connect}\"'}}}}"
