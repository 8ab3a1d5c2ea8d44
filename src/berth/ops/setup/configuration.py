"""The configuration of a workspace: read once from one descriptor, parsed, compared with the recorded contract."""

from __future__ import annotations

import os
import stat

from berth.errors import BerthError
from berth.tools.plans import stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.registry import Workspace
    from berth.spec.config import Config

FILE = "berth.yaml"
LARGEST = 1024 * 1024


class Loaded:
    """A parsed configuration and the stamp of the file it came from (``absent`` when there is none)."""

    __slots__ = ("config", "stamp")

    def __init__(self, config: Config, stamp: str) -> None:
        self.config = config
        self.stamp = stamp


def load(path: str) -> Loaded:
    """The configuration of the checkout at ``path``; a missing file means the defaults. Raises config_invalid."""
    name = os.path.join(path, FILE)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return Loaded(parse(b"", FILE), "absent")
    except OSError as error:
        raise BerthError(f"{name}: {error.strerror}", code="config_invalid", hint="make it a readable file") from error
    with open(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise BerthError(f"{name} is not a regular file", code="config_invalid", hint="make it a regular file")
        raw = file.read(LARGEST + 1)
        after = os.fstat(descriptor)
    # Read while it was being written: the stamp matches nothing, so that no plan rests on it.
    stamp = stamp_of(before) if stamp_of(before) == stamp_of(after) else "changing"
    return Loaded(parse(raw, FILE), stamp)


def parse(raw: bytes, file: str) -> Config:
    """Parse the bytes of a berth.yaml. Raises config_invalid with one line per complaint."""
    from berth.spec.config import parse as parse_document
    from berth.tools.yaml import load as load_yaml

    return parse_document(load_yaml(raw, file=file), file=file)


def check_contract(row: Workspace, config: Config) -> None:
    """The configuration keeps the contract the workspace was registered with (9.5). Raises contract_changed."""
    from berth.spec.contract import Contract, differences

    recorded = Contract.from_record(row.runtime, row.listen, list(row.ports))
    complaint = differences(recorded, config)
    if complaint is not None:
        raise BerthError(
            f"{os.path.join(row.path, FILE)}: {complaint}", code="contract_changed", hint="berth new another workspace"
        )


def usable(ctx: Context, row: Workspace) -> Loaded:
    """The configuration, parsed and held against the contract; its notes are told once."""
    loaded = load(row.path)
    check_contract(row, loaded.config)
    ctx.tell_once(loaded.config.notes)
    return loaded
