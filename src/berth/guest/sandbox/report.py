"""What agent-init tells: whole lines for the container's log, through a pipe that closes at the exec (sandboxes.md 13).

The supervisor copies them as they are. An app never holds this pipe, which is why such a line can be believed.
"""

from __future__ import annotations

import errno
import json
import os
import time

from berth.guest.sandbox.levels import ENFORCEMENT
from berth.guest.sandbox.seccomp import families

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from berth.guest.sandbox.levels import Held
    from berth.guest.sandbox.policy import Policy
    from berth.guest.sandbox.rules import Opened


_SKIPPED = {"missing": "it does not exist", "symlink": "a symlink is in the way"}


class Report:
    """The report of one launch; ``descriptor`` is the pipe's write end, wherever it lies at the moment."""

    __slots__ = ("_app", "_boot_id", "_step", "_title", "descriptor")

    def __init__(self, descriptor: int, *, app: str, boot_id: str) -> None:
        self.descriptor = descriptor
        self._app = app
        self._boot_id = boot_id
        self._step = 0
        self._title = ""

    def step(self, number: int, title: str) -> None:
        """Remember where we are, for the case that it fails."""
        self._step = number
        self._title = title

    def refused(self, error: BaseException) -> None:
        """Say at which step, with which errno and on which object agent-init gave up."""
        number = getattr(error, "errno", None)
        target = getattr(error, "filename", None)
        named = errno.errorcode.get(number, str(number)) if number is not None else None
        reason = f"{self._title}: {error}"
        line = self._event("capability_enforcement_refused", step=self._step, errno=named, reason=reason, object=target)
        try:
            self._write([line])
        except OSError:
            pass  # nobody listens; the exit status says the rest

    def applied(self, app: Policy, opened: Opened, held: Held, *, abi: int, instructions: int) -> None:
        """Say what is in force, just before the exec."""
        ruleset = ENFORCEMENT[held.enforcement]
        lines = []
        for path, reason in opened.skipped:
            lines.append(f'[agent-init] warning: "{app.name}" has no rule for {path}: {_SKIPPED[reason]}')
            lines.append(self._event("path_missing", path=path, reason=reason))
        lines.append(
            self._event(
                "capability_policy_applied",
                read=app.read,
                write=[*app.write_private, *app.write],
                exec=app.exec,
                connect="*" if app.connect_any else app.connect,
                bind="*" if app.connect_any else app.bind,
                ruleset=ruleset,
                abi=abi,
                missing=held.missing,
                enforcement=held.enforcement,
            )
        )
        lines.append(self._event("capabilities_dropped"))
        lines.append(self._event("app_uid_applied", uid=app.uid, gid=app.uid, groups=[app.uid, *app.groups]))
        if "seccomp" not in held.missing:
            sockets = families(app)
            lines.append(self._event("seccomp_applied", instructions=instructions, sockets=sockets, listen=app.listen))
        privileges = "false" if "no_new_privs" in held.missing else "true"
        lines.append(
            f"[agent-init] landlock restrict_self() status: ruleset={ruleset}"
            f' no_new_privs={privileges} app="{app.name}"'
        )
        if held.enforcement == "full":
            lines.append(f'[agent-init] restricted "{app.name}"')
        else:
            lines.append(f'[agent-init] NOT RESTRICTED "{app.name}": {", ".join(held.missing)}')
        self._write(lines)

    def _event(self, name: str, **fields: Any) -> str:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        event = {"source": "agent-init", "event": name, "time": stamp, "bootId": self._boot_id, "app": self._app}
        return json.dumps({**event, **fields})

    def _write(self, lines: List[str]) -> None:
        data = "".join(line + "\n" for line in lines).encode()
        while data:
            data = data[os.write(self.descriptor, data) :]
