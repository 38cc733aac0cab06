"""Messages that wait for their answers."""
from __future__ import annotations

import logging
import os
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional

from . import control, frames, wire
from .control import PipelineDescription
from .errors import Cancelled, PenstockError, Rejected
from .placement import Placement
from .wire import MessageType, Status

if TYPE_CHECKING:
    from .session_requests import SessionRequests

LOGGER = logging.getLogger("penstock")


class Patience(NamedTuple):
    """Times in seconds."""
    retry_after: float = 2.0  #: without an answer a request is sent again; each further wait is twice the last
    retry_limit: float = 16.0  #: the longest such wait
    grace: float = 0.25  #: how much longer than its timeout a request waits for the daemon's own word


class Reply(Future):  # type: ignore[type-arg]
    """The future of an answer. A forked process, which has no thread that could bring it, does not wait for it; and its
    client lives as long as it does."""

    def __init__(self) -> None:
        super().__init__()
        self.request_id = 0
        self.client: object = None  #: kept alive
        self._process = os.getpid()

    def result(self, timeout: Optional[float] = None) -> Any:
        self._check_process()
        return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        self._check_process()
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """As every future's. What it raises is logged, also SystemExit when the client's own thread calls it."""
        caller = threading.current_thread()

        def guarded(done: Future[Any]) -> None:
            try:
                fn(done)
            except Exception:
                raise  # logged by concurrent.futures
            except BaseException:
                if threading.current_thread() is caller:
                    raise
                LOGGER.exception("penstock: a callback of a future wanted to end the client's thread, which goes on")
        super().add_done_callback(guarded)

    def _check_process(self) -> None:
        if not self.done() and os.getpid() != self._process:
            raise RuntimeError(foreign_process(self._process))


def done_within(future: Future[Any], deadline: float) -> bool:
    """Whether it is done by then, in time.monotonic()'s seconds; waits for it."""
    if not future.done():
        wait([future], max(0.0, deadline - time.monotonic()))
    return future.done()


def foreign_process(owner: int) -> str:
    """What a forked process is told of its parent's client."""
    return (f"this client belongs to process {owner}, which forked this one: its connection can't be used here. Make a "
            "Client in each process, after the fork")


class Exchange:
    """A message from its sending until its answer. Only the connection's thread touches it, once it has been handed
    over; the future is the caller's side of it."""

    def __init__(self, kind: MessageType, answer_kind: MessageType, timeout: Optional[float],
                 patience: Patience) -> None:
        self.kind = kind
        self.answer_kind = answer_kind
        self.request_id = 0  #: 0 until it is handed over
        self.future = Reply()
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.expires = None if self.deadline is None else self.deadline + patience.grace
        self.wait = patience.retry_after  #: until it is sent again, in seconds
        self.sent_at: Optional[float] = None  #: last time; None while it waits to be sent
        self.seen = False  #: the daemon may know it
        self.cancelling = False  #: CANCEL is what is sent for it from now on
        self.answered = False  #: its future is done
        self.credit_bytes: Optional[int] = None  #: taken from the credits
        self.pipeline: Optional[PipelineDescription] = None
        self.session: Optional[SessionRequests] = None  #: the one whose order it keeps
        self.placement: Optional[Placement] = None  #: its place in shared memory

    @property
    def lingers(self) -> bool:
        """Whether it has to be seen to its end when nobody waits for it any more."""
        return False

    def answered_by(self, kind: int) -> bool:
        """Whether a message of that type is its answer."""
        return kind == self.answer_kind

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        """What to send now, to the daemon that said WELCOME last."""
        return [[wire.encode_header(wire.Header(self.kind, self.request_id))]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Any:
        """What its answer says. Raises DecodeError."""
        raise NotImplementedError

    def cancel(self) -> None:
        """From now on the daemon is asked to give it up."""
        self.cancelling = True

    def follow(self, welcome: control.Welcome) -> Optional[PenstockError]:
        """The daemon is a new one: it knows nothing of this, and may number its pipelines otherwise. Why it can't be
        sent to that one; None when it can."""
        if self.cancelling:
            return Cancelled("the daemon restarted", step="client", request_id=self.request_id)
        if self.pipeline is not None:
            found = welcome.by_name.get(self.pipeline.name)
            if found is None or not found.serves(self.pipeline):
                return Rejected(f"the daemon restarted without the pipeline {self.pipeline.name!r} as it was",
                                status=Status.UNKNOWN_PIPELINE, step="client", request_id=self.request_id)
            self.pipeline = found
        return None

    def release(self) -> None:
        """Lets go of what it holds of its caller's."""

    def answer(self, value: Any = None, error: Optional[BaseException] = None) -> None:
        """Ends the future, once; later answers are ignored."""
        if self.answered:
            return
        self.answered = True
        try:
            if self.future.set_running_or_notify_cancel():
                if error is not None:
                    self.future.set_exception(error)
                else:
                    self.future.set_result(value)
        except BaseException:  # a callback's
            LOGGER.exception("penstock: a callback of a future failed")


class Ping(Exchange):
    """PING. Gives the seconds from its sending to PONG."""

    def __init__(self, timeout: Optional[float], patience: Patience) -> None:
        super().__init__(MessageType.PING, MessageType.PONG, timeout, patience)

    def read(self, header: wire.Header, parts: List[Any], now: float) -> float:
        return now - (self.sent_at or now)


class StatusQuestion(Exchange):
    """GET_STATUS. Gives the daemon's counters."""

    def __init__(self, timeout: Optional[float], patience: Patience) -> None:
        super().__init__(MessageType.GET_STATUS, MessageType.STATUS_REPORT, timeout, patience)

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Any:
        return control.decode_json(control.body_of(parts))


class TraceQuestion(Exchange):
    """GET_TRACE. Gives recent batches, and the next cursor."""

    def __init__(self, cursor: int, timeout: Optional[float], patience: Patience) -> None:
        super().__init__(MessageType.GET_TRACE, MessageType.TRACE_REPORT, timeout, patience)
        self._cursor = cursor

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        return [[wire.encode_header(wire.Header(self.kind, self.request_id, sequence=self._cursor))]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Any:
        return control.decode_json(control.body_of(parts)), header.sequence


class Opening(Exchange):
    """OPEN. The connection makes the session of its answer."""

    def __init__(self, pipeline: PipelineDescription, name: str, timeout: Optional[float],
                 patience: Patience) -> None:
        super().__init__(MessageType.OPEN_SESSION, MessageType.SESSION_OPENED, timeout, patience)
        self.pipeline: PipelineDescription = pipeline
        self.name = name
        self.behind: Optional[SessionRequests] = None  #: one of the same name that is closing

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        body = control.encode(control.OpenSession(self.pipeline.id, self.name))
        return [[wire.encode_header(wire.Header(self.kind, self.request_id)), body]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> control.SessionOpened:
        opened = control.decode(control.SessionOpened, control.body_of(parts))
        if opened.session == 0:
            raise wire.DecodeError("bad_body", header.request_id)
        return opened


class Attachment(Exchange):
    """ATTACH. Gives the arena, which the connection fetches where its answer says."""

    def __init__(self, nbytes: int, timeout: float, patience: Patience) -> None:
        super().__init__(MessageType.ATTACH, MessageType.ATTACHED, timeout, patience)
        self._nbytes = nbytes

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        body = control.encode(control.Attach(self._nbytes))
        return [[wire.encode_header(wire.Header(self.kind, self.request_id)), body]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> control.Attached:
        return control.decode(control.Attached, control.body_of(parts))


class PlaceQuestion(Exchange):
    """CANCEL of a request that has ended here, until the daemon says that it does not use its memory any more. Whenever
    it begins it leaves the daemon time to say so by itself."""

    def __init__(self, request_id: int, patience: Patience) -> None:
        super().__init__(MessageType.CANCEL, MessageType.RELEASED, None, patience)
        self.request_id = request_id
        self.cancelling = self.answered = True  # nobody waits for it
        self.asked = False  #: an answer without `holds` is the last word
        self.begins = True  #: nothing is sent the next time

    def answered_by(self, kind: int) -> bool:
        return kind in (MessageType.RESULT, MessageType.RESULT_SHARED, MessageType.RELEASED)

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        begins, self.begins = self.begins, False
        self.asked = self.asked or not begins
        return [] if begins else super().messages(now, welcome)


class Request(Exchange):
    """SUBMIT, or SUBMIT_SHARED as long as its frames lie in an arena that the daemon knows. Gives its `Result`.

    One of a session is needed until the daemon has taken it, even when nobody waits for it any more: its frames are
    part of what the session's later results are made of.
    """

    def __init__(self, pipeline: PipelineDescription, packed: frames.Frames, trace_id: bytes, timeout: Optional[float],
                 patience: Patience) -> None:
        super().__init__(MessageType.SUBMIT, MessageType.RESULT, timeout, patience)
        self.pipeline: PipelineDescription = pipeline
        self.frames: Optional[frames.Frames] = packed
        self.placement = packed.placement
        self.nbytes = packed.tensor.nbytes  #: of its frames
        self.sequence = 0  #: frames that its session had before its first
        self._trace_id = trace_id
        self._count, self._single = packed.count, packed.single
        self._cancel_alone = False
        self.placed = packed.placement is not None  #: it began in shared memory
        self._in_place = True  # until the daemon has refused the place

    @property
    def end_sequence(self) -> int:
        """Frames that its session has with it."""
        return self.sequence + self._count

    @property
    def lingers(self) -> bool:
        return self.seen or self.session is not None

    def answered_by(self, kind: int) -> bool:
        return kind in (MessageType.RESULT, MessageType.RESULT_SHARED)

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        """SUBMIT, with what is left of the timeout; once it is cancelled, CANCEL. In a session a CANCEL that is
        repeated has the SUBMIT before it again."""
        messages = []
        if self.frames is not None and not self._cancel_alone:
            messages.append(self._submit(self.frames, now, welcome))
        self._cancel_alone = False
        if self.cancelling:
            messages.append([wire.encode_header(wire.Header(MessageType.CANCEL, self.request_id))])
        return messages

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Any:
        if header.type == MessageType.RESULT_SHARED:
            if len(parts) != 1 or self.placement is None:
                raise wire.DecodeError("bad_result", header.request_id)
            take = self.placement.taker()
        else:
            if len(parts) not in (1, 1 + header.tensors):
                raise wire.DecodeError("bad_result", header.request_id)
            take = frames.taken_from(parts[1:] or wire.inline_payloads(parts[0], header))
        return frames.unpack(self.pipeline.outputs, header, parts[0], take, self._single)

    def refuse_place(self, status: int) -> bool:
        """The daemon did not take it where it lies. Whether it is to be sent again: not for an ERROR that is about what
        was sent before it was last sent otherwise."""
        if self.kind != MessageType.SUBMIT_SHARED:
            return False
        if status == Status.UNKNOWN_REPEAT and self.placement is not None:
            return self.placement.begin_again()
        self._in_place = False
        return True

    def cancel(self) -> None:
        self.cancelling = True
        if self.session is None:
            self.frames = None
        self._cancel_alone = self.sent_at is not None

    def release(self) -> None:
        self.placement = None
        if self.session is None:
            self.frames = None
        elif self.frames is not None:
            self.frames = self.frames.copied()

    def _submit(self, packed: frames.Frames, now: float, welcome: control.Welcome) -> List[Any]:
        left = 0 if self.deadline is None else max(1, int((self.deadline - now) * 1e9))
        place = self.placement if self._in_place else None
        if place is not None and place.arena.ended:
            place = None
        self.kind = MessageType.SUBMIT if place is None else MessageType.SUBMIT_SHARED
        header = wire.Header(self.kind, self.request_id, left, self.pipeline.id,
                             0 if self.session is None else self.session.number, self.sequence, tensors=1,
                             frames=packed.count, trace_id=self._trace_id)
        head = wire.encode_header(header) + wire.encode_tensor(packed.tensor)
        if place is not None:
            return [head, place.lend()]
        if welcome.inline_bytes > 0 and packed.tensor.nbytes <= min(welcome.inline_bytes, wire.MAX_INLINE_BYTES):
            return [b"".join((head, packed.payload))]
        return [head, packed.payload]
