"""One workspace's container as a thing: find it, make it, start it, look into it, stop it, remove it (9.1 to 9.4).

It holds no processes of the workspace and asks no supervisor. A container is touched only when its name and all its
labels are ours, and is believed to be absent only by the engine that is on record.
"""

from __future__ import annotations

import json
import os
import sys

from berth.errors import BerthError
from berth.runtime import controls
from berth.runtime.protection import INIT_FILE, lost, recorded_init
from berth.spec import container as spec
from berth.tools.engine import containers, images
from berth.tools.engine.client import Engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from berth.registry import Workspace
    from berth.tools.engine.containers import Container
    from berth.tools.proc import Result

PREFLIGHT_SECONDS = 5.0
START_SECONDS = 20.0
LOG_LINES = 10

# One exec says everything: each line names what is missing; the last is the guest's own answer.
PREFLIGHT = """command -v git >/dev/null 2>&1 || echo git
command -v cat >/dev/null 2>&1 || echo cat
python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || echo python
test -w /workspace || echo workspace
test -d "$HOME" -a -w "$HOME" || echo home
printf 'guest '
exec "$@"
"""
_MISSING = {
    "python": "python3 3.9 or newer",
    "cat": "cat",
    "home": f"a writable {spec.HOME}",
    "workspace": f"a writable {spec.ROOT}",
}


def home_identity(home: str) -> str:
    """The value of the label that names this machine and ``home`` (canonical): 64 hex digits."""
    import hashlib

    machine = ""
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(name, encoding="ascii") as file:
                machine = file.read().strip()
        except OSError:
            continue
        if machine:
            break
    words = f"{machine or os.uname().nodename}\n{home}"
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()


class Box:
    """The container of one registry row. ``record`` writes columns of that row and returns it anew."""

    def __init__(
        self,
        home: str,
        row: Workspace,
        *,
        environ: Mapping[str, str],
        record: Callable[..., Workspace] | None = None,
    ) -> None:
        self.home = home
        self.row = row
        self.runtime: dict[str, Any] = json.loads(row.runtime)
        self.engine = Engine(self.runtime.get("engine") or "docker", environ=environ)
        self.name = spec.container_name(row.id)
        self.control_directory = controls.control_directory(home, row.path)
        self._record = record
        self._environ = environ

    # -- what is there ------------------------------------------------------------------------------------------

    def find(self) -> Container | None:
        """The container, its labels checked; None when the engine on record has none.

        Raises container_mismatch, engine_mismatch, engine_unavailable.
        """
        if self.row.engine_id is None:
            return None  # berth never came to make one: an engine is not even asked
        found = containers.find(self.engine, self.name)
        if found is None:
            self.engine.require_identity(self.row.engine_id)
            return None
        self.check_labels(found)
        return found

    def check_labels(self, found: Container) -> None:
        """Raise container_mismatch unless every label is ours."""
        containers.require_labels(found, self.labels())

    def labels(self) -> dict[str, str]:
        from berth.spec.contract import Contract, spec_hash

        contract = Contract.from_record(self.row.runtime, self.row.listen, list(self.row.ports))
        return spec.labels(
            workspace_id=self.row.id,
            path=self.row.path,
            spec=spec_hash(contract, host_ports=self.row.ports, git_dir=self.row.git_dir, path=self.row.path),
            home_id=home_identity(self.home),
        )

    def is_running(self) -> bool:
        """Whether its init lives: by its record in /proc where that can be seen, else by one inspection."""
        if self.init_lives():
            return True
        found = self.find()
        return found is not None and found.running

    def init_lives(self) -> bool:
        """Whether the recorded process 1 still lives on this machine; False also when nothing is known."""
        return self.engine.is_local and recorded_init(self.control_directory) is not None

    # -- making it ----------------------------------------------------------------------------------------------

    def ensure(self) -> list[str]:
        """Create it if absent, start it if stopped, check what it offers; returns lasting warnings.

        Raises image_missing, image_unsuitable, unsupported_path, container_mismatch, engine_*.
        """
        if self.init_lives():
            return []
        found = self.find()
        if found is None:
            self._refuse_foreign()
            self._create()
        if found is None or not found.running:
            self._start()
            return self._preflight()
        self._note_init(found)
        return []

    def _refuse_foreign(self) -> None:
        """A container of our name that is none of ours, where no record says that there could be one."""
        stranger = containers.find(self.engine, self.name)
        if stranger is not None:
            self.check_labels(stranger)

    def _create(self) -> None:
        from berth.tools import guest_copy

        row, engine = self.row, self.engine
        spec.require_mountable(row.path, row.common_dir, self.home)
        binds = spec.mounts(
            path=row.path,
            git_dir=row.git_dir,
            common_dir=row.common_dir,
            worktree_config=make_sources(row.common_dir, row.git_dir, self._environ),
        )
        images.require_linux_image(engine, self.image)
        guest = guest_copy.ensure_guest(self.home)
        # Known before it exists: from here on only this engine may say that there is no such container.
        assert self._record is not None, "a verb that may create the container holds the workspace"
        self.row = self._record(engine_id=engine.facts.identity, guest=guest)
        namespace, user = self._user()
        gateways = self.gateways()
        listen: dict[str, int] = json.loads(row.listen)
        options = spec.create_words(
            name=self.name,
            marks=self.labels(),
            binds=binds,
            user=[*namespace, *user],
            limits=self.runtime,
            published={name: (port, gateways[name]) for name, port in row.ports.items()},
            guests=guest_copy.guests_directory(self.home),
        )
        pairs = {name: (gateways[name], listen[name]) for name in row.ports}
        containers.create(engine, options, self.image, spec.init_words(guest, pairs))

    @property
    def image(self) -> str:
        return str(self.runtime["image"])

    def gateways(self) -> dict[str, int]:
        """Port name → the container's port that is published."""
        from berth.spec.ports import gateway_ports

        return gateway_ports(list(self.row.ports), json.loads(self.row.listen))

    def _user(self, user: str | None = None) -> tuple[list[str], list[str]]:
        return spec.user_words(
            engine=self.engine.name,
            rootless=self.engine.facts.rootless,
            is_linux=sys.platform.startswith("linux"),
            user=user or self.runtime.get("user"),
            uid=os.getuid(),
            gid=os.getgid(),
        )

    def _start(self) -> None:
        try:
            containers.start(self.engine, self.name)
        except BerthError:
            self._blame_port()
            self._blame_image()
            raise
        found = next(iter(containers.peek(self.engine, [self.name])), None) or self.find()
        if found is None or not found.running:
            self._blame_image()
            said = "\n".join(containers.logs(self.engine, self.name, tail=LOG_LINES))
            raise BerthError(
                f"the container {self.name} ended right after its start: {said or 'it said nothing'}",
                code="image_unsuitable",
                hint=images.MISSING_HINT,
            )
        self._note_init(found)

    def _blame_port(self) -> None:
        """Raise port_in_use when somebody else listens on a reserved port: they are not held open (15)."""
        from berth.tools.listeners import refuse_foreign

        refuse_foreign(self.row.ports, workspace_id=self.row.id)

    def _blame_image(self) -> None:
        """Raise image_unsuitable when the image lacks what process 1 needs: asked by a container of its own."""
        words = ["container", "run", "--rm", "--pull=never", "--network=none", "--entrypoint", "sh", self.image]
        script = "python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 9))' || exit 1"
        result = self.engine.attempt([*words, "-c", script])
        if result.timed_out or result.code in (0, 125):  # 125: the engine itself failed
            return
        missing = "sh" if result.code in (126, 127) else _MISSING["python"]
        raise self.unsuitable([missing])

    def unsuitable(self, missing: Sequence[str]) -> BerthError:
        return BerthError(
            f"the image {self.image} lacks {', '.join(missing)}", code="image_unsuitable", hint=images.MISSING_HINT
        )

    def _preflight(self) -> list[str]:
        """What the image offers, in one exec; returns lasting warnings. Raises image_unsuitable: all it lacks."""
        from berth.guest.core import wire
        from berth.tools import guest_copy

        guest = guest_copy.ensure_guest(self.home)
        argv = ["sh", "-c", PREFLIGHT, "sh", *spec.guest_words(guest, "version")]
        result = self.exec(argv, env={"HOME": spec.HOME}, timeout=PREFLIGHT_SECONDS, shell=False)
        lines = result.text.split("\n")
        said = {line for line in lines if line in _MISSING}
        missing = [_MISSING[word] for word in _MISSING if word in said]
        if result.code in (126, 127) and "guest " not in result.text:
            missing.append("sh")
        if not missing and f"guest {wire.INTERFACE_VERSION}" not in lines:
            found = result.complaint or result.text.strip() or f"exit code {result.code}"
            missing.append(f"a python3 that runs berth's guest ({found})")
        if missing:
            self.engine.require_answer()  # an exec that failed because the engine is away says nothing of the image
            if "workspace" in said and _selinux_enforces():
                missing.append("(SELinux enforces; berth never relabels, so label the workspace for containers)")
            raise self.unsuitable(missing)
        return [f"the image {self.image} has no git: git does not work inside"] if "git" in lines else []

    # -- using it -----------------------------------------------------------------------------------------------

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout: float | None,
        stdin: bytes | None = None,
        shell: bool = True,
    ) -> Result:
        """Run ``argv`` inside, in the workspace's root. Raises engine_unavailable when the client cannot be started."""
        words = containers.exec_words(
            self.name, argv, env=env, workdir=spec.ROOT, interactive=stdin is not None, shell=shell
        )
        from berth.tools.proc import DEVNULL

        return self.engine.attempt(words, stdin=DEVNULL if stdin is None else stdin, timeout=timeout)

    def guest(self, verb: str, *arguments: str) -> list[str]:
        """The words of a verb of this berth's own guest, made sure to be there."""
        from berth.tools import guest_copy

        return spec.guest_words(guest_copy.ensure_guest(self.home), verb, *arguments)

    def init_user(self) -> int | None:
        """The uid of its processes as seen on this machine; None when that cannot be seen."""
        found = recorded_init(self.control_directory) if self.engine.is_local else None
        return _effective_uid(found) if found is not None else None

    def lost_mounts(self) -> list[str]:
        """A warning for each protection that the host ended by replacing the very file (9.2)."""
        pid = recorded_init(self.control_directory) if self.engine.is_local else None
        if pid is None:
            return []
        return lost(pid, path=self.row.path, git_dir=self.row.git_dir, slug=self.row.slug)

    # -- ending it ----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop it and prove that it has. Raises stop_failed, container_mismatch, engine_*."""
        found = self.find()
        if found is not None and found.running:
            containers.stop(self.engine, self.name)
        self.forget_init()

    def remove(self) -> None:
        """Remove it, stopped first if need be; one that is not there is fine."""
        found = self.find()
        if found is None:
            return
        if found.running:
            containers.stop(self.engine, self.name)
        containers.remove(self.engine, self.name)

    def _note_init(self, found: Container) -> None:
        """Write down process 1, where this machine can see it."""
        from berth.tools.files import replace_file
        from berth.tools.procfs import identity

        if not self.engine.is_local or not found.pid:
            return
        one = identity(found.pid)
        if one is None:
            return
        controls.make_directory(self.home, self.row)
        content = f"{one.pid} {one.start} {one.boot_id}\n".encode()
        replace_file(os.path.join(self.control_directory, INIT_FILE), content, mode=0o600)

    def forget_init(self) -> None:
        try:
            os.unlink(os.path.join(self.control_directory, INIT_FILE))
        except FileNotFoundError:
            return


def make_sources(common_dir: str, git_dir: str, environ: Mapping[str, str]) -> bool:
    """Make what is mounted read-only and may be absent; returns whether worktree configuration is on."""
    from berth.tools.git.command import run

    asked = ["config", "--file", os.path.join(common_dir, "config"), "--type=bool", "extensions.worktreeConfig"]
    worktree_config = run(asked, env=environ).text.strip() == "true"
    for directory in (f"{common_dir}/hooks", f"{common_dir}/modules", f"{git_dir}/modules"):
        os.makedirs(directory, exist_ok=True)
    files = [f"{common_dir}/config"]
    if worktree_config:
        files += [f"{common_dir}/config.worktree", f"{git_dir}/config.worktree"]
    for path in files:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    return worktree_config


def _effective_uid(pid: int) -> int | None:
    from berth.tools.procfs import read

    for line in read(f"/proc/{pid}/status").split(b"\n"):
        if line.startswith(b"Uid:"):
            return int(line.split()[2])
    return None


def _selinux_enforces() -> bool:
    try:
        with open("/sys/fs/selinux/enforce", encoding="ascii") as file:
            return file.read().strip() == "1"
    except OSError:
        return False
