"""Memory of the daemon's GPU that a client shares with it: the mapping, and tensors in it."""
from __future__ import annotations

import math
import threading
from typing import Any, Optional

import numpy as np

from . import wire
from .arena import ArenaBase, Shape, SharedPayload, extents_of
from .cuda import CudaDevice
from .tensor import CUDA, Tensor
from .wire import PLACE_ALIGNMENT


class _Mapping:
    """Device memory in this process's addresses, as long as this object or a piece of it exists."""

    def __init__(self, device: CudaDevice, descriptor: int, nbytes: int) -> None:
        self.device = device
        self.nbytes = nbytes
        self.address = device.map(descriptor, nbytes)
        self.escaped = False  #: other libraries had what has been freed since, and may still have the GPU work on it

    def __del__(self) -> None:
        try:
            self.device.unmap(self.address, self.nbytes, self.escaped)
        except Exception:
            pass  # it was never mapped, or the program ends and CUDA has ended before


class _Piece:
    """A range of an arena, the owner of every tensor in it: it frees the range when the last of them has gone."""

    __slots__ = ("_mapping", "_allocator", "_start", "_nbytes", "_escaped")

    def __init__(self, mapping: _Mapping, allocator: Any, start: int, nbytes: int) -> None:
        self._mapping = mapping
        self._allocator = allocator
        self._start, self._nbytes = start, nbytes
        self._escaped = False

    def escape(self) -> None:
        """Another library has it from now on, and its streams are not known here."""
        self._escaped = True

    def __del__(self) -> None:
        if self._escaped:
            self._mapping.escaped = True  # before others can have the range
        self._allocator.give_back(self._start, self._nbytes)


class DeviceArena(ArenaBase):
    """One mapping of device memory. It exists as long as this object or a tensor in it. Thread-safe."""

    def __init__(self, device: CudaDevice, number: int, descriptor: int, nbytes: int) -> None:
        """Maps `nbytes` of what the descriptor stands for; the caller keeps it. Raises CudaError."""
        super().__init__(number, nbytes)
        self._mapping = _Mapping(device, descriptor, nbytes)
        self._lock = threading.Lock()

    def empty(self, shape: Shape, dtype: Any, is_bfloat16: bool = False) -> Optional[Tensor]:
        """As in Arena. Call `settle` before anything writes there."""
        extents = extents_of(shape)
        code, bits = wire.dlpack_type(np.dtype(dtype), is_bfloat16)
        nbytes = math.prod(extents) * bits // 8
        start = self._allocator.take(nbytes) if nbytes > 0 else None
        if start is None:
            return None
        piece = _Piece(self._mapping, self._allocator, start, nbytes)
        return Tensor(piece, self._mapping.address + start, extents, code, bits, device_type=CUDA,
                      device_id=self._mapping.device.ordinal, device=self._mapping.device)

    def settle(self) -> None:
        """Waits until nothing that was freed before is in use. A library that frees a tensor may still have the GPU
        work on it."""
        with self._lock:
            if self._mapping.escaped:
                self._mapping.escaped = False
                self._mapping.device.synchronize()

    def offset_of(self, array: Tensor) -> Optional[int]:
        offset = array.address - self._mapping.address
        inside = 0 <= offset <= self.nbytes - array.nbytes
        return offset if array.contiguous and inside and offset % PLACE_ALIGNMENT == 0 else None


class DevicePayload(SharedPayload):
    """A request's input and its output memory in device memory."""

    def __init__(self, arena: DeviceArena, frames: Tensor, source: Tensor, outputs: Tensor) -> None:
        """source: what the frames are to be; it is copied by `prepare` if it lies elsewhere."""
        super().__init__(arena, frames, arena.offset_of(frames) or 0, outputs, arena.offset_of(outputs) or 0)
        self._source: Optional[Tensor] = source

    def prepare(self, device: CudaDevice, wait_for_all: bool) -> None:
        """Waits until the frames are what they are to be: before this the request must not be sent. Blocks.
        wait_for_all: which stream they are made on is not known."""
        source, self._source = self._source, None
        if source is None:
            return
        assert isinstance(self.arena, DeviceArena)
        if wait_for_all:
            device.synchronize()
        self.arena.settle()
        if source.address != self.frames.address:
            device.copy(self.frames.address, source.address, source.nbytes)
        device.wait()
