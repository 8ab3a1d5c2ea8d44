"""The supervisor end to end, on every Python it promises to run on."""

from __future__ import annotations

from collections.abc import Callable

from support.supervisor import Supervisor, alive

Start = Callable[..., Supervisor]


def test_a_workspace_comes_up_is_asked_and_goes_down_on_every_python(supervise: Start, python: str) -> None:
    one = supervise(
        {
            "talk": {"command": "echo one; echo two >&2; printf three; exec sleep 1000"},
            "after": {
                "command": "echo after",
                "depends_on": {"talk": {"condition": "process_started"}},
            },
        },
        python=python,
    )
    verdict = one.wait()
    assert verdict.word == "settled"
    assert one.prints("talk", "three") == "one\ntwo\nthree"
    assert one.reaches("after", "Completed")["exit_code"] == 0
    pid = one.state("talk")["pid"]
    assert isinstance(pid, int)
    assert one.down() < 2
    assert not alive(pid)
    assert one.tagged() == []
    assert not (one.run / "pc.sock").exists()
