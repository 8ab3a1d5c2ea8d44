"""How a command of ``berth run`` ended. HOT: its own module, so that ``run`` imports nothing else of the runtime."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Ended:
    """How a command of ``run`` ended: ``argv``, its own ``exit_code`` (128 + n after signal n), ``signal`` n or None.

    ``exit_status`` is berth's: the command's own, or 130, 143, 129 when berth itself was told to end.
    """

    __slots__ = ("argv", "duration_seconds", "exit_code", "exit_status", "signal")

    def __init__(
        self, argv: Sequence[str], *, exit_status: int, exit_code: int, signal: int | None, duration_seconds: float
    ) -> None:
        self.argv = list(argv)
        self.exit_code = exit_code
        self.exit_status = exit_status
        self.signal = signal
        self.duration_seconds = duration_seconds

    def document(self) -> dict[str, Any]:
        """The JSON object of ``run``."""
        return {
            "argv": self.argv,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "duration_seconds": self.duration_seconds,
        }
