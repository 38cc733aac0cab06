"""The file systems of a unit's sandbox, mounted by hand in a mount namespace of the calling process's own."""

import ctypes
import os
import pathlib
import re
import stat

READ_ONLY, NO_SUID, NO_DEVICES, NO_EXECUTE, BIND, MOVE, RECURSIVE, SLAVE = (
    1, 2, 4, 8, 0x1000, 0x2000, 0x4000, 0x80000)
NEW_MOUNTS, NEW_HOST_NAME = 0x00020000, 0x04000000
MOUNT_SETATTR, CURRENT_FOLDER, WITH_SUBMOUNTS, ATTRIBUTE_READ_ONLY = 442, -100, 0x8000, 1

# Every service may have these, whatever DevicePolicy= says; the nodes of the GPU come from DeviceAllow=.
COMMON_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
TUNABLES = ("acpi", "apm", "asound", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger")

libc = ctypes.CDLL(None, use_errno=True)


def checked(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(what))


def mount(source, target, kind=None, flags=0, data=None):
    encoded = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    checked(libc.mount(*encoded, ctypes.c_ulong(flags), None if data is None else data.encode()), target)


def unshare(what):
    checked(libc.unshare(what), "unshare")


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
