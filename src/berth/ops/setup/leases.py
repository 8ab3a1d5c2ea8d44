"""Where the locks are, and which run berth itself is inside of. HOT: ``berth run`` passes here."""

from __future__ import annotations

import os

from berth.tools import locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def locks_directory(home: str) -> str:
    """The directory of the lock files below ``home``."""
    return os.path.join(home, "locks")


def valid_lease(home: str, environ: Mapping[str, str]) -> str | None:
    """The lock key of the run that berth is inside of; None outside, or when that run is over (4.3)."""
    text = environ.get(locks.LEASE_VARIABLE)
    lease = locks.parse_lease(text) if text else None
    if lease is None or not locks.is_valid(locks_directory(home), lease):
        return None
    return lease.key
