"""What the control routes mean: process-compose v1.122.0's words and shapes, and berth's waiting request."""

from __future__ import annotations

import os
import time

from ..core import codec
from ..core.loop import now
from . import graph, requests, websocket
from .project import Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .control import Request
    from .process import Process
    from .project import Project

VERSION = "v1.122.0"  # of the interface; its clients show it
LONGEST_WAIT_SECONDS = 86400.0
LARGEST_LOG_ANSWER = 2 << 20  # of a log's end; process-compose keeps 1,000 lines


class Routes:
    """Answers requests about ``project``; ``config`` is the path of the configuration."""

    def __init__(self, project: Project, config: str) -> None:
        self._project = project
        self._config = config
        self._stopping: list[Request] = []
        # (method, words of the path; None stands for a name) -> answer
        self._routes: dict[tuple[str | None, ...], Callable[..., None]] = {
            ("GET", "live"): lambda request: request.answer({"status": "alive"}),
            ("GET", "project", "state"): self._project_state,
            ("GET", "project", "name"): lambda request: request.answer({"projectName": self._name}),
            ("GET", "processes"): self._processes,
            ("GET", "process", None): self._process,
            ("GET", "process", "logs", None, None, None): self._logs,
            ("GET", "process", "logs", "ws"): self._stream_logs,
            ("PATCH", "process", "stop", None): self._stop,
            ("PATCH", "processes", "stop"): self._stop_several,
            ("POST", "process", "start", None): self._start,
            ("POST", "process", "restart", None): self._restart,
            ("PATCH", "process", "signal", None, None): self._signal,
            ("POST", "project", "stop"): self._stop_project,
            ("GET", "berth", "wait"): self._wait,
        }

    def __call__(self, request: Request) -> None:
        known_path = False
        for (method, *words), route in self._routes.items():
            path = request.path
            if len(words) == len(path) and all(word in (None, path[place]) for place, word in enumerate(words)):
                if method == request.method:
                    route(request, *(path[place] for place, word in enumerate(words) if word is None))
                    return
                known_path = True
        request.answer({"error": "method not allowed" if known_path else "no such route"}, 405 if known_path else 404)

    def stopped(self) -> None:
        """Everything is down: answer those who asked for it."""
        for request in self._stopping:
            request.answer({"status": "stopped"})

    @property
    def _name(self) -> str:
        return os.path.basename(os.getcwd())

    def _find(self, request: Request, name: str) -> Process | None:
        process = self._project.processes.get(name)
        if process is None:
            known = list(self._project.processes)
            request.answer({"error": f"no such process: {name}", "code": "process_not_found", "known": known}, 400)
        elif self._project.is_stopping and request.method != "GET":
            request.answer({"error": "everything is being stopped"}, 503)
            return None
        return process

    def _project_state(self, request: Request) -> None:
        project = self._project
        running = sum(process.state in graph.UP for process in project.processes.values())
        request.answer(
            {
                "fileNames": [self._config],
                "upTime": int((time.time() - project.started) * 1e9),
                "startTime": _time(project.started),
                "processNum": len(project.processes),
                "runningProcessNum": running,
                "userName": str(os.getuid()),
                "version": VERSION,
                "projectName": self._name,
            }
        )

    def _processes(self, request: Request) -> None:
        request.answer({"data": [state(process) for process in self._project.processes.values()]})

    def _process(self, request: Request, name: str) -> None:
        process = self._find(request, name)
        if process is not None:
            request.answer(state(process))

    def _logs(self, request: Request, name: str, end_offset: str, limit: str) -> None:
        process = self._find(request, name)
        if process is None:
            return
        try:
            from_end, wanted = int(end_offset), int(limit)
        except ValueError:
            request.answer({"error": "offset and limit must be numbers"}, 400)
            return
        request.answer({"logs": last_lines(process.definition.log_location, max(0, from_end), max(0, wanted))})

    def _stream_logs(self, request: Request) -> None:
        """The last ``offset`` lines of each named process, one message a line."""
        key = request.headers.get("sec-websocket-key", "")
        names = [name for name in request.query.get("name", "").split(",") if name]
        offset = request.query.get("offset", "")
        if not key or not offset.isdigit():
            request.answer({"error": "must be a WebSocket handshake with a numeric offset"}, 400)
        elif request.query.get("follow") == "true":
            request.answer({"error": "logs are not followed here; use: berth logs -f"}, 400)
        elif all(self._find(request, name) is not None for name in names):
            frames = [websocket.handshake(key)]
            for name in names:
                lines = last_lines(self._project.processes[name].definition.log_location, 0, int(offset))
                messages = ({"message": line, "process_name": name} for line in lines)
                frames.extend(websocket.text(codec.dumps(message)) for message in messages)
            request.answer_raw(b"".join((*frames, websocket.close())))

    def _stop(self, request: Request, name: str) -> None:
        process = self._find(request, name)
        if process is not None:
            requests.stop(process, lambda: request.answer({"name": name}))

    def _stop_several(self, request: Request) -> None:
        try:
            names = codec.loads(request.body.decode())
        except ValueError as error:
            request.answer({"error": str(error)}, 400)
            return
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            request.answer({"error": "must be a list of names"}, 400)
            return
        known = [name for name in dict.fromkeys(names) if name in self._project.processes]
        if not known or self._project.is_stopping:
            request.answer({"error": f"no such processes or not running: {names}"}, 400)
            return
        answer = dict.fromkeys(names, "no such process")
        left = set(known)

        def done(name: str) -> None:
            answer[name] = "ok"
            left.discard(name)
            if not left:
                request.answer(answer, 200 if len(known) == len(answer) else 207)

        for name in known:
            self._stop_one(name, done)

    def _stop_one(self, name: str, done: Callable[[str], None]) -> None:
        requests.stop(self._project.processes[name], lambda: done(name))

    def _start(self, request: Request, name: str) -> None:
        process = self._find(request, name)
        if process is not None:
            requests.start(process)
            request.answer({"name": name})

    def _restart(self, request: Request, name: str) -> None:
        process = self._find(request, name)
        if process is not None:
            requests.restart(process, lambda: request.answer({"name": name}))

    def _signal(self, request: Request, name: str, number: str) -> None:
        process = self._find(request, name)
        if process is None:
            return
        if not number.isdigit() or int(number) > 31:
            request.answer({"error": f"invalid signal: {number}; must be between 0 and 31"}, 400)
        elif requests.send(process, self._project.host, int(number)):
            request.answer({"name": name})
        else:
            request.answer({"error": f"process {name} is not running"}, 400)

    def _stop_project(self, request: Request) -> None:
        self._stopping.append(request)
        self._project.stop("asked for")

    def _wait(self, request: Request) -> None:
        name = request.query.get("process")
        try:
            timeout = min(float(request.query.get("timeout", "60")), LONGEST_WAIT_SECONDS)
        except ValueError:
            request.answer({"error": "timeout must be a number of seconds"}, 400)
            return
        if name is not None and self._find(request, name) is None:
            return
        names = [name] if name is not None else list(self._project.processes)
        timer = self._project.host.loop.call_later(max(0.0, timeout), lambda: answer(graph.WAIT))

        def answer(verdict: str) -> None:
            timer.cancel()
            self._project.forget(waiter)
            stopping = self._project.is_stopping
            processes = [state(self._project.processes[name]) for name in names]
            request.answer({"verdict": "stopping" if stopping else verdict, "processes": processes})

        def gone() -> None:
            timer.cancel()
            self._project.forget(waiter)

        waiter = Waiter(names, answer)
        request.on_close = gone
        self._project.wait(waiter)


def state(process: Process) -> dict[str, object]:
    """The state of one process as process-compose words it, and what berth adds (``berth_*``)."""
    is_running = process.is_live
    age = max(0.0, now() - process.started) if process.started and is_running else 0.0
    verdict, why = graph.verdict(process)
    document: dict[str, object] = {
        "name": process.name,
        "namespace": process.definition.namespace,
        "status": process.state,
        "system_time": f"{int(age)}s" if is_running else "-",
        "age": int(age * 1e9),
        "is_ready": process.ready,
        "has_ready_probe": process.definition.declares_readiness,
        "restarts": process.restarts,
        "exit_code": process.exit_code,
        "pid": process.pid,
        "is_elevated": False,
        "password_provided": False,
        "mem": _memory(process.pid) if process.pid else 0,
        "cpu": 0.0,
        "is_running": is_running,
        "reason": process.reason,
        "error": process.error or process.skip_reason,
        "verdict": verdict,
        "verdict_reason": why,
    }
    if process.definition.success_codes != frozenset((0,)):
        document["success_exit_codes"] = sorted(process.definition.success_codes)
    for key, moment in (
        ("process_start_time", process.started_at),
        ("process_ready_time", process.readiness.ready_at),
        ("process_end_time", process.ended_at),
    ):
        if moment:
            document[key] = _time(moment)
    return document


def last_lines(path: str, skipped: int, count: int) -> list[str]:
    """``count`` lines (0: all) of a log's last LARGEST_LOG_ANSWER bytes, those before its last ``skipped`` lines.

    Bytes that are not UTF-8 become U+FFFD.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            start = max(0, os.fstat(file.fileno()).st_size - LARGEST_LOG_ANSWER)
            file.seek(start)
            data = file.read(LARGEST_LOG_ANSWER)
    except OSError:
        return []
    lines = data.lstrip(b"\0").split(b"\n")
    if start:
        del lines[0]
    if lines and not lines[-1]:
        del lines[-1]
    end = max(0, len(lines) - skipped)
    return [line.decode("utf-8", "replace") for line in lines[max(0, end - count) if count else 0 : end]]


def _memory(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _time(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03}Z"
