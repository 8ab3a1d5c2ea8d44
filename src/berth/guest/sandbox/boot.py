"""The supervisor's start: from the boot document to running apps, in the order of sandboxes.md 5.2.

``prepare`` is the contract's list up to the first app. Whatever fails before ends the sandbox with 78 and an event that
says why; then no app has run. What happens afterwards is ``supervisor``'s matter.
"""

from __future__ import annotations

import errno
import os
import platform
import resource
import stat
import sys
import uuid

from berth.guest.core.loop import Loop
from berth.guest.sandbox import directories, grants, identities, identity, kernel, landlock, levels, policy, sockets
from berth.guest.sandbox.logs import Output, event_line
from berth.guest.sandbox.supervisor import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

    from berth.guest.sandbox.policy import Document
    from berth.guest.sandbox.sockets import Listeners

DOCUMENT = "/etc/berth/boot.json"
REFUSED = 78
USAGE = 64
CAP_CHOWN, CAP_DAC_OVERRIDE = 0, 1
DRAIN_SECONDS = 2.0
CGROUPS = "/sys/fs/cgroup"


class Refused(Exception):
    """The sandbox does not start; ``step`` is a word, ``str()`` the reason."""

    def __init__(self, step: str, reason: str, *, app: str = "") -> None:
        super().__init__(reason)
        self.step = step
        self.app = app


def main(arguments: List[str]) -> int:
    """``sandbox``: boot the document of this container and serve until its primary ends; the container's exit code."""
    if len(arguments) != 1:
        print("usage: guest sandbox", file=sys.stderr)
        return USAGE
    loop = Loop()
    output = Output(loop)
    boot_id = str(uuid.uuid4())
    try:
        document, listeners, abi = prepare(output, boot_id)
    except Refused as refusal:
        output.line(_refusal(refusal, boot_id, refusal.__cause__))
        output.drain(DRAIN_SECONDS)
        return REFUSED
    sandbox = Sandbox(loop, output, document, listeners=listeners, boot_id=boot_id, abi=abi)
    try:
        sandbox.start()
        drop_capabilities()
    except OSError as error:  # no process or descriptor left: what did start ends with us
        output.line(_refusal(Refused("start", str(error)), boot_id, error))
        sandbox.stop(REFUSED)
    loop.run()
    output.drain(DRAIN_SECONDS)
    return sandbox.exit_code


def _refusal(refusal: Refused, boot_id: str, cause: object) -> str:
    number = getattr(cause, "errno", None)
    return event_line(
        "entrypoint",
        "capability_enforcement_refused",
        boot_id=boot_id,
        step=refusal.step,
        errno=errno.errorcode.get(number, str(number)) if isinstance(number, int) else None,
        reason=str(refusal),
        **({"app": refusal.app} if refusal.app else {}),
    )


class _Step:
    """A block whose expected failures become ``Refused`` with the step's name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        expected = (OSError, policy.PolicyError, identities.IdentityTaken, directories.NotTmpfs, ValueError, KeyError)
        if isinstance(error, expected):
            raise Refused(self._name, str(error)) from error


def prepare(output: Output, boot_id: str) -> "tuple[Document, Dict[str, Listeners], int]":
    """Steps 1 to 8: all that must stand before the first app. Returns the document, the listeners by app, and the
    Landlock ABI. Raises Refused."""
    with _Step("supervisor"):
        os.setgroups([grants.SHARED_GID])
        os.umask(0o022)
        _raise_descriptors()
    with _Step("boot document"):
        document = read_document(DOCUMENT)
    output.entrypoint(f"boot id: {boot_id}")
    output.entrypoint("multi-app mode: " + " ".join(app.name for app in document.apps))

    abi = landlock.abi()
    for app, reason in levels.preflight(document, abi=abi, machine=platform.machine()):
        raise Refused("preflight", f'"{app}": {reason}', app=app)

    with _Step("/run/berth"):
        directories.empty_run()
    with _Step("identities"):
        identities.establish(document)
    with _Step("directories"):
        directories.make_shared(document)
        for member in document.apps:
            directories.make_private(member)
        sockets.make_directories(document)
    for caller, target in sockets.missing_targets(document):
        output.entrypoint(
            f'warning: "{caller}" declares app:invoke:{target} but no app named {target} is in this container'
        )
    with _Step("declared paths"):
        for path, reason in directories.create_declared(document):
            output.entrypoint(f"warning: could not create {path}: {reason}")
    with _Step("policies"):
        for member in document.apps:
            output.line("[berth:capability-policy] wrote " + directories.write_policy(member))
    with _Step("listeners"):
        listeners = sockets.listen_all(document)
    _tell_what_is_so(output, document)
    return document, listeners, abi


def read_document(path: str) -> Document:
    """The checked document in a root-owned regular file that nobody else can read. Raises OSError and PolicyError."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise policy.PolicyError(f"{path} is not a regular file")
        if facts.st_uid != 0:
            raise policy.PolicyError(f"{path} belongs to uid {facts.st_uid}, not to root")
        if facts.st_mode & 0o077:
            raise policy.PolicyError(f"{path} is open to others (mode {stat.S_IMODE(facts.st_mode):o})")
        return policy.read(file.read(grants.MAX_DOCUMENT + 1))


def _raise_descriptors() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tell_what_is_so(output: Output, document: Document) -> None:
    for app in document.apps:
        done = f"applied in image ({app.on_install} commands)" if app.on_install else "none"
        output.entrypoint(f'on_install of "{app.name}": {done}')
    controllers = os.path.join(CGROUPS, "cgroup.controllers")
    reason = "the control group is not writable here" if os.path.exists(controllers) else "no unified cgroup hierarchy"
    output.entrypoint(f"per-app cgroups inactive: {reason}")


def drop_capabilities() -> None:
    """Give up CHOWN and DAC_OVERRIDE in every set: after boot the supervisor only signals, reaps and changes ids."""
    mask = ~(1 << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE)
    for capability in (CAP_CHOWN, CAP_DAC_OVERRIDE):
        kernel.prctl(identity.PR_CAPBSET_DROP, capability)
    effective, permitted, inheritable = kernel.capabilities()
    kernel.set_capabilities(effective & mask, permitted & mask, inheritable & mask)
