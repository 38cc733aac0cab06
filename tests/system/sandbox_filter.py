"""The seccomp program of a unit's directives, as systemd has libseccomp make it, assembled by hand for x86-64.

Classic BPF: first the architecture, then a block for each system call whose arguments count, then the list of those
that are allowed. Arguments are looked at by their lower halves, which hold all the bits that count here.
"""

import ctypes
import errno
import os
import platform
import socket
import struct

from system_call_groups import GROUPS, NUMBERS

LOAD, EQUAL, ABOVE, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE = 0, 4  # offsets in seccomp_data
X86_64, X32_BIT = 0xC000003E, 0x40000000
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_MDWE, SECCOMP_MODE_FILTER = 38, 22, 65, 2

# Mount, cgroup, uts, ipc, user, pid, net and time namespaces.
NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x80
WRITE_AND_EXECUTE, EXECUTE, SHM_EXEC = 6, 4, 0o100000
SET_ID = 0o6000
ORDINARY_POLICIES = (0, 3, 5)  # SCHED_OTHER, SCHED_BATCH, SCHED_IDLE


def argument(index):
    return 16 + 8 * index


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("=HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


def refuse(error):
    return instruction(RETURN, ERRNO | error)


class Program:
    """The blocks so far. `text` is what the kernel takes."""

    def __init__(self):
        self.blocks = []
        self.allowed = None

    def check(self, call, *body):
        """What follows for this call; it goes on to the next block when the body falls through."""
        assert len(body) < 256
        self.blocks += [instruction(LOAD, NUMBER), instruction(EQUAL, NUMBERS[call], 0, len(body)), *body]

    def refuse(self, *calls, error=errno.EPERM):
        for call in calls:
            self.check(call, refuse(error))

    def refuse_bits(self, call, index, bits, error=errno.EPERM):
        """Where any of these bits is set in the argument."""
        self.check(call, instruction(LOAD, argument(index)), instruction(ANY_BIT, bits, 0, 1), refuse(error))

    def refuse_all_bits(self, call, index, bits, error=errno.EPERM):
        self.check(call, instruction(LOAD, argument(index)), instruction(AND, bits), instruction(EQUAL, bits, 0, 1),
                   refuse(error))

    def refuse_others(self, call, index, values, error=errno.EPERM):
        """Where the argument is none of these."""
        tests = [instruction(EQUAL, value, len(values) - at) for at, value in enumerate(values)]
        self.check(call, instruction(LOAD, argument(index)), *tests, refuse(error))

    def refuse_mode_of_new_file(self, call, flags, mode):
        self.check(call, instruction(LOAD, argument(flags)), instruction(ANY_BIT, os.O_CREAT, 0, 3),
                   instruction(LOAD, argument(mode)), instruction(ANY_BIT, SET_ID, 0, 1), refuse(errno.EPERM))

    def text(self):
        head = [instruction(LOAD, ARCHITECTURE), instruction(EQUAL, X86_64, 1), instruction(RETURN, KILL),
                instruction(LOAD, NUMBER), instruction(AT_LEAST, X32_BIT, 0, 1), instruction(RETURN, KILL)]
        tail = [instruction(RETURN, ALLOW)]
        if self.allowed is not None:
            calls, otherwise = self.allowed
            tail = [instruction(LOAD, NUMBER)]
            for first, last in spans(calls):
                tail += [instruction(AT_LEAST, first, 0, 2), instruction(ABOVE, last, 1), instruction(RETURN, ALLOW)]
            tail.append(instruction(RETURN, otherwise))
        return b"".join(head + self.blocks + tail)


def spans(calls):
    """The numbers as pairs of first and last."""
    found = []
    for number in sorted(calls):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def calls_of(name):
    """The numbers behind the name of a call or of a group; none for a call that x86-64 does not have."""
    if name.startswith("@"):
        return set().union(*map(calls_of, GROUPS[name]))
    return {NUMBERS[name]} if name in NUMBERS else set()


def system_calls(program, lines, unit):
    """An allow-list, from which lines that begin with ~ take away; what systemd needs itself is always in it."""
    allowed = calls_of("@default")
    assert lines and not lines[0].startswith("~"), "SystemCallFilter= is an allow-list here"
    for line in lines:
        calls = set().union(*map(calls_of, line.lstrip("~").split()))
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    name = unit.get("SystemCallErrorNumber", [None])[-1]
    program.allowed = (allowed, ERRNO | getattr(errno, name) if name else KILL)
    return f"{len(allowed)} calls allowed, others: {name or 'killed'}"


def address_families(program, lines, _):
    names = " ".join(lines).split()
    assert not names[0].startswith("~"), "RestrictAddressFamilies= is an allow-list here"
    program.refuse_others("socket", 0, [getattr(socket, name) for name in names], errno.EAFNOSUPPORT)
    return "socket() by its first argument"


def namespaces(program, *_):
    program.refuse("clone3", error=errno.ENOSYS)
    for call, index in (("clone", 0), ("unshare", 0), ("setns", 1)):
        program.refuse_bits(call, index, NEW_NAMESPACES)
    program.check("setns", instruction(LOAD, argument(1)), instruction(EQUAL, 0, 0, 1), refuse(errno.EPERM))
    return "clone, unshare, setns by their flags; clone3: ENOSYS"


def realtime(program, *_):
    program.refuse_others("sched_setscheduler", 1, ORDINARY_POLICIES)
    return "sched_setscheduler by its policy"


def set_id_files(program, *_):
    for call, index in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mkdirat", 2), ("mknod", 1),
                        ("mknodat", 2), ("creat", 1)):
        program.refuse_bits(call, index, SET_ID)
    program.refuse_mode_of_new_file("open", 1, 2)
    program.refuse_mode_of_new_file("openat", 2, 3)
    program.refuse("openat2", error=errno.ENOSYS)
    return "modes of chmod, mkdir, mknod, open and their kin"


def personality(program, *_):
    current = ctypes.CDLL(None).personality(0xFFFFFFFF)
    program.refuse_others("personality", 0, [current])
    return "personality() by its argument"


def writable_code(program, *_):
    program.refuse_all_bits("mmap", 2, WRITE_AND_EXECUTE)
    program.refuse_bits("mprotect", 2, EXECUTE)
    program.refuse_bits("pkey_mprotect", 2, EXECUTE)
    program.refuse_bits("shmat", 2, SHM_EXEC)
    return "mmap, mprotect, pkey_mprotect, shmat by their flags"


def refusing(*calls):
    def rule(program, *_):
        program.refuse(*calls)
        return ", ".join(calls)
    return rule


def native(*_):
    assert platform.machine() == "x86_64", "the filter is one for x86-64"
    return "others than x86-64, and x32: killed"


# What each directive adds: rule(program, its lines, the unit) → a word on how.
RULES = {
    "SystemCallArchitectures": native,
    "SystemCallFilter": system_calls,
    "RestrictAddressFamilies": address_families,
    "RestrictNamespaces": namespaces,
    "RestrictRealtime": realtime,
    "RestrictSUIDSGID": set_id_files,
    "LockPersonality": personality,
    "MemoryDenyWriteExecute": writable_code,
    "ProtectClock": refusing("adjtimex", "clock_adjtime", "clock_settime", "settimeofday"),
    "ProtectHostname": refusing("sethostname", "setdomainname"),
    "ProtectKernelLogs": refusing("syslog"),
    "ProtectKernelModules": refusing("init_module", "finit_module", "delete_module"),
    "ProtectKernelTunables": refusing("_sysctl"),
}


def program_of(unit, without=()):
    """The program of a unit's directives (lists of lines by name), and what each of them did."""
    made, said = Program(), {}
    for directive, rule in RULES.items():
        if unit.get(directive, ["no"])[-1] != "no" and directive not in without:
            said[directive] = rule(made, unit[directive], unit)
    return made, said


def load(program):
    """Puts the calling process under the program, for good."""
    text = program.text()
    libc = ctypes.CDLL(None, use_errno=True)
    lines = ctypes.create_string_buffer(text, len(text))
    # struct sock_fprog: how many, six bytes of nothing, where.
    head = ctypes.create_string_buffer(struct.pack("@HP", len(text) // 8, ctypes.addressof(lines)))
    for what in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0)):
        if libc.prctl(*what) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    return len(text) // 8


def deny_writable_code():
    """The kernel's own way (Linux 6.3 and newer), for good. Raises OSError where it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_MDWE")
