"""Where one request lies in an arena."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .arena import Arena
from .wire import DecodeError, SharedPlace, Status, encode_place, room_for

#: A SUBMIT_SHARED was not taken because of where it lies, or because nobody knows whether that is still its place.
PLACE_REFUSALS = (Status.UNKNOWN_ARENA, Status.BAD_PLACE, Status.UNKNOWN_REPEAT)


class Placement:
    """A request's input and the room for its outputs, reserved as long as this object is there. Thread: the
    connection's, once it has been handed over."""

    def __init__(self, arena: Arena, frames: np.ndarray, frames_at: int, outputs: np.ndarray, outputs_at: int) -> None:
        """frames: the input, contiguous; outputs: bytes. Both lie in the arena."""
        self.arena = arena
        self.frames = frames
        self.lent = 0  #: how often it was sent without an answer: the daemon may use it
        self._outputs = outputs
        self._place = SharedPlace(arena.number, frames_at, outputs_at, outputs.nbytes)
        self._sent = False
        self._repeats = 0  # sent since it was last sent as no repeat
        self._stale = 0  # repeats from before that may still be answered UNKNOWN_REPEAT

    def lend(self) -> bytes:
        """Part 1 of the SUBMIT_SHARED that is sent now. All but the first say that they are repeats."""
        self.lent += 1
        self._repeats += self._sent
        place = self._place._replace(repeat=self._sent)
        self._sent = True
        return encode_place(place)

    def begin_again(self) -> bool:
        """UNKNOWN_REPEAT came: the next one that is sent is no repeat. False for what answers a repeat from before one
        that was sent for that reason: a second could run when its memory has another use."""
        if self._stale > 0:
            self._stale -= 1
            return False
        self._stale, self._repeats, self._sent = max(0, self._repeats - 1), 0, False
        return True

    def taker(self) -> Callable[[int], Any]:
        """Takes one output after the other: so many bytes, as a view of the arena. Raises DecodeError where there was
        no room for them."""
        begin = 0

        def take(nbytes: int) -> np.ndarray:
            nonlocal begin
            if nbytes > self._outputs.nbytes - begin:
                raise DecodeError("bad_result")
            taken = self._outputs[begin:begin + nbytes]
            begin += room_for(nbytes)
            return taken
        return take
