"""Memory that a client shares with the daemon, as numpy arrays."""
from __future__ import annotations

import math
import mmap
import operator
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from .room import Room
from .wire import PLACE_ALIGNMENT

Shape = Union[int, Sequence[int]]


class Arena:
    """One such memory. It stays mapped as long as this object, or an array in it, is there. Every method may be called
    from any thread."""

    def __init__(self, number: int, descriptor: int, nbytes: int) -> None:
        """Maps a descriptor of at least that size, which stays the caller's. Raises OSError or ValueError."""
        self.number = number  #: the daemon's for it
        self.nbytes = nbytes
        self.ended = False  #: the daemon takes nothing in it any more; written by `end`
        self._mapping = mmap.mmap(descriptor, nbytes)
        self._address = int(np.frombuffer(self._mapping, np.uint8).__array_interface__["data"][0])
        self._room = Room(nbytes // PLACE_ALIGNMENT * PLACE_ALIGNMENT)

    def end(self) -> None:
        """The daemon takes nothing in it any more, but its device may still write there: no room in it is given out from
        now on, and so this comes before any goes back."""
        self.ended = True
        self._room.close()

    def outgrow(self) -> None:
        """What comes from now on has room in a larger one."""
        self._room.close()

    @property
    def unused(self) -> bool:
        """Whether nothing lies in it."""
        return self._room.is_empty

    def empty(self, shape: Shape, dtype: Any) -> Optional[np.ndarray]:
        """A new array in it, whatever it then holds; None when there is no room, when it has ended, or when the array
        has no bytes or holds objects. Its room is given back when the last view of it has gone."""
        dtype = np.dtype(dtype)
        extents = _extents(shape)
        nbytes = math.prod(extents) * dtype.itemsize
        start = None if nbytes == 0 or dtype.hasobject else self._room.take(nbytes)
        if start is None:
            return None
        piece = np.asarray(_Piece(self._mapping, self._room, self._address, start, nbytes))
        return np.ndarray(extents, dtype, piece)

    def offset_of(self, array: np.ndarray) -> Optional[int]:
        """Where it begins; None when it does not lie in here as a place wants it: contiguous, and aligned."""
        if not array.flags.c_contiguous:
            return None
        offset = int(array.__array_interface__["data"][0]) - self._address
        inside = 0 <= offset <= self.nbytes - array.nbytes
        return offset if inside and offset % PLACE_ALIGNMENT == 0 else None


class _Piece:
    """A range of an arena, and what numpy makes the base of each view of it: when the last has gone, on whichever
    thread and however late, the range is given back."""

    __slots__ = ("__array_interface__", "_mapping", "_room", "_start", "_nbytes")

    def __init__(self, mapping: mmap.mmap, room: Room, address: int, start: int, nbytes: int) -> None:
        self._mapping = mapping  # stays mapped so long
        self._room = room
        self._start = start
        self._nbytes = nbytes
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1",
                                    "data": (address + start, False)}

    def __del__(self) -> None:
        self._room.give_back(self._start, self._nbytes)


def nbytes_of(shape: Shape, dtype: Any) -> int:
    """What such an array takes up; 0 for one of objects, which can't be shared."""
    dtype = np.dtype(dtype)
    return 0 if dtype.hasobject else math.prod(_extents(shape)) * dtype.itemsize


def _extents(shape: Shape) -> Tuple[int, ...]:
    extents = tuple(map(operator.index, shape)) if isinstance(shape, Sequence) else (operator.index(shape),)
    if min(extents, default=0) < 0:
        raise ValueError("negative dimensions are not allowed")
    return extents
