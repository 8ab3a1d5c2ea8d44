"""agent-init itself, run by every Python the guest may meet, with nothing but the standard library (T53)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import berth
from support.jail import document_of, inside, manifest, needs_kernel
from support.world import PYTHON, World, mount

PACKAGE = os.path.dirname(os.path.abspath(berth.__file__))
MODULES = sorted(f"berth.guest.sandbox.{p.stem}" for p in Path(PACKAGE, "guest", "sandbox").glob("[a-z]*.py"))
MINORS = range(9, 14)


def prefixes() -> dict[str, str]:
    """minor version → installation prefix of each Python beside the one that runs this test, and of itself."""
    found = {f"3.{sys.version_info[1]}": sys.base_prefix}
    for path in Path(sys.base_prefix).parent.glob("3.*"):
        minor = ".".join(path.name.split(".")[:2])
        if path.joinpath("bin", "python3").exists() and int(minor.split(".")[1]) in MINORS:
            found.setdefault(minor, str(path))
    return found


PREFIXES = prefixes()
needs_python = pytest.mark.parametrize("version", [f"3.{minor}" for minor in MINORS])


def prefix_of(version: str) -> str:
    if version not in PREFIXES:
        pytest.skip(f"not verified here: no Python {version} beside this one")
    return PREFIXES[version]


@needs_python
def test_every_guest_module_imports_without_site_packages(version: str) -> None:
    program = (
        f"import sys; sys.path.insert(0, {os.path.dirname(PACKAGE)!r})\n"
        f"for name in {MODULES!r}: __import__(name)\n"
        "ours = ('berth.guest', 'berth.sdk')\n"
        "foreign = [n for n in sys.modules if n.startswith('berth') and not n.startswith(ours)]\n"
        "print(sorted(set(foreign) - {'berth'}))"
    )
    command = [f"{prefix_of(version)}/bin/python3", "-I", "-S", "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


LIBRARY = {"LD_LIBRARY_PATH": "/opt/python/lib"}  # a moved installation; the bound one knows its old place only

DRIVER = """
import os, sys
sys.path.insert(0, "/opt/guest")
from berth.guest.sandbox import agent_init, landlock, policy, rules
document = policy.read(sys.stdin.buffer.read())
rules.pin_system()
app = document.apps[0]
program = "import os; print(os.getresuid(), [l for l in open('/proc/self/status') if l[:7] in ('CapEff:', 'Seccomp')])"
(log, log_in), (ready, ready_in), (report, report_in) = os.pipe(), os.pipe(), os.pipe()
child = agent_init.launch(agent_init.Launch(
    document, app, argv=[app.interpreter, "-I", "-S", "-c", program], environment={}, cwd="/", log=log_in,
    ready=ready_in, report=report_in, listeners=[], boot_id="b", abi=landlock.abi()))
for fd in (log_in, ready_in, report_in): os.close(fd)
sys.stdout.write(os.fdopen(report).read() + os.fdopen(log).read())
print(os.waitpid(child.pid, 0)[1])
"""


@needs_kernel
@needs_python
def test_an_app_is_confined_by_an_agent_init_of_this_python(version: str) -> None:
    prefix = prefix_of(version)

    def work() -> Any:
        world = World(document_of(manifest("a")))
        for source, target in (("/outside/python", "/opt/python"), ("/outside/berth", "/opt/guest/berth")):
            os.makedirs(target)
            mount(source, target, flags=4096)
        command = ["/opt/python/bin/python3", "-I", "-S", "-c", DRIVER]
        document = json.dumps(world.document.as_dict())
        done = subprocess.run(command, input=document, capture_output=True, text=True, check=False, env=LIBRARY)
        return [done.stdout, done.stderr]

    out, err = inside(work, bind={"python": prefix, "berth": PACKAGE})
    assert err == ""
    lines = out.splitlines()
    assert '[agent-init] restricted "a"' in lines
    assert lines[-2].startswith("(10000, 10000, 10000)")
    assert "CapEff:\\t0000000000000000" in lines[-2]
    assert "Seccomp:\\t2" in lines[-2]
    assert lines[-1] == "0"


@needs_kernel
def test_an_interpreter_of_its_own_may_be_executed_and_its_neighbours_not() -> None:
    """A prefix below /opt is granted with the interpreter, and nothing beside it."""
    prefix = sys.base_prefix

    def work() -> Any:
        import dataclasses

        own = dataclasses.replace(manifest("a"), interpreter="/opt/python/bin/python3")
        world = World(document_of(own))
        os.makedirs("/opt/python")
        mount("/outside/python", "/opt/python", flags=4096)
        os.mkdir("/opt/other")
        shutil.copy("/usr/bin/true", "/opt/other/true")
        program = "import json, os; print(json.__file__)"
        granted = world.start("a", "/opt/python/bin/python3", "-I", "-S", "-c", program, environment=LIBRARY).finish()
        neighbour = "import os; os.execv('/opt/other/true', ['x'])"
        beside = world.start("a", PYTHON, "-I", "-S", "-c", neighbour).finish()
        return [granted["log"].strip(), beside["log"].strip().splitlines()[-1]]

    granted, beside = inside(work, bind={"python": prefix})
    assert granted.startswith("/opt/python/lib/python3")
    assert "PermissionError" in beside
