"""berth.yaml files: the examples of the contract (workspaces.md 3.6) and the repository's own, and invalid ones."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

NODE_AND_POSTGRES = """\
# native Node.js with a managed PostgreSQL; drop pg for the plain web case
version: 1
base: main
ports: [web, pg]
env:
  PORT: ${BERTH_PORT_WEB}
  DATABASE_URL: postgres://127.0.0.1:${BERTH_PORT_PG}/app
hooks:
  setup:
    - mkdir -p "$BERTH_DATA_DIR/pg"
    - test -d "$BERTH_DATA_DIR/pg/base" || initdb -D "$BERTH_DATA_DIR/pg" --no-locale --encoding=UTF8
    # or start from a template, cloned copy-on-write where the filesystem can:
    # - test -d "$BERTH_DATA_DIR/pg/base" || cp -a --reflink=auto .seed/pg "$BERTH_DATA_DIR/pg"
processes:
  pg:
    command: >
      postgres -D "$BERTH_DATA_DIR/pg" -p "$BERTH_PORT_PG" -k "$BERTH_DATA_DIR" -c fsync=off -c synchronous_commit=off
    readiness_probe: {exec: {command: 'pg_isready -h 127.0.0.1 -p "$BERTH_PORT_PG"'}}
  web:
    command: npm run dev -- --port "$BERTH_PORT_WEB"
    readiness_probe: {http_get: {host: 127.0.0.1, port: "${BERTH_PORT_WEB}", path: /}}
"""

CONTAINER = """\
# container mode, the application insists on 8080; the probe uses the internal port, never BERTH_HOST_PORT_*
version: 1
base: main
runtime: {backend: container, engine: docker, image: "berth-runtime:local"}
ports: [web]
listen: {web: 8080}
processes:
  web:
    command: python3 -m http.server 8080 --bind 127.0.0.1
    readiness_probe: {http_get: {host: 127.0.0.1, port: 8080, path: /}}
"""

WEB = """\
version: 1
base: main
ports: [web]
env:
  PORT: ${BERTH_PORT_WEB}
processes:
  web:
    command: npm run dev -- --port "$BERTH_PORT_WEB"
    readiness_probe: {http_get: {host: 127.0.0.1, port: "${BERTH_PORT_WEB}", path: /}}
"""

TEMPLATE = """\
version: 1
base: main
ports: [pg]
hooks:
  setup:
    - |
      if test -d .seed/pg; then
        cp -a --reflink=auto .seed/pg "$BERTH_DATA_DIR/pg"
      else
        initdb -D "$BERTH_DATA_DIR/pg" --no-locale --encoding=UTF8
      fi
processes:
  pg:
    command: postgres -D "$BERTH_DATA_DIR/pg" -p "$BERTH_PORT_PG"
"""

MERGED = """\
ports: [web]
processes:
  web: &web
    command: serve
    availability: &often {restart: always, backoff_seconds: 1.5}
    readiness_probe: {http_get: {port: "${BERTH_PORT_WEB}"}, period_seconds: 0.5}
  again: {<<: *web, command: true, availability: {<<: *often, max_restarts: 2}}
"""

BERTH_YAMLS = {
    "node and postgres": NODE_AND_POSTGRES,
    "container": CONTAINER,
    "web": WEB,
    "template": TEMPLATE,
    "merged": MERGED,
    "empty": "",
    "process-compose": "runtime: {supervisor: process-compose}\nprocesses: {a: {command: x, watch: {a: 1}}}\n",
    **{path.parent.name: path.read_text() for path in sorted(ROOT.glob("examples/*/berth.yaml"))},
}

# Wrong in a way that a JSON Schema can see.
INVALID_BERTH_YAMLS = {
    "unknown key": "prots: [web]",
    "unknown key below": "runtime: {kind: native}",
    "version": "version: 2",
    "type": "ports: web",
    "port name": "ports: [1a]",
    "base": "base: -x",
    "engine in native": "runtime: {engine: docker}",
    "listen in native": "listen: {web: 80}",
    "no image": "runtime: {backend: container}",
    "image": "runtime: {backend: container, image: 'a b'}",
    "memory": "runtime: {backend: container, image: i, memory: 2gb}",
    "listen too high": "runtime: {backend: container, image: i}\nports: [a]\nlisten: {a: 65536}",
    "variable": "env: {1A: x}",
    "value": "env: {A: [x]}",
    "hook": "hooks: {setup: [{a: b}]}",
    "hook timeout": "hooks: {timeout_seconds: 0}",
    "gc": "gc: {max_workspaces: -1}",
    "process name": "processes: {a b: {command: x}}",
    "nothing to run": "processes: {a: {}}",
    "process key": "processes: {a: {command: x, comand: y}}",
    "environment": "processes: {a: {command: x, environment: {A: b}}}",
    "assignment": "processes: {a: {command: x, environment: [A]}}",
    "restart": "processes: {a: {command: x, availability: {restart: sometimes}}}",
    "backoff": "processes: {a: {command: x, availability: {backoff_seconds: 0.5}}}",
    "signal": "processes: {a: {command: x, shutdown: {signal: 32}}}",
    "condition": "processes: {a: {command: x, depends_on: {a: {condition: process_ready}}}}",
    "no way to probe": "processes: {a: {command: x, readiness_probe: {}}}",
    "two ways to probe": "processes: {a: {command: x, readiness_probe: {exec: {command: x}, http_get: {port: 1}}}}",
    "probe port": "processes: {a: {command: x, readiness_probe: {http_get: {port: http}}}}",
}
