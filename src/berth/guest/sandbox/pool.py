"""Sixteen threads that run an app's handlers, and one more loop for those that are coroutines.

Threads are started when they are needed. A call that came from another call may get a thread beyond the sixteen, so
that an app which calls itself is stopped by the hops limit and not by its own waiting threads.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any, Optional

THREADS = 16
EXTRA = 8


class Pool:
    """``submit`` from one thread only; jobs are started in the order in which they came."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Optional[Callable[[], None]]] = SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def submit(self, job: Callable[[], None], *, nested: bool = False) -> None:
        """Run ``job``, which raises nothing, on some thread."""
        with self._lock:
            waiting = self._jobs.qsize()
            limit = THREADS + (EXTRA if nested else 0)
            wanted = self._idle <= waiting and self._threads < limit
        self._jobs.put(job)
        if wanted:
            self._start_thread()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return  # the process limit: those that are there take the job in turn
        with self._lock:
            self._threads += 1

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._jobs.get()
            with self._lock:
                self._idle -= 1
            if job is None:
                return
            job()

    def coroutine(self, made: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine, run on the one asyncio loop of this process; its exception is raised here."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(made, self._asyncio_loop()).result()

    def start_coroutine(self, made: Coroutine[Any, Any, Any], then: Callable[[Any], None]) -> None:
        """Run a coroutine beside the threads; ``then`` gets its finished future."""
        import asyncio

        asyncio.run_coroutine_threadsafe(made, self._asyncio_loop()).add_done_callback(then)

    def _asyncio_loop(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
            return self._loop
