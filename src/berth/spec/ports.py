"""Which ports may be handed out, in which order (workspaces.md 6). Pure: what is free is asked elsewhere."""

from __future__ import annotations

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DEFAULT_RANGE = "20000-39999"
# Ports from 1024 on that browsers refuse to open (fetch standard, "bad port").
BLOCKED_BY_BROWSERS = frozenset(
    (
        1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566,
        6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    )
)  # fmt: skip
HIGHEST = 65535
LOWEST_UNPRIVILEGED = 1024


def port_range(environ: Mapping[str, str]) -> tuple[int, int]:
    """The first and last port of ``BERTH_PORT_RANGE``. Raises invalid_port_range."""
    text = environ.get("BERTH_PORT_RANGE") or DEFAULT_RANGE
    low, dash, high = text.partition("-")
    if dash and all(word.isascii() and word.isdigit() and len(word) <= 5 for word in (low, high)):
        first, last = int(low), int(high)
        if LOWEST_UNPRIVILEGED <= first <= last <= HIGHEST:
            return first, last
    raise BerthError(
        f"BERTH_PORT_RANGE is {text!r}", code="invalid_port_range", hint="write a-b with 1024 ≤ a ≤ b ≤ 65535"
    )


def candidates(limits: tuple[int, int], *, ephemeral_from: int) -> Iterator[int]:
    """The ports of the range that may be handed out: those below the kernel's ephemeral ones first, then the rest."""
    first, last = limits
    for part in (range(first, min(last + 1, ephemeral_from)), range(max(first, ephemeral_from), last + 1)):
        for port in part:
            if port not in BLOCKED_BY_BROWSERS:
                yield port


def exhausted(limits: tuple[int, int], name: str) -> BerthError:
    """No port is left for ``name``."""
    return BerthError(
        f"no free port for {name} in {limits[0]}-{limits[1]}",
        code="ports_exhausted",
        hint="berth gc frees ports of workspaces that are gone; BERTH_PORT_RANGE=a-b gives another range",
    )


def gateway_ports(names: Sequence[str], listen: Mapping[str, int]) -> dict[str, int]:
    """The container's gateway ports: names sorted, counting down from 65535, skipping every ``listen`` value."""
    taken = set(listen.values())
    found: dict[str, int] = {}
    port = HIGHEST
    for name in sorted(names):
        while port in taken:
            port -= 1
        if port <= LOWEST_UNPRIVILEGED:
            raise BerthError("no gateway port is left", code="ports_exhausted", hint="declare fewer ports")
        found[name] = port
        port -= 1
    return found
