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
import resource
import sys

import sandbox_filter
from sandbox_mounts import NEW_HOST_NAME, Mounts, bind, nodes_of, unshare

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
             "RuntimeDirectoryPreserve": "RuntimeDirectory", "SystemCallErrorNumber": "SystemCallFilter",
             "DeviceAllow": "DevicePolicy"}
# What would change the machine itself, were there no private mounts.
NEEDS_MOUNTS = {"RuntimeDirectory", "CacheDirectory", "PrivateTmp", "ProtectHome", "DevicePolicy", "ProtectProc",
                "ProtectKernelTunables", "ProtectControlGroups", "ProtectKernelModules", "ProtectKernelLogs",
                "ProtectSystem"}
# What something else stands for here.
INSTEAD = {"DevicePolicy"}
KEPT_ENVIRONMENT = ("PATH", "LANG", "LD_LIBRARY_PATH", "NOTIFY_SOCKET", "NVIDIA_VISIBLE_DEVICES",
                    "CUDA_VISIBLE_DEVICES")


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

    def limit(self, directive, what):
        text = self.last(directive)
        wanted = resource.RLIM_INFINITY if text == "infinity" else int(text)
        try:
            resource.setrlimit(what, (wanted, wanted))
        except ValueError:
            most = resource.getrlimit(what)[1]
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
