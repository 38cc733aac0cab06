"""Tries what each directive of the sandbox forbids, and prints as JSON what came of it.

    sandbox_probe.py [--filters DIRECTIVE]

{"directive": [[what was tried, what was seen, whether that is right], ...]}. It tries all, or what the filter of one
directive forbids. It runs inside, by itself: the standard library only.
"""

import ctypes
import errno
import json
import mmap
import os
import pathlib
import resource
import socket
import sys
import tempfile

from sandbox_filter import NUMBERS

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p


def call(name, *arguments):
    """A system call by its name; the name of its error, or "done"."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *words)
    if name == "clone" and result == 0:
        os._exit(0)  # the child, which should never have come to be
    return "done" if result >= 0 else error_name(ctypes.get_errno())


def error_name(number):
    return errno.errorcode.get(number, str(number))


def outcome(action, *arguments):
    try:
        action(*arguments)
    except OSError as error:
        return error_name(error.errno)
    return "done"


def another(outer, inner):
    """Whether it is what the launcher had."""
    return "the same" if os.environ.get(outer, inner) == inner else "another"


def session_keyring():
    return str(libc.syscall(ctypes.c_long(NUMBERS["keyctl"]), 0, ctypes.c_long(-3), 0))


def killed(action):
    """How a child ends that does it."""
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def status_of(field):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(line.split(None, 1)[1] for line in lines if line.startswith(field + ":"))


def read_only(path):
    return "read-only" if os.statvfs(path).f_flag & os.ST_RDONLY else "writable"


def write_in(folder):
    return outcome(lambda: tempfile.TemporaryFile(dir=folder).close())


def opened_mode(mode):
    path = os.path.join(tempfile.mkdtemp(dir="/tmp"), "file")
    return outcome(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode)))


def socket_of(family):
    return outcome(lambda: socket.socket(family, socket.SOCK_RAW if family == 16 else socket.SOCK_STREAM).close())


def devices():
    """The nodes of /dev that are neither common ones nor the GPU's."""
    common = {"null", "zero", "full", "random", "urandom", "tty", "shm", "pts", "mqueue", "hugepages", "fd", "stdin",
              "stdout", "stderr", "ptmx"}
    return sorted(name for name in set(os.listdir("/dev")) - common if not name.startswith("nvidia"))


def hidden(path):
    """EACCES for what was hidden; ENOENT where the machine has none of it."""
    return outcome(os.listdir if os.path.isdir(path) else open, path)


def filters():
    """What the seccomp program forbids: directive → [(what is tried, how, what has to be seen)]."""
    page = mmap.PAGESIZE
    new_time = ctypes.create_string_buffer(512)
    return {
        "SystemCallArchitectures": [("getpid of x32", lambda: killed(lambda: libc.syscall(ctypes.c_long(0x40000027))),
                                     "signal 31")],
        "SystemCallFilter": [("bpf", lambda: call("bpf", 99, 0, 0), "EPERM"),
                             ("chroot", lambda: outcome(os.chroot, "/tmp"), "EPERM"),
                             ("perf_event_open", lambda: call("perf_event_open", 0, 0, 0, 0, 0), "EPERM"),
                             ("kexec_load", lambda: call("kexec_load", 0, 0, 0, 0), "EPERM"),
                             ("getpid", lambda: call("getpid"), "done"),
                             ("chown to itself", lambda: outcome(os.chown, tempfile.mkdtemp(dir="/tmp"), os.getuid(),
                                                                 os.getgid()), "done")],
        "RestrictAddressFamilies": [("AF_PACKET", lambda: socket_of(17), "EAFNOSUPPORT"),
                                    ("AF_VSOCK", lambda: socket_of(40), "EAFNOSUPPORT"),
                                    ("AF_INET", lambda: socket_of(2), "done"),
                                    ("AF_NETLINK", lambda: socket_of(16), "done")],
        "RestrictNamespaces": [("unshare(CLONE_NEWUSER)", lambda: call("unshare", 0x10000000), "EPERM"),
                               ("setns", lambda: call("setns", 0, 0), "EPERM"),
                               ("clone(CLONE_NEWUSER)", lambda: call("clone", 0x10000000, 0, 0, 0, 0), "EPERM"),
                               ("clone3", lambda: call("clone3", 0, 0), "ENOSYS"),
                               ("fork", lambda: killed(lambda: None), "exit 0")],
        "RestrictRealtime": [("SCHED_FIFO", lambda: outcome(os.sched_setscheduler, 0, 1, os.sched_param(1)), "EPERM"),
                             ("SCHED_BATCH", lambda: outcome(os.sched_setscheduler, 0, 3, os.sched_param(0)), "done")],
        "RestrictSUIDSGID": [("chmod 4755 of its own file", lambda: outcome(os.chmod, tempfile.mkdtemp(dir="/tmp"),
                                                                            0o4755), "EPERM"),
                             ("open with mode 4755", lambda: opened_mode(0o4755), "EPERM"),
                             ("open with mode 755", lambda: opened_mode(0o755), "done")],
        "LockPersonality": [("personality(ADDR_NO_RANDOMIZE)", lambda: call("personality", 0x40000), "EPERM"),
                            ("personality as it is", lambda: call("personality", 0), "done")],
        "MemoryDenyWriteExecute": [
            ("mmap writable and executable", lambda: call("mmap", 0, page, 7, 0x22, -1, 0), "EPERM"),
            ("mprotect to executable", make_executable, "EPERM"),
            ("mmap writable", lambda: call("mmap", 0, page, 3, 0x22, -1, 0), "done")],
        "ProtectClock": [("settimeofday", lambda: call("settimeofday", 0, 0), "EPERM"),
                         ("adjtimex", lambda: call("adjtimex", new_time), "EPERM")],
        "ProtectHostname": [("sethostname", lambda: outcome(socket.sethostname, "x"), "EPERM")],
        "ProtectKernelLogs": [("syslog", lambda: call("syslog", 10, 0, 0), "EPERM")],
        "ProtectKernelModules": [("finit_module", lambda: call("finit_module", 0, 0, 0), "EPERM")],
    }


def make_executable():
    at = libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), 3, 0x22, -1, ctypes.c_long(0))
    done = libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(mmap.PAGESIZE), 5)
    return "done" if done == 0 else error_name(ctypes.get_errno())


def rest():
    """What the mounts, limits and identities forbid or give."""
    return {
        "Environment": [("CUDA_CACHE_PATH", lambda: os.environ.get("CUDA_CACHE_PATH"), "/var/cache/penstock")],
        "PrivateMounts": [("its namespace", lambda: another("OUTER_MOUNTS", os.readlink("/proc/self/ns/mnt")),
                           "another")],
        "KeyringMode": [("its session keyring", lambda: another("OUTER_KEYRING", session_keyring()), "another")],
        "User": [("its ids", lambda: str(os.getresuid() + os.getresgid()), str((7600,) * 6)),
                 ("setuid(0)", lambda: outcome(os.setuid, 0), "EPERM")],
        "NoNewPrivileges": [("/proc/self/status", lambda: status_of("NoNewPrivs"), "1")],
        "CapabilityBoundingSet": [("/proc/self/status", lambda: status_of("CapBnd"), "0" * 16),
                                  ("what is in effect", lambda: status_of("CapEff"), "0" * 16)],
        "AmbientCapabilities": [("/proc/self/status", lambda: status_of("CapAmb"), "0" * 16)],
        "LimitMEMLOCK": [("getrlimit", lambda: str(resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]), "-1")],
        "LimitNOFILE": [("getrlimit", lambda: str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]), "65536")],
        "LimitCORE": [("getrlimit", lambda: str(resource.getrlimit(resource.RLIMIT_CORE)[1]), "0")],
        "UMask": [("/proc/self/status", lambda: status_of("Umask"), "0077")],
        "OOMScoreAdjust": [("/proc/self/oom_score_adj",
                            lambda: pathlib.Path("/proc/self/oom_score_adj").read_text().strip(), "-500")],
        "ProtectSystem": [("write to /usr", lambda: write_in("/usr"), "EROFS"),
                          ("write to /etc", lambda: write_in("/etc"), "EROFS"),
                          ("write to /var", lambda: write_in("/var"), "EROFS")],
        "ProtectHome": [("list /home", lambda: hidden("/home"), "EACCES"),
                        ("list /root", lambda: hidden("/root"), "EACCES")],
        "PrivateTmp": [("list /tmp and /var/tmp", lambda: str(os.listdir("/tmp") + os.listdir("/var/tmp")), "[]"),
                       ("write to /tmp", lambda: write_in("/tmp"), "done")],
        "RuntimeDirectory": [("write to /run/penstock", lambda: write_in("/run/penstock"), "done"),
                             ("its mode", lambda: oct(os.stat("/run/penstock").st_mode & 0o777), "0o755")],
        "StateDirectory": [("write to /var/lib/penstock", lambda: write_in("/var/lib/penstock"), "done"),
                           ("its mode", lambda: oct(os.stat("/var/lib/penstock").st_mode & 0o777), "0o700")],
        "CacheDirectory": [("write to /var/cache/penstock", lambda: write_in("/var/cache/penstock"), "done"),
                           ("its mode", lambda: oct(os.stat("/var/cache/penstock").st_mode & 0o777), "0o700")],
        "ProtectKernelTunables": [("/proc/sys", lambda: read_only("/proc/sys"), "read-only"),
                                  ("/sys", lambda: read_only("/sys"), "read-only"),
                                  ("open /proc/kallsyms", lambda: hidden("/proc/kallsyms"), "EACCES")],
        "ProtectControlGroups": [("/sys/fs/cgroup", lambda: read_only("/sys/fs/cgroup"), "read-only")],
        "ProtectKernelModules": [("list /lib/modules", lambda: hidden("/lib/modules"),
                                  "EACCES" if os.path.isdir("/lib/modules") else "ENOENT")],
        "ProtectKernelLogs": [("open /proc/kmsg", lambda: hidden("/proc/kmsg"), "EACCES")],
        "ProtectProc": [("stat /proc/1", lambda: outcome(os.stat, "/proc/1"), "ENOENT")],
        "DevicePolicy": [("other nodes in /dev", lambda: str(devices()), "[]"),
                         ("write to /dev/null", lambda: outcome(pathlib.Path("/dev/null").write_text, "x"), "done")],
    }


def main():
    if sys.argv[1:2] == ["--filters"]:
        tables = [{sys.argv[2]: filters()[sys.argv[2]]}]
    else:
        tables = [rest(), filters()]  # the filters' last: they change the scheduler
    found = {}
    for table in tables:
        for directive, rows in table.items():
            for tried, how, right in rows:
                try:
                    seen = how()
                except OSError as error:
                    seen = error_name(error.errno)
                found.setdefault(directive, []).append((tried, seen, seen == right))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
