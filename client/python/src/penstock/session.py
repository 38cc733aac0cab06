"""The caller's side of a session."""
from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Callable, Optional, Type

from . import wire
from .connection import Connection
from .control import PipelineDescription
from .errors import SessionLost
from .exchange import Request
from .frames import pack
from .result import Result
from .session_requests import SessionRequests

#: Stands for a timeout that was not given: the client's.
DEFAULT: Any = object()


class Session:
    """An ordered sequence of frames that share what a pipeline's operators remember: a filter's history, running
    statistics. From `Client.session`.

        with c.session("spectrogram") as s:
            futures = [s.submit(block) for block in blocks]
            for f in futures:
                f.result()["fir"]

    Order: requests are numbered as `submit` takes them, go through the pipeline in that order, and are sent again in
    it. No frame runs twice. A request that expires or is cancelled still goes through the state when its turn comes, so
    that what follows it is right. Its array is the caller's again (but for one of `Client.empty`, see there); its
    frames are kept for 10 s, should the daemon still need them.

    Loss: when the daemon restarts, has dropped the session (it was idle for too long), refuses one of its requests, or
    needs frames that are no longer kept, nothing can follow. The refused request ends with its own error, the others in
    flight with `SessionLost`, and later submits raise that. Open another session and begin anew. A reply that the
    daemon no longer keeps (`REPLY_GONE`) is no such loss: its request alone ends with that. Nor is `NO_CREDIT`: the
    request, and what follows it, is sent again after a pause, until its timeout.

    Every method may be called from any thread; the order of requests of several threads is for the caller to settle.
    """

    def __init__(self, connection: Connection, requests: SessionRequests, pipeline: PipelineDescription, name: str,
                 submit: Callable[..., Future[Result]]) -> None:
        self.name = name  #: what the daemon calls it
        self.pipeline = pipeline  #: what it was opened on
        self._connection = connection
        self._requests = requests
        self._submit = submit
        self._lock = threading.Lock()
        self._frames = 0
        self._finalizer = weakref.finalize(self, connection.close_session, requests)

    @property
    def frames(self) -> int:
        """How many frames `submit` has taken."""
        return self._frames

    def submit(self, x: Any, *, timeout: Optional[float] = DEFAULT, block: bool = True,
               trace_id: bytes = wire.NO_TRACE, frames: Optional[int] = None) -> Future[Result]:
        """Sends the session's next frames and returns the future of their result: `Client.submit` for its pipeline.

        Where the pipeline takes "max N", a variable output may have another length for each request, also 0: a
        decimation by 8 gives 97 or 98 for 777 samples. One frame may have any length from 1 to N. Several frames must
        have a length that is a multiple of `pipeline.period`: send one longer frame rather than those.

        Raises SessionLost when the session is lost or closed, ValueError also for several frames of another length,
        and what `Client.submit` raises. What raises has no place in the session: its frames do not count.
        """
        packed = pack(self.pipeline, x, self._connection.shared.place, frames)
        length, period = packed.tensor.shape[1:2], self.pipeline.period
        if packed.count > 1 and self.pipeline.input.variable and period > 1 and length[0] % period != 0:
            raise ValueError(f"several frames of pipeline {self.pipeline.name!r} in a session have a length that is a "
                             f"multiple of {period}, not {length[0]}: submit them as one longer frame")
        return self._submit(self.pipeline, packed, timeout, block, trace_id, self._start)

    def close(self) -> None:
        """Takes no more. What is in flight still ends as it would have; then the daemon drops the state. A second call
        does nothing."""
        with self._lock:
            self._finalizer()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def _start(self, request: Request) -> None:
        """Numbering and handing over are one step, so that requests are sent in the order of their numbers."""
        with self._lock:
            if self._requests.lost is not None:
                raise self._requests.error()
            if not self._finalizer.alive:
                raise SessionLost("the session is closed", step="client")
            request.session, request.sequence = self._requests, self._frames
            self._connection.start(request)
            self._frames = request.end_sequence
