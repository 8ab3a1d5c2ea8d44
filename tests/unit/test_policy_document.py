"""Manifests compiled to the boot document, and the guest's re-check of it (sandboxes.md 6.1, 6.2; T30, T36, T54)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.guest.sandbox import grants, landlock, levels, policy
from berth.guest.sandbox.policy import PolicyError
from berth.spec.app import Export, Manifest, Resources
from berth.spec.boot import Placed, compile_document
from support.jail import document_of, manifest


def only(*capabilities: str, kind: str = "os", **options: Any) -> Any:
    """The one app of a document as a dict."""
    made = manifest("notes", *capabilities, **options)
    directory = "/workspace/apps/notes" if kind == "dev" else "/app/apps/notes"
    return compile_document([Placed(made, directory)], sandbox="s", kind=kind).as_dict()["apps"][0]


def test_the_document_has_the_keys_of_the_contract_in_its_order() -> None:
    document = document_of(manifest("notes", "filesystem:read:/workspace")).as_dict()
    assert list(document) == ["format", "sandbox", "kind", "allow_unenforced", "apps"]
    assert list(document["apps"][0]) == [
        *("name", "uid", "dir", "entry", "interpreter", "manifest_sha256", "capabilities", "read", "write"),
        *("write_private", "exec", "devices", "proc_all", "connect", "connect_any", "bind", "listen", "invoke"),
        *("callers", "egress", "bus", "groups", "secrets", "limits", "on_install", "exports"),
    ]


def test_without_any_capability_an_app_has_its_own_directories_only() -> None:
    app = only()
    assert app["read"] == ["/app/apps/notes", "/run/berth/policy/notes.json", "/run/berth/secrets/notes"]
    assert app["write"] == ["/dev/null"]
    assert app["write_private"] == ["/tmp/notes", "/var/lib/berth/state/notes"]
    assert app["exec"] == ["/usr", "/app/apps/notes"]
    assert (app["connect"], app["connect_any"], app["bind"], app["listen"]) == ([], False, [], False)
    assert (app["devices"], app["proc_all"], app["egress"]) == ([], False, [])
    assert app["bus"] == {"publish": None, "subscribe": None}
    assert app["limits"] == {"nproc": 256, "nofile": 4096, "core": 0, "oom_score_adj": 200}


def test_uids_and_scores_follow_the_position() -> None:
    apps = document_of(manifest("a"), manifest("b"), manifest("c")).apps
    assert [app.uid for app in apps] == [10000, 10001, 10002]
    assert [app.limits["oom_score_adj"] for app in apps] == [200, 400, 400]


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ("network:connect:443", {"connect": [443]}),
        ("network:connect:*", {"connect_any": True, "listen": True}),
        ("network:bind:9000", {"bind": [9000], "listen": True}),
        ("network:host:*.example.com", {"egress": ["*.example.com"], "connect": [8090]}),
        ("browser:navigate:example.com:*", {"egress": ["example.com:*"], "connect": [8090]}),
        ("terminal:attach:*", {"devices": ["/dev/pts", "/dev/ptmx", "/dev/tty"], "bind": [7681], "listen": True}),
        ("process:list:*", {"proc_all": True}),
        ("bus:publish:notes.*", {"bus": {"publish": ["notes.*"], "subscribe": None}}),
        ("app:invoke:other", {"invoke": {"other": "*"}}),
        ("app:invoke:other/x", {"invoke": {"other": ["x"]}}),
        ("github:read:x", {}),
        ("network:peer:x", {}),
        ("browser:click:*", {}),
        ("process:list:x", {}),
        ("terminal:attach:x", {}),
        ("filesystem:delete:/etc", {}),
    ],
)
def test_each_capability_changes_what_it_says_and_nothing_else(capability: str, expected: dict[str, Any]) -> None:
    assert only(capability) == {**only(), "capabilities": [capability], **expected}


def test_the_plain_form_of_invoke_wins_and_callers_mirror_it() -> None:
    document = document_of(
        manifest("a", "app:invoke:c/x", "app:invoke:c", "app:invoke:gone"),
        manifest("b", "app:invoke:c/x", "app:invoke:c/y"),
        manifest("c"),
    )
    assert document.apps[0].invoke == {"c": "*", "gone": "*"}
    assert document.apps[2].callers == {"a": "*", "b": ["x", "y"]}


def test_dev_maps_workspace_paths_into_the_dev_workspace() -> None:
    app = only("filesystem:read:/workspace/x", "filesystem:write:/workspace/x", kind="dev")
    assert app["read"][-2:] == ["/workspace/x", "/workspace/.berth/dev-workspace/x"]
    assert app["write"] == ["/dev/null", "/workspace/x", "/workspace/.berth/dev-workspace/x"]
    whole = only("filesystem:write:/workspace", kind="dev")
    assert whole["write"] == ["/dev/null", "/workspace"]
    inner = only("filesystem:write:/workspace/.berth/dev-workspace/x", kind="dev")
    assert inner["write"] == ["/dev/null", "/workspace/.berth/dev-workspace/x"]


@pytest.mark.parametrize(
    ("write", "directory", "kind", "executable"),
    [
        ("/workspace", "/workspace/apps/notes", "dev", False),
        ("/workspace/apps", "/workspace/apps/notes", "dev", False),
        ("/workspace/apps/notes", "/workspace/apps/notes", "dev", False),
        ("/workspace/apps/notes/data", "/workspace/apps/notes", "dev", False),
        ("/workspace/apps/other", "/workspace/apps/notes", "dev", True),
        ("/workspace/apps/notesx", "/workspace/apps/notes", "dev", True),
        ("/context", "/workspace", "dev", False),
        ("/context", "/workspace/.berth/dev-workspace/app", "dev", False),
        ("/workspace", "/app/apps/notes", "os", True),
        ("/app", "/app/apps/notes", "os", False),
    ],
)
def test_no_app_executes_where_any_app_writes(write: str, directory: str, kind: str, executable: bool) -> None:
    apps = [Placed(manifest("notes"), directory)]
    other = "/workspace/apps/other" if kind == "dev" else "/app/apps/other"
    apps.append(Placed(manifest("other", f"filesystem:write:{write}"), other))
    exec_paths = compile_document(apps, sandbox="s", kind=kind).apps[0].exec
    assert exec_paths == (["/usr", directory] if executable else ["/usr"])


def test_an_interpreter_outside_usr_brings_its_prefix() -> None:
    made = Manifest("notes", "1.0.0", "f", "0" * 64, interpreter="/opt/python3.12/x/bin/python3")
    app = compile_document([Placed(made, "/app/apps/notes")], sandbox="s", kind="os").apps[0]
    assert app.exec == ["/usr", "/app/apps/notes", "/opt/python3.12/x"]


def test_gpu_devices_go_to_those_who_declared_one() -> None:
    gpu = Manifest("a", "1.0.0", "f", "0" * 64, resources=Resources(gpu=1))
    placed = [Placed(gpu, "/app/apps/a"), Placed(manifest("b"), "/app/apps/b")]
    devices = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dri", "/dev/kfd"]
    apps = compile_document(placed, sandbox="s", kind="os", gpu_devices=devices).apps
    assert [app.devices for app in apps] == [devices, []]


def test_exports_carry_their_types() -> None:
    made = Manifest(
        "notes", "1.0.0", "f", "0" * 64, exports=(Export("add", "adds", {"text": "string"}, None), Export("list"))
    )
    app = compile_document([Placed(made, "/app/apps/notes")], sandbox="s", kind="os").apps[0]
    assert app.exports == [
        {"name": "add", "description": "adds", "input": {"text": "string"}, "output": None},
        {"name": "list", "input": None, "output": None},
    ]


def _document() -> Any:
    made = document_of(
        manifest(
            "notes",
            "filesystem:read:/workspace",
            "filesystem:write:/workspace/x",
            "network:connect:443",
            "network:bind:9000",
            "network:host:example.com",
            "app:invoke:other",
            "bus:publish:notes.*",
            secrets=["TOKEN"],
        ),
        manifest("other", "app:invoke:notes/add"),
    )
    return made.as_dict()


DOCUMENT = json.dumps(_document())


def document() -> Any:
    """A document that uses every key, as decoded JSON."""
    return json.loads(DOCUMENT)


def test_a_document_survives_its_way_through_json() -> None:
    value = document()
    assert policy.read(json.dumps(value).encode()).as_dict() == value


def first(**fields: Any) -> Callable[[Any], None]:
    return lambda value: value["apps"][0].update(fields)


WRONG: dict[str, Callable[[Any], None]] = {
    "unknown key at the top": lambda v: v.update(extra=1),
    "missing key at the top": lambda v: v.pop("kind") and None,
    "format 2": lambda v: v.update(format=2),
    "format true": lambda v: v.update(format=True),
    "kind": lambda v: v.update(kind="prod"),
    "kind of a wrong type": lambda v: v.update(kind=[]),
    "allow_unenforced as a number": lambda v: v.update(allow_unenforced=1),
    "no apps": lambda v: v.update(apps=[]),
    "65 apps": lambda v: v.update(apps=v["apps"] * 33),
    "apps no list": lambda v: v.update(apps={}),
    "an app no object": lambda v: v["apps"].append(1),
    "two of a name": lambda v: v["apps"].append(copy.deepcopy(v["apps"][0])),
    "unknown key in an app": first(extra=1),
    "missing key in an app": lambda v: v["apps"][0].pop("groups") and None,
    "reserved name": first(name="host"),
    "uid 0": first(uid=0),
    "uid of another position": first(uid=10001),
    "uid as text": first(uid="10000"),
    "uid true": first(uid=True),
    "directory elsewhere": first(dir="/usr"),
    "directory of another": first(dir="/app/apps/other"),
    "entry that leaves": first(entry="../x"),
    "absolute entry": first(entry="/x"),
    "interpreter elsewhere": first(interpreter="/workspace/python3"),
    "interpreter with ..": first(interpreter="/usr/../workspace/python3"),
    "hash": first(manifest_sha256="x"),
    "read /etc": first(read=["/etc"]),
    "read /": first(read=["/"]),
    "read /proc": first(read=["/proc"]),
    "read another's secrets": first(read=["/run/berth/secrets/other"]),
    "read another's home": first(read=["/tmp/other"]),
    "read below another's home": first(read=["/tmp/other/x"]),
    "read with ..": first(read=["/workspace/../etc"]),
    "read twice the same": first(read=["/workspace", "/workspace"]),
    "read no list": first(read="/workspace"),
    "read a number": first(read=[1]),
    "write /usr": first(write=["/usr"]),
    "write /dev": first(write=["/dev"]),
    "write /dev/null/x": first(write=["/dev/null/x"]),
    "write /run/berth": first(write=["/run/berth"]),
    "write /tmp": first(write=["/tmp"]),
    "write the own policy": first(write=["/run/berth/policy/notes.json"]),
    "write /workspacex": first(write=["/workspacex"]),
    "private directory of another": first(write_private=["/tmp/other", "/var/lib/berth/state/notes"]),
    "no private directory": first(write_private=[]),
    "exec where it writes": first(exec=["/usr", "/workspace/x"]),
    "exec anything": first(exec=["/usr", "/opt"]),
    "exec nothing": first(exec=[]),
    "device": first(devices=["/dev/sda"]),
    "device with a path": first(devices=["/dev/nvidia/../sda"]),
    "proc_all as a number": first(proc_all=1),
    "port 0": first(connect=[0]),
    "port 65536": first(connect=[65536]),
    "port true": first(connect=[True]),
    "port as text": first(connect=["443"]),
    "bind the proxy's port": first(bind=[8090]),
    "listen without a port": first(bind=[], listen=True),
    "no listen with a port": first(listen=False),
    "invoke oneself": first(invoke={"notes": "*"}),
    "invoke a reserved name": first(invoke={"host": "*"}),
    "invoke no export": first(invoke={"other": []}),
    "invoke a wrong export": first(invoke={"other": ["X"]}),
    "a caller that did not declare it": first(callers={"other": "*"}),
    "a caller that is not there": first(callers={"nobody": "*"}),
    "egress without its port": first(connect=[443]),
    "egress pattern": first(egress=["EXAMPLE.com"]),
    "bus key": first(bus={"publish": None}),
    "bus pattern": first(bus={"publish": ["*"], "subscribe": None}),
    "groups": first(groups=[0]),
    "no groups": first(groups=[]),
    "tty group": first(groups=[9999, 5]),
    "secret": first(secrets=["LD_PRELOAD"]),
    "secret with a path": first(secrets=["../x"]),
    "few processes": first(limits={"nproc": 1, "nofile": 4096, "core": 0, "oom_score_adj": 200}),
    "cores": first(limits={"nproc": 64, "nofile": 4096, "core": 1, "oom_score_adj": 200}),
    "unlimited": first(limits={"nproc": -1, "nofile": 4096, "core": 0, "oom_score_adj": 200}),
    "protected from the kernel": first(limits={"nproc": 64, "nofile": 4096, "core": 0, "oom_score_adj": 0}),
    "unknown limit": first(limits={"nproc": 64, "nofile": 4096, "core": 0, "oom_score_adj": 200, "as": 1}),
    "on_install": first(on_install=-1),
    "export": first(exports=[{"name": "x"}]),
    "export key": first(exports=[{"name": "x", "input": None, "output": None, "run": "y"}]),
    "field type": first(exports=[{"name": "x", "input": {"a": "blob"}, "output": None}]),
    "control character": first(capabilities=["a:b:c\x1b"]),
    "lone surrogate": first(capabilities=["a:b:\ud800"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_document_that_grants_or_says_more_is_refused(name: str) -> None:
    value = document()
    policy.check(value)  # control
    WRONG[name](value)
    with pytest.raises(PolicyError):
        policy.check(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"format": 1, "format": 1}',
        b'{"format": NaN}',
        b'{"format": ' + b"1" * 5000 + b"}",
        b" " * (8 * 1024 * 1024 + 1),
    ],
)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(PolicyError):
        policy.read(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from(
    [
        "/workspace",
        "/workspace/x",
        "/etc",
        "/",
        "/tmp",
        "/tmp/notes",
        "/tmp/other",
        "/app",
        "/context/a",
        "/run/berth",
        "/proc",
        "/workspace/..",
        "/usr",
        "/dev/null",
        "/workspace/",
        "//workspace",
        "workspace",
        "/workspace/\0",
        "",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(policy.KEYS)), JSON | st.lists(PATHS, max_size=3))
def test_no_value_of_any_key_raises_anything_else_or_widens_the_document(key: str, value: Any) -> None:
    changed = document()
    changed["apps"][0][key] = value
    try:
        accepted = policy.check(changed).apps[0]
    except PolicyError:
        return
    own = {"/dev/null", "/app/apps/notes", "/run/berth/policy/notes.json", "/run/berth/secrets/notes"}
    for path in [*accepted.read, *accepted.write]:
        assert path in own or any(grants.covers(root, path) for root in grants.ROOTS)
        assert path != "/tmp"
        assert not grants.covers("/tmp/other", path)
        assert "/../" not in path + "/"
    assert accepted.uid == 10000


def test_the_masks_are_those_of_the_contract() -> None:
    assert landlock.HANDLED == 0xFFFF
    assert landlock.READ == 0xC
    assert landlock.READ & landlock.ON_A_FILE == 0x4
    assert landlock.EXEC == 0x1
    assert landlock.WRITE_SHARED == 0x71B2
    assert landlock.WRITE_PRIVATE == 0x77B2
    assert landlock.WRITE_SHARED & landlock.ON_A_FILE == 0x4002
    assert landlock.DEVICE & landlock.ON_A_FILE == 0xC006
    assert landlock.DEVICE == 0xC00E
    assert (landlock.NETWORK, landlock.SCOPED, landlock.LOG_NEW_EXEC_ON) == (0x3, 0x3, 0x2)


@pytest.mark.parametrize(
    ("abi", "fs", "net", "scoped"),
    [
        (1, 0x1FFF, 0, 0),
        (2, 0x3FFF, 0, 0),
        (3, 0x7FFF, 0, 0),
        (4, 0x7FFF, 3, 0),
        (5, 0xFFFF, 3, 0),
        (6, 0xFFFF, 3, 3),
        (7, 0xFFFF, 3, 3),
        (11, 0xFFFF, 3, 3),
    ],
)
def test_rights_that_an_abi_lacks_are_left_out(abi: int, fs: int, net: int, scoped: int) -> None:
    assert landlock.supported("fs", landlock.HANDLED, abi) == fs
    assert landlock.supported("net", landlock.NETWORK, abi) == net
    assert landlock.supported("scope", landlock.SCOPED, abi) == scoped


@pytest.mark.parametrize(
    ("abi", "without_network", "with_network"),
    [
        (0, None, None),
        *((abi, None, "reduced") for abi in (1, 2, 3)),
        *((abi, "reduced", "reduced") for abi in (4, 5)),
        (6, "full", "full"),
        (7, "full", "full"),
        (11, "full", "full"),
    ],
)
def test_levels_of_the_kernel(abi: int, without_network: str | None, with_network: str | None) -> None:
    plain, anywhere = document_of(manifest("a"), manifest("b", "network:connect:*")).apps
    for app, expected in ((plain, without_network), (anywhere, with_network)):
        if expected is None:
            with pytest.raises(levels.Unenforceable):
                levels.hold(app, abi=abi, relaxed=False)
            levels.hold(app, abi=abi, relaxed=True)
        else:
            assert levels.hold(app, abi=abi, relaxed=False).enforcement == expected


def test_preflight_names_every_app_that_would_be_refused() -> None:
    document = document_of(manifest("a"), manifest("b", "network:connect:*"))
    assert [name for name, _why in levels.preflight(document, abi=3, machine="x86_64")] == ["a"]
    assert [name for name, _why in levels.preflight(document, abi=0, machine="x86_64")] == ["a", "b"]
    assert [name for name, _why in levels.preflight(document, abi=7, machine="riscv64")] == ["a", "b"]
    assert levels.preflight(document, abi=7, machine="aarch64") == []
    relaxed = document_of(manifest("a"), allow_unenforced=True)
    assert levels.preflight(relaxed, abi=0, machine="x86_64") == []
    assert levels.preflight(relaxed, abi=0, machine="riscv64") != []
