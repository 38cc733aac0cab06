"""Runs a program under the [Service] section of a unit file, as far as that goes by hand, without systemd.

    sandbox.py --unit FILE --base FOLDER --report FILE [--without DIRECTIVE]... COMMAND...

Wants root; the process becomes the command, as another user. `base` is a fresh folder outside of homes and /tmp: its
`programs` and `tests` show the folders of PENSTOCK_BIN's parent and of this file. The report, JSON, says of each
directive what was done: {"directive": ["applied" | "not applied" | "left out", how]}.
"""

import argparse
import ctypes
import errno
import glob
import json
import os
import pathlib
import re
import resource
import stat
import sys

import sandbox_filter

READ_ONLY, NO_SUID, NO_DEVICES, NO_EXECUTE, BIND, MOVE, RECURSIVE, SLAVE = (
    1, 2, 4, 8, 0x1000, 0x2000, 0x4000, 0x80000)
NEW_MOUNTS, NEW_HOST_NAME = 0x00020000, 0x04000000
MOUNT_SETATTR, CURRENT_FOLDER, WITH_SUBMOUNTS, ATTRIBUTE_READ_ONLY = 442, -100, 0x8000, 1

# Every service may have these, whatever DevicePolicy= says; the nodes of the GPU come from DeviceAllow=.
COMMON_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
TUNABLES = ("acpi", "apm", "asound", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger")

libc = ctypes.CDLL(None, use_errno=True)


def checked(result, target):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


def mount(source, target, kind=None, flags=0, data=None):
    encoded = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    checked(libc.mount(*encoded, ctypes.c_ulong(flags), None if data is None else data.encode()), target)


def unshare(namespaces):
    checked(libc.unshare(namespaces), "unshare")


def bind(source, target):
    mount(source, target, flags=BIND | RECURSIVE)


def make_read_only(target, with_submounts=False):
    attributes = (ctypes.c_uint64 * 4)(ATTRIBUTE_READ_ONLY, 0, 0, 0)
    checked(libc.syscall(MOUNT_SETATTR, CURRENT_FOLDER, os.fsencode(target), WITH_SUBMOUNTS if with_submounts else 0,
                         attributes, ctypes.sizeof(attributes)), target)


def show_read_only(folder):
    bind(folder, folder)
    make_read_only(folder, with_submounts=True)


def mount_points():
    """Every place where something is mounted, the outer ones first."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return sorted({re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), line.split()[4]) for line in lines})


def is_within(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


class Mounts:
    """What the directives do to the file systems. `base` is a folder that stays visible, for what has to be there."""

    def __init__(self, base):
        self.base = pathlib.Path(base)
        self.writable = []
        self.begun = False

    def begin(self):
        """A namespace of its own: what is mounted here is seen nowhere else."""
        unshare(NEW_MOUNTS)
        mount(None, "/", flags=RECURSIVE | SLAVE)
        self.begun = True
        hidden = self.base / "hidden"
        (hidden / "folder").mkdir(parents=True, exist_ok=True)
        (hidden / "file").touch()
        for each in (hidden / "folder", hidden / "file"):
            os.chmod(each, 0)

    def hide(self, path):
        """Nobody reads it any more. Returns whether it is there at all."""
        if not os.path.exists(path):
            return False
        path = os.path.realpath(path)
        mount(self.base / "hidden" / ("folder" if os.path.isdir(path) else "file"), path, flags=BIND)
        make_read_only(path)
        return True

    def lend(self, folder, place, mode, owner):
        """A folder of the owner's at `place`, where it can write; what is in it lies in `folder`."""
        for path in (folder, place):
            pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        os.chown(folder, *owner)
        os.chmod(folder, mode)
        bind(folder, place)
        self.writable.append(str(place))

    def private_folders_for_temporary_files(self):
        for place in ("/tmp", "/var/tmp"):
            mount("tmpfs", place, "tmpfs", NO_SUID | NO_DEVICES, "mode=1777")
            self.writable.append(place)
        return "a tmpfs each on /tmp and /var/tmp"

    def hide_homes(self):
        return "hidden: " + ", ".join(place for place in ("/home", "/root", "/run/user") if self.hide(place))

    def show_own_processes_only(self, hiding):
        mount("proc", "/proc", "proc", NO_SUID | NO_DEVICES | NO_EXECUTE, f"hidepid={hiding}")
        return f"a /proc of its own with hidepid={hiding}"

    def protect_tunables(self):
        for name in TUNABLES:
            if os.path.exists(f"/proc/{name}"):
                show_read_only(f"/proc/{name}")
        for name in ("kallsyms", "kcore"):
            self.hide(f"/proc/{name}")
        show_read_only("/sys")
        return "/proc/sys and its like and /sys read-only, kallsyms and kcore hidden"

    def protect_control_groups(self):
        show_read_only("/sys/fs/cgroup")
        return "/sys/fs/cgroup read-only"

    def hide_modules(self):
        found = [place for place in ("/lib/modules", "/usr/lib/modules") if os.path.isdir(place)]
        if found:
            self.hide(found[0])
        return f"{found[0]} hidden" if found else "there are no modules here"

    def hide_kernel_log(self):
        for place in ("/proc/kmsg", "/dev/kmsg"):
            self.hide(place)
        return "/proc/kmsg and /dev/kmsg hidden"

    def protect_system(self, folders_too=()):
        """Read-only, but for the kernel's file systems and the folders that are lent or named."""
        exempt = ["/proc", "/sys", "/dev", *self.writable, *folders_too]
        for point in mount_points():
            if not is_within(point, exempt):
                try:
                    make_read_only(point)
                except (FileNotFoundError, PermissionError):
                    if os.access(point, os.F_OK) and os.path.ismount(point) and not is_read_only(point):
                        raise
        return "every mount read-only, but for /proc, /sys, /dev and the folders of its own"

    def show_devices(self, more):
        """A /dev that has the common nodes and those of `more` (paths), no others."""
        folder = self.base / "dev"
        folder.mkdir()
        mount("tmpfs", folder, "tmpfs", NO_SUID | NO_EXECUTE, "mode=0755,size=1m")
        for path in [f"/dev/{name}" for name in COMMON_DEVICES] + list(more):
            if os.path.exists(path):
                target = folder / pathlib.Path(path).relative_to("/dev")
                target.parent.mkdir(exist_ok=True)
                target.touch()
                mount(path, target, flags=BIND)
        for name in ("shm", "pts", "mqueue", "hugepages"):
            if os.path.isdir(f"/dev/{name}"):
                (folder / name).mkdir()
                bind(f"/dev/{name}", folder / name)
        for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"),
                             ("ptmx", "pts/ptmx")):
            (folder / name).symlink_to(target)
        mount(folder, "/dev", flags=MOVE)
        return f"a /dev that has only {', '.join(sorted(os.listdir('/dev')))}"


def is_read_only(path):
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def nodes_of(classes):
    """The nodes under /dev that belong to the character device classes ("char-nvidia") of /proc/devices."""
    majors = {int(line.split()[0]) for line in character_devices() if f"char-{line.split()[1]}" in classes}
    return [path for path in sorted(every_node()) if os.major(os.stat(path).st_rdev) in majors]


def character_devices():
    text = pathlib.Path("/proc/devices").read_text().partition("Block devices:")[0]
    return [line for line in text.splitlines() if line.strip() and line.strip()[0].isdigit()]


def every_node():
    for folder, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and stat.S_ISCHR(os.stat(path).st_mode):
                yield path


USER = 7600
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 23, 24, 47, 4
KEYCTL, KEYCTL_GET_KEYRING_ID, KEYCTL_JOIN_SESSION_KEYRING, SESSION_KEYRING = 250, 0, 1, -3

# Why a directive that the unit has for safety's sake is not applied here.
NOT_APPLICABLE = {
    "MemoryMax": "needs systemd: it sets a limit of the service's control group",
    "OOMPolicy": "needs systemd: it says what happens to the rest of the service",
    "RemoveIPC": "needs systemd: it removes System V objects after the end",
    "PrivateDevices": "it says no: see DevicePolicy",
}
# Of directives that take several values, those that are meant here.
VALUES = {"ProtectSystem": ["strict"], "ProtectHome": ["yes"], "PrivateTmp": ["yes"], "PrivateDevices": ["no"],
          "DevicePolicy": ["closed"], "ProcSubset": ["all"], "KeyringMode": ["private"], "RestrictNamespaces": ["yes"],
          "ProtectControlGroups": ["yes"], "CapabilityBoundingSet": [""], "AmbientCapabilities": [""]}
# What the launcher has no part in: how systemd starts, watches, reloads and ends the service.
MANAGER = {"Type", "NotifyAccess", "EnvironmentFile", "ExecStart", "ExecStartPre", "ExecReload", "Restart",
           "RestartSec", "RestartPreventExitStatus", "SuccessExitStatus", "TimeoutStartSec", "TimeoutStopSec",
           "TimeoutAbortSec", "WatchdogSec"}
# Words about a directive above them in the report.
BELONGING = {"Group": "User", "RuntimeDirectoryMode": "RuntimeDirectory", "CacheDirectoryMode": "CacheDirectory",
             "RuntimeDirectoryPreserve": "RuntimeDirectory", "StateDirectoryMode": "StateDirectory", "SystemCallErrorNumber": "SystemCallFilter",
             "DeviceAllow": "DevicePolicy"}
# What would change the machine itself, were there no private mounts.
NEEDS_MOUNTS = {"RuntimeDirectory", "CacheDirectory", "StateDirectory", "PrivateTmp", "ProtectHome", "DevicePolicy", "ProtectProc",
                "ProtectKernelTunables", "ProtectControlGroups", "ProtectKernelModules", "ProtectKernelLogs",
                "ProtectSystem"}
# What something else stands for here.
INSTEAD = {"DevicePolicy"}
KEPT_ENVIRONMENT = ("PATH", "LANG", "LD_LIBRARY_PATH", "NOTIFY_SOCKET", "NVIDIA_VISIBLE_DEVICES",
                    "CUDA_VISIBLE_DEVICES", "PENSTOCK_NVRTC", "PENSTOCK_NVJITLINK")


def service_section(path):
    """Its lines by directive; an empty line is a list that is empty."""
    found, section = {}, ""
    for line in pathlib.Path(path).read_text().replace("\\\n", " ").splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            found.setdefault(name.strip(), []).append(value.strip())
    return found


def unknown(unit):
    """The directives that this launcher has never heard of, or not with this value."""
    known = {*STEPS, *sandbox_filter.RULES, *NOT_APPLICABLE, *MANAGER, *BELONGING}
    return sorted(name for name, lines in unit.items() if name not in known or lines[-1] not in VALUES.get(name, lines))


class Sandbox:
    def __init__(self, unit, base):
        self.unit, self.base = unit, pathlib.Path(base)
        self.mounts = Mounts(base)
        self.environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        self.environment.update(HOME="/", PENSTOCK_BIN=str(self.base / "programs/bin"))

    def last(self, directive, otherwise=""):
        return self.unit.get(directive, [otherwise])[-1]

    def words(self, directive):
        return " ".join(self.unit.get(directive, [])).split()

    def set_environment(self):
        for line in self.unit["Environment"]:
            name, _, value = line.partition("=")
            self.environment[name] = value.replace("%C", "/var/cache").replace("%t", "/run")
        return ", ".join(self.unit["Environment"])

    def limit(self, directive, kind):
        text = self.last(directive)
        wanted = resource.RLIM_INFINITY if text == "infinity" else int(text)
        try:
            resource.setrlimit(kind, (wanted, wanted))
        except ValueError:
            most = resource.getrlimit(kind)[1]
            raise PermissionError(errno.EPERM, f"this machine's root may not raise it from {most}",
                                  "setrlimit") from None
        return f"setrlimit to {text}"

    def set_oom_score(self):
        pathlib.Path("/proc/self/oom_score_adj").write_text(self.last("OOMScoreAdjust"))
        return "/proc/self/oom_score_adj"

    def join_keyring(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self.environment["OUTER_KEYRING"] = str(libc.syscall(KEYCTL, KEYCTL_GET_KEYRING_ID, SESSION_KEYRING, 0))
        if libc.syscall(KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "keyctl")
        return "a session keyring of its own"

    def begin_mounts(self):
        self.environment["OUTER_MOUNTS"] = os.readlink("/proc/self/ns/mnt")
        self.mounts.begin()
        return "a mount namespace of its own"

    def show_folders(self):
        """Of the programs and the tests, wherever they lie."""
        for name, folder in (("programs", os.environ["PENSTOCK_BIN"] + "/.."), ("tests", os.path.dirname(__file__))):
            if self.mounts.begun:
                (self.base / name).mkdir()
                bind(os.path.realpath(folder), self.base / name)
            else:
                (self.base / name).symlink_to(os.path.realpath(folder))

    def lend_folder(self, directive, above):
        name, mode = self.last(directive), int(self.last(directive + "Mode", "0755"), 8)
        self.mounts.lend(self.base / directive, f"{above}/{name}", mode, (USER, USER))
        self.environment[re.sub("(?=Directory)", "_", directive).upper()] = f"{above}/{name}"
        return f"{above}/{name}, mode {mode:04o}, of the user"

    def show_devices(self):
        classes = {line.split()[0] for line in self.unit.get("DeviceAllow", [])}
        return "it needs the BPF of a cgroup; instead " + self.mounts.show_devices(nodes_of(classes))

    def own_host_name(self):
        unshare(NEW_HOST_NAME)
        return "a UTS namespace of its own"

    def drop_bounding_set(self):
        libc, capability = ctypes.CDLL(None, use_errno=True), 0
        while libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "PR_CAPBSET_DROP")
            capability += 1
        return f"all {capability} dropped"

    def clear_ambient_set(self):
        if ctypes.CDLL(None).prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0:
            raise OSError(errno.EINVAL, "PR_CAP_AMBIENT_CLEAR_ALL")
        return "cleared"

    def become_user(self):
        """The groups are those that own nodes of the GPU."""
        groups = sorted({os.stat(path).st_gid for path in glob.glob("/dev/nvidia*")} - {0})
        os.setgroups(groups)
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        return f"user and group {USER} (not root)" + (f", groups {groups}" if groups else "")

    def no_new_privileges(self):
        ctypes.CDLL(None).prctl(sandbox_filter.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return "prctl"

    def set_umask(self):
        os.umask(int(self.last("UMask"), 8))
        return "umask"

    def enter(self, without):
        """Applies what the unit has, and gives what was done with each directive."""
        said = {}
        for directive, step in STEPS.items():
            if self.last(directive, "no") != "no":
                said[directive] = self.apply(directive, step, without)
            if directive == "PrivateMounts":
                self.show_folders()
        return said

    def apply(self, directive, step, without):
        """What was done with a directive, and how."""
        if directive in without:
            return "left out", "by --without"
        if directive in NEEDS_MOUNTS and not self.mounts.begun:
            return "not applied", "without a mount namespace of its own"
        try:
            how = step(self)
        except OSError as error:
            return "not applied", f"{error.filename or step.__name__}: {error.strerror}"
        return ("not applied" if directive in INSTEAD else "applied"), how

    def filter(self, without, said):
        """The seccomp program, last of all."""
        if "MemoryDenyWriteExecute" in self.unit and "MemoryDenyWriteExecute" not in without:
            try:
                sandbox_filter.deny_writable_code()
                said["MemoryDenyWriteExecute"] = ("applied", "PR_SET_MDWE")
            except OSError:
                said["MemoryDenyWriteExecute"] = ("applied", "without PR_SET_MDWE, which this kernel has not")
        program, rules = sandbox_filter.program_of(self.unit, without)
        for directive in set(sandbox_filter.RULES) & set(self.unit) & set(without):
            said[directive] = ("left out", "by --without")
        for directive, how in rules.items():
            state, before = said.get(directive, ("applied", ""))
            said[directive] = (state, (before + "; " if before else "") + "seccomp: " + how)
        return program, said


# In this order: what needs root and the machine's folders comes first.
STEPS = {
    "Environment": Sandbox.set_environment,
    "KeyringMode": Sandbox.join_keyring,
    "LimitMEMLOCK": lambda box: box.limit("LimitMEMLOCK", resource.RLIMIT_MEMLOCK),
    "LimitNOFILE": lambda box: box.limit("LimitNOFILE", resource.RLIMIT_NOFILE),
    "LimitCORE": lambda box: box.limit("LimitCORE", resource.RLIMIT_CORE),
    "OOMScoreAdjust": Sandbox.set_oom_score,
    "PrivateMounts": Sandbox.begin_mounts,
    "ProtectHostname": Sandbox.own_host_name,
    "RuntimeDirectory": lambda box: box.lend_folder("RuntimeDirectory", "/run"),
    "CacheDirectory": lambda box: box.lend_folder("CacheDirectory", "/var/cache"),
    "StateDirectory": lambda box: box.lend_folder("StateDirectory", "/var/lib"),
    "PrivateTmp": lambda box: box.mounts.private_folders_for_temporary_files(),
    "ProtectHome": lambda box: box.mounts.hide_homes(),
    "DevicePolicy": Sandbox.show_devices,
    "ProtectProc": lambda box: box.mounts.show_own_processes_only(box.last("ProtectProc")),
    "ProcSubset": lambda _: "all: nothing to do",
    "ProtectKernelTunables": lambda box: box.mounts.protect_tunables(),
    "ProtectControlGroups": lambda box: box.mounts.protect_control_groups(),
    "ProtectKernelModules": lambda box: box.mounts.hide_modules(),
    "ProtectKernelLogs": lambda box: box.mounts.hide_kernel_log(),
    "ProtectSystem": lambda box: box.mounts.protect_system(box.words("ReadWritePaths")),
    "ReadWritePaths": lambda box: "left out of ProtectSystem: " + " ".join(box.words("ReadWritePaths")),
    "CapabilityBoundingSet": Sandbox.drop_bounding_set,
    "AmbientCapabilities": Sandbox.clear_ambient_set,
    "User": Sandbox.become_user,
    "UMask": Sandbox.set_umask,
    "NoNewPrivileges": Sandbox.no_new_privileges,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unit", required=True)
    parser.add_argument("--base", required=True)
    parser.add_argument("--report", required=True)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    box = Sandbox(service_section(given.unit), given.base)
    with open(given.report, "w") as report:  # while the folder can still be written to
        said = box.enter(given.without)
        said.update({name: ("not applied", why) for name, why in NOT_APPLICABLE.items() if name in box.unit})
        program, said = box.filter(given.without, said)
        said.update({name: ("with " + other, "") for name, other in BELONGING.items() if name in box.unit})
        json.dump(said, report, indent=1)
    sandbox_filter.load(program)
    command = given.command[1:] if given.command[0] == "--" else given.command
    os.execvpe(command[0], command, box.environment)


if __name__ == "__main__":
    sys.exit(main())
