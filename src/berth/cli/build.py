"""What ``berth version`` says: the version, and the commit and date that the build wrote down."""

from __future__ import annotations

from berth import __version__


def build_facts() -> dict[str, str]:
    """``version``, ``commit`` and ``date``; the last two are ``unknown`` in an editable install."""
    try:
        facts = __import__("berth._build", fromlist=["COMMIT"])
    except ImportError:
        return {"version": __version__, "commit": "unknown", "date": "unknown"}
    return {"version": __version__, "commit": facts.COMMIT, "date": facts.DATE}
