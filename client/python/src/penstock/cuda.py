"""CUDA's driver library, as far as a client needs it to share a GPU's memory with the daemon. It is opened when a
client first asks for such memory, and nothing has to be installed beside the driver."""
from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any, Dict, Iterator, Tuple

import numpy as np

_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_READ_AND_WRITE = 3
_FILE_DESCRIPTOR = 1
_NON_BLOCKING = 1


class CudaError(RuntimeError):
    """What CUDA could not do."""


class _Access(Structure):
    _fields_ = [("kind", c_int), ("id", c_int), ("flags", c_int)]


_FUNCTIONS: Dict[str, Tuple[Any, ...]] = {
    "cuInit": (c_uint,), "cuGetErrorName": (c_int, POINTER(c_char_p)), "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int), "cuDeviceGetUuid_v2": (c_char * 16, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int), "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),), "cuCtxSynchronize": (),
    "cuStreamCreate": (POINTER(c_void_p), c_uint), "cuStreamSynchronize": (c_void_p,),
    "cuMemImportFromShareableHandle": (POINTER(c_ulonglong), c_void_p, c_int), "cuMemRelease": (c_ulonglong,),
    "cuMemAddressReserve": (POINTER(c_ulonglong), c_size_t, c_size_t, c_ulonglong, c_ulonglong),
    "cuMemAddressFree": (c_ulonglong, c_size_t),
    "cuMemMap": (c_ulonglong, c_size_t, c_size_t, c_ulonglong, c_ulonglong), "cuMemUnmap": (c_ulonglong, c_size_t),
    "cuMemSetAccess": (c_ulonglong, c_size_t, POINTER(_Access), c_size_t),
    "cuMemcpyDtoDAsync_v2": (c_ulonglong, c_ulonglong, c_size_t, c_void_p),
    "cuMemcpyDtoH_v2": (c_void_p, c_ulonglong, c_size_t), "cuMemcpyHtoD_v2": (c_ulonglong, c_void_p, c_size_t)}


class _Driver:
    """The library. Each call raises CudaError when it fails."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libcuda.so.1")
            for name, arguments in _FUNCTIONS.items():
                function = getattr(library, name)
                function.argtypes, function.restype = arguments, c_int
        except (OSError, AttributeError) as error:
            raise CudaError(f"this machine has no NVIDIA driver, or one that is too old ({error})") from None
        self._library = library
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls it, without Python's lock."""
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            text = c_char_p()
            self._library.cuGetErrorName(result, byref(text))
            raise CudaError(f"{name}: {(text.value or b'error ' + str(result).encode()).decode()}")


class CudaDevice:
    """One GPU, by its primary context, which is the one that other libraries in this process use. Thread-safe."""

    def __init__(self, driver: _Driver, ordinal: int) -> None:
        self.ordinal = ordinal  #: this process's number for it, as in "cuda:0"
        self._driver = driver
        self._context = c_void_p()
        device, stream = c_int(), c_void_p()
        driver.call("cuDeviceGet", byref(device), ordinal)
        driver.call("cuDevicePrimaryCtxRetain", byref(self._context), device)  # until the process ends
        with self._current():
            driver.call("cuStreamCreate", byref(stream), _NON_BLOCKING)
        self.stream = int(stream.value or 0)  #: on which it copies

    @staticmethod
    def of(uuid: str) -> CudaDevice:
        """The GPU of that UUID. Raises CudaError when this process does not see it."""
        with _lock:
            key = (os.getpid(), uuid)
            if key not in _devices:
                _devices[key] = CudaDevice._find(uuid)
            return _devices[key]

    @staticmethod
    def _find(uuid: str) -> CudaDevice:
        driver = _Driver()
        count, device, found = c_int(), c_int(), (c_char * 16)()
        driver.call("cuDeviceGetCount", byref(count))
        for ordinal in range(count.value):
            driver.call("cuDeviceGet", byref(device), ordinal)
            driver.call("cuDeviceGetUuid_v2", found, device)
            if found.raw.hex() == uuid:
                return CudaDevice(driver, ordinal)
        raise CudaError(f"the daemon's GPU, of UUID {uuid}, is none of the {count.value} that this process sees: look "
                        "at CUDA_VISIBLE_DEVICES")

    def map(self, descriptor: int, nbytes: int) -> int:
        """Maps memory that another process exported, and returns its address. The descriptor stays the caller's."""
        handle, address = c_ulonglong(), c_ulonglong()
        access = _Access(_DEVICE, self.ordinal, _READ_AND_WRITE)
        call = self._driver.call
        with self._current():
            call("cuMemImportFromShareableHandle", byref(handle), descriptor, _FILE_DESCRIPTOR)
            try:
                call("cuMemAddressReserve", byref(address), nbytes, 0, 0, 0)
                try:
                    call("cuMemMap", address, nbytes, 0, handle, 0)
                    try:
                        call("cuMemSetAccess", address, nbytes, byref(access), 1)
                    except CudaError:
                        call("cuMemUnmap", address, nbytes)
                        raise
                except CudaError:
                    call("cuMemAddressFree", address, nbytes)
                    raise
            finally:
                call("cuMemRelease", handle)  # the mapping keeps it
        return address.value

    def unmap(self, address: int, nbytes: int, in_use: bool) -> None:
        """Unmaps it. in_use: this process may still have the device work on it, which is waited for."""
        with self._current():
            if in_use:
                self._driver.call("cuCtxSynchronize")
            self._driver.call("cuMemUnmap", address, nbytes)
            self._driver.call("cuMemAddressFree", address, nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Begins a copy within the device, on `stream`."""
        with self._current():
            self._driver.call("cuMemcpyDtoDAsync_v2", to, source, nbytes, self.stream)

    def read(self, source: int, nbytes: int) -> np.ndarray:
        """Copies device memory into the host's."""
        made = np.empty(nbytes, np.uint8)
        with self._current():
            self._driver.call("cuMemcpyDtoH_v2", made.ctypes.data, source, nbytes)
        return made

    def write(self, to: int, array: np.ndarray) -> None:
        """Copies a contiguous array into device memory."""
        with self._current():
            self._driver.call("cuMemcpyHtoD_v2", to, array.ctypes.data, array.nbytes)

    def wait(self) -> None:
        """Waits for what is on `stream`."""
        with self._current():
            self._driver.call("cuStreamSynchronize", self.stream)

    def synchronize(self) -> None:
        """Waits for all that this process has the device do."""
        with self._current():
            self._driver.call("cuCtxSynchronize")

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        self._driver.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._driver.call("cuCtxPopCurrent_v2", byref(c_void_p()))


_lock = threading.Lock()
_devices: Dict[Tuple[int, str], CudaDevice] = {}
