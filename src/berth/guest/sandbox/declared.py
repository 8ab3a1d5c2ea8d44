"""What an app declared in code, before anything of it runs: its exports and hooks, in order.

The SDK fills it, the runtime reads it. ``HOPS`` is how deep the present call already is.
"""

from __future__ import annotations

from contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Dict, List

HOPS: ContextVar[int] = ContextVar("berth_hops", default=-1)


class Declared:
    """``exports`` by name; ``twice`` are names that were given more than once."""

    def __init__(self) -> None:
        self.exports: Dict[str, Callable[..., Any]] = {}
        self.twice: List[str] = []
        self.on_install: List[Callable[[], Any]] = []
        self.on_ready: List[Callable[..., Any]] = []

    def add(self, function: Callable[..., Any]) -> None:
        """Register an export under its function's name."""
        name = function.__name__
        if name in self.exports:
            self.twice.append(name)
        self.exports[name] = function
