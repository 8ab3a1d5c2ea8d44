"""Reading a berth.yaml in a test: the configuration, or the lines of the refusal."""

from __future__ import annotations

import textwrap

import pytest

from berth.errors import BerthError
from berth.spec.config import Config, parse
from berth.tools.yaml import load

FILE = "berth.yaml"


def read(text: str | bytes) -> Config:
    """The configuration that ``text`` (indented as one likes) says."""
    raw = text if isinstance(text, bytes) else textwrap.dedent(text).encode()
    return parse(load(raw, file=FILE), file=FILE)


def complaints(text: str | bytes) -> list[str]:
    """The lines of the refusal, without ``berth.yaml:``; the test fails when there is none."""
    with pytest.raises(BerthError) as caught:
        read(text)
    assert caught.value.code == "config_invalid"
    assert caught.value.hint == "berth schema config"
    lines = caught.value.message.split("\n")
    assert all(line.startswith(f"{FILE}:") for line in lines), lines
    return [line.removeprefix(f"{FILE}:") for line in lines]
