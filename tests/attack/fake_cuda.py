"""Makes CUDA calls of the daemon fail, through the module that is linked to the fake runtime (tests/fake_cuda)."""

import ctypes
import enum
import mmap
import os
import pathlib
import tempfile

MODULE = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve() / "tests/penstock-cuda-fake.so"


class Kind(enum.IntEnum):
    """As in fake_runtime.cpp."""
    REFUSED = 1
    STICKY = 2
    ENQUEUED = 3
    NEVER = 4


class _Shared(ctypes.Structure):
    _fields_ = [("calls", ctypes.c_uint64), ("countdown", ctypes.c_uint64), ("how", ctypes.c_uint32),
                ("failed", ctypes.c_uint32), ("only", ctypes.c_char * 48), ("met", ctypes.c_char * 48)]


class FakeCuda:
    """What a daemon and the test share. `environment` is the daemon's."""

    def __init__(self):
        self._file = tempfile.NamedTemporaryFile(prefix="penstock-cuda-")
        self._file.truncate(mmap.PAGESIZE)
        self._memory = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        self._shared = _Shared.from_buffer(self._memory)
        self.environment = {"PENSTOCK_CUDA_MODULE": str(MODULE), "FAKE_CUDA_CONTROL": self._file.name}

    @property
    def calls(self):
        """Since the daemon's start."""
        return self._shared.calls

    @property
    def met(self):
        """The function whose call failed; "" when none has since the last `arm`."""
        return self._shared.met.decode()

    def arm(self, which, kind, only=""):
        """The call of that number from now on fails, of all or of one function's; with 0, none."""
        self._shared.countdown = 0
        self._shared.met = b""
        self._shared.how = kind
        self._shared.only = only.encode()
        self._shared.countdown = which

    def reset(self):
        """For another daemon."""
        self.arm(0, Kind.REFUSED)
        self._shared.calls = 0
