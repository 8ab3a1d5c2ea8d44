"""An app's process after its policy is in force: import, compare, hooks, serve (sandboxes.md 12.1).

Started by agent-init as ``python -m berth.guest.sandbox.runtime``. Whatever goes wrong before the app is ready ends it
with 1 and a traceback in its log; afterwards only a signal ends it. Standard input is never read.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import pwd
import signal
import sys
import time

from berth.guest.core.loop import Loop
from berth.guest.sandbox import signatures
from berth.guest.sandbox.declared import HOPS, Declared
from berth.guest.sandbox.identities import account_of
from berth.guest.sandbox.policy import Policy
from berth.guest.sandbox.pool import Pool
from berth.guest.sandbox.server import SELF, Export, Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Dict

MODULE = "berth_app"
STOP_SECONDS = 5.0


class NoApp(Exception):
    """The entry file has no module-level ``App``, or more than one."""


def main(environ: Mapping[str, str]) -> int:
    """Run the app that ``environ`` describes until TERM; its exit status."""
    with open(environ["BERTH_POLICY"], encoding="utf-8") as file:
        policy = Policy(json.load(file))
    app = load(os.path.join(policy.dir, policy.entry))
    declared: Declared = app.declared
    signatures.compare(declared, policy.exports)

    pool = Pool()
    for install in declared.on_install:
        _called(pool, install)
    for ready in declared.on_ready:
        _called(pool, ready, app.ctx)

    loop = Loop()
    server = Server(loop, pool, policy, exports_of(policy, declared, pool), tell=tell, event=_events(environ))
    _listen(server, policy, environ)
    loop.on_signal(signal.SIGTERM, lambda: _stop(loop, server))
    tell(f'[berth:runtime] "{policy.name}" ready')
    ready_descriptor = int(environ["BERTH_READY_FD"])
    os.write(ready_descriptor, b"\n")
    os.close(ready_descriptor)
    loop.run()
    return 0


def load(entry: str) -> Any:
    """Import the entry file and return its one ``App``. Raises NoApp, and whatever the file raises."""
    sys.path.insert(0, os.path.dirname(entry))
    spec = importlib.util.spec_from_file_location(MODULE, entry)
    if spec is None or spec.loader is None:
        raise NoApp(f"{entry} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    found = {id(value): value for value in vars(module).values() if isinstance(_declared_of(value), Declared)}
    if len(found) != 1:
        raise NoApp(f"{entry} has {len(found)} module-level App objects, it must have exactly one")
    return next(iter(found.values()))


def _declared_of(value: object) -> object:
    return None if inspect.isclass(value) or inspect.ismodule(value) else getattr(value, "declared", None)


def exports_of(policy: Policy, declared: Declared, pool: Pool) -> Dict[str, Export]:
    """What the server serves: the manifest's shapes and the code's functions."""
    made = {}
    for export in policy.exports:
        function = declared.exports[export["name"]]
        is_coroutine = inspect.iscoroutinefunction(function)
        made[export["name"]] = Export(
            export["name"],
            _deep_coroutine(function) if is_coroutine else _deep(function),
            bind=signatures.binder(function, export["input"]),
            input=export["input"],
            output=export["output"],
            is_coroutine=is_coroutine,
        )
    return made


def _deep(function: Callable[..., Any]) -> Callable[[Dict[str, Any], int], Any]:
    def call(arguments: Dict[str, Any], hops: int) -> Any:
        HOPS.set(hops)
        return function(**arguments)

    return call


def _deep_coroutine(function: Callable[..., Any]) -> Callable[[Dict[str, Any], int], Any]:
    async def call(arguments: Dict[str, Any], hops: int) -> Any:
        HOPS.set(hops)
        return await function(**arguments)

    return call


def _called(pool: Pool, hook: Callable[..., Any], *arguments: Any) -> None:
    result = hook(*arguments)
    if inspect.iscoroutine(result):
        pool.coroutine(result)


def _listen(server: Server, policy: Policy, environ: Mapping[str, str]) -> None:
    for caller, descriptor in json.loads(environ["BERTH_LISTEN_FDS"]).items():
        uid = policy.uid if caller == SELF else pwd.getpwnam(account_of(caller)).pw_uid
        server.listen(descriptor, caller=caller, uid=uid)


def _stop(loop: Loop, server: Server) -> None:
    """TERM: nothing new, the running requests may finish, at most 5 s."""
    loop.call_later(STOP_SECONDS, loop.stop)
    server.stop(loop.stop)


def tell(text: str) -> None:
    """A line in the app's log; one write, so that lines of threads do not mix."""
    os.write(2, (text + "\n").encode("utf-8", "backslashreplace"))


def _events(environ: Mapping[str, str]) -> Callable[..., None]:
    def event(name: str, **fields: Any) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (int(now * 1000) % 1000)
        known = {"source": "runtime", "event": name, "time": stamp, "bootId": environ["BERTH_BOOT_ID"]}
        tell(json.dumps({**known, "app": environ["BERTH_APP_NAME"], **fields}))

    return event


if __name__ == "__main__":
    status = main(os.environ)
    sys.stdout.flush()
    os._exit(status)  # daemon threads may still hold what a tidy shutdown would wait for
