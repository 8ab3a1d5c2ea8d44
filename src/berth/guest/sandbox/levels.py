"""How much of a policy this kernel holds: start fully, start with a warning, or refuse (sandboxes.md 6.7)."""

from __future__ import annotations

from berth.guest.sandbox import landlock, rules
from berth.guest.sandbox.syscalls import NUMBERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import List, Optional, Tuple, Type

    from berth.guest.sandbox.policy import Document, Policy

FIRST_NETWORK_ABI, FULL_ABI = 4, 6
ENFORCEMENT = {"full": "FullyEnforced", "reduced": "PartiallyEnforced", "none": "NotEnforced"}


class Unenforceable(Exception):
    """The kernel cannot hold the policy and nobody said that it may be less. ``str()`` names what is missing."""


class Held:
    """What is in force for one app; filled while agent-init goes through its steps.

    ``missing`` lists the kernel's names of rights, and ``landlock``, ``no_new_privs``, ``seccomp`` for a mechanism
    that is not there at all.
    """

    __slots__ = ("_now", "missing", "relaxed")

    def __init__(self, missing: List[str], *, relaxed: bool) -> None:
        self.missing = missing
        self.relaxed = relaxed
        self._now = ""

    @property
    def enforcement(self) -> str:
        """``full``, ``reduced`` or ``none``; ``none`` when Landlock itself is absent."""
        return "none" if "landlock" in self.missing else "reduced" if self.missing else "full"

    def tolerate(self, mechanism: str) -> Held:
        """A block whose OSError, in the relaxed mode only, is noted as ``mechanism`` missing instead of raised."""
        self._now = mechanism
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        if not self.relaxed or not isinstance(error, OSError):
            return False
        if self._now not in self.missing:
            self.missing.append(self._now)
        return True


def lacking(app: Policy, abi: int) -> List[str]:
    """What a full policy of ``app`` would use and a kernel with Landlock ``abi`` lacks."""
    return landlock.lacking(abi, network=rules.network_mask(app)) if abi else ["landlock"]


def refusal(app: Policy, *, abi: int) -> Optional[str]:
    """Why ``app`` may not start on a kernel with Landlock ``abi``; None when it may, fully or reduced."""
    if abi == 0:
        return "the kernel has no Landlock"
    if abi < FIRST_NETWORK_ABI and not app.connect_any:
        return f"Landlock ABI {abi} cannot hold TCP ports; {FIRST_NETWORK_ABI} is needed without network:connect:*"
    return None


def preflight(document: Document, *, abi: int, machine: str) -> List[Tuple[str, str]]:
    """(app, reason) for every app that agent-init would refuse; empty when all may start."""
    if machine not in NUMBERS:
        return [(app.name, f"no system call table for {machine}") for app in document.apps]
    if document.allow_unenforced:
        return []
    reasons = ((app.name, refusal(app, abi=abi)) for app in document.apps)
    return [(name, reason) for name, reason in reasons if reason is not None]


def hold(app: Policy, *, abi: int, relaxed: bool) -> Held:
    """The state to start from; raises Unenforceable when sandboxes.md 6.7 says that the app is refused."""
    reason = refusal(app, abi=abi)
    if reason is not None and not relaxed:
        raise Unenforceable(reason)
    return Held(lacking(app, abi), relaxed=relaxed)
