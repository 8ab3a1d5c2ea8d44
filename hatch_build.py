"""Build hook: the skill for agents goes into the wheel, and the commit and its date, for ``berth version``."""

import os
import subprocess
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildFacts(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own base is untyped
    """Puts ``skills/berth`` into the wheel as ``berth/skill``, and ``berth/_build.py``; without git there is none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":  # an editable install reads all this from the source tree
            return
        build_data["force_include"][os.path.join(self.root, "skills", "berth")] = "berth/skill"
        done = subprocess.run(
            ["git", "-C", self.root, "log", "-1", "--format=%h %cs"], capture_output=True, text=True, check=False
        )
        words = done.stdout.split()
        if len(words) != 2:
            return
        self._directory = tempfile.mkdtemp()
        path = os.path.join(self._directory, "_build.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'"""Written by the build."""\n\nCOMMIT = "{words[0]}"\nDATE = "{words[1]}"\n')
        build_data["force_include"][path] = "berth/_build.py"
