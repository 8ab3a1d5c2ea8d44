from __future__ import annotations

from support.jail import World, document_of, inside, manifest, needs_kernel

pytestmark = needs_kernel


def test_thin() -> None:
    def work():
        world = World(document_of(manifest("a", "filesystem:write:/workspace", "filesystem:read:/workspace")))
        return world.probe(
            "a",
            [
                ["id", "identity"],
                ["st", "status", "CapEff", "CapBnd", "Seccomp", "NoNewPrivs"],
                ["w", "write", "/workspace/x"],
                ["etc", "write", "/etc/x"],
                ["fds", "descriptors"],
            ],
        )

    print(inside(work))
    assert 0
