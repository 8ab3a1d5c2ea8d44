"""An engine that fails in the middle, a rebuilt image, files of other users, containers without a workspace."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from berth.spec.container import LABEL_HOME, LABEL_WORKSPACE
from berth.tools.engine import containers, images
from support import engines
from support.boxed import Boxed
from support.cli import await_true

FLAKY = """#!/bin/sh
# The real engine until its calls are used up, then a daemon that is gone.
left=$(cat "$BUDGET")
if [ "$left" -le 0 ]; then echo "the engine was stopped" >&2; exit 125; fi
echo $((left - 1)) > "$BUDGET"
PATH=$REAL_PATH exec {name} "$@"
"""


class Flaky:
    """An engine that stops answering after a number of calls."""

    def __init__(self, boxed: Boxed, directory: Path) -> None:
        name = boxed.engine.name
        program = directory / "bin" / name
        program.parent.mkdir()
        program.write_text(FLAKY.format(name=name))
        program.chmod(0o755)
        self.budget = directory / "budget"
        path = os.environ["PATH"]
        self.env = {"PATH": f"{program.parent}:{path}", "REAL_PATH": path, "BUDGET": str(self.budget)}

    def allow(self, calls: int) -> dict[str, str]:
        self.budget.write_text(str(calls))
        return self.env


# verb -> (its words, what comes before, after how many calls the engine is gone)
VERBS = {
    "new": (["new", "a", "--up"], [], (0, 3, 6)),
    "up": (["up", "a"], [["new", "a", "--up"], ["down", "a"]], (0, 3)),
    "down": (["down", "a"], [["new", "a", "--up"]], (0, 2)),
    "reset": (["reset", "a"], [["new", "a", "--up"]], (1, 5)),
    "done": (["done", "a"], [["new", "a", "--up"]], (1, 5)),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.timeout(600)
def test_an_engine_that_stops_in_the_middle_leaves_what_the_next_command_finishes(
    boxed: Boxed, tmp_path: Path, verb: str
) -> None:
    flaky = Flaky(boxed, tmp_path)
    words, before, budgets = VERBS[verb]
    for calls in budgets:
        for step in before:
            boxed.ok(*step)
        outcome = boxed(*words, "--json", env=flaky.allow(calls))
        assert outcome.code in (1, 5), outcome
        assert outcome.error["code"] in ("engine_unavailable", "stop_failed"), outcome
        if verb == "done":
            boxed.ok("done", "a")
        else:
            boxed.ok("up", "a")
            assert boxed.get("a")
            boxed.ok("done", "a", "--force")
        assert boxed.ours() == []
        assert not boxed.path("a").exists()


@engines.on_one_engine
def test_a_rebuilt_image_tag_is_used_after_a_reset(boxed: Boxed, tmp_path: Path) -> None:
    tag = f"berth-test-{os.getpid()}:local"

    def build(word: str) -> None:
        context = tmp_path / word
        context.mkdir()
        (context / "Dockerfile").write_text(f"FROM {engines.IMAGE}\nRUN echo {word} > /word\n")
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            images.build(boxed.engine, str(context), tag=tag, stderr=null)
        finally:
            os.close(null)

    build("first")
    try:
        boxed.configure(image=tag)
        boxed.ok("new", "a", "--up")
        assert boxed.shell("a", "cat /word") == "first\n"
        build("second")
        boxed.ok("down", "a")
        boxed.ok("up", "a")
        assert boxed.shell("a", "cat /word") == "first\n"
        boxed.ok("reset", "a")
        assert boxed.shell("a", "cat /word") == "second\n"
        boxed.ok("done", "a", "--force")
    finally:
        boxed.clear_away()
        images.remove_image(boxed.engine, tag)
        boxed.engine.attempt(["image", "prune", "-f"])


@engines.on_one_engine
@pytest.mark.parametrize(
    ("removed", "missing"),
    [("rm -f /usr/bin/python3*", "python3"), ("rm -f /bin/git /usr/bin/git", None)],
    ids=["python", "git"],
)
def test_an_image_without_what_is_needed_is_named(
    boxed: Boxed, tmp_path: Path, removed: str, missing: str | None
) -> None:
    tag = f"berth-test-bare-{os.getpid()}:local"
    (tmp_path / "Dockerfile").write_text(f"FROM {engines.IMAGE}\nRUN {removed}\n")
    null = os.open(os.devnull, os.O_WRONLY)
    images.build(boxed.engine, str(tmp_path), tag=tag, stderr=null)
    os.close(null)
    try:
        boxed.configure(image=tag)
        if missing is None:
            boxed.ok("new", "a", "--up")
            assert any("git" in warning for warning in boxed.document("a")["warnings"])
        else:
            error = boxed.fails("image_unsuitable", "new", "a", "--up")
            assert missing in error["message"]
            assert tag in error["message"]
        boxed.ok("done", "a", "--force")
    finally:
        boxed.clear_away()
        images.remove_image(boxed.engine, tag)


def foreign(boxed: Boxed, slug: str) -> None:
    """Files of another uid in the checkout, made as a container's root makes them."""
    path = boxed.path(slug)
    keep = ["--userns=keep-id"] if boxed.kind == "podman-rootless" else []
    script = "mkdir r && touch r/x && mkdir r/shared && chmod 777 r/shared && chown -R 4242:4242 r"
    words = ["run", "--rm", "--user", "0:0", *keep, "--mount", f"type=bind,source={path},target=/w", "--workdir", "/w"]
    boxed.engine.call([*words, engines.IMAGE, "sh", "-c", script])
    assert (path / "r").stat().st_uid != os.getuid()
    (path / "r/shared/mine").write_text("of the user")


def test_files_of_another_user_are_removed_without_sudo(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    foreign(boxed, "a")
    boxed.ok("done", "a", "--force")
    assert not boxed.path("a").exists()
    assert boxed.ours() == []


@engines.on_one_engine
def test_files_of_another_user_refuse_removal_before_anything_changed_without_the_engine(
    boxed: Boxed, tmp_path: Path
) -> None:
    boxed.ok("new", "a", "--up")
    boxed.ok("down", "a")
    foreign(boxed, "a")
    tag = boxed.document("a")["runtime"]["image"]
    program = tmp_path / "bin" / boxed.engine.name
    program.parent.mkdir()
    # Every call works but those that look at the image: it was removed meanwhile.
    program.write_text(
        f'#!/bin/sh\ncase "$*" in "image inspect"*) exit 1;; esac\nPATH="{os.environ["PATH"]}" '
        f'exec {boxed.engine.name} "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    outcome = boxed("done", "a", "--force", "--json", env=env)
    assert outcome.error["code"] == "foreign_files"
    assert tag in outcome.error["message"]
    assert "--force" not in str(outcome.error["hint"])
    assert "sudo" not in str(outcome.error["hint"])
    assert boxed.document("a")["phase"] == "stopped"
    assert (boxed.path("a") / "r/x").exists()
    boxed.ok("done", "a", "--force")


@engines.on_one_engine
def test_gc_removes_a_container_that_no_workspace_knows_and_no_other(boxed: Boxed) -> None:
    boxed.ok("new", "a", "--up")
    known = boxed.container("a")
    home_label = boxed.inspect("a").labels[LABEL_HOME]
    orphan = "berth-" + "0" * 32
    stranger = "berth-" + "1" * 32
    for name, home in ((orphan, home_label), (stranger, "f" * 64)):
        identifier = name.removeprefix("berth-")
        options = ["--name", name, "--label", f"{LABEL_WORKSPACE}={identifier}", "--label", f"{LABEL_HOME}={home}"]
        containers.create(boxed.engine, engines.labelled(options), engines.IMAGE, ["sleep", "1000"])
    try:
        dry = boxed.doc("gc", "--dry-run")
        assert [(one["kind"], one["path"]) for one in dry["actions"]] == [("orphan_container", orphan)]
        assert containers.find(boxed.engine, orphan) is not None
        found = boxed.doc("gc")
        assert [(one["kind"], one["path"]) for one in found["actions"]] == [("orphan_container", orphan)]
        assert containers.find(boxed.engine, orphan) is None
        assert containers.find(boxed.engine, stranger) is not None
        assert containers.find(boxed.engine, known) is not None
    finally:
        engines.discard(boxed.engine, orphan, stranger)


@engines.on_one_engine
def test_a_new_that_is_killed_in_a_hook_is_finished_by_up(boxed: Boxed) -> None:
    boxed.configure(more="hooks: {setup: ['touch .berth/data/begun; test -e .berth/data/go || exec sleep 1000']}\n")
    running = boxed.popen("new", "a", "--up")
    data = boxed.path("a") / ".berth/data"
    await_true(lambda: (data / "begun").exists(), seconds=60)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    (data / "go").write_text("")
    boxed.ok("up", "a")
    assert boxed.get("a")
    assert "sleep 1000" not in boxed.shell("a", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


@engines.on_one_engine
def test_a_cancelled_new_ends_its_hook_and_is_recorded(boxed: Boxed) -> None:
    boxed.configure(more="hooks: {setup: ['touch .berth/data/begun; setsid sleep 976 & sleep 976']}\n")
    running = boxed.popen("new", "a")
    await_true(lambda: (boxed.path("a") / ".berth/data/begun").exists(), seconds=60)
    running.send_signal(signal.SIGINT)
    assert running.wait(20) == 130
    running.communicate()
    assert boxed.document("a")["phase"] == "failed"
    shown = boxed.engine.call(containers.exec_words(boxed.container("a"), ["sh", "-c", "cat /proc/*/cmdline"], env={}))
    assert "976" not in shown.text


@engines.on_one_engine
def test_doctor_names_engine_and_image(boxed: Boxed) -> None:
    found = {check["name"]: check for check in boxed.doc("doctor")["checks"]}
    assert found["container-engine"]["ok"] is True
    assert engines.command(boxed.kind) in found["container-engine"]["detail"]
    assert found["runtime-image"]["detail"] == engines.IMAGE
    boxed.configure(image="berth-no-such-image:local")
    outcome = boxed("doctor", "--json")
    assert outcome.code == 1
    found = {check["name"]: check for check in outcome.json["checks"]}
    assert found["runtime-image"]["ok"] is False
