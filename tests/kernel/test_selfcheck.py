"""The probe that doctor and every start rely on: yes where a policy holds, no where a mechanism is gone."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from berth.guest.sandbox import agent_init, landlock, seccomp, selfcheck
from support.jail import inside, needs_kernel

pytestmark = needs_kernel


def checked() -> Any:
    """[exit status, the object it printed]."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = selfcheck.main(["check"])
    return [status, json.loads(out.getvalue())]


def test_a_kernel_that_holds_a_policy_is_said_to_enforce() -> None:
    status, told = inside(checked)
    assert status == 0
    assert told["checks"] == selfcheck.EXPECTED
    assert (told["enforced"], told["reason"], told["abi"]) == (True, None, landlock.abi())


def test_a_kernel_without_landlock_is_not() -> None:
    def work() -> Any:
        landlock.abi = lambda: 0
        return checked()

    status, told = inside(work)
    assert (status, told["enforced"]) == (1, False)
    assert "no Landlock" in told["reason"]


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [(landlock, "restrict", {"ungranted write", "ungranted read", "ungranted connect"}),
     (seccomp, "install", {"udp socket", "unshare"})],
)  # fmt: skip
def test_a_mechanism_that_only_pretends_is_found_out(module: Any, name: str, expected: set[str]) -> None:
    """The calls succeed and do nothing, as on a kernel that lies."""

    def work() -> Any:
        setattr(module, name, lambda *_a, **_k: None)
        assert agent_init.landlock is landlock
        return checked()

    status, told = inside(work)
    differing = {check for check, seen in told["checks"].items() if seen != selfcheck.EXPECTED[check]}
    assert (status, told["enforced"], differing) == (1, False, expected)
