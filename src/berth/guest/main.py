"""The guest's verbs: which module answers which word.

A verb's module is imported only when it is asked for and has ``main(arguments) -> exit status``. Arguments come from
berth, not from a person: a wrong one is a line on stderr and status 2.
"""

from __future__ import annotations

import sys

from .core import wire

# verb -> module below this package
VERBS = {
    "supervise": "services.supervise",
    "init": "services.init",
    "gateway": "services.gateway",
    "relay": "services.relay",
    "hook": "services.hook",
    "kill": "services.hook",
    "sweep": "services.sweep",
    "sandbox": "sandbox.boot",
}


def main(arguments: list[str]) -> int:
    """Run the verb ``arguments[0]`` and give its exit status."""
    verb = arguments[0] if arguments else ""
    if verb == "version":
        print(wire.INTERFACE_VERSION)
        return 0
    if verb not in VERBS:
        print("guest: unknown verb %r; known: version, %s" % (verb, ", ".join(sorted(VERBS))), file=sys.stderr)
        return 2
    # ``importlib`` costs half an interpreter start.
    status: int = __import__(VERBS[verb], globals(), None, ["main"], 1).main(arguments)
    return status
