"""Arrays that other libraries take without a copy, and theirs: DLPack, by ctypes."""
from __future__ import annotations

import ctypes
import math
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, Dict, Optional, Tuple

import numpy as np

from . import wire
from .cuda import CudaDevice

#: DLPack's numbers of devices.
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
HOST = (CPU, CUDA_HOST)
#: By bits: a dtype of numpy's that it exports in every version.
_CARRIERS = {8: "u1", 16: "u2", 32: "u4", 64: "u8", 128: "c16"}
_DEVICES = {CUDA: "cuda", CUDA_MANAGED: "cuda"}


class _DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _DLManagedTensor(Structure):
    _fields_ = [("tensor", _DLTensor), ("context", c_void_p), ("deleter", c_void_p)]


_NAME, _USED = b"dltensor", b"used_dltensor"  # a capsule does not copy its name
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))


class Tensor:
    """An array in the host's memory or on a GPU, which torch, CuPy and JAX take without a copy (`torch.from_dlpack`).

    It keeps its memory as long as it exists, or what another library made of it. `numpy()` copies it from a GPU.
    """

    __slots__ = ("address", "shape", "device_type", "device_id", "_strides", "_code", "_bits", "_owner", "_device")

    def __init__(self, owner: Any, address: int, shape: Tuple[int, ...], code: int, bits: int, *, device_type: int = CPU,
                 device_id: int = 0, strides: Optional[Tuple[int, ...]] = None,
                 device: Optional[CudaDevice] = None) -> None:
        """owner: keeps the memory; code, bits: DLPack's dtype; strides: in elements, None where it is contiguous;
        device: the GPU, where the client has it open."""
        self.address = address  #: in bytes; of a GPU where it lies on one
        self.shape = shape
        self.device_type = device_type  #: DLPack's number
        self.device_id = device_id
        self._strides = strides
        self._code, self._bits = code, bits
        self._owner = owner
        self._device = device

    @classmethod
    def of_array(cls, array: np.ndarray, is_bfloat16: bool = False) -> Tensor:
        """A view of an array. is_bfloat16: its elements are bf16, whatever numpy calls them."""
        code, bits = wire.dlpack_type(array.dtype, is_bfloat16)
        contiguous = array.flags.c_contiguous
        strides = None if contiguous else tuple(each // array.itemsize for each in array.strides)
        return cls(array, int(array.__array_interface__["data"][0]), array.shape, code, bits, strides=strides)

    @classmethod
    def of_other(cls, x: Any, device: Optional[CudaDevice] = None) -> Tensor:
        """A view of what another library made. device: the daemon's GPU, whose stream waits for what x is made with.
        Raises TypeError for what can't be taken."""
        device_type, device_id = map(int, x.__dlpack_device__())
        if is_negated(x):
            raise TypeError(f"{type(x).__name__} can't be taken: its negative bit is set: write x.resolve_neg()")
        try:
            capsule = x.__dlpack__(stream=device.stream) if device is not None and device_type in _DEVICES \
                else x.__dlpack__()
            taken = _Taken(capsule)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"{type(x).__name__} can't be taken: {error}") from None
        tensor = taken.tensor
        if tensor.lanes != 1 or (tensor.code, tensor.bits) not in wire.DLPACK_TYPES:
            raise TypeError(f"{type(x).__name__} has a dtype that no pipeline takes (DLPack code {tensor.code}, "
                            f"{tensor.bits} bits)")
        shape = tuple(tensor.shape[:tensor.ndim])
        strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else None
        return cls(taken, (tensor.data or 0) + tensor.byte_offset, shape, tensor.code, tensor.bits,
                   device_type=device_type, device_id=device_id,
                   strides=None if strides is None or _contiguous(shape, strides) else strides, device=device)

    @property
    def dtype(self) -> np.dtype:
        """numpy's; bf16 is ml_dtypes.bfloat16 where that is installed, else uint16, its bits."""
        return wire.DLPACK_TYPES[self._code, self._bits]

    @property
    def is_bfloat16(self) -> bool:
        """Whether its elements are bf16, whatever numpy calls them."""
        return self._code == wire.BFLOAT

    @property
    def device(self) -> str:
        """Where it lies: "cpu", or a GPU, "cuda:0"."""
        if self.device_type in HOST:
            return "cpu"
        return f"{_DEVICES.get(self.device_type, f'device {self.device_type}')}:{self.device_id}"

    @property
    def on_host(self) -> bool:
        """Whether the processor can read it."""
        return self.device_type in HOST

    @property
    def on_cuda(self) -> bool:
        """Whether it lies on a GPU of CUDA's."""
        return self.device_type in _DEVICES

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie one behind the other, in order."""
        return self._strides is None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Of its elements."""
        return math.prod(self.shape) * self._bits // 8

    def viewed(self, shape: Tuple[int, ...], code: int, bits: int) -> Tensor:
        """The same memory, from its beginning, as another contiguous array."""
        return Tensor(self._owner, self.address, shape, code, bits, device_type=self.device_type,
                      device_id=self.device_id, device=self._device)

    def __getitem__(self, key: Any) -> Tensor:
        """A row, `x[3]`, or successive ones, `x[2:5]`, of a contiguous array."""
        if not self.contiguous or not self.shape:
            raise TypeError("only a contiguous array can be indexed: take it into another library first")
        row = math.prod(self.shape[1:]) * self._bits // 8
        if isinstance(key, slice):
            begin, end, step = key.indices(self.shape[0])
            if step != 1:
                raise TypeError("only successive rows can be taken: take it into another library first")
            shape = (max(0, end - begin), *self.shape[1:])
        else:
            begin, shape = range(self.shape[0])[key], self.shape[1:]
        return Tensor(self._owner, self.address + begin * row, shape, self._code, self._bits,
                      device_type=self.device_type, device_id=self.device_id, device=self._device)

    def __len__(self) -> int:
        return self.shape[0]

    def numpy(self) -> np.ndarray:
        """A numpy array: a view of the host's memory, or a copy of a GPU's."""
        if self.on_host:
            array = np.asarray(_View(self, np.dtype("<u2") if self.is_bfloat16 else self.dtype))
            return array.view(self.dtype) if self.is_bfloat16 else array
        if self._device is None or not self.contiguous:
            raise TypeError(f"an array on {self.device} can't be read from here")
        return self._device.read(self.address, self.nbytes).view(self.dtype).reshape(self.shape)

    def write(self, x: Any) -> None:
        """Copies an array of the same shape and dtype here."""
        array = np.ascontiguousarray(x, dtype=self.dtype)
        if array.shape != self.shape:
            raise ValueError(f"an array of shape {list(array.shape)} does not fit into one of {list(self.shape)}")
        if self._device is not None and self.contiguous:
            self._device.write(self.address, array)
        else:
            np.copyto(self.numpy(), array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if not self.on_host:
            raise TypeError(f"this array lies on {self.device}: numpy() copies it from there")
        array = self.numpy()
        return array.astype(dtype) if dtype is not None and array.dtype != dtype else array.copy() if copy else array

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if not self.on_cuda:
            raise AttributeError("__cuda_array_interface__")
        self._escape()
        dtype = np.dtype("<u2") if self.is_bfloat16 else self.dtype
        strides = None if self._strides is None else tuple(each * dtype.itemsize for each in self._strides)
        return {"version": 3, "shape": self.shape, "typestr": dtype.str, "data": (self.address, False),
                "strides": strides, "stream": None}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self.device_type, self.device_id

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        """What it holds has come before it exists, so no stream has to wait for it."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"this array lies on {self.device}, and is not copied to another device")
        if copy:
            raise BufferError("this array is not copied: clone what from_dlpack makes of it")
        self._escape()
        # numpy makes the capsule, and ends it: code of ours would run while an exception is on its way, or Python has
        # ended. What numpy has no name for is said in the capsule alone.
        carrier = np.asarray(_View(self, np.dtype(_CARRIERS[self._bits])))
        try:
            capsule = carrier.__dlpack__()
        except AttributeError:
            raise BufferError("numpy 1.22 or a later one is needed") from None
        tensor = ctypes.cast(_pointer_of(capsule, _NAME), POINTER(_DLManagedTensor)).contents.tensor
        tensor.device_type, tensor.device_id = self.device_type, self.device_id
        tensor.code, tensor.bits = self._code, self._bits
        return capsule

    def __repr__(self) -> str:
        dtype = "bf16" if self.is_bfloat16 else self.dtype.name
        return f"Tensor({dtype}{list(self.shape)} on {self.device})"

    def _escape(self) -> None:
        """Another library may have the device work on it from now on."""
        escape = getattr(self._owner, "escape", None)
        if escape is not None:
            escape()


class _View:
    """A tensor for numpy, which does not look at its memory by itself."""

    def __init__(self, tensor: Tensor, dtype: np.dtype) -> None:
        strides = None if tensor._strides is None else tuple(each * dtype.itemsize for each in tensor._strides)
        self.__array_interface__ = {"version": 3, "shape": tensor.shape, "typestr": dtype.str, "strides": strides,
                                    "data": (tensor.address, False)}
        self._owner = tensor._owner


class _Taken:
    """What another library gave away in a capsule."""

    __slots__ = ("tensor", "_managed")

    def __init__(self, capsule: Any) -> None:
        address = _pointer_of(capsule, _NAME)
        _rename(capsule, _USED)
        self._managed = ctypes.cast(address, POINTER(_DLManagedTensor))
        self.tensor = self._managed.contents.tensor

    def __del__(self) -> None:
        deleter = self._managed.contents.deleter if hasattr(self, "_managed") else None
        if deleter:
            CFUNCTYPE(None, c_void_p)(deleter)(ctypes.addressof(self._managed.contents))


def is_tensor(x: Any) -> bool:
    """Whether it is an array of another library, or a Tensor."""
    return not isinstance(x, (np.ndarray, np.generic)) and hasattr(type(x), "__dlpack__") \
        and hasattr(type(x), "__dlpack_device__")


def is_negated(x: Any) -> bool:
    """Whether it is a view of torch's whose numbers have the other sign in memory, which its capsule does not say."""
    return bool(getattr(x, "is_neg", bool)())


# What to write instead, in the words of the library that made x.

def converted(x: Any, name: str) -> str:
    """x with another dtype; "" where the library is not known."""
    return {"torch": f"x.to(torch.{name})", "cupy": f"x.astype(cupy.{name})",
            "jax": f"x.astype(jax.numpy.{name})"}.get(_library_of(x), "")


def made_contiguous(x: Any) -> str:
    """x with its elements in order."""
    return {"cupy": "cupy.ascontiguousarray(x)"}.get(_library_of(x), "x.contiguous()")


def to_host(x: Any) -> str:
    """x in the host's memory."""
    return {"cupy": "x.get()", "jax": "jax.device_get(x)", "penstock": "x.numpy()"}.get(_library_of(x), "x.cpu()")


def _library_of(x: Any) -> str:
    name = type(x).__module__.partition(".")[0]
    return "jax" if name == "jaxlib" else name


def _strides_of(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1:]) for axis in range(len(shape)))


def _contiguous(shape: Tuple[int, ...], strides: Tuple[int, ...]) -> bool:
    return 0 in shape or all(extent == 1 or stride == right
                             for extent, stride, right in zip(shape, strides, _strides_of(shape)))
