"""Programs as projects really have them, in containers: PostgreSQL on its own 5432, twice at once."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.tools.engine import images
from support import engines
from support.boxed import Boxed

PROCESSES = """\
  pg:
    command: exec "$(ls -d /usr/lib/postgresql/*/bin)/postgres" -D "$BERTH_DATA_DIR/pg" -p 5432 -k /tmp -c fsync=off
    readiness_probe: {exec: {command: 'pg_isready -h 127.0.0.1 -p 5432'}}
"""
SETUP = """hooks:
  setup:
    - |
      mkdir -p "$BERTH_DATA_DIR/pg"
      test -d "$BERTH_DATA_DIR/pg/base" || $(ls -d /usr/lib/postgresql/*/bin)/initdb -D "$BERTH_DATA_DIR/pg" -A trust
"""
# PostgreSQL refuses root, and a container of root's has no other uid; without subordinate names it also wants a
# line in the password file for whoever it runs as.
DOCKERFILE = f"""FROM {engines.IMAGE}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql
RUN echo "caller:x:{os.getuid()}:{os.getgid()}::/tmp:/bin/sh" >> /etc/passwd
"""


@pytest.fixture
def postgres_image(boxed: Boxed, tmp_path: Path) -> Iterator[str]:
    """An image with PostgreSQL, built by the engine itself."""
    if os.getuid() == 0:
        pytest.skip("PostgreSQL refuses root, and root's container has no other uid (workspaces.md 9.3)")
    tag = f"berth-test-pg-{uuid.uuid4().hex[:8]}:local"
    context = tmp_path / "image"
    context.mkdir()
    (context / "Dockerfile").write_text(DOCKERFILE)
    with open(tmp_path / "build.log", "wb") as log:
        images.build(boxed.engine, str(context), tag=tag, stderr=log.fileno())
    yield tag
    boxed.clear_away()
    images.remove_image(boxed.engine, tag)


@pytest.mark.timeout(600)
def test_postgresql_on_its_own_port_in_two_workspaces_at_once(boxed: Boxed, postgres_image: str) -> None:
    boxed.configure(image=postgres_image, processes=PROCESSES, listen="{pg: 5432}", more=SETUP)
    for slug in ("a", "b"):
        boxed.ok("new", slug, "--up")
        boxed.shell(slug, f"psql -qh 127.0.0.1 -d postgres -c \"create table t as select '{slug}' as who\"")
    for slug in ("a", "b"):
        assert boxed.shell(slug, "psql -Ath 127.0.0.1 -d postgres -c 'select who from t'") == f"{slug}\n"
    boxed.ok("down", "a")
    boxed.ok("up", "a")
    assert boxed.shell("a", "psql -Ath 127.0.0.1 -d postgres -c 'select who from t'") == "a\n"
    for slug in ("a", "b"):
        boxed.ok("done", slug)


def test_the_reference_image_builds_on_a_base_image_and_serves_a_workspace(boxed: Boxed) -> None:
    tag = f"berth-test-runtime-{uuid.uuid4().hex[:8]}:local"
    source = Path(__file__).resolve().parents[2] / "runtime"
    with open(os.devnull, "wb") as null:
        arguments = {"BASE_IMAGE": engines.IMAGE}
        images.build(boxed.engine, str(source), tag=tag, arguments=arguments, stderr=null.fileno())
    try:
        boxed.configure(image=tag)
        boxed.ok("new", "a", "--up")
        assert boxed.get("a")
        boxed.ok("done", "a")
    finally:
        boxed.clear_away()
        images.remove_image(boxed.engine, tag)


def test_an_older_python_in_the_image_is_enough(boxed: Boxed, tmp_path: Path) -> None:
    """The guest runs on 3.9: an image with that, where the host has one to copy."""
    found = sorted(Path(sys.base_prefix).parent.glob("3.9.*"))  # as version managers lay them out
    if not found:
        pytest.skip("no Python 3.9 on this host to copy into an image")
    tag = f"berth-test-py39-{uuid.uuid4().hex[:8]}:local"
    context = tmp_path / "image"
    context.mkdir()
    subprocess.run(["cp", "-a", str(found[0]), str(context / "python")], check=True)
    (context / "Dockerfile").write_text(
        f"FROM {engines.IMAGE}\nCOPY python {found[0]}\n"
        f"RUN ln -sf {found[0]}/bin/python3 /usr/bin/python3 && chmod 755 /{found[0].parts[1]}\n"
    )
    with open(os.devnull, "wb") as null:
        images.build(boxed.engine, str(context), tag=tag, stderr=null.fileno())
    try:
        boxed.configure(image=tag)
        boxed.ok("new", "a", "--up")
        assert boxed.inside("a", "python3", "-c", "import sys; print(sys.version_info[:2])") == "(3, 9)\n"
        assert boxed.get("a")
        boxed.ok("done", "a")
    finally:
        boxed.clear_away()
        images.remove_image(boxed.engine, tag)
