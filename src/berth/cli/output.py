"""The only module that prints: results to stdout, the story to stderr, one JSON document with ``--json``.

Bytes go straight to the descriptors: no buffer is left to fail at exit, and LC_ALL=C cannot spoil UTF-8.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from berth.cli.progress import Progress
    from berth.errors import BerthError

STDOUT, STDERR = 1, 2
CLOSED_STDOUT = 141
_STYLES = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "head": "1"}


class Output:
    """Where a command's result and story go.

    ``json`` asks for one document on stdout, ``quiet`` drops progress and notes, ``color`` is decided from the
    environment for stdout and stderr apart. ``closed`` turns true when the reader of stdout has gone away.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.closed = False
        self.progress: Progress | None = None
        self.configure(json=False, quiet=False, color=True)

    def configure(self, *, json: bool, quiet: bool, color: bool, verbose: bool = False) -> None:
        """Make the shared flags count. ``color`` false forbids colour; true leaves it to the environment."""
        self.json = json
        self.quiet = quiet
        self.verbose = verbose
        self._color_out = wants_color(self._environ, STDOUT, allowed=color) and not json
        self._color_err = wants_color(self._environ, STDERR, allowed=color)

    # -- results ------------------------------------------------------------------------------------------------

    def text(self, text: str) -> None:
        """Write a result as it is; a newline is added when it is missing."""
        if text and not text.endswith("\n"):
            text += "\n"
        self.raw(encode(text))

    def raw(self, data: bytes) -> None:
        """Write bytes to stdout; a reader that has gone away is remembered, not raised."""
        if self.closed:
            return
        try:
            _write(STDOUT, data)
        except BrokenPipeError:
            self.closed = True

    def document(self, document: object) -> None:
        """Write one JSON document: two spaces, UTF-8, a newline at the end."""
        self.raw(document_bytes(document))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Write rows: aligned on a terminal, tab-separated with the same header otherwise."""
        lines = [tuple(header), *map(tuple, rows)]
        if not is_terminal(STDOUT):
            self.text("\n".join("\t".join(line) for line in lines))
            return
        widths = [max(width(line[column]) for line in lines) for column in range(len(header))]
        for number, line in enumerate(lines):
            cells = [cell + " " * (widths[column] - width(cell)) for column, cell in enumerate(line)]
            text = "  ".join(cells).rstrip()
            self.text(self.style(text, "head") if number == 0 else text)

    def style(self, text: str, style: str) -> str:
        """``text`` in a style of stdout, when colour is on."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._color_out else text

    # -- story --------------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Something worth knowing; dropped with ``-q``."""
        if not self.quiet:
            self.story(f"berth: {text}")

    def detail(self, text: str) -> None:
        """What only ``-v`` shows."""
        if self.verbose:
            self.story(f"berth: {text}")

    def warning(self, text: str) -> None:
        """Something the user should act on; never dropped."""
        mark = "warning:"
        self.story(f"\x1b[{_STYLES['warn']}m{mark}\x1b[0m {text}" if self._color_err else f"{mark} {text}")

    def waiting(self, text: str) -> None:
        """What is being waited for; never dropped (workspaces.md 5.3)."""
        self.story(f"berth: {text}")

    def step(self, name: str) -> None:
        """A step begins; ``progress`` shows it when it takes long."""
        if self.progress is not None:
            self.progress.step(name)

    def story(self, text: str) -> None:
        """One or more lines on stderr; a stderr that is gone stops nothing."""
        if self.progress is not None:
            self.progress.clear()
        try:
            _write(STDERR, encode(text + "\n"))
        except OSError:
            return  # nobody reads the story; the action goes on

    def raw_story(self, data: bytes) -> None:
        """Output of hooks, git and filters, passed on to stderr as it comes."""
        if self.progress is not None:
            self.progress.clear()
        try:
            _write(STDERR, data)
        except OSError:
            return  # nobody reads it; the hook goes on

    def error(self, error: BerthError) -> None:
        """A failure: ``berth: message`` and ``hint: …`` on stderr, or one document on stdout with ``--json``."""
        if self.json:
            told: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint}
            issues = getattr(error, "issues", None)  # of a manifest, each with its place
            if issues:
                told["issues"] = [issue.as_dict() for issue in issues]
            self.document({"error": told})
            return
        mark = "\x1b[31mberth:\x1b[0m" if self._color_err else "berth:"
        self.story(f"{mark} {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))


def wants_color(environ: Mapping[str, str], descriptor: int, *, allowed: bool) -> bool:
    """Whether to colour: ``--no-color``, NO_COLOR, CLICOLOR_FORCE=1, TERM=dumb, then whether it is a terminal."""
    if not allowed or environ.get("NO_COLOR"):
        return False
    if environ.get("CLICOLOR_FORCE") == "1":
        return True
    return environ.get("TERM") != "dumb" and is_terminal(descriptor)


def is_terminal(descriptor: int) -> bool:
    """True when the descriptor is open on a terminal."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def terminal_width() -> int:
    """Columns of the terminal: COLUMNS when it is a sensible number, else what stdout says, else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(STDOUT).columns or 80
    except OSError:
        return 80


def encode(text: str) -> bytes:
    """Text as bytes; what was not UTF-8 when it was read is the same bytes again."""
    return text.encode("utf-8", "surrogateescape")


def document_bytes(document: object, *, lines: bool = False) -> bytes:
    """A JSON document as bytes; bytes that are not UTF-8 become U+FFFD. ``lines`` puts it on one line."""
    import json

    text = json.dumps(document, indent=None if lines else 2, ensure_ascii=False) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


def width(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _write(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, also where the descriptor was left non-blocking by somebody else."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            import select

            select.select([], [descriptor], [])
