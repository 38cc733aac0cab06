"""Memory that a client shares with the daemon: the mapping, its allocator, numpy arrays in it, and requests in it."""
from __future__ import annotations

import bisect
import collections
import math
import mmap
import operator
import threading
from typing import Any, Callable, Deque, List, Optional, Sequence, Tuple, Union

import numpy as np

from .wire import PLACE_ALIGNMENT, DecodeError, SharedPlace, Status, encode_place, room_for

Shape = Union[int, Sequence[int]]

#: The daemon refuses where a SUBMIT_SHARED lies, not the request itself.
PLACE_REFUSALS = (Status.UNKNOWN_ARENA, Status.BAD_PLACE, Status.UNKNOWN_REPEAT)


class ArenaAllocator:
    """A first-fit allocator of ranges at multiples of PLACE_ALIGNMENT, which merges adjacent gaps. Thread-safe."""

    def __init__(self, nbytes: int) -> None:
        self._lock = threading.Lock()
        self._whole = (0, nbytes)
        self._gaps: List[Tuple[int, int]] = [self._whole]  # start and end, in order; no two touch
        self._returned: Deque[Tuple[int, int]] = collections.deque()
        self._closed = False

    def take(self, nbytes: int) -> Optional[int]:
        """The offset of a new range of at least `nbytes`; None when no gap is large enough or the allocator is
        closed."""
        size = max(room_for(nbytes), PLACE_ALIGNMENT)
        with self._lock:
            if self._closed:
                return None
            self._take_back()
            for index, (start, end) in enumerate(self._gaps):
                if end - start >= size:
                    self._gaps[index:index + 1] = [(start + size, end)] if end - start > size else []
                    return start
        return None

    def give_back(self, start: int, nbytes: int) -> None:
        """Frees a range of `take(nbytes)`. Takes no lock: a garbage collection may call it at any point, also within
        `take`."""
        self._returned.append((start, start + max(room_for(nbytes), PLACE_ALIGNMENT)))

    def close(self) -> None:
        """From now on `take` returns None."""
        with self._lock:
            self._closed = True

    @property
    def is_empty(self) -> bool:
        """True when nothing is allocated."""
        return self.gaps == [self._whole]

    @property
    def gaps(self) -> List[Tuple[int, int]]:
        """The free ranges: start and end of each, in order."""
        with self._lock:
            self._take_back()
            return list(self._gaps)

    def _take_back(self) -> None:
        while self._returned:
            start, end = self._returned.popleft()
            after = bisect.bisect(self._gaps, (start, end))
            before = after
            if after < len(self._gaps) and self._gaps[after][0] == end:
                end, after = self._gaps[after][1], after + 1
            if before > 0 and self._gaps[before - 1][1] == start:
                start, before = self._gaps[before - 1][0], before - 1
            self._gaps[before:after] = [(start, end)]


class ArenaBase:
    """What arenas in the host's memory and on a GPU have in common. Thread-safe."""

    def __init__(self, number: int, nbytes: int) -> None:
        self.number = number  #: the daemon's for it
        self.nbytes = nbytes
        self.ended = False  #: the daemon takes nothing in it any more; written by `end`
        self._allocator = ArenaAllocator(nbytes // PLACE_ALIGNMENT * PLACE_ALIGNMENT)

    def end(self) -> None:
        """The daemon accepts nothing in it any more. Its device may still write there, so nothing is allocated from now
        on; call this before anything is freed."""
        self.ended = True
        self._allocator.close()

    def outgrow(self) -> None:
        """A larger arena has replaced this one: nothing is allocated in it any more."""
        self._allocator.close()

    @property
    def unused(self) -> bool:
        """True when no array lies in it."""
        return self._allocator.is_empty

    def empty(self, shape: Shape, dtype: Any) -> Any:
        """A new, uninitialised array in the arena. None when there is no room, when the arena has ended, or when the
        array has no bytes or holds objects. The memory is freed with the last view of the array."""
        raise NotImplementedError

    def offset_of(self, array: Any) -> Optional[int]:
        """Its offset in bytes; None when it lies elsewhere, is not contiguous or not aligned."""
        raise NotImplementedError


class Arena(ArenaBase):
    """One mapping of shared memory. It exists as long as this object or an array in it. Thread-safe."""

    def __init__(self, number: int, descriptor: int, nbytes: int) -> None:
        """Maps `nbytes` of the descriptor, which the caller keeps. Raises OSError or ValueError."""
        super().__init__(number, nbytes)
        self._mapping = mmap.mmap(descriptor, nbytes)
        self._address = int(np.frombuffer(self._mapping, np.uint8).__array_interface__["data"][0])

    def empty(self, shape: Shape, dtype: Any) -> Optional[np.ndarray]:
        """A new, uninitialised array in the arena. None when there is no room, when the arena has ended, or when the
        array has no bytes or holds objects. The memory is freed with the last view of the array."""
        dtype = np.dtype(dtype)
        extents = extents_of(shape)
        nbytes = math.prod(extents) * dtype.itemsize
        start = None if nbytes == 0 or dtype.hasobject else self._allocator.take(nbytes)
        if start is None:
            return None
        piece = np.asarray(_Piece(self._mapping, self._allocator, self._address, start, nbytes))
        return np.ndarray(extents, dtype, piece)

    def offset_of(self, array: np.ndarray) -> Optional[int]:
        """Its offset in bytes; None when it lies elsewhere, is not contiguous or not aligned."""
        if not array.flags.c_contiguous:
            return None
        offset = int(array.__array_interface__["data"][0]) - self._address
        inside = 0 <= offset <= self.nbytes - array.nbytes
        return offset if inside and offset % PLACE_ALIGNMENT == 0 else None


class _Piece:
    """A range of an arena, and the base of every numpy view of it: it frees the range when the last view has gone, on
    any thread."""

    __slots__ = ("__array_interface__", "_mapping", "_allocator", "_start", "_nbytes")

    def __init__(self, mapping: mmap.mmap, room: ArenaAllocator, address: int, start: int, nbytes: int) -> None:
        self._mapping = mapping  # keeps it mapped
        self._allocator = room
        self._start = start
        self._nbytes = nbytes
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1",
                                    "data": (address + start, False)}

    def __del__(self) -> None:
        self._allocator.give_back(self._start, self._nbytes)


def nbytes_of(shape: Shape, dtype: Any) -> int:
    """Bytes of such an array; 0 for objects, which can't be shared."""
    dtype = np.dtype(dtype)
    return 0 if dtype.hasobject else math.prod(extents_of(shape)) * dtype.itemsize


def extents_of(shape: Shape) -> Tuple[int, ...]:
    """The dimensions. Raises ValueError for a negative one."""
    extents = tuple(map(operator.index, shape)) if isinstance(shape, Sequence) else (operator.index(shape),)
    if min(extents, default=0) < 0:
        raise ValueError("negative dimensions are not allowed")
    return extents


class SharedPayload:
    """A request's input and its output memory in an arena, reserved as long as this object exists. Thread: the
    connection's, from the submit on."""

    def __init__(self, arena: ArenaBase, frames: Any, frames_at: int, outputs: Any, outputs_at: int) -> None:
        """frames: the input, contiguous, at offset `frames_at`; outputs: uint8, at `outputs_at`. Both lie in the arena:
        numpy arrays, or tensors of one on a GPU."""
        self.arena = arena
        self.frames = frames
        self.lent = 0  #: unanswered sends: while above 0 the daemon may use the memory
        self._outputs = outputs
        self._place = SharedPlace(arena.number, frames_at, outputs_at, outputs.nbytes)
        self._sent = False
        self._repeats = 0  # sent since it was last sent as no repeat
        self._stale = 0  # repeats from before that may still be answered UNKNOWN_REPEAT

    def lend(self) -> bytes:
        """Part 1 of the SUBMIT_SHARED to send now. All but the first are marked as repeats."""
        self.lent += 1
        self._repeats += self._sent
        place = self._place._replace(repeat=self._sent)
        self._sent = True
        return encode_place(place)

    def begin_again(self) -> bool:
        """Handles UNKNOWN_REPEAT: the next send is no repeat. False when the answer belongs to an earlier repeat: a
        second run could write to memory that has been reused."""
        if self._stale > 0:
            self._stale -= 1
            return False
        self._stale, self._repeats, self._sent = max(0, self._repeats - 1), 0, False
        return True

    def taker(self) -> Callable[[int], Any]:
        """A function that returns the next `nbytes` of the outputs as a view of the arena. It raises DecodeError when
        they exceed the reserved memory."""
        begin = 0

        def take(nbytes: int) -> Any:
            nonlocal begin
            if nbytes > self._outputs.nbytes - begin:
                raise DecodeError("bad_result")
            taken = self._outputs[begin:begin + nbytes]
            begin += room_for(nbytes)
            return taken
        return take
