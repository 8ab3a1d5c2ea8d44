"""Opens files. A relative path is one of the workspace's, an absolute one is used as it is: the kernel decides."""

from __future__ import annotations

from berth.sdk import App

app = App()


@app.export
def open_file(path: str) -> dict:
    return {"content": (app.ctx.workspace / path).read_text()}
