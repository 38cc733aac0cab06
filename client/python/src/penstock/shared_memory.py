"""What goes through memory that is shared with the daemon, and what does not."""
from __future__ import annotations

import threading
import time
from concurrent import futures
from concurrent.futures import Future
from typing import Any, Callable, Optional

import numpy as np

from . import frames
from .arena import Arena, Shape
from .control import PipelineDescription, Welcome
from .exchange import Attachment, Exchange, Patience
from .placement import Placement
from .tenancy import Tenancy
from .wire import room_for

#: Requests below this are not worth a place in shared memory, unless they lie there anyway.
SHARE_FROM_BYTES = 16384
#: How long to wait until an arena is asked for again, in seconds; twice as long each time that there was none.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


class SharedMemory:
    """The callers' side of an arena. Every method may be called from any thread."""

    def __init__(self, nbytes: int, timeout: float, patience: Patience, tenancy: Tenancy,
                 start: Callable[[Exchange], None], welcome: Callable[[], Optional[Welcome]]) -> None:
        """nbytes: how much to ask for, where the daemon gives so much; timeout: seconds until it must be there."""
        self._nbytes = nbytes
        self._timeout = timeout
        self._patience = patience
        self._tenancy = tenancy
        self._start = start
        self._welcome = welcome
        self._lock = threading.Lock()
        self._asking: Optional[Future[Arena]] = None
        self._not_before = 0.0  # in time.monotonic()'s seconds
        self._pause = _FIRST_PAUSE_S

    @property
    def arena(self) -> Optional[Arena]:
        """The one that is in use; None when there is none."""
        return self._tenancy.arena

    def fetch(self) -> Optional[Future[Arena]]:
        """Asks for an arena in the background. The future of its coming; None where there is one, where the daemon
        offers none, and for a while after one could not be had."""
        with self._lock:
            if self._asking is not None and not self._asking.done():
                return self._asking
            welcome, now = self._welcome(), time.monotonic()
            offered = 0 if welcome is None else min(self._nbytes, welcome.shared_bytes)
            if self.arena is not None or offered == 0 or now < self._not_before:
                return None
            self._not_before = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
            asking = Attachment(offered, self._timeout, self._patience)
            self._asking = asking.future
        asking.future.add_done_callback(self._fetched)
        self._start(asking)
        return asking.future

    def empty(self, shape: Shape, dtype: Any, wait: bool) -> np.ndarray:
        """An array in the arena, which `wait` waits for; an ordinary one where there is none, or no room in it."""
        asked = self.fetch() if self.arena is None else None
        if asked is not None and wait:
            futures.wait([asked], self._timeout)
        arena = self.arena
        made = None if arena is None else arena.empty(shape, dtype)
        return np.empty(shape, dtype) if made is None else made

    def place(self, pipeline: PipelineDescription, batch: np.ndarray, dtype: np.dtype[Any]) -> Optional[Placement]:
        """Where to send the frames of `batch` from, which are to be of that dtype: where they lie, if that is in the
        arena, else a copy of them there. None for few bytes, and when there is no arena or no room in it: they then go
        through the socket."""
        arena, large = self.arena, batch.nbytes >= SHARE_FROM_BYTES
        if arena is None:
            if large:
                # The first large request asks, and not the welcome: small users need no memory pinned for them.
                self.fetch()
            return None
        offset = arena.offset_of(batch) if batch.dtype == dtype else None
        if offset is None and not large:
            return None
        outputs = arena.empty(sum(room_for(frames.most_bytes(each, len(batch))) for each in pipeline.outputs), np.uint8)
        placed = batch if offset is not None else arena.empty(batch.shape, dtype)
        if outputs is None or placed is None:
            return None
        if offset is None:
            np.copyto(placed, batch)
        return Placement(arena, placed, arena.offset_of(placed) or 0, outputs, arena.offset_of(outputs) or 0)

    def _fetched(self, asked: Future[Arena]) -> None:
        if not asked.cancelled() and asked.exception() is None:
            self._pause = _FIRST_PAUSE_S
