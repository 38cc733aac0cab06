"""The seccomp program of a unit's directives, as systemd has libseccomp make it, assembled by hand for x86-64.

Classic BPF: first the architecture, then a block for each system call whose arguments count, then the list of those
that are allowed. Arguments are looked at by their lower halves, which hold all the bits that count here.
"""

import ctypes
import errno
import os
import pathlib
import platform
import re
import socket
import struct
import subprocess

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

# What the groups of SystemCallFilter= hold in systemd 252, and the numbers of x86-64's system calls, without those that
# x86-64 does not have: the machines that the sandbox is tried on may have neither systemd nor Linux's headers.
SYSTEMD = "252"

GROUPS = {name: members.split() for name, members in {
    "@aio": """
    io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit io_uring_enter io_uring_register
    io_uring_setup
    """,
    "@basic-io": """
    close close_range dup dup2 dup3 lseek pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readv write writev
    """,
    "@chown": """
    chown fchown fchownat lchown
    """,
    "@clock": """
    adjtimex clock_adjtime clock_settime settimeofday
    """,
    "@default": """
    arch_prctl brk clock_getres clock_gettime clock_nanosleep execve exit exit_group futex futex_waitv
    get_robust_list get_thread_area getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getrandom
    getresgid getresuid getrlimit getsid gettid gettimeofday getuid membarrier mmap mprotect munmap nanosleep pause
    prlimit64 restart_syscall rseq rt_sigreturn sched_getaffinity sched_yield set_robust_list set_thread_area
    set_tid_address time
    """,
    "@file-system": """
    access chdir chmod close creat faccessat faccessat2 fallocate fchdir fchmod fchmodat fcntl fgetxattr flistxattr
    fremovexattr fsetxattr fstat fstatfs ftruncate futimesat getcwd getdents getdents64 getxattr inotify_add_watch
    inotify_init inotify_init1 inotify_rm_watch lgetxattr link linkat listxattr llistxattr lremovexattr lsetxattr
    lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 readlink readlinkat removexattr rename renameat
    renameat2 rmdir setxattr stat statfs statx symlink symlinkat truncate unlink unlinkat utime utimensat utimes
    """,
    "@io-event": """
    epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd
    eventfd2 poll ppoll pselect6 select
    """,
    "@ipc": """
    memfd_create mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd
    pipe pipe2 process_madvise process_vm_readv process_vm_writev semctl semget semop semtimedop shmat shmctl shmdt
    shmget
    """,
    "@keyring": """
    add_key keyctl request_key
    """,
    "@memlock": """
    mlock mlock2 mlockall munlock munlockall
    """,
    "@module": """
    delete_module finit_module init_module
    """,
    "@network-io": """
    accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg
    sendto setsockopt shutdown socket socketpair
    """,
    "@privileged": """
    @chown @clock @module @raw-io @reboot @swap _sysctl acct bpf capset chroot fanotify_init fanotify_mark
    nfsservctl open_by_handle_at pivot_root quotactl quotactl_fd setdomainname setfsuid setgroups sethostname
    setresuid setreuid setuid vhangup
    """,
    "@process": """
    capget clone clone3 execveat fork getrusage kill pidfd_open pidfd_send_signal prctl rt_sigqueueinfo
    rt_tgsigqueueinfo setns tgkill times tkill unshare vfork wait4 waitid
    """,
    "@raw-io": """
    ioperm iopl
    """,
    "@reboot": """
    kexec_file_load kexec_load reboot
    """,
    "@resources": """
    ioprio_set mbind migrate_pages move_pages sched_setaffinity sched_setattr sched_setparam sched_setscheduler
    set_mempolicy set_mempolicy_home_node setpriority setrlimit
    """,
    "@setuid": """
    setgid setgroups setregid setresgid setresuid setreuid setuid
    """,
    "@signal": """
    rt_sigaction rt_sigpending rt_sigprocmask rt_sigsuspend rt_sigtimedwait sigaltstack signalfd signalfd4
    """,
    "@swap": """
    swapoff swapon
    """,
    "@sync": """
    fdatasync fsync msync sync sync_file_range syncfs
    """,
    "@system-service": """
    @aio @basic-io @chown @default @file-system @io-event @ipc @keyring @memlock @network-io @process @resources
    @setuid @signal @sync @timer capget capset copy_file_range fadvise64 flock get_mempolicy getcpu getpriority
    ioctl ioprio_get kcmp madvise mremap name_to_handle_at personality readahead remap_file_pages
    sched_get_priority_max sched_get_priority_min sched_getattr sched_getparam sched_getscheduler
    sched_rr_get_interval sched_yield sendfile setfsgid setfsuid setpgid setsid splice sysinfo tee umask uname
    userfaultfd vmsplice
    """,
    "@timer": """
    alarm getitimer setitimer timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
    timerfd_gettime timerfd_settime times
    """,
}.items()}

NUMBERS = {name: int(number) for name, number in (pair.split("=") for pair in """
    read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 lseek=8 mmap=9 mprotect=10 munmap=11 brk=12
    rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 ioctl=16 pread64=17 pwrite64=18 readv=19 writev=20 access=21
    pipe=22 select=23 sched_yield=24 mremap=25 msync=26 mincore=27 madvise=28 shmget=29 shmat=30 shmctl=31 dup=32
    dup2=33 pause=34 nanosleep=35 getitimer=36 alarm=37 setitimer=38 getpid=39 sendfile=40 socket=41 connect=42
    accept=43 sendto=44 recvfrom=45 sendmsg=46 recvmsg=47 shutdown=48 bind=49 listen=50 getsockname=51
    getpeername=52 socketpair=53 setsockopt=54 getsockopt=55 clone=56 fork=57 vfork=58 execve=59 exit=60 wait4=61
    kill=62 uname=63 semget=64 semop=65 semctl=66 shmdt=67 msgget=68 msgsnd=69 msgrcv=70 msgctl=71 fcntl=72 flock=73
    fsync=74 fdatasync=75 truncate=76 ftruncate=77 getdents=78 getcwd=79 chdir=80 fchdir=81 rename=82 mkdir=83
    rmdir=84 creat=85 link=86 unlink=87 symlink=88 readlink=89 chmod=90 fchmod=91 chown=92 fchown=93 lchown=94
    umask=95 gettimeofday=96 getrlimit=97 getrusage=98 sysinfo=99 times=100 ptrace=101 getuid=102 syslog=103
    getgid=104 setuid=105 setgid=106 geteuid=107 getegid=108 setpgid=109 getppid=110 getpgrp=111 setsid=112
    setreuid=113 setregid=114 getgroups=115 setgroups=116 setresuid=117 getresuid=118 setresgid=119 getresgid=120
    getpgid=121 setfsuid=122 setfsgid=123 getsid=124 capget=125 capset=126 rt_sigpending=127 rt_sigtimedwait=128
    rt_sigqueueinfo=129 rt_sigsuspend=130 sigaltstack=131 utime=132 mknod=133 uselib=134 personality=135 ustat=136
    statfs=137 fstatfs=138 sysfs=139 getpriority=140 setpriority=141 sched_setparam=142 sched_getparam=143
    sched_setscheduler=144 sched_getscheduler=145 sched_get_priority_max=146 sched_get_priority_min=147
    sched_rr_get_interval=148 mlock=149 munlock=150 mlockall=151 munlockall=152 vhangup=153 modify_ldt=154
    pivot_root=155 _sysctl=156 prctl=157 arch_prctl=158 adjtimex=159 setrlimit=160 chroot=161 sync=162 acct=163
    settimeofday=164 mount=165 umount2=166 swapon=167 swapoff=168 reboot=169 sethostname=170 setdomainname=171
    iopl=172 ioperm=173 create_module=174 init_module=175 delete_module=176 get_kernel_syms=177 query_module=178
    quotactl=179 nfsservctl=180 getpmsg=181 putpmsg=182 afs_syscall=183 tuxcall=184 security=185 gettid=186
    readahead=187 setxattr=188 lsetxattr=189 fsetxattr=190 getxattr=191 lgetxattr=192 fgetxattr=193 listxattr=194
    llistxattr=195 flistxattr=196 removexattr=197 lremovexattr=198 fremovexattr=199 tkill=200 time=201 futex=202
    sched_setaffinity=203 sched_getaffinity=204 set_thread_area=205 io_setup=206 io_destroy=207 io_getevents=208
    io_submit=209 io_cancel=210 get_thread_area=211 lookup_dcookie=212 epoll_create=213 epoll_ctl_old=214
    epoll_wait_old=215 remap_file_pages=216 getdents64=217 set_tid_address=218 restart_syscall=219 semtimedop=220
    fadvise64=221 timer_create=222 timer_settime=223 timer_gettime=224 timer_getoverrun=225 timer_delete=226
    clock_settime=227 clock_gettime=228 clock_getres=229 clock_nanosleep=230 exit_group=231 epoll_wait=232
    epoll_ctl=233 tgkill=234 utimes=235 vserver=236 mbind=237 set_mempolicy=238 get_mempolicy=239 mq_open=240
    mq_unlink=241 mq_timedsend=242 mq_timedreceive=243 mq_notify=244 mq_getsetattr=245 kexec_load=246 waitid=247
    add_key=248 request_key=249 keyctl=250 ioprio_set=251 ioprio_get=252 inotify_init=253 inotify_add_watch=254
    inotify_rm_watch=255 migrate_pages=256 openat=257 mkdirat=258 mknodat=259 fchownat=260 futimesat=261
    newfstatat=262 unlinkat=263 renameat=264 linkat=265 symlinkat=266 readlinkat=267 fchmodat=268 faccessat=269
    pselect6=270 ppoll=271 unshare=272 set_robust_list=273 get_robust_list=274 splice=275 tee=276
    sync_file_range=277 vmsplice=278 move_pages=279 utimensat=280 epoll_pwait=281 signalfd=282 timerfd_create=283
    eventfd=284 fallocate=285 timerfd_settime=286 timerfd_gettime=287 accept4=288 signalfd4=289 eventfd2=290
    epoll_create1=291 dup3=292 pipe2=293 inotify_init1=294 preadv=295 pwritev=296 rt_tgsigqueueinfo=297
    perf_event_open=298 recvmmsg=299 fanotify_init=300 fanotify_mark=301 prlimit64=302 name_to_handle_at=303
    open_by_handle_at=304 clock_adjtime=305 syncfs=306 sendmmsg=307 setns=308 getcpu=309 process_vm_readv=310
    process_vm_writev=311 kcmp=312 finit_module=313 sched_setattr=314 sched_getattr=315 renameat2=316 seccomp=317
    getrandom=318 memfd_create=319 kexec_file_load=320 bpf=321 execveat=322 userfaultfd=323 membarrier=324
    mlock2=325 copy_file_range=326 preadv2=327 pwritev2=328 pkey_mprotect=329 pkey_alloc=330 pkey_free=331 statx=332
    io_pgetevents=333 rseq=334 pidfd_send_signal=424 io_uring_setup=425 io_uring_enter=426 io_uring_register=427
    open_tree=428 move_mount=429 fsopen=430 fsconfig=431 fsmount=432 fspick=433 pidfd_open=434 clone3=435
    close_range=436 openat2=437 pidfd_getfd=438 faccessat2=439 process_madvise=440 epoll_pwait2=441
    mount_setattr=442 quotactl_fd=443 landlock_create_ruleset=444 landlock_add_rule=445 landlock_restrict_self=446
    memfd_secret=447 process_mrelease=448 futex_waitv=449 set_mempolicy_home_node=450
""".split())}


def analyze(*words):
    return subprocess.run(["systemd-analyze", *words], check=True, capture_output=True, text=True).stdout


def systemd_version():
    return analyze("--version").split()[1]


def systemd_groups():
    """Each group's members by systemd-analyze, a group in a group as "@name"."""
    found, members = {}, []
    for line in analyze("syscall-filter").splitlines():
        if line.startswith("@"):
            members = found.setdefault(line.strip(), [])
        elif line.startswith(" ") and not line.strip().startswith("#"):
            members.append(line.strip())
    return found


def kernel_numbers():
    """The numbers of x86-64's system calls by name, from Linux's header (Debian: linux-libc-dev)."""
    header = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").read_text()
    return {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", header, re.M)}


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
