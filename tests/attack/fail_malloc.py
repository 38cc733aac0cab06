"""Makes allocations of a daemon fail, through fail_malloc.cpp."""

import ctypes
import mmap
import os
import pathlib
import tempfile

LIBRARY = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve() / "tests/fail_malloc.so"


class _Shared(ctypes.Structure):
    _fields_ = [("calls", ctypes.c_uint64), ("countdown", ctypes.c_uint64), ("onwards", ctypes.c_uint32),
                ("failed", ctypes.c_uint32)]


class FailMalloc:
    """What a daemon and the test share. `environment` is the daemon's."""

    def __init__(self):
        self._file = tempfile.NamedTemporaryFile(prefix="penstock-malloc-")
        self._file.truncate(mmap.PAGESIZE)
        self._memory = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        self._shared = _Shared.from_buffer(self._memory)
        self.environment = {"LD_PRELOAD": str(LIBRARY), "FAIL_MALLOC_CONTROL": self._file.name}

    @property
    def calls(self):
        """Allocations since `reset`."""
        return self._shared.calls

    @property
    def failed(self):
        """Whether one has failed since the last `arm`."""
        return self._shared.failed != 0

    def arm(self, which, onwards=False):
        """The allocation of that number from now on fails, once or with all that follow; with 0, none."""
        self._shared.countdown = 0
        self._shared.onwards = 0
        self._shared.failed = 0
        self._shared.onwards = onwards
        self._shared.countdown = which

    def reset(self):
        self.arm(0)
        self._shared.calls = 0
