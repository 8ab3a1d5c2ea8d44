"""Runs inside an app: tries what its arguments say and prints one JSON object: id → ``ok``, an errno, or a value.

Standard library only and Python 3.9 syntax; system calls by number, so that no library's check comes first.
"""

import ctypes
import errno
import json
import mmap
import os
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NAMES = errno.errorcode


def call(number, *arguments):
    """One raw system call; its result, or OSError."""
    values = [ctypes.c_ulong(a & 0xFFFFFFFFFFFFFFFF) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *values)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def p_syscall(number, *arguments):
    """The call with these integers; strings become pointers."""
    call(number, *(a.encode() if isinstance(a, str) else a for a in arguments))


def p_clone(flags):
    """A raw clone; the child ends at once."""
    child = call(56, flags | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def isolated(function, arguments):
    """The outcome of a probe in a forked child, apart from the next one, or the signal that ended it.

    ``@name`` is tried by the main process, the only one that may read its own entries of procfs.
    """
    if function.startswith("@"):
        return attempt(function[1:], arguments)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write_end, json.dumps(attempt(function, arguments)).encode())
        os._exit(0)
    os.close(write_end)
    data = b"".join(iter(lambda: os.read(read_end, 65536), b""))
    os.close(read_end)
    _pid, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return json.loads(data)


def p_write(path, flags=os.O_WRONLY | os.O_CREAT):
    descriptor = os.open(path, flags, 0o666)
    try:
        os.write(descriptor, b"x")
    finally:
        os.close(descriptor)


def p_overwrite(path):
    p_write(path, os.O_WRONLY)


def p_read(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.listdir(descriptor)
        else:
            os.read(descriptor, 16)
    finally:
        os.close(descriptor)


def p_content(path):
    with open(path) as file:
        return file.read()


def p_list(path):
    os.listdir(path)


def p_truncate(path):
    os.truncate(path, 0)


def p_open_truncating(path):
    os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))


def p_ftruncate_read_only(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.ftruncate(descriptor, 0)


def p_unlink(path):
    os.unlink(path)


def p_rmdir(path):
    os.rmdir(path)


def p_mkdir(path):
    os.mkdir(path)


def p_rename(old, new):
    os.rename(old, new)


def p_exchange(old, new, flags=2):
    call(316, -100, old.encode(), -100, new.encode(), flags)


def p_link(old, new):
    os.link(old, new)


def p_link_descriptor(path, new):
    """linkat of /proc/self/fd/N, the way to revive a file that was only opened for reading."""
    descriptor = os.open(path, os.O_RDONLY)
    call(265, -100, f"/proc/self/fd/{descriptor}".encode(), -100, new.encode(), 0x400)


def p_link_empty_path(path, new):
    descriptor = os.open(path, os.O_PATH)
    call(265, descriptor, b"", -100, new.encode(), 0x1000)


def p_symlink(target, path):
    os.symlink(target, path)


def p_through_symlink(target, link, how="read"):
    """Plant a link in a granted place and go through it."""
    os.symlink(target, link)
    try:
        return ATTEMPTS[how](link)
    finally:
        os.unlink(link)


def p_reopen_for_write(path):
    descriptor = os.open(path, os.O_RDONLY)
    p_overwrite(f"/proc/self/fd/{descriptor}")


def p_mknod(path, kind):
    os.mknod(path, {"char": stat.S_IFCHR, "block": stat.S_IFBLK}[kind] | 0o666, os.makedev(1, 3))


def p_mkfifo(path):
    os.mkfifo(path)


def p_bind_unix(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)


def p_listen_unix(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen(1)


def p_connect_unix(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect("\0" + path[1:] if path.startswith("@") else path)


def p_abstract_datagram(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", "\0" + name)


def p_bind_abstract(name):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("\0" + name)


def p_socket(family, kind, protocol=0):
    socket.socket(family, kind, protocol).close()


def p_socketpair(family):
    out = (ctypes.c_int * 2)()
    call(53, family, 1, 0, out)


def p_tcp_connect(port, host="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.settimeout(5)
        sock.connect((host, port))


def p_tcp_bind(port, host="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))


def p_tcp_listen(port=None):
    with socket.socket() as sock:
        if port is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
        sock.listen(1)


def p_fast_open(how, port):
    """Send with MSG_FASTOPEN by one of the three calls."""
    flag = 0x20000000
    sock = socket.socket()
    address = struct.pack("=H", socket.AF_INET) + struct.pack(">H4s8x", port, b"\x7f\x00\x00\x01")
    data = ctypes.create_string_buffer(b"hello", 5)
    name = ctypes.create_string_buffer(address, 16)
    vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), 5), 16)
    header = struct.pack("QIIQQQQII", ctypes.addressof(name), 16, 0, ctypes.addressof(vector), 1, 0, 0, 0, 0)
    message = ctypes.create_string_buffer(header + b"\0" * 8, 64)
    if how == "sendto":
        call(44, sock.fileno(), data, 5, flag, name, 16)
    elif how == "sendmsg":
        call(46, sock.fileno(), message, flag)
    elif how == "sendmmsg":
        call(307, sock.fileno(), message, 1, flag)
    else:
        sock.setsockopt(socket.IPPROTO_TCP, 30, 1)
        sock.connect(("127.0.0.1", port))
    sock.close()


def p_udp_send(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", port))


def p_exec(path, *arguments):
    """The exit status of a program, or the errno of its exec."""
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(path, [path, *arguments])
        except OSError as error:
            os._exit(100 + error.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status > 100:
        raise OSError(status - 100, os.strerror(status - 100))
    return status


def p_write_and_exec(path):
    """Copy a program to ``path`` and execute it there."""
    with open("/usr/bin/true", "rb") as source, open(path, "wb") as target:
        target.write(source.read())
    os.chmod(path, 0o755)
    return p_exec(path)


def p_script_and_exec(path):
    with open(path, "w") as target:
        target.write("#!/bin/sh\nexit 0\n")
    os.chmod(path, 0o755)
    return p_exec(path)


def p_memfd(flags):
    call(319, b"x", flags)


def p_memfd_exec(flags):
    """Write a program into an anonymous file and execute it."""
    descriptor = call(319, b"x", flags)
    with open("/usr/bin/true", "rb") as source:
        os.write(descriptor, source.read())
    return p_exec(f"/proc/self/fd/{descriptor}")


def p_execveat_memfd(flags):
    descriptor = call(319, b"x", flags)
    with open("/usr/bin/true", "rb") as source:
        os.write(descriptor, source.read())
    pid = os.fork()
    if pid == 0:
        libc.syscall(322, descriptor, b"", 0, 0, 0x1000)
        os._exit(100 + ctypes.get_errno())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status > 100:
        raise OSError(status - 100, os.strerror(status - 100))
    return status


def p_chmod(path):
    os.chmod(path, 0o777)


def p_chown(path):
    os.chown(path, os.getuid(), os.getgid())


def p_utime(path):
    os.utime(path, (1, 1))


def p_setxattr(path):
    os.setxattr(path, "user.berth", b"x")


def p_stat(path):
    os.stat(path)


def p_opath(path):
    os.close(os.open(path, os.O_PATH))


def p_kill(pid, number=0):
    os.kill(pid, number)


def p_pidfd_signal(pid):
    descriptor = call(434, pid, 0)
    call(424, descriptor, 0, None, 0)


def p_tgkill(pid):
    call(234, pid, pid, 0)


def p_sigqueue(pid):
    info = ctypes.create_string_buffer(struct.pack("iii", 0, 0, -1).ljust(128, b"\0"), 128)
    call(129, pid, 0, info)


def p_signal_child():
    """Start a child and end it: what an app may always do."""
    child = subprocess.Popen(["/usr/bin/sleep", "60"])
    child.terminate()
    return child.wait()


def p_ptrace_attach(pid):
    call(101, 16, pid, 0, 0)


def p_vm_read(pid):
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8)
    remote = struct.pack("QQ", ctypes.addressof(buffer), 8)
    call(310, pid, local, 1, remote, 1, 0)


def p_vm_write(pid):
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8)
    call(311, pid, local, 1, local, 1, 0)


def p_pidfd_getfd(pid):
    descriptor = call(434, pid, 0)
    call(438, descriptor, 0, 0)


def p_prlimit(pid):
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, 8))


def p_affinity(pid):
    os.sched_setaffinity(pid, {0})


def p_priority(pid):
    os.setpriority(os.PRIO_PROCESS, pid, 19)


def p_ioprio(pid):
    call(251, 1, pid, (2 << 13) | 7)


def p_setuid(uid):
    os.setuid(uid)


def p_setgid(gid):
    os.setgid(gid)


def p_setgroups():
    os.setgroups([0])


def p_capset():
    call(126, struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", 1, 1, 0, 0, 0, 0))


def p_status(*fields):
    """Fields of the own status file."""
    with open("/proc/self/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return {field: lines[field] for field in fields}


def p_descriptors():
    """number → what it is, without the descriptor of the listing."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink("/proc/self/fd/" + name).split(":")[0]
        except OSError:
            continue
    return {n: t for n, t in found.items() if not t.startswith("/proc/")}


def p_int80(number):
    """A 32-bit system call from this 64-bit process."""
    code = b"\xb8" + struct.pack("<I", number) + b"\xcd\x80\xc3"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long)(address)()


def p_fork_bomb(limit):
    """How many sleeping children can be had, or the errno that ended it."""
    children = []
    try:
        for _ in range(limit):
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            children.append(pid)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def p_thread_bomb(limit):
    import threading

    stop = threading.Event()
    threads = []
    try:
        for _ in range(limit):
            thread = threading.Thread(target=stop.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        return "no more threads"
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def p_open_many(count):
    held = []
    try:
        held.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(count))
    finally:
        for descriptor in held:
            os.close(descriptor)


def p_fill(path, size):
    with open(path, "wb") as file:
        try:
            for _ in range(size // 65536):
                file.write(b"x" * 65536)
            file.flush()
        finally:
            os.truncate(path, 0)


def p_fill_inodes(path, count):
    made = []
    try:
        for i in range(count):
            name = f"{path}/{i}"
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            made.append(name)
    finally:
        for name in made:
            os.unlink(name)


def p_core_dump(directory):
    """A crash that would dump core; the files afterwards."""
    pid = os.fork()
    if pid == 0:
        os.chdir(directory)
        resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE))
        os.abort()
    os.waitpid(pid, 0)
    return sorted(os.listdir(directory))


def p_open_pty():
    master, slave = os.openpty()
    os.write(master, b"x")
    os.close(slave)
    os.close(master)


def p_ioctl(request, path="/dev/null"):
    import fcntl

    descriptor = os.open(path, os.O_RDWR)
    fcntl.ioctl(descriptor, request, b"x" * 8)


def p_credentials(uid):
    """Send credentials that are not one's own over a socket pair."""
    one, two = socket.socketpair()
    two.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    data = struct.pack("iII", os.getpid(), uid, uid)
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, data)])


def p_multiprocessing_queue():
    import multiprocessing

    multiprocessing.get_context("fork").Queue()


def p_multiprocessing_process():
    import multiprocessing

    process = multiprocessing.get_context("fork").Process(target=os.getpid)
    process.start()
    process.join()
    return process.exitcode


def p_ordinary_work():
    """What every program may rely on: threads, processes, files, event loops, databases, names."""
    import asyncio
    import sqlite3
    import tempfile
    import threading

    thread = threading.Thread(target=time.monotonic)
    thread.start()
    thread.join()
    assert subprocess.run(["/bin/sh", "-c", "echo hello | cat"], capture_output=True, check=True).stdout == b"hello\n"
    with tempfile.TemporaryDirectory() as where:
        base = sqlite3.connect(where + "/x.db")
        base.execute("create table t (n)")
        base.commit()
        base.close()
    asyncio.run(asyncio.sleep(0))
    assert socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
    poll = select.epoll()
    poll.close()
    return os.cpu_count() is not None


def p_git(directory):
    """git in a granted directory."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": directory, "GIT_CONFIG_NOSYSTEM": "1"}
    name = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q", "."], ["add", "."], [*name, "commit", "-qm", "x", "--allow-empty"]):
        subprocess.run(["git", *arguments], cwd=directory, env=environment, check=True, capture_output=True)


def p_getaddrinfo(name):
    return sorted({entry[4][0] for entry in socket.getaddrinfo(name, 80)})


def p_if_nameindex():
    return [name for _i, name in socket.if_nameindex()]


def p_limits():
    which = (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)
    return [list(resource.getrlimit(w)) for w in which]


def p_identity():
    return {
        "uids": list(os.getresuid()),
        "gids": list(os.getresgid()),
        "groups": sorted(os.getgroups()),
        "sid": os.getsid(0) == os.getpid(),
        "cwd": os.getcwd(),
        "stdin": os.readlink("/proc/self/fd/0"),
        "environment": dict(os.environ),
    }


def p_seccomp_listener(flags):
    program = struct.pack("HxxxxxxQ", 0, 0)
    call(317, 1, flags, program)


def p_setsockopt_value(level, option):
    sock = socket.socket()
    sock.setsockopt(level, option, 1)


ATTEMPTS = {name[2:]: value for name, value in list(globals().items()) if name.startswith("p_")}


def attempt(function, arguments):
    """``ok``, the value of a probe that has one, or the errno's name."""
    try:
        value = ATTEMPTS[function](*arguments)
    except OSError as error:
        return NAMES.get(error.errno, str(error))
    return "ok" if value is None else value


def main():
    serve = json.loads(sys.argv[1])
    print(json.dumps({name: isolated(function, arguments) for name, function, *arguments in serve}), flush=True)


if __name__ == "__main__":
    main()
