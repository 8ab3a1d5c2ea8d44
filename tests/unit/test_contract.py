"""The recorded contract against the configuration of the day (workspaces.md 3.2, 9.1, 9.5)."""

from __future__ import annotations

import hashlib
import json

import pytest

from berth.spec.contract import Contract, differences, spec_hash
from support.configuration import read

NATIVE = "ports: [web, pg]\n"
CONTAINER = """
runtime: {backend: container, engine: docker, image: img, memory: 1g, cpus: 1.5, pids: 100, user: "1:1"}
ports: [web, pg]
listen: {web: 80, pg: 5432}
"""
FREE = """
base: other
worktree_root: trees
env: {A: b}
env_file: .env
copy_dirs: [x]
hooks: {setup: [x]}
processes: {a: {command: x}}
gc: {max_workspaces: 3}
shutdown_timeout_seconds: 3
"""


def recorded(text: str) -> Contract:
    contract = Contract.of(read(text))
    runtime, listen = contract.record()
    return Contract.from_record(runtime, listen, contract.ports)


@pytest.mark.parametrize("text", ["", NATIVE, CONTAINER])
def test_a_contract_survives_its_record(text: str) -> None:
    contract, again = Contract.of(read(text)), recorded(text)
    assert (again.runtime, again.ports, again.listen) == (contract.runtime, contract.ports, contract.listen)
    assert differences(again, read(text)) is None


def test_unset_keys_are_not_recorded() -> None:
    assert Contract.of(read("")).runtime == {"backend": "native"}
    assert Contract.of(read("runtime: {backend: container, image: i, cpus: 0, pids: 0}")).runtime == {
        "backend": "container",
        "engine": "docker",
        "image": "i",
    }


@pytest.mark.parametrize("text", [NATIVE, CONTAINER])
def test_what_is_free_to_change_is_no_difference(text: str) -> None:
    assert differences(recorded(text), read(text + FREE)) is None
    switched = text.replace("runtime: {", "runtime: {supervisor: process-compose, ")
    assert differences(recorded(text), read(switched)) is None
    assert differences(recorded(text), read(text.replace("[web, pg]", "[pg, web]"))) is None


def test_written_out_defaults_are_no_difference() -> None:
    assert differences(recorded(NATIVE), read(NATIVE + "runtime: {backend: native}\nlisten: {}\n")) is None
    assert differences(recorded(CONTAINER), read(CONTAINER.replace("1.5", "1.50"))) is None
    one, other = CONTAINER.replace("1.5", "2"), CONTAINER.replace("1.5", "2.0")
    assert differences(recorded(one), read(other)) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ports: [web, pg]", "ports: [web]"),
        ("ports: [web, pg]", "ports: [web, pg, api]"),
        ("ports: [web, pg]", "ports: [web, db]"),
    ],
)
def test_other_ports_are_a_changed_port_contract(before: str, after: str) -> None:
    message = differences(recorded(NATIVE), read(NATIVE.replace(before, after)))
    assert message is not None
    assert message.startswith("port contract changed; create a new workspace")


def test_another_listen_map_is_a_changed_port_contract_that_names_both() -> None:
    message = differences(recorded(CONTAINER), read(CONTAINER.replace("web: 80", "web: 81")))
    assert message == (
        "port contract changed; create a new workspace (registered: pg→5432, web→80; berth.yaml: pg→5432, web→81)"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("docker", "podman"),
        ("img", "other"),
        ("1g", "2g"),
        (", memory: 1g", ""),
        ("1.5", "2"),
        ("100", "101"),
        ('"1:1"', '"2:2"'),
    ],
)
def test_another_runtime_is_a_changed_runtime_contract(before: str, after: str) -> None:
    message = differences(recorded(CONTAINER), read(CONTAINER.replace(before, after)))
    assert message is not None
    assert message.startswith("runtime contract changed; create a new workspace (registered: backend container, ")


def test_another_back_end_is_a_changed_runtime_contract_whatever_it_does_to_listen() -> None:
    message = differences(recorded(NATIVE), read(CONTAINER))
    assert message is not None
    assert message.startswith("runtime contract changed; create a new workspace (registered: backend native; ")


def test_the_spec_hash_is_that_of_the_compact_json() -> None:
    def of(words: list[object]) -> str:
        return hashlib.sha256(json.dumps(words, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    runtime = {"backend": "container", "engine": "docker", "image": "i"}
    plain = Contract.of(read("runtime: {backend: container, image: i, supervisor: process-compose}"))
    assert spec_hash(plain, host_ports={}, git_dir="/g", path="/p") == of([runtime, None, None, "/g", "/p"])
    full = Contract.of(read("runtime: {backend: container, image: i}\nports: [web]\nlisten: {web: 80}\n"))
    assert spec_hash(full, host_ports={"web": 20000}, git_dir="/g", path="/p") == of(
        [runtime, {"web": 20000}, {"web": 80}, "/g", "/p"]
    )
