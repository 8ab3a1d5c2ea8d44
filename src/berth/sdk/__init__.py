"""What an app author imports: ``from berth.sdk import App``. Standard library only, Python 3.9 and later."""

from berth.sdk.app import App
from berth.sdk.clients import CallError, Capability, Context

__all__ = ["App", "CallError", "Capability", "Context"]
