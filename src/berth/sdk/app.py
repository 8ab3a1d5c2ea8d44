"""``App``: the one way to write an app. Decorators register; nothing runs or opens before the runtime says so."""

from __future__ import annotations

import os

from berth.guest.sandbox.declared import Declared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional, TypeVar

    from berth.sdk.clients import Context

    F = TypeVar("F", bound=Callable[..., Any])


class App:
    """A resident app, at module level, exactly one in the entry file.

    Handlers are functions or coroutines. Their parameters must be those of the manifest's ``input``.
    """

    def __init__(self) -> None:
        self.declared = Declared()
        self._ctx: Optional[Context] = None

    @property
    def ctx(self) -> Context:
        """What the app can do beside its own code; made on first use, inside the sandbox."""
        if self._ctx is None:
            from berth.sdk.clients import Context

            self._ctx = Context(os.environ)
        return self._ctx

    def export(self, function: F) -> F:
        """Offer ``function`` under its own name; the manifest declares the same name and input."""
        self.declared.add(function)
        return function

    def on_install(self, function: F) -> F:
        """Call ``function()`` at every boot, inside the sandbox, before the app is ready."""
        self.declared.on_install.append(function)
        return function

    def on_ready(self, function: F) -> F:
        """Call ``function(ctx)`` at every boot, after ``on_install`` and before calls are served."""
        self.declared.on_ready.append(function)
        return function
