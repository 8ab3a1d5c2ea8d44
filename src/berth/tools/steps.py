"""Named steps that the fault suite can stop at; in ordinary use nothing listens and a step costs one comparison.

A step is reached right before or right after something that outlives berth: a registry transaction, a started program,
a replaced file, a signal, a rename. ``tests/faults`` sets ``listener`` and kills the process there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

listener: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Tell the listener, if there is one, that the step ``name`` is reached."""
    if listener is not None:
        listener(name)
