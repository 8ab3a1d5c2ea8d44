"""berth.yaml field by field: what is accepted, what it becomes, the exact line of every refusal (workspaces.md 3)."""

from __future__ import annotations

import pytest

from berth.spec.config import Config
from berth.spec.fields import FIELDS
from support.configuration import complaints, read

CONTAINER = "runtime: {backend: container, image: img}\n"


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "null", "version:\n", "version: 1\n"])
def test_a_missing_an_empty_and_a_null_one_mean_the_defaults(text: str) -> None:
    assert_defaults(read(text))


def test_a_null_field_means_its_default() -> None:
    assert_defaults(read("".join(f"{field}: null\n" for field in FIELDS)))
    assert_defaults(
        read("""
            runtime: {backend: ~, engine: ~, image: ~, user: ~, memory: ~, cpus: ~, pids: ~, supervisor: ~}
            hooks: {setup: ~, teardown: ~, timeout_seconds: ~}
            gc: {idle_stop_hours: ~, remove_after_days: ~, max_workspaces: ~}
        """)
    )


def assert_defaults(config: Config) -> None:
    assert config.base == "main"
    assert config.worktree_root is None
    runtime = config.runtime
    assert (runtime.backend, runtime.supervisor) == ("native", "berth")
    assert (runtime.engine, runtime.image, runtime.user) == (None, None, None)
    assert (runtime.memory, runtime.cpus, runtime.pids) == (None, None, None)
    assert (config.ports, config.listen, config.env) == ((), {}, {})
    assert (config.env_file, config.copy_dirs, config.processes) == (None, (), {})
    assert (config.hooks.setup, config.hooks.teardown, config.hooks.timeout_seconds) == ((), (), None)
    assert (config.gc.idle_stop_hours, config.gc.remove_after_days, config.gc.max_workspaces) == (0, 0, 0)
    assert config.shutdown_timeout_seconds == 15
    assert config.notes == ()


@pytest.mark.parametrize("document", ["[a]", "text", "1", "true"])
def test_the_document_must_be_a_mapping(document: str) -> None:
    (line,) = complaints(document)
    assert line.startswith("1:1: must be a mapping, not ")


def test_an_unknown_key_lists_the_allowed_ones() -> None:
    assert complaints("base: main\nprots: [a]\n") == [
        '2:1: unknown key "prots"; allowed: base, copy_dirs, env, env_file, gc, hooks, listen, ports, processes, '
        "runtime, shutdown_timeout_seconds, version, worktree_root"
    ]
    assert complaints("runtime:\n  kind: native\n") == [
        '2:3: runtime: unknown key "kind"; allowed: backend, cpus, engine, image, memory, pids, supervisor, user'
    ]
    assert complaints("hooks: {start: []}") == [
        '1:9: hooks: unknown key "start"; allowed: setup, teardown, timeout_seconds'
    ]
    assert complaints("gc: {max: 1}") == [
        '1:6: gc: unknown key "max"; allowed: idle_stop_hours, max_workspaces, remove_after_days'
    ]


def test_all_complaints_come_at_once_in_the_order_of_the_file() -> None:
    assert complaints("""\
        shutdown_timeout_seconds: -1
        gc: {idle_stop_hours: x}
        base: main
        base: other
        version: 2
        processes: {web: {}}
        copy_dirs: [ok, /abs]
    """) == [
        "1:27: shutdown_timeout_seconds: must be at least 0, not -1",
        "2:23: gc.idle_stop_hours: must be a whole number, not the string 'x'",
        '4:1: duplicate key "base" (first in line 3)',
        "5:10: version: must be 1",
        "6:18: processes.web: needs a command or an entrypoint",
        "7:17: copy_dirs[1]: '/abs' must be relative to the repository, not absolute",
    ]


def test_a_complaint_is_one_printable_line_whatever_the_file_holds() -> None:
    (line,) = complaints('"a\\nb\\e[31m": 1')
    assert line.startswith('1:1: unknown key "a\\nb\\x1b[31m"; allowed: ')


# -- scalars of the top level -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["2", "0", "'1'", "1.0", "true", "[1]", "{}"])
def test_version_must_be_one(value: str) -> None:
    assert complaints(f"version: {value}") == ["1:10: version: must be 1"]


@pytest.mark.parametrize("name", ["main", "origin/main", "v1.0", "0123abc", "feature/é"])
def test_base_is_any_ref(name: str) -> None:
    assert read(f"base: {name}").base == name


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('""', "must be a ref that does not start with -, not ''"),
        ('" "', "must be a ref that does not start with -, not ' '"),
        ("-x", "must be a ref that does not start with -, not '-x'"),
        ("--upload-pack=x", "must be a ref that does not start with -, not '--upload-pack=x'"),
        ("1", "must be a string, not the number 1"),
        ("true", "must be a string, not the boolean true"),
        ("[main]", "must be a string, not a list"),
        ("{a: b}", "must be a string, not a mapping"),
        ('"a\\0b"', "must not contain NUL"),
    ],
)
def test_base_that_cannot_be_a_ref_is_refused(value: str, problem: str) -> None:
    assert complaints(f"base: {value}") == [f"1:7: base: {problem}"]


@pytest.mark.parametrize(
    ("value", "root"),
    [
        ("/srv/trees", "/srv/trees"),
        ("/srv/../trees/", "/trees"),
        ("trees", "trees"),
        ("./trees/", "trees"),
        ("build/berths", "build/berths"),
        (".", "."),
        (".github", ".github"),
        ("a:b", "a:b"),
    ],
)
def test_worktree_root_is_absolute_or_inside_the_primary_checkout(value: str, root: str) -> None:
    assert read(f"worktree_root: '{value}'").worktree_root == root


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "must not be empty"),
        ("..", "must not contain a .. component"),
        ("../trees", "must not contain a .. component"),
        ("a/../b", "must not contain a .. component"),
        (".git", "must not be .git or anything below it"),
        ("./.git/trees", "must not be .git or anything below it"),
        (".berth", "must not be .berth or anything below it"),
        (".berth/x", "must not be .berth or anything below it"),
        ("~/trees", "must be absolute, or relative to the primary checkout: ~ is not expanded"),
    ],
)
def test_worktree_root_elsewhere_is_refused(value: str, problem: str) -> None:
    assert complaints(f"worktree_root: '{value}'") == [f"1:16: worktree_root: '{value}' {problem}"]


@pytest.mark.parametrize("value", ["1", "[a]", "{}", "true"])
def test_worktree_root_must_be_a_string(value: str) -> None:
    (line,) = complaints(f"worktree_root: {value}")
    assert line.startswith("1:16: worktree_root: must be a string, not ")


@pytest.mark.parametrize(("value", "seconds"), [("1", 1), ("600", 600), ("0", 15)])
def test_shutdown_timeout_is_in_whole_seconds_and_zero_is_the_default(value: str, seconds: int) -> None:
    assert read(f"shutdown_timeout_seconds: {value}").shutdown_timeout_seconds == seconds


COUNTS = ["shutdown_timeout_seconds", "gc.idle_stop_hours", "gc.remove_after_days", "gc.max_workspaces"]


@pytest.mark.parametrize("field", COUNTS)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("-1", "must be at least 0, not -1"),
        ("1.5", "must be a whole number, not the number 1.5"),
        ("15.0", "must be a whole number, not the number 15.0"),
        ("'1'", "must be a whole number, not the string '1'"),
        ("true", "must be a whole number, not the boolean true"),
        ("[1]", "must be a whole number, not a list"),
        ("{}", "must be a whole number, not a mapping"),
    ],
)
def test_counts_are_whole_numbers_from_zero(field: str, value: str, problem: str) -> None:
    outer, _, inner = field.rpartition(".")
    text = f"{outer}: {{{inner}: {value}}}" if outer else f"{field}: {value}"
    assert complaints(text) == [f"1:{text.index(value) + 1}: {field}: {problem}"]


def test_counts_end_where_the_supervisor_and_json_cannot_follow() -> None:
    assert complaints("shutdown_timeout_seconds: 1000000001") == [
        "1:27: shutdown_timeout_seconds: must be between 0 and 1000000000, not 1000000001"
    ]
    assert complaints("gc: {max_workspaces: 9007199254740993}") == [
        "1:22: gc.max_workspaces: must be between 0 and 9007199254740992, not 9007199254740993"
    ]


def test_gc_is_read() -> None:
    gc = read("gc: {idle_stop_hours: 12, remove_after_days: 14, max_workspaces: 10}").gc
    assert (gc.idle_stop_hours, gc.remove_after_days, gc.max_workspaces) == (12, 14, 10)


# -- runtime ----------------------------------------------------------------------------------------------------------


def test_native_written_out_equals_the_default() -> None:
    assert read("runtime: {backend: native}\nlisten: {}\n").runtime.backend == "native"


@pytest.mark.parametrize(
    "field", ["engine: docker", "image: img", "user: u", "memory: 1g", "cpus: 1", "cpus: 0", "pids: 1"]
)
@pytest.mark.parametrize("backend", ["", "backend: native, "])
def test_native_refuses_every_key_of_a_container(field: str, backend: str) -> None:
    name = field.partition(":")[0]
    column = len("runtime: {") + len(backend) + 1
    assert complaints(f"runtime: {{{backend}{field}}}") == [
        f"1:{column}: runtime.{name}: is only for backend: container"
    ]


@pytest.mark.parametrize("supervisor", ["berth", "process-compose"])
def test_both_back_ends_take_both_supervisors(supervisor: str) -> None:
    assert read(f"runtime: {{supervisor: {supervisor}}}").runtime.supervisor == supervisor
    text = f"runtime: {{backend: container, image: i, supervisor: {supervisor}}}"
    assert read(text).runtime.supervisor == supervisor


def test_a_container_is_read_in_full() -> None:
    runtime = read("""
        runtime:
          {backend: container, engine: podman, image: "localhost/app:1", user: "1:1", memory: 2g, cpus: 1.5, pids: 9}
    """).runtime
    assert runtime.in_container
    assert (runtime.engine, runtime.image, runtime.user) == ("podman", "localhost/app:1", "1:1")
    assert (runtime.memory, runtime.cpus, runtime.pids) == ("2g", 1.5, 9)


def test_a_container_defaults_to_docker_without_limits_and_zero_is_no_limit() -> None:
    runtime = read("runtime: {backend: container, image: i, cpus: 0, pids: 0}").runtime
    assert (runtime.engine, runtime.user, runtime.memory) == ("docker", None, None)
    assert (runtime.cpus, runtime.pids) == (None, None)


def test_numbers_without_quotes_are_fine_as_user_and_memory() -> None:
    runtime = read("runtime: {backend: container, image: i, user: 1000, memory: 1073741824}").runtime
    assert (runtime.user, runtime.memory) == ("1000", "1073741824")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("backend", "docker", "must be native or container, not 'docker'"),
        ("backend", "Native", "must be native or container, not 'Native'"),
        ("backend", "1", "must be a string, not the number 1"),
        ("supervisor", "systemd", "must be berth or process-compose, not 'systemd'"),
        ("supervisor", "[berth]", "must be a string, not a list"),
    ],
)
def test_back_end_and_supervisor_are_two_words_each(field: str, value: str, problem: str) -> None:
    text = f"runtime: {{{field}: {value}}}"
    assert complaints(text) == [f"1:{text.rindex(value) + 1}: runtime.{field}: {problem}"]


IMAGE = "must be an image without white space that does not start with -, not "
USER = "must be a user that does not start with -, not "
MEMORY = "must be a number of bytes, with b, k, m or g if you like, not "


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("engine", "lxc", "must be docker or podman, not 'lxc'"),
        ("engine", "Docker", "must be docker or podman, not 'Docker'"),
        ("image", "'a b'", IMAGE + "'a b'"),
        ("image", '"a\\tb"', IMAGE + "'a\\tb'"),
        ("image", "-v", IMAGE + "'-v'"),
        ("image", "''", IMAGE + "''"),
        ("image", "[i]", "must be a string, not a list"),
        ("user", "-u", USER + "'-u'"),
        ("user", "''", USER + "''"),
        ("user", "true", "must be a string, not the boolean true"),
        ("memory", "0", MEMORY + "'0'"),
        ("memory", "01g", MEMORY + "'01g'"),
        ("memory", "2gb", MEMORY + "'2gb'"),
        ("memory", "2t", MEMORY + "'2t'"),
        ("memory", "-1", MEMORY + "'-1'"),
        ("memory", "0x10", MEMORY + "'0x10'"),
        ("memory", '"2g\\n"', MEMORY + "'2g\\n'"),
        ("memory", "1.5g", MEMORY + "'1.5g'"),
        ("memory", "''", MEMORY + "''"),
        ("memory", "g", MEMORY + "'g'"),
        ("memory", "٣g", MEMORY + "'٣g'"),
        ("memory", "1.5", "must be a string, not the number 1.5"),
        ("cpus", "-0.5", "must be at least 0, not -0.5"),
        ("cpus", ".inf", "must be between 0 and 9.0072e+15, not inf"),
        ("cpus", ".nan", "must be at least 0, not nan"),
        ("cpus", "1e999", "must be between 0 and 9.0072e+15, not inf"),
        ("cpus", "'2'", "must be a number, not the string '2'"),
        ("cpus", "true", "must be a number, not the boolean true"),
        ("pids", "-1", "must be at least 0, not -1"),
        ("pids", "1.5", "must be a whole number, not the number 1.5"),
        ("pids", "many", "must be a whole number, not the string 'many'"),
    ],
)
def test_what_a_container_cannot_be_is_refused(field: str, value: str, problem: str) -> None:
    image = "" if field == "image" else "image: i, "
    text = f"runtime: {{backend: container, {image}{field}: {value}}}"
    assert complaints(text) == [f"1:{text.rindex(value) + 1}: runtime.{field}: {problem}"]


@pytest.mark.parametrize("memory", ["1", "512m", "2G", "1024K", "9b", "3B", "5k", "7M"])
def test_memory_has_a_number_and_an_optional_unit(memory: str) -> None:
    assert read(f"runtime: {{backend: container, image: i, memory: '{memory}'}}").runtime.memory == memory


@pytest.mark.parametrize("text", ["runtime: {backend: container}", "runtime: {backend: container, image: ~}"])
def test_a_container_needs_an_image(text: str) -> None:
    (line,) = complaints(text)
    assert line.endswith(": runtime.image: is required with backend: container")


@pytest.mark.parametrize("value", ["native", "[a]", "1"])
def test_runtime_hooks_gc_env_and_listen_must_be_mappings(value: str) -> None:
    for field in ("runtime", "hooks", "gc", "env", "processes"):
        (line,) = complaints(f"{field}: {value}")
        assert line.startswith(f"1:{len(field) + 3}: {field}: must be a mapping, not ")
    lines = complaints(f"{CONTAINER}listen: {value}")
    assert lines[0].startswith("2:9: listen: must be a mapping, not ")


# -- ports and listen -------------------------------------------------------------------------------------------------


def test_ports_keep_the_order_of_declaration() -> None:
    assert read("ports: [web, pg, my-api, a.b_c, Z]").ports == ("web", "pg", "my-api", "a.b_c", "Z")


PORT = "must be letters, digits, _ . - beginning with a letter, not "


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1web", PORT + "'1web'"),
        ("_web", PORT + "'_web'"),
        ("'a b'", PORT + "'a b'"),
        ("''", PORT + "''"),
        ("wéb", PORT + "'wéb'"),
        ('"web\\n"', PORT + "'web\\n'"),
        ("a/b", PORT + "'a/b'"),
        ("pc", "'pc' is reserved"),
        ("PC", "'PC' is reserved"),
        ("range", "'range' is reserved"),
        ("Range", "'Range' is reserved"),
        ("8080", "must be a string, not the number 8080"),
        ("true", "must be a string, not the boolean true"),
        ("~", "must be a string, not null"),
        ("[a]", "must be a string, not a list"),
        ("{a: 1}", "must be a string, not a mapping"),
    ],
)
def test_a_port_name_that_makes_no_variable_is_refused(value: str, problem: str) -> None:
    assert complaints(f"ports: [ok, {value}]") == [f"1:13: ports[1]: {problem}"]


@pytest.mark.parametrize(
    ("one", "other", "variable"),
    [("web", "WEB", "WEB"), ("my-api", "my_api", "MY_API"), ("a.b", "a-b", "A_B"), ("web", "web", "WEB")],
)
def test_names_with_the_same_variable_clash(one: str, other: str, variable: str) -> None:
    assert complaints(f"ports: [{one}, {other}]") == [
        f"1:{len(one) + 11}: ports[1]: '{other}' and '{one}' both give BERTH_PORT_{variable}"
    ]


@pytest.mark.parametrize("value", ["web", "1", "{web: 1}", "true"])
def test_ports_and_copy_dirs_must_be_lists(value: str) -> None:
    for field in ("ports", "copy_dirs", "hooks.setup", "hooks.teardown"):
        outer, _, inner = field.rpartition(".")
        text = f"{outer}: {{{inner}: {value}}}" if outer else f"{field}: {value}"
        (line,) = complaints(text)
        assert line.startswith(f"1:{text.index(inner) + len(inner) + 3}: {field}: must be a list, not ")


def test_listen_names_the_port_inside_for_every_declared_one() -> None:
    config = read(CONTAINER + "ports: [web, api]\nlisten: {api: 1, web: 65535}\n")
    assert config.listen == {"api": 1, "web": 65535}
    assert read(CONTAINER).listen == {}


def test_native_refuses_listen() -> None:
    assert complaints("ports: [web]\nlisten: {web: 80}\n") == ["2:1: listen: is only for backend: container"]


@pytest.mark.parametrize(
    ("listen", "line"),
    [
        ("{web: 80}", "3:9: listen: listen.api is required with backend: container"),
        ("{web: 80, api: 0}", "3:24: listen.api: must be between 1 and 65535, not 0"),
        ("{web: 80, api: 65536}", "3:24: listen.api: must be between 1 and 65535, not 65536"),
        ("{web: 80, api: '81'}", "3:24: listen.api: must be a whole number, not the string '81'"),
        ("{web: 80, api: 81.5}", "3:24: listen.api: must be a whole number, not the number 81.5"),
        ("{web: 80, api: true}", "3:24: listen.api: must be a whole number, not the boolean true"),
        ("{web: 80, api: ~}", "3:24: listen.api: must be a port number, not null"),
        ("{web: 80, api: 80}", "3:24: listen.api: 80 is already the port of web"),
        ("{web: 80, api: 81, db: 82}", "3:28: listen.db: is not one of ports: web, api"),
        ("{web: 80, api: 81, Web: 82}", "3:28: listen.Web: is not one of ports: web, api"),
    ],
)
def test_listen_must_fit_the_ports(listen: str, line: str) -> None:
    assert complaints(f"{CONTAINER}ports: [web, api]\nlisten: {listen}\n") == [line]


def test_a_container_without_listen_is_told_every_port_that_lacks_one() -> None:
    assert complaints(CONTAINER + "ports: [web, api]\n") == [
        "2:8: ports: listen.web is required with backend: container",
        "2:8: ports: listen.api is required with backend: container",
    ]


# -- env --------------------------------------------------------------------------------------------------------------


def test_env_values_are_taken_as_they_are_written() -> None:
    assert read("""
        ports: [web]
        env:
          A: 1.10
          B: yes
          C: true
          D: 0o17
          E: ~
          F:
          G: "quoted # = $HOME ${HOME} $$ \\\\ '"
          H: 'a: b'
          I: ${BERTH_PORT_WEB}
          J: $BERTH_PORT_WEB
          K: ""
          lower_1: null
    """).env == {
        "A": "1.10",
        "B": "yes",
        "C": "true",
        "D": "0o17",
        "E": "~",
        "F": "",
        "G": "quoted # = $HOME ${HOME} $$ \\ '",
        "H": "a: b",
        "I": "${BERTH_PORT_WEB}",
        "J": "$BERTH_PORT_WEB",
        "K": "",
        "lower_1": "null",
    }


OWN = "is berth's or git's own and cannot be set"
NO_NAME = "is no name of a variable: letters, digits and _, not beginning with a digit"


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("BERTH_X", OWN),
        ("berth_x", OWN),
        ("Berth_Slug", OWN),
        ("GIT_DIR", OWN),
        ("git_dir", OWN),
        ("GIT_DIRECTORY", OWN),
        ("GIT_WORK_TREE", OWN),
        ("GIT_COMMON_DIR", OWN),
        ("GIT_INDEX_FILE", OWN),
        ("GIT_OBJECT_DIRECTORY", OWN),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", OWN),
        ("GIT_NAMESPACE", OWN),
        ("GIT_PREFIX", OWN),
        ("GIT_IMPLICIT_WORK_TREE", OWN),
        ("GIT_GRAFT_FILE", OWN),
        ("GIT_SHALLOW_FILE", OWN),
        ("GIT_REPLACE_REF_BASE", OWN),
        ("GIT_QUARANTINE_PATH", OWN),
        ("1A", NO_NAME),
        ("A-B", NO_NAME),
        ("A B", NO_NAME),
        ("'A='", NO_NAME),
        ("É", NO_NAME),
        ("''", NO_NAME),
        ("'A\n\n  B'", NO_NAME),
    ],
)
def test_a_variable_that_cannot_be_set_is_refused(key: str, problem: str) -> None:
    (line,) = complaints(f"env:\n  OK: x\n  ? {key}\n  : x\n")
    assert line.startswith("3:5: env.")
    assert line.endswith(f": {problem}")


@pytest.mark.parametrize(
    "key", ["GIT_LFS_SKIP_SMUDGE", "GIT_AUTHOR_NAME", "HOME", "XDG_CACHE_HOME", "PORT", "_", "BERTH"]
)
def test_other_variables_can_be_set(key: str) -> None:
    assert read(f"env: {{{key}: x}}").env == {key: "x"}


@pytest.mark.parametrize("key", ["GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_12"])
def test_settings_of_git_can_be_set_in_native_and_not_in_a_container(key: str) -> None:
    assert read(f"env: {{{key}: x}}").env == {key: "x"}
    assert complaints(f"{CONTAINER}env: {{{key}: x}}") == [f"2:7: env.{key}: is set by berth inside the container"]
    assert read(f"{CONTAINER}env: {{GIT_CONFIG_GLOBAL: x}}").env == {"GIT_CONFIG_GLOBAL": "x"}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("[a]", "must be a single value, not a list"),
        ("{a: b}", "must be a single value, not a mapping"),
        ('"a\\nb"', "must not contain NUL, CR or LF"),
        ('"a\\rb"', "must not contain NUL, CR or LF"),
        ('"a\\0b"', "must not contain NUL, CR or LF"),
    ],
)
def test_a_value_that_no_variable_can_hold_is_refused(value: str, problem: str) -> None:
    assert complaints(f"env: {{A: {value}}}") == [f"1:10: env.A: {problem}"]


KNOWN = (
    "BERTH_BRANCH, BERTH_DATA_DIR, BERTH_HOST_PORT_MY_API, BERTH_PORT_MY_API, BERTH_ROOT, BERTH_SLUG, BERTH_WORKSPACE"
)


@pytest.mark.parametrize("name", ["BERTH_PORT_WEB", "BERTH_", "BERTH_X:-y", "BERTH_PORT_my-api", "BERTH_HOME"])
def test_an_unknown_reference_names_the_known_ones(name: str) -> None:
    assert complaints(f"ports: [my-api]\nenv:\n  A: x${{{name}}}\n") == [
        f"3:6: env.A: unknown variable ${{{name}}}; known: {KNOWN}"
    ]


@pytest.mark.parametrize("value", ["${BERTH_PORT_WEB", "$BERTH_NOPE", "${NOPE}", "${ BERTH_X }", "$${HOME}"])
def test_what_is_no_reference_to_berth_is_literal(value: str) -> None:
    assert read(f"env: {{A: '{value}'}}").env == {"A": value}


# -- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        (".env", ".env"),
        ("./a//b/", "a/b"),
        ("a/./b", "a/b"),
        ("a/../b", "b"),
        ("..a/b", "..a/b"),
        (".gitignore", ".gitignore"),
        ("sub/.git", "sub/.git"),
        (".berthrc", ".berthrc"),
        ("a b/é", "a b/é"),
    ],
)
def test_paths_inside_the_repository_are_cleaned(value: str, clean: str) -> None:
    config = read(f"env_file: '{value}'\ncopy_dirs: ['{value}']\n")
    assert config.env_file == clean
    assert config.copy_dirs == (clean,)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (".", "must name something inside the repository"),
        ("./", "must name something inside the repository"),
        ("a/..", "must name something inside the repository"),
        ("", "must name something inside the repository"),
        ("/etc/passwd", "must be relative to the repository, not absolute"),
        ("//x", "must be relative to the repository, not absolute"),
        ("..", "must not leave the repository through a .. component"),
        ("../x", "must not leave the repository through a .. component"),
        ("a/../../b", "must not leave the repository through a .. component"),
        ("C:", "must not contain a colon"),
        ("C:/x", "must not contain a colon"),
        ("a:b", "must not contain a colon"),
        ("a\\b", "must not contain a backslash"),
        (".git", "must not be .git or anything below it"),
        ("./.git/hooks", "must not be .git or anything below it"),
        ("a/../.git/x", "must not be .git or anything below it"),
        (".GIT/config", "must not be .GIT or anything below it"),
        (".berth", "must not be .berth or anything below it"),
        (".berth/data", "must not be .berth or anything below it"),
    ],
)
def test_paths_that_leave_the_repository_or_enter_its_machinery_are_refused(value: str, problem: str) -> None:
    shown = repr(value)
    assert complaints(f"env_file: '{value}'") == [f"1:11: env_file: {shown} {problem}"]
    assert complaints(f"copy_dirs: [ok, '{value}']") == [f"1:17: copy_dirs[1]: {shown} {problem}"]


@pytest.mark.parametrize("value", ["1", "true", "{}", "[a]"])
def test_paths_must_be_strings(value: str) -> None:
    (line,) = complaints(f"env_file: {value}")
    assert line.startswith("1:11: env_file: must be a string, not ")
    (line,) = complaints(f"copy_dirs: [{value}]")
    assert line.startswith("1:13: copy_dirs[0]: must be a string, not ")
    assert complaints("copy_dirs: [~]") == ["1:13: copy_dirs[0]: must be a string, not null"]
    assert complaints('env_file: "a\\0"') == ["1:11: env_file: must not contain NUL"]


# -- hooks ------------------------------------------------------------------------------------------------------------


def test_hooks_keep_their_order_and_lines_and_skip_blank_entries() -> None:
    hooks = read("""
        hooks:
          setup:
            - make
            - ""
            - "  "
            -
            - true
            - |
              if test -d .seed; then
                cp -a .seed x
              fi
          teardown: [a, b]
          timeout_seconds: 1
    """).hooks
    assert hooks.setup == ("make", "true", "if test -d .seed; then\n  cp -a .seed x\nfi\n")
    assert hooks.teardown == ("a", "b")
    assert hooks.timeout_seconds == 1


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("5", "must be a string, not the number 5"),
        ("[a]", "must be a string, not a list"),
        ("{a: b}", "must be a string, not a mapping"),
        ('"a\\0b"', "must not contain NUL"),
    ],
)
def test_a_hook_that_is_no_script_is_refused(value: str, problem: str) -> None:
    for name in ("setup", "teardown"):
        text = f"hooks: {{{name}: [ok, {value}]}}"
        assert complaints(text) == [f"1:{text.rindex(value) + 1}: hooks.{name}[1]: {problem}"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("0", "must be at least 1, not 0"),
        ("-5", "must be at least 1, not -5"),
        ("1.5", "must be a whole number, not the number 1.5"),
        ("'60'", "must be a whole number, not the string '60'"),
        ("true", "must be a whole number, not the boolean true"),
    ],
)
def test_the_limit_of_hooks_is_a_whole_number_from_one(value: str, problem: str) -> None:
    assert complaints(f"hooks: {{timeout_seconds: {value}}}") == [f"1:26: hooks.timeout_seconds: {problem}"]


# -- the timeouts of processes ----------------------------------------------------------------------------------------


def test_a_process_has_its_own_timeout_or_the_workspaces() -> None:
    config = read("""
        shutdown_timeout_seconds: 7
        processes:
          own: {command: x, shutdown: {timeout_seconds: 2.5}}
          zero: {command: x, shutdown: {timeout_seconds: 0}}
          none: {command: x}
    """)
    assert [config.timeout_of(name) for name in ("own", "zero", "none")] == [2.5, 7, 7]
    assert config.longest_timeout_seconds == 7
    assert read("").longest_timeout_seconds == 15
