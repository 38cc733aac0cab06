"""One message that waits for its answer."""
from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any, List, Optional

from . import wire
from .control import PipelineDescription
from .frames import Frames


class Exchange:
    """A SUBMIT, PING or GET_STATUS from its sending until its answer. Only the connection's thread touches it, once it
    has been handed over; the future is the caller's side of it."""

    def __init__(self, kind: wire.MessageType, request_id: int, timeout: Optional[float], grace: float,
                 retry_after: float) -> None:
        self.kind = kind
        self.request_id = request_id
        self.future: Future[Any] = Future()
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.expires = None if self.deadline is None else self.deadline + grace
        self.wait = retry_after  #: until it is sent again, in seconds
        self.sent_at: Optional[float] = None  #: last time; None while it waits to be sent
        self.seen = False  #: the daemon may know it
        self.cancelling = False  #: CANCEL is what is sent for it from now on
        self.answered = False  #: its future is done
        self.credit_bytes: Optional[int] = None  #: taken from the credits
        self.pipeline: Optional[PipelineDescription] = None
        self.frames: Optional[Frames] = None
        self.trace_id = wire.NO_TRACE

    def parts(self, now: float) -> List[Any]:
        """The message to send now. What is left of the timeout goes with it."""
        if self.cancelling:
            return [wire.encode_header(wire.Header(wire.MessageType.CANCEL, self.request_id))]
        if self.frames is None or self.pipeline is None:
            return [wire.encode_header(wire.Header(self.kind, self.request_id))]
        left = 0 if self.deadline is None else max(1, int((self.deadline - now) * 1e9))
        header = wire.Header(self.kind, self.request_id, left, self.pipeline.id, tensors=1, frames=self.frames.count,
                             trace_id=self.trace_id)
        return [wire.encode_header(header) + wire.encode_tensor(self.frames.tensor), self.frames.payload]

    def answer(self, value: Any = None, error: Optional[BaseException] = None) -> None:
        """Ends the future, once; later answers are ignored."""
        if self.answered:
            return
        self.answered = True
        self.frames = None  # the caller's array is theirs again
        if self.future.set_running_or_notify_cancel():
            if error is not None:
                self.future.set_exception(error)
            else:
                self.future.set_result(value)
