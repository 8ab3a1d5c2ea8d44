"""What every verb is given: paths, environment, clock, and somebody to tell the story to. Decides nothing."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Protocol

    from berth.registry import Registry

    class Say(Protocol):
        """Tells the user what happens; never decides anything."""

        def note(self, text: str) -> None: ...
        def warning(self, text: str) -> None: ...
        def waiting(self, text: str) -> None: ...
        def step(self, name: str) -> None: ...
        def detail(self, text: str) -> None: ...
        def raw_story(self, data: bytes) -> None: ...


def home_directory(environ: Mapping[str, str]) -> str:
    """``$BERTH_HOME`` made absolute and canonical; default ``~/.berth``."""
    return os.path.realpath(environ.get("BERTH_HOME") or os.path.join(os.path.expanduser("~"), ".berth"))


class Context:
    """The collaborators of one command.

    ``home`` is berth's directory, ``environ`` the caller's environment, ``cwd`` the canonical current directory or
    None when it was removed. ``no_wait`` asks locks to fail at once. ``now`` gives seconds since the epoch.
    """

    def __init__(
        self,
        *,
        home: str,
        environ: Mapping[str, str],
        say: Say,
        no_wait: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.home = home
        self.environ = environ
        self.say = say
        self.no_wait = no_wait
        self.now = now
        self._registry: Registry | None = None
        self._told: set[str] = set()

    @property
    def registry(self) -> Registry:
        """The machine's registry, opened on first use."""
        if self._registry is None:
            from berth.registry import Registry

            self._registry = Registry(self.home)
        return self._registry

    @property
    def cwd(self) -> str | None:
        """The canonical current directory, or None when it was removed."""
        try:
            return os.getcwd()
        except OSError:
            return None

    def tell_once(self, notes: Iterable[str]) -> None:
        """Notes about the configuration, each once in a command however often it is read."""
        for note in notes:
            if note not in self._told:
                self._told.add(note)
                self.say.note(note)

    def timestamp(self) -> str:
        """The present time as the registry writes it."""
        from berth.registry import timestamp

        return timestamp(self.now())
