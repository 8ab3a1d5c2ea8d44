"""The guest's verbs: which module answers which word.

A verb's module is imported only when it is asked for and has ``main(arguments) -> exit status``. Arguments come from
berth, not from a person: a wrong one is a line on stderr and status 2.
"""

from __future__ import annotations

import sys
from importlib import import_module

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
    "probe": "sandbox.probe",
}
SANDBOX_RELAY = "sandbox.relay"


def main(arguments: list[str]) -> int:
    """Run the verb ``arguments[0]`` and give its exit status."""
    verb = arguments[0] if arguments else ""
    if verb == "version":
        print(wire.INTERFACE_VERSION)
        return 0
    if verb not in VERBS:
        print("guest: unknown verb %r; known: version, %s" % (verb, ", ".join(sorted(VERBS))), file=sys.stderr)
        return 2
    name = VERBS[verb]
    if verb == "relay" and not (len(arguments) == 2 and arguments[1].startswith("/")):
        name = SANDBOX_RELAY  # an app's name; a workspace's relay is given the path of a socket
    module = import_module("." + name, __package__)
    status: int = module.main(arguments)
    return status
