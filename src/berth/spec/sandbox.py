"""The container of a sandbox as words for an engine: capabilities, mounts, limits (sandboxes.md 5.1, 11.2, 11.4).

Pure. What apps and policy are travels in the boot document, never here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.guest.sandbox import grants
from berth.spec.app import Manifest

CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETPCAP", "SETUID")
SYSCTLS = ("net.mptcp.enabled=0", "net.ipv4.tcp_fastopen=0")
GUEST = "/usr/lib/berth/berth"
ENTRYPOINT = "tini"
COMMAND = ("--", "/usr/bin/python3", "-I", f"{GUEST}/guest/__main__.py", "sandbox")
RELAY = ("/usr/bin/python3", "-I", "-S", f"{GUEST}/guest/__main__.py", "relay")
DOCUMENT = "/etc/berth/boot.json"
SECRETS = "/run/berth-secrets"
RESERVED_CPU, RESERVED_MB, RESERVED_PIDS = 0.5, 256, 256
TMP_INODES = 65536

LABEL, LABEL_KIND, LABEL_NAME, LABEL_ROOT = (
    "dev.berth.sandbox", "dev.berth.kind", "dev.berth.name", "dev.berth.root",
)  # fmt: skip


class Mount(NamedTuple):
    """A bind (``source`` is an absolute host path) or a volume (``source`` is its name)."""

    kind: str
    source: str
    target: str
    readonly: bool = False
    recursive: bool = True


def labels(*, uuid: str, kind: str, name: str, root: str) -> dict[str, str]:
    """The labels of every container, volume and built image of a sandbox."""
    return {LABEL: uuid, LABEL_KIND: kind, LABEL_NAME: name, LABEL_ROOT: root}


def needs_network(apps: Sequence[Manifest]) -> bool:
    """True when some app may reach something outside the container (sandboxes.md 5.1)."""
    families = {c.family for app in apps for c in app.capabilities}
    return bool(families & {("network", "connect"), ("network", "host"), ("browser", "navigate")})


def options(
    apps: Sequence[Manifest],
    *,
    engine: str,
    container: str,
    marks: Mapping[str, str],
    mounts: Sequence[Mount],
    workdir: str,
    cpus: int,
    sysctls: bool = True,
) -> list[str]:
    """The options of ``container create``; ``cpus`` is how many the host has."""
    words = ["--name", container, "--hostname", container[:63], "--workdir", workdir, "--user", "0:0"]
    for key, value in marks.items():
        words += ["--label", f"{key}={value}"]
    words += ["--cap-drop", "ALL"]
    for capability in CAPABILITIES:
        words += ["--cap-add", capability]
    words += ["--security-opt", "no-new-privileges", "--restart", "no", "--ipc", "private", "--pull", "never"]
    if engine == "docker":
        words += ["--log-driver", "json-file", "--log-opt", "max-size=16m", "--log-opt", "max-file=2"]
    else:
        words += ["--log-driver", "k8s-file", "--log-opt", "max-size=16m"]
    if not needs_network(apps):
        words += ["--network", "none"]
    for sysctl in SYSCTLS if sysctls else ():
        words += ["--sysctl", sysctl]
    words += _tmpfs(apps, engine)
    for mount in mounts:
        words += ["--mount", mount_words(mount)]
    return [*words, *limit_words(apps, cpus=cpus), "--entrypoint", ENTRYPOINT]


def _tmpfs(apps: Sequence[Manifest], engine: str) -> list[str]:
    flags = "nosuid,nodev,noexec" + (",notmpcopyup" if engine == "podman" else "")
    inodes = f",nr_inodes={TMP_INODES}" if engine == "docker" else ""
    words = ["--tmpfs", f"/run/berth:rw,{flags},size=64m", "--tmpfs", f"/tmp:rw,{flags},size=1m"]  # noqa: S108
    for app in apps:
        words += ["--tmpfs", f"{grants.home_of(app.name)}:rw,{flags},size=256m{inodes}"]
    return words


def mount_words(mount: Mount) -> str:
    """The value of ``--mount``, quoted as CSV where the path needs it."""
    fields = [f"type={mount.kind}", f"source={mount.source}", f"target={mount.target}"]
    fields += ["readonly"] if mount.readonly else []
    fields += ["bind-nonrecursive=true"] if mount.kind == "bind" and not mount.recursive else []
    return ",".join('"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field for field in fields)


def limit_words(apps: Sequence[Manifest], *, cpus: int) -> list[str]:
    """CPU and memory when every app declares it, processes always, GPUs as declared (sandboxes.md 11.4)."""
    words = ["--pids-limit", str(sum(app.pids for app in apps) + RESERVED_PIDS)]
    cpu = [app.resources.cpu for app in apps if app.resources.cpu is not None]
    memory = [app.resources.memory_mb for app in apps if app.resources.memory_mb is not None]
    if len(cpu) == len(apps):
        words += ["--cpus", f"{min(sum(cpu) + RESERVED_CPU, cpus):g}"]
    if len(memory) == len(apps):
        words += ["--memory", f"{sum(memory) + RESERVED_MB}m"]
    gpus = sum(app.resources.gpu or 0 for app in apps)
    return [*words, "--gpus", str(gpus)] if gpus else words
