"""What goes through memory that is shared with the daemon, and what does not."""
from __future__ import annotations

import threading
import time
from concurrent import futures
from concurrent.futures import Future
from typing import Any, Callable, Optional, Tuple

import numpy as np

from . import frames
from .arena import Arena, Shape, nbytes_of
from .arena_size import ArenaSize
from .control import PipelineDescription, Welcome
from .errors import Rejected
from .exchange import Attachment, Exchange, Patience
from .placement import Placement
from .tenancy import Tenancy
from .wire import Status, room_for

#: Requests whose frames and whose outputs are below this are not worth a place in shared memory, unless they lie there
#: anyway.
SHARE_FROM_BYTES = 16384
#: How long to wait until an arena is asked for again, in seconds; twice as long each time that there was none.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


class SharedMemory:
    """The callers' side of an arena. Every method may be called from any thread."""

    def __init__(self, nbytes: int, first: int, timeout: float, patience: Patience, tenancy: Tenancy,
                 start: Callable[[Exchange], None], welcome: Callable[[], Optional[Welcome]]) -> None:
        """nbytes: how much to ask for at most, where the daemon gives so much; first: how much to begin with; timeout:
        seconds until it must be there."""
        self._nbytes = nbytes
        self._first = first
        self._timeout = timeout
        self._patience = patience
        self._tenancy = tenancy
        self._start = start
        self._welcome = welcome
        self._lock = threading.Lock()
        self._asking: Optional[Future[Arena]] = None
        self._not_before = 0.0  # in time.monotonic()'s seconds
        self._pause = _FIRST_PAUSE_S
        self._shared = self._unshared = 0  # requests; under the lock

    @property
    def requests(self) -> Tuple[int, int]:
        """How many found room there, and how many large ones did not."""
        with self._lock:
            return self._shared, self._unshared

    @property
    def arena(self) -> Optional[Arena]:
        """The one that is in use; None when there is none."""
        return self._tenancy.arena

    def fetch(self, need: int = 0) -> Optional[Future[Arena]]:
        """Asks in the background for an arena in which a request of so many bytes has room, which it has found in none.
        The future of its coming; None where the daemon offers none, or no larger one, and for a while after one could
        not be had."""
        with self._lock:
            if self._asking is not None and not self._asking.done():
                return self._asking
            arena, now = self.arena, time.monotonic()
            size = ArenaSize(self._first, need, 0 if arena is None else arena.nbytes)
            if self._offered(size) == 0 or now < self._not_before:
                return None
            self._not_before = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
            asking: Future[Arena] = Future()
            self._asking = asking
        self._ask(size, asking)
        return asking

    def empty(self, shape: Shape, dtype: Any, wait: bool) -> np.ndarray:
        """An array in the arena, which `wait` waits for; an ordinary one where there is none, or no room in it."""
        made = self._empty(shape, dtype)
        if made is None:
            need = nbytes_of(shape, dtype)
            asked = self.fetch(need) if need > 0 or self.arena is None else None
            if asked is not None and wait:
                futures.wait([asked], self._timeout)
                made = self._empty(shape, dtype)
        return np.empty(shape, dtype) if made is None else made

    def place(self, pipeline: PipelineDescription, batch: np.ndarray, dtype: np.dtype[Any]) -> Optional[Placement]:
        """Where to send the frames of `batch` from, which are to be of that dtype: where they lie, if that is in the
        arena, else a copy of them there. None for few bytes there and back, and when there is no arena or no room in it: they then go
        through the socket."""
        room = sum(room_for(frames.most_bytes(each, len(batch))) for each in pipeline.outputs)
        large = max(batch.nbytes, _likely_output(pipeline, batch)) >= SHARE_FROM_BYTES
        placement = self._place(batch, dtype, room, large)
        with self._lock:
            self._shared += placement is not None
            self._unshared += placement is None and large
        if placement is None and large:
            # The first large request asks, and not the welcome: small users need no memory pinned for them.
            self.fetch(room_for(batch.nbytes) + room)
        return placement

    def _place(self, batch: np.ndarray, dtype: np.dtype[Any], room: int, large: bool) -> Optional[Placement]:
        arena = self.arena
        if arena is None:
            return None
        offset = arena.offset_of(batch) if batch.dtype == dtype else None
        if offset is None and not large:
            return None
        outputs = arena.empty(room, np.uint8)
        placed = batch if offset is not None else arena.empty(batch.shape, dtype)
        if outputs is None or placed is None:
            return None
        if offset is None:
            np.copyto(placed, batch)
        return Placement(arena, placed, arena.offset_of(placed) or 0, outputs, arena.offset_of(outputs) or 0)

    def _empty(self, shape: Shape, dtype: Any) -> Optional[np.ndarray]:
        arena = self.arena
        return None if arena is None else arena.empty(shape, dtype)

    def _offered(self, size: ArenaSize) -> int:
        welcome = self._welcome()
        return 0 if welcome is None else size.next(min(self._nbytes, welcome.shared_bytes))

    def _ask(self, size: ArenaSize, asking: Future[Arena]) -> None:
        attempt = Attachment(self._offered(size), self._timeout, self._patience)
        attempt.future.add_done_callback(lambda done: self._answered(done, size, asking))
        self._start(attempt)

    def _answered(self, attempt: Future[Arena], size: ArenaSize, asking: Future[Arena]) -> None:
        error = attempt.exception()
        if error is None:
            self._pause, self._not_before = _FIRST_PAUSE_S, 0.0
            asking.set_result(attempt.result())
        elif _lacks_room(error) and size.halve():
            self._ask(size, asking)
        else:
            asking.set_exception(error)


def _likely_output(pipeline: PipelineDescription, batch: np.ndarray) -> int:
    """What the outputs are likely to take up: those of variable length as long in proportion as the input."""
    part = batch.shape[1] / pipeline.input.shape[0] if pipeline.input.variable else 1.0
    return sum(room_for(int((part if each.variable else 1.0) * frames.most_bytes(each, len(batch))))
               for each in pipeline.outputs)


def _lacks_room(error: BaseException) -> bool:
    """Whether the daemon has refused so much memory, and might have less."""
    return isinstance(error, Rejected) and error.step != "client" and error.status in (Status.REJECTED, Status.TOO_LARGE)
