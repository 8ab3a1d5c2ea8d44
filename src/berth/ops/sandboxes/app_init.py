"""``app init``: a new app that works, with the least that an app is (sandboxes.md 4.8)."""

from __future__ import annotations

import os
import shutil

from berth.errors import BerthError
from berth.guest.sandbox import grants
from berth.tools import manifest

MANIFEST = """name: {name}
version: 1.0.0
description: ""
# What is not declared here is refused, by the kernel: see docs/reference.
capabilities: []
exports:
  - name: ping
    input: {{}}
    output: {{message: string}}
"""
CODE = '''"""The app {name}."""

from berth.sdk import App

app = App()


@app.export
def ping() -> dict:
    return {{"message": "pong"}}
'''
README = """# {name}

    berth dev
    berth rpc {name} --export=ping
"""


def init(name: str, *, directory: str) -> str:
    """Create ``<directory>/<name>`` and return its path. Raises config_invalid for a bad name, config_exists."""
    if not grants.is_app_name(name):
        raise BerthError(
            f"{name!a} is no app name: a-z, then up to 30 of a-z 0-9 -, and not reserved", code="config_invalid"
        )
    path = os.path.join(os.path.abspath(directory), name)
    try:
        os.mkdir(path)
    except FileExistsError:
        raise BerthError(f"{path} exists", code="config_exists", hint="choose another name or --dir") from None
    except OSError as error:
        raise BerthError(f"{path}: {error.strerror}", code="io_error") from error
    try:
        os.mkdir(os.path.join(path, "src"))
        for relative, text in (("berth.yml", MANIFEST), ("src/app.py", CODE), ("README.md", README)):
            with open(os.path.join(path, relative), "x", encoding="utf-8") as file:
                file.write(text.format(name=name))
        manifest.load(path)
    except BaseException:
        shutil.rmtree(path)
        raise
    return path
