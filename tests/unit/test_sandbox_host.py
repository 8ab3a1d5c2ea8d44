"""The host's side of sandboxes without an engine: roots, members, rows, container options, staging, logs, accounts."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from berth.errors import BerthError
from berth.guest.core.loop import Loop
from berth.guest.sandbox import identities
from berth.guest.sandbox.logs import LINE_CAP, LinePump, Output, escape
from berth.ops.sandboxes import app_init, audit, resident, resolve, starting
from berth.ops.sandboxes.checks import ids_are_mapped
from berth.ops.setup.context import Context
from berth.registry import Registry
from berth.registry_sandboxes import Sandbox, Sandboxes
from berth.spec import sandbox as spec
from berth.spec.app import Manifest, Resources
from berth.spec.members import selects
from support.jail import document_of, manifest


@pytest.mark.parametrize(
    ("patterns", "exclude", "path", "member"),
    [
        (["apps/*"], [], "apps/notes", True),
        (["apps/*"], [], "apps/group/notes", False),
        (["apps/**"], [], "apps/group/notes", True),
        (["**"], [], "apps/notes", True),
        (["apps/*", "!apps/notes"], [], "apps/notes", False),
        (["apps/*"], ["apps/n*"], "apps/notes", False),
        (["apps/not?s"], [], "apps/notes", True),
        (["./apps/notes/"], [], "apps/notes", True),
        (["apps.*"], [], "apps/notes", False),
        (["."], [], ".", True),
    ],
)
def test_globs_select_members(patterns: list[str], exclude: list[str], path: str, member: bool) -> None:
    assert selects(patterns, exclude, path) is member


def make_app(directory: Path, name: str, manifest_lines: str = "") -> Path:
    (directory / "src").mkdir(parents=True)
    (directory / "src/app.py").write_text("")
    (directory / "berth.yml").write_text(f"name: {name}\nversion: 1.0.0\n{manifest_lines}")
    for path in (directory, *directory.parents):
        if path.name.startswith("test_"):
            path.chmod(0o755)
            break
        path.chmod(0o755)
    return directory


def test_companions_are_relative_to_the_nearest_root_and_pnpm_wins(tmp_path: Path) -> None:
    one, two = make_app(tmp_path / "apps/one", "one"), make_app(tmp_path / "apps/two", "two")
    (tmp_path / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["apps/*"]\nexclude = ["apps/none"]\n')
    assert resolve.for_dev(str(one), "apps/two, ,").names == ["one", "two"]
    (tmp_path / "pnpm-workspace.yaml").write_text('packages: ["other/*"]\n')
    with pytest.raises(BerthError, match="is no member"):
        resolve.for_dev(str(one), "apps/two")
    assert resolve.for_dev(str(one), None).root == str(tmp_path)
    assert resolve.for_os(str(tmp_path / "apps"), "two,one").names == ["two", "one"]
    assert two.exists()


def test_without_a_root_only_a_companion_is_an_error(tmp_path: Path) -> None:
    one = make_app(tmp_path / "one", "one")
    assert resolve.for_dev(str(one), None).root == str(one)
    with pytest.raises(BerthError, match="no workspace root"):
        resolve.for_dev(str(one), "two")


@pytest.mark.parametrize(
    ("word", "message"), [("apps/none", "no directory"), ("../outside", "outside"), ("apps", "holds no berth.yml")]
)
def test_a_companion_must_exist_hold_a_manifest_and_lie_inside(tmp_path: Path, word: str, message: str) -> None:
    root = tmp_path / "root"
    one = make_app(root / "apps/one", "one")
    make_app(tmp_path / "outside", "outside")
    (root / "pnpm-workspace.yaml").write_text('packages: ["apps/*"]\n')
    with pytest.raises(BerthError, match=message) as caught:
        resolve.for_dev(str(one), word)
    assert caught.value.exit_status == 1


def test_a_link_out_of_the_root_is_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    one = make_app(root / "apps/one", "one")
    (root / "apps/link").symlink_to(make_app(tmp_path / "outside", "outside"))
    (root / "pnpm-workspace.yaml").write_text('packages: ["apps/*"]\n')
    with pytest.raises(BerthError, match="outside the workspace root"):
        resolve.for_dev(str(one), "apps/link")


def test_all_manifests_are_complained_about_at_once(tmp_path: Path) -> None:
    make_app(tmp_path / "one", "one", "entry: /abs\n")
    make_app(tmp_path / "two", "two", "capabilities: ['filesystem:read:/etc']\nexports: 3\n")
    with pytest.raises(resolve.ManifestError) as caught:
        resolve.for_os(str(tmp_path), "one,two")
    assert [issue.path for issue in caught.value.issues] == [("entry",), ("capabilities", 0), ("exports",)]


def test_a_closed_directory_is_named_with_the_remedy(tmp_path: Path) -> None:
    one = make_app(tmp_path / "one", "one")
    one.chmod(0o700)
    with pytest.raises(BerthError) as caught:
        resolve.for_dev(str(one), None)
    assert caught.value.hint == f"chmod o+rX {one}"


def test_what_comes_later_is_refused_with_its_reason(tmp_path: Path) -> None:
    make_app(tmp_path / "one", "one", 'on_install: ["true"]\n')
    make_app(tmp_path / "two", "two", 'capabilities: ["browser:navigate:example.com"]\n')
    for name, word in (("one", "on_install"), ("two", "egress broker")):
        with pytest.raises(BerthError, match=word):
            resolve.for_os(str(tmp_path), name)


def row(**changes: object) -> Sandbox:
    made = Sandbox(
        uuid="u1", kind="dev", name="n", container="berth-dev-n", engine="docker", engine_id="e", container_id=None,
        image="i", root="/r", apps=(("a", "/r/a"), ("b", "/r/b")), owner_pid=None, owner_start=None, unenforced=False,
        created_at="t",
    )  # fmt: skip
    return made._replace(**changes)  # type: ignore[arg-type]


def test_a_row_keeps_its_uuid_when_it_is_claimed_again(tmp_path: Path) -> None:
    rows = Sandboxes(Registry(str(tmp_path / "home")))
    assert rows.by_container("berth-dev-n") is None
    first = rows.claim(row(), may_take=lambda present: None)
    second = rows.claim(row(uuid="u2", owner_pid=7, owner_start=8), may_take=lambda present: None)
    assert (first.uuid, second.uuid) == ("u1", "u1")
    assert rows.all() == [second]

    def refuse(present: Sandbox) -> None:
        raise BerthError(f"taken by {present.root}", code="sandbox_exists")

    with pytest.raises(BerthError, match="taken by /r"):
        rows.claim(row(uuid="u3"), may_take=refuse)
    rows.update("u1", container_id="c")
    assert rows.by_container("berth-dev-n") == second._replace(container_id="c")
    rows.delete("u1")
    assert rows.all() == []


def options(engine: str = "docker", *apps: Manifest) -> list[str]:
    chosen = apps or (manifest("one"), manifest("two", pids=64))
    return spec.options(
        chosen, engine=engine, container="berth-dev-one", marks={"a": "b"}, mounts=[], workdir="/w", cpus=2
    )


def test_the_container_gets_exactly_six_capabilities_and_no_network() -> None:
    words = options()
    pairs = list(itertools.pairwise(words))
    added = [value for key, value in pairs if key == "--cap-add"]
    assert added == ["CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETPCAP", "SETUID"]
    for pair in (
        ("--cap-drop", "ALL"), ("--network", "none"), ("--security-opt", "no-new-privileges"), ("--ipc", "private"),
        ("--restart", "no"), ("--pull", "never"), ("--sysctl", "net.mptcp.enabled=0"),
        ("--sysctl", "net.ipv4.tcp_fastopen=0"), ("--pids-limit", str(256 + 64 + 256)),
    ):  # fmt: skip
        assert pair in pairs, pair
    assert not {"-i", "-t", "--privileged", "-p", "--publish", "--env", "-e", "--device"} & set(words)
    assert ("--tmpfs", "/tmp/one:rw,nosuid,nodev,noexec,size=256m,nr_inodes=65536") in pairs
    podman = options("podman")
    assert "/tmp/one:rw,nosuid,nodev,noexec,notmpcopyup,size=256m" in podman


@pytest.mark.parametrize("capability", ["network:connect:443", "network:connect:*"])
def test_a_network_capability_gives_the_default_network(capability: str) -> None:
    assert "--network" not in options("docker", manifest("one", capability))


def test_limits_need_every_app_to_declare_them() -> None:
    one = Manifest("a", "1.0.0", "f", "0" * 64, resources=Resources(cpu=1.0, memory_mb=128))
    two = Manifest("b", "1.0.0", "f", "0" * 64, resources=Resources(cpu=3.0))
    assert spec.limit_words([one, one], cpus=8) == ["--pids-limit", "768", "--cpus", "2.5", "--memory", "512m"]
    assert spec.limit_words([one, two], cpus=2) == ["--pids-limit", "768", "--cpus", "2"]


def test_a_path_with_commas_and_quotes_is_one_csv_field() -> None:
    words = spec.mount_words(spec.Mount("bind", '/a,b"c', "/w", readonly=True, recursive=False))
    assert words == 'type=bind,"source=/a,b""c",target=/w,readonly,bind-nonrecursive=true'


def test_staging_leaves_out_what_is_no_source_and_refuses_links_that_leave(tmp_path: Path) -> None:
    app = make_app(tmp_path / "app", "app")
    (app / "run.sh").write_text("")
    (app / "run.sh").chmod(0o700)
    (app / "src/inner").symlink_to("app.py")
    for name in (".git", "node_modules", "__pycache__", ".venv"):
        (app / name).mkdir()
    (app / "src/x.pyc").write_text("")
    resident.stage_tree(str(app), str(tmp_path / "staged"))
    staged = {str(path.relative_to(tmp_path / "staged")) for path in (tmp_path / "staged").rglob("*")}
    assert staged == {"src", "src/app.py", "src/inner", "berth.yml", "run.sh"}
    assert (tmp_path / "staged/run.sh").stat().st_mode & 0o777 == 0o755
    (app / "src/outer").symlink_to("../../elsewhere")
    with pytest.raises(BerthError, match="src/outer is a link that leaves"):
        resident.stage_tree(str(app), str(tmp_path / "again"))


def test_every_id_up_to_the_last_app_must_be_mapped() -> None:
    assert ids_are_mapped([[0, 0, 4294967295]])
    assert ids_are_mapped([[0, 1000, 1], [1, 100000, 65536]])
    assert not ids_are_mapped([[0, 1000, 1], [1, 100000, 10062]])
    assert not ids_are_mapped([[0, 1000, 1], [2, 100000, 65536]])


def test_app_init_makes_a_valid_app_or_nothing(tmp_path: Path) -> None:
    path = app_init.init("mine", directory=str(tmp_path))
    assert resolve.for_os(str(tmp_path), "mine").names == ["mine"]
    with pytest.raises(BerthError, match="exists"):
        app_init.init("mine", directory=str(tmp_path))
    for name in ("Mine", "../x", "root", ""):
        with pytest.raises(BerthError):
            app_init.init(name, directory=str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["mine"]
    assert os.path.exists(path)


def test_env_files_hold_names_and_values(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# comment\n\nA=1\nB = x=y \n")
    assert starting.read_env_file(str(file)) == {"A": "1", "B": " x=y "}
    file.write_text("A=1\nnonsense\n")
    with pytest.raises(BerthError, match="env:2: not NAME=value"):
        starting.read_env_file(str(file))


class Silent:
    """Somebody to tell the story to."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    note = waiting = step = detail = raw_story = warning


def test_the_audit_chain_goes_on_and_breaks_with_one_changed_byte(tmp_path: Path) -> None:
    ctx = Context(home=str(tmp_path), environ={}, say=Silent())
    for number in range(3):
        audit.record(ctx, "boot", row(), command="dev", number=number)
    path = tmp_path / "audit/audit.jsonl"
    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [1, 2, 3]
    assert path.stat().st_mode & 0o777 == 0o600
    assert audit.verify(str(tmp_path)) is None
    path.write_text(path.read_text().replace('"number": 1', '"number": 7'))
    assert audit.verify(str(tmp_path)) == f"{path}:2"


def test_a_link_in_the_place_of_the_audit_file_is_a_warning_and_is_not_followed(tmp_path: Path) -> None:
    say = Silent()
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit/audit.jsonl").symlink_to(tmp_path / "elsewhere")
    audit.record(Context(home=str(tmp_path), environ={}, say=say), "boot", row(), command="dev")
    assert "could not be written" in say.warnings[0]
    assert not (tmp_path / "elsewhere").exists()


def test_accounts_are_replaced_and_a_taken_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\nberth-old:x:10001:10001::/tmp/old:/x\n")
    (tmp_path / "group").write_text("root:x:0:\n")
    document = document_of(manifest("a"), manifest("b"))
    for _boot in range(2):
        identities.establish(document, etc=str(tmp_path))
    passwd = (tmp_path / "passwd").read_text().splitlines()
    assert passwd[0] == "root:x:0:0:root:/root:/bin/bash"
    assert passwd.count("berth-a:x:10000:10000::/tmp/a:/usr/sbin/nologin") == 1
    assert "berth-old" not in "".join(passwd)
    assert "berth:x:9999:" in (tmp_path / "group").read_text().splitlines()
    (tmp_path / "passwd").write_text("somebody:x:10001:10001::/:/x\n")
    with pytest.raises(identities.IdentityTaken, match='10001 of "berth-b" belongs to "somebody"'):
        identities.establish(document, etc=str(tmp_path))
    (tmp_path / "passwd").unlink()
    with pytest.raises(OSError, match="passwd"):
        identities.establish(document, etc=str(tmp_path))


def test_control_bytes_are_escaped_and_text_stays() -> None:
    text = b"caf\xc3\xa9\t\x1b[2J\xff\r\xc2\x9b".decode("utf-8", "surrogateescape")
    assert escape(text) == "café\t\\x1b[2J\\xff\\x0d\\x9b"


def read_all(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


def test_lines_of_an_app_are_prefixed_split_and_never_lost_at_the_end() -> None:
    loop = Loop()
    reader, writer = os.pipe()
    app_out, app_in = os.pipe()
    output = Output(loop, writer)
    pump = LinePump(loop, app_out, lambda line: output.line(line.decode(), owner="a"), loop.stop)
    os.write(app_in, b'[agent-init] restricted "x"\nunfinished ' + b"y" * 20000)
    os.close(app_in)
    loop.run()
    output.entrypoint("end")
    output.drain(2)
    os.close(writer)
    lines = read_all(reader).splitlines()
    assert not pump.is_open
    assert lines[0] == '[a] [agent-init] restricted "x"'
    assert [len(line) - len("[a] ") for line in lines[1:3]] == [LINE_CAP, len("unfinished ") + 20000 - LINE_CAP]
    assert lines[3] == "[berth:entrypoint] end"


def test_a_reader_that_is_away_costs_lines_of_that_app_alone() -> None:
    loop = Loop()
    reader, writer = os.pipe()
    output = Output(loop, writer)
    for _number in range(200):
        output.line("x" * 16000, owner="noisy")
    output.line("quiet", owner="other")
    held = os.read(reader, 65536)
    assert held.startswith(b"[noisy] x")
    collected = [held]

    import threading

    def drain() -> None:
        while b"dropped" not in collected[-1]:
            collected.append(os.read(reader, 65536))

    thread = threading.Thread(target=drain)
    thread.start()
    output.drain(10)
    thread.join(10)
    text = b"".join(collected).decode()
    os.close(reader)
    os.close(writer)
    assert "[other] quiet" in text
    assert "[berth:entrypoint] dropped 1" in text
