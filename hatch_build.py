"""Build hook: writes down the commit and its date, so that ``berth version`` can tell them without git."""

import os
import subprocess
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildFacts(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own base is untyped
    """Puts ``berth/_build.py`` into the wheel; a source tree without git gets none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        done = subprocess.run(
            ["git", "-C", self.root, "log", "-1", "--format=%h %cs"], capture_output=True, text=True, check=False
        )
        words = done.stdout.split()
        if version != "standard" or len(words) != 2:
            return
        self._directory = tempfile.mkdtemp()
        path = os.path.join(self._directory, "_build.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'"""Written by the build."""\n\nCOMMIT = "{words[0]}"\nDATE = "{words[1]}"\n')
        build_data["force_include"][path] = "berth/_build.py"
