"""``doctor``, sandbox part: can this engine and kernel hold a policy? A check that did not run is unknown, never ok
(sandboxes.md 4.9). Nothing is pulled, nothing stays."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from berth.errors import BerthError
from berth.ops.sandboxes import audit, checks, engines
from berth.ops.setup.context import Context
from berth.spec import sandbox as spec
from berth.tools.engine.client import Engine

TOOLS = ("bash", "sh", "sleep", "socat", "git", "tini")
PYTHON_CHECK = (
    "import ctypes, sqlite3, sys; "
    "sqlite3.connect(':memory:').execute('create virtual table t using fts5(x)'); "
    "sys.exit(sys.version_info < (3, 9))"
)
PROTECTED_REGULAR = "/proc/sys/fs/protected_regular"


class Check(NamedTuple):
    """One finding: ``status`` is ok, warn, fail or unknown; ``detail`` for a person."""

    name: str
    status: str
    detail: str

    @property
    def ok(self) -> bool:
        return self.status in ("ok", "warn")

    def document(self) -> dict[str, Any]:
        """The JSON object."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail, "status": self.status}


class Diagnosis(NamedTuple):
    """All checks, the verdict (active, not-active, unknown) and why it is not active."""

    checks: list[Check]
    verdict: str
    reasons: list[str]

    @property
    def ok(self) -> bool:
        """True when doctor may exit 0: active, and nothing failed."""
        return self.verdict == "active" and not any(check.status == "fail" for check in self.checks)


def is_asked_for(cwd: str | None) -> bool:
    """True when the current directory holds an app, or lies in a workspace root that does."""
    return cwd is not None and os.path.lexists(os.path.join(cwd, "berth.yml"))


def diagnose(ctx: Context, *, engine_name: str | None = None, image: str | None = None) -> Diagnosis:
    """Run every check in order."""
    found: list[Check] = []
    reference = engines.base_image(image, environ=ctx.environ)
    engine = _engine(ctx, engine_name, found)
    has_image = engine is not None and _image(engine, reference, found)
    if engine is None:
        found.append(Check("sandbox.image", "unknown", "no engine answers"))
    answer = checks.probe(engine, reference) if engine is not None and has_image else None
    verdict, reasons = _enforcement(answer, found)
    found.append(_sysctls())
    found.append(Check("sandbox.cgroups", "warn", "per-app cgroups are not used; the container's limits hold"))
    found.append(_audit(ctx))
    return Diagnosis(found, verdict, reasons)


def _engine(ctx: Context, name: str | None, found: list[Check]) -> Engine | None:
    try:
        engine = engines.choose(name, environ=ctx.environ)
    except BerthError as error:
        found.append(Check("sandbox.engine", "fail", error.message))
        return None
    mode = "rootless" if engine.facts.rootless else "rootful"
    warnings = [] if engine.facts.rootless else ["containers share the host's user ids"]
    if _protected_regular() >= 2:
        warnings.append("fs.protected_regular is 2: O_CREAT on a sibling's file in /context is refused")
    detail = "; ".join((f"{engine.name} {engine.facts.version}, {mode}", *warnings))
    found.append(Check("sandbox.engine", "warn" if warnings else "ok", detail))
    return engine


def _protected_regular() -> int:
    try:
        with open(PROTECTED_REGULAR, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def _image(engine: Engine, image: str, found: list[Check]) -> bool:
    try:
        engines.require_image(engine, image)
    except BerthError as error:
        found.append(Check("sandbox.image", "fail", f"{error.message} ({error.hint})"))
        return False
    tools = f"for n in {' '.join(TOOLS)}; do command -v $n >/dev/null || echo $n; done"
    script = f'{tools}; /usr/bin/python3 -I -c "$0" || echo python3'
    words = ["run", "--rm", "--network", "none", "--pull", "never", "--entrypoint", "/bin/sh", image, "-c", script]
    result = engine.attempt([*words, PYTHON_CHECK], timeout=checks.PROBE_SECONDS)
    missing = result.text.split()
    if result.code != 0 or missing:
        detail = f"{image} lacks {', '.join(missing)}" if missing else f"{image}: {result.complaint}"
        found.append(Check("sandbox.image", "fail", detail))
        return result.code == 0 and "python3" not in missing
    found.append(Check("sandbox.image", "ok", image))
    return True


def _enforcement(answer: dict[str, Any] | None, found: list[Check]) -> tuple[str, list[str]]:
    if answer is None:
        reason = "did not run: no engine or no base image"
        found += [Check(name, "unknown", reason) for name in ("sandbox.landlock", "sandbox.enforcement")]
        return "unknown", ["no container could be started to try it"]
    abi = answer.get("abi")
    status = "unknown" if abi is None else "ok" if abi >= 6 else "warn" if abi else "fail"
    found.append(Check("sandbox.landlock", status, f"ABI {abi}" if abi is not None else str(answer.get("error"))))
    if "error" in answer:
        found.append(Check("sandbox.enforcement", "unknown", str(answer["error"])))
        return "unknown", [str(answer["error"])]
    failed = checks.failures(answer)
    if failed:
        found.append(Check("sandbox.enforcement", "fail", "; ".join(failed)))
        return "not-active", failed
    found.append(Check("sandbox.enforcement", "ok", "granted access works, all else is refused"))
    return "active", []


def _sysctls() -> Check:
    missing = [one for one in spec.SYSCTLS if not os.path.exists("/proc/sys/" + one.split("=")[0].replace(".", "/"))]
    if missing:
        return Check("sandbox.sysctls", "warn", f"not on this kernel: {', '.join(missing)}")
    return Check("sandbox.sysctls", "ok", ", ".join(spec.SYSCTLS))


def _audit(ctx: Context) -> Check:
    broken = audit.verify(ctx.home)
    if broken is not None:
        return Check("sandbox.audit", "fail", f"the chain breaks at {broken}")
    return Check("sandbox.audit", "ok", "unbroken")
