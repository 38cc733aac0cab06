"""The CUDA module that is linked to a runtime without a GPU (tests/fake_cuda): calls that fail on request, and machine
code that it runs."""

import ctypes
import enum
import mmap
import os
import pathlib
import struct
import tempfile

FAKE_CUDA = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve() / "tests/penstock-cuda-fake.so"

SECTION = struct.Struct("<IIQQQQIIQQ")
PROGRAM_BITS, STRINGS, CUDA = 1, 3, 190
POINTER_POINTER_COUNT_COUNT = (8, 8, 8, 8)


class Kind(enum.IntEnum):
    """As in fake_runtime.cpp."""
    REFUSED = 1
    STICKY = 2
    ENQUEUED = 3
    NEVER = 4


class _CudaControl(ctypes.Structure):
    _fields_ = [("calls", ctypes.c_uint64), ("countdown", ctypes.c_uint64), ("how", ctypes.c_uint32),
                ("failed", ctypes.c_uint32), ("only", ctypes.c_char * 48), ("met", ctypes.c_char * 48),
                ("libraries", ctypes.c_uint64)]


class FakeCuda:
    """The CUDA call of a daemon that fails. `environment` is the daemon's."""

    def __init__(self):
        self._file = tempfile.NamedTemporaryFile(prefix="penstock-cuda-")
        self._file.truncate(mmap.PAGESIZE)
        self._memory = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        self._shared = _CudaControl.from_buffer(self._memory)
        self.environment = {"PENSTOCK_CUDA_MODULE": str(FAKE_CUDA), "FAKE_CUDA_CONTROL": self._file.name}

    @property
    def calls(self):
        """Since the daemon's start."""
        return self._shared.calls

    @property
    def met(self):
        """The function whose call failed; "" when none has since the last `arm`."""
        return self._shared.met.decode()

    @property
    def libraries(self):
        """Of machine code, that are loaded now."""
        return self._shared.libraries

    def arm(self, number, kind, only=""):
        """The call of that number from now on fails, of all or of one function's; with 0, none."""
        self._shared.countdown = 0
        self._shared.met = b""
        self._shared.how = kind
        self._shared.only = only.encode()
        self._shared.countdown = number

    def reset(self):
        """For another daemon."""
        self.arm(0, Kind.REFUSED)
        self._shared.calls = 0


def cubin(kernels, parameters=POINTER_POINTER_COUNT_COUNT, architecture=90):
    """An ELF file, as a cubin is, with code as the fake runtime runs it (tests/fake_cuda/fake_machine.hpp).

    `kernels`: code by name, such as {"gain": "scale 2"}; `parameters`: bytes of each of theirs.
    """
    sections = [("", 0, b"")]
    for name, code in kernels.items():
        sections.append((f".text.{name}", PROGRAM_BITS, code.encode() + b"\0"))
        # An attribute for each parameter, the last first: index, ordinal, offset, the size from bit 18 on.
        info, offset = b"", sum(parameters)
        for ordinal in reversed(range(len(parameters))):
            offset -= parameters[ordinal]
            info += struct.pack("<BBHIHHI", 4, 0x17, 12, 0, ordinal, offset, parameters[ordinal] << 18)
        sections.append((f".nv.info.{name}", PROGRAM_BITS, info))
    names = b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".shstrtab\0"
    sections.append((".shstrtab", STRINGS, names))
    contents, table, name_at = b"", b"", 0
    for name, kind, data in sections:
        table += SECTION.pack(name_at, kind, 0, 0, 64 + len(contents), len(data), 0, 0, 1, 0)
        name_at += len(name) + 1
        contents += data
    header = struct.pack("<4sBBBBB7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 51, 7, 2, CUDA, 1, 0, 0, 64 + len(contents),
                         architecture, 64, 0, 0, SECTION.size, len(sections), len(sections) - 1)
    return header + contents + table
