"""Faults on request: system calls (inject.cpp, preloaded), allocations (fail_malloc.cpp, preloaded) and CUDA calls (the
module linked to the fake runtime, tests/fake_cuda)."""

import collections
import contextlib
import ctypes
import errno
import http.client
import json
import mmap
import os
import pathlib
import struct
import subprocess
import tempfile
import time

from daemon_process import BIN, Daemon
from fake_cuda import FAKE_CUDA, FakeCuda, Kind  # noqa: F401  # of the same kind as what is here

CALLS = ("open", "read", "write", "fstat", "close", "mmap")
LESS, HANG, FULL = -2, -3, -4  # instead of an errno
TESTS = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve() / "tests"
INJECT, FAIL_MALLOC = TESTS / "libinject.so", TESTS / "fail_malloc.so"
CONTROL = struct.Struct("<4Ii4I60s256s")

Call = collections.namedtuple("Call", "name path nth")

# What each call can meet. An interrupted call must be done again, and a short one go on: neither may be noticed.
FAULTS = {"open": (errno.EIO, errno.ENOMEM, errno.EMFILE, errno.EINTR),
          "read": (errno.EIO, errno.ENOMEM, errno.EINTR, LESS),
          "write": (errno.EIO, errno.ENOSPC, errno.EINTR, LESS), "fstat": (errno.EIO, errno.ENOMEM),
          "close": (errno.EIO, errno.EINTR), "mmap": (errno.ENOMEM,)}
HARMLESS = {LESS, errno.EINTR}


class Inject:
    """The file that says which call fails, in a folder."""

    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "inject"
        self.file.write_bytes(bytes(CONTROL.size))
        with open(self.file, "r+b") as opened:
            self.control = mmap.mmap(opened.fileno(), CONTROL.size)

    def environment(self):
        return {**os.environ, "LD_PRELOAD": str(INJECT), "PENSTOCK_INJECT": str(self.file)}

    def arm(self, call=None, fault=0, log=False, lasting=False):
        """`fault`: an errno, LESS, HANG, or FULL: the system's table of files is, from then on; `lasting`: of that call and all further ones of its kind."""
        name, path, nth = call or Call("open", "", 0)
        what = {LESS: 2, HANG: 3, FULL: 4}.get(fault, 1)
        self.control[:] = CONTROL.pack(0, CALLS.index(name), nth, what, max(fault, 0), 0, 0, int(log), int(lasting), b"",
                                       path.encode())
        self.control[:4] = struct.pack("<I", 1)

    def disarm(self):
        self.control[:4] = struct.pack("<I", 0)

    def error(self):
        """The errno that FULL met: 0 where it worked."""
        return CONTROL.unpack(self.control[:])[4]

    def hits(self):
        return CONTROL.unpack(self.control[:])[6]

    @contextlib.contextmanager
    def armed(self, call, fault, lasting=False):
        self.arm(call, fault, lasting=lasting)
        try:
            yield
        finally:
            self.disarm()

    def calls_of(self, action):
        """Every call of a file that is made while `action()` runs, each with its number among those of its kind."""
        log = self.file.with_name("inject.log")
        log.write_text("")
        self.arm(log=True)
        try:
            action()
        finally:
            self.disarm()
        seen, calls = collections.Counter(), []
        for line in log.read_text().splitlines():
            name, path = line.split(" ", 1)
            seen[name, path] += 1
            calls.append(Call(name, path, seen[name, path]))
        return calls


def text_of(fault):
    return {LESS: "short", HANG: "hang"}.get(fault, errno.errorcode.get(fault, fault))


class InjectedDaemon(Daemon):
    """Its calls to the system are in the hands of `inject`. It is asked over its admin endpoint, so that it may want
    keys."""

    def __init__(self, text, files=None):
        self.inject = None
        before = os.umask(0o077)  # keys among the files
        try:
            super().__init__("host", "callback", text, files)
        finally:
            os.umask(before)

    def start(self):
        self.launch()
        if self.ready_or_ended() is not None:
            raise RuntimeError(self.log.read_text())

    def served(self):
        """The configuration that it serves: version and hash."""
        return json.loads(self.ask("/api/v1/status")[1])["configuration"]

    def launch(self):
        self.inject = self.inject or Inject(self.path)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [BIN / "penstockd", "--config", self.path / "penstock.toml", "--listen", self.url, "--admin", self.admin,
                 "--backend", "host"], stdout=log, stderr=log, cwd=self.path, env=self.inject.environment())

    def ready_or_ended(self):
        """Its exit code, or None once it serves."""
        while self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("/readyz")[0] == 200:
                    return None
            time.sleep(0.01)
        return self.process.returncode

    def let_go(self):
        self.inject.disarm()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


def npy(*numbers):
    """The content of a .npy file."""
    import io
    import numpy
    file = io.BytesIO()
    numpy.save(file, numpy.array(numbers, numpy.float32))
    return file.getvalue()


class _MallocControl(ctypes.Structure):
    _fields_ = [("calls", ctypes.c_uint64), ("countdown", ctypes.c_uint64), ("onwards", ctypes.c_uint32),
                ("failed", ctypes.c_uint32)]


class FailMalloc:
    """The allocation of a daemon that fails. `environment` is the daemon's."""

    def __init__(self):
        self._file = tempfile.NamedTemporaryFile(prefix="penstock-malloc-")
        self._file.truncate(mmap.PAGESIZE)
        self._memory = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        self._shared = _MallocControl.from_buffer(self._memory)
        self.environment = {"LD_PRELOAD": str(FAIL_MALLOC), "FAIL_MALLOC_CONTROL": self._file.name}

    @property
    def calls(self):
        """Allocations since `reset`."""
        return self._shared.calls

    @property
    def failed(self):
        """Whether one has failed since the last `arm`."""
        return self._shared.failed != 0

    def arm(self, number, onwards=False):
        """The allocation of that number from now on fails, once or with all that follow; with 0, none."""
        self._shared.countdown = 0
        self._shared.onwards = 0
        self._shared.failed = 0
        self._shared.onwards = onwards
        self._shared.countdown = number

    def reset(self):
        self.arm(0)
        self._shared.calls = 0
