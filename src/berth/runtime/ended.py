"""How a command of ``berth run`` ended. HOT: a module of its own, so that ``run`` imports nothing else of the runtime."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Ended:
    """How a command of ``run`` ended: its ``argv``, ``exit_status`` for berth, ``signal`` that ended it, duration."""

    __slots__ = ("argv", "duration_seconds", "exit_status", "signal")

    def __init__(self, argv: Sequence[str], *, exit_status: int, signal: int | None, duration_seconds: float) -> None:
        self.argv = list(argv)
        self.exit_status = exit_status
        self.signal = signal
        self.duration_seconds = duration_seconds

    def document(self) -> dict[str, Any]:
        """The JSON object of ``run``."""
        return {
            "argv": self.argv,
            "exit_code": self.exit_status,
            "signal": self.signal,
            "duration_seconds": self.duration_seconds,
        }
