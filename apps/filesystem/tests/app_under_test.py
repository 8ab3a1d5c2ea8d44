"""The app's module as the sandbox's runtime would load it, with a workspace in a temporary directory."""

import importlib.util
import json
import os
import tempfile
from pathlib import Path


def load() -> object:
    """Import ``src/app.py`` with the environment that a sandbox builds; ``app.ctx.workspace`` is a new directory."""
    directory = Path(tempfile.mkdtemp())
    policy = directory / "policy.json"
    policy.write_text(json.dumps({"capabilities": [], "secrets": []}))
    os.environ.update(
        BERTH_APP_NAME="app",
        BERTH_BOOT_ID="test",
        BERTH_POLICY=str(policy),
        BERTH_WORKSPACE_ROOT=str(directory),
        BERTH_STATE_DIR=str(directory),
        BERTH_CONTEXT_DIR=str(directory / "context"),
    )
    source = Path(__file__).parents[1] / "src" / "app.py"
    spec = importlib.util.spec_from_file_location("app", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
