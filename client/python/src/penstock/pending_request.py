"""Requests that wait for an answer of the daemon, and their futures."""
from __future__ import annotations

import logging
import os
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import control, frames, wire
from .arena import SharedPayload
from .control import NumberSetting, PipelineDescription
from .errors import Cancelled, PenstockError, Rejected, SessionLost
from .tensor import Tensor
from .wire import MessageType, Status

if TYPE_CHECKING:
    from .session_requests import SessionRequests

LOGGER = logging.getLogger("penstock")


class Patience(NamedTuple):
    """Retry times, in seconds."""
    retry_after: float = 2.0  #: without an answer a request is sent again; each further wait is twice the last
    retry_limit: float = 16.0  #: the longest such wait
    grace: float = 0.25  #: how much longer than its timeout a request waits for the daemon's own word


class Reply(Future):  # type: ignore[type-arg]
    """The future of an answer. It keeps its client alive. In a forked process, which has no connection thread, waiting
    raises RuntimeError."""

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
        """As in Future. Exceptions of the callback are logged, also SystemExit on the client's own thread."""
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
    """Waits until the deadline, in seconds of time.monotonic(). True when the future is done."""
    if not future.done():
        wait([future], max(0.0, deadline - time.monotonic()))
    return future.done()


def foreign_process(owner: int) -> str:
    """The error text for a client that is used in a forked process."""
    return (f"this client belongs to process {owner}, which forked this one: its connection can't be used here. Make a "
            "Client in each process, after the fork")


class PendingRequest:
    """A message that waits for its answer. After `start` only the connection's thread may touch it; the caller has the
    future."""

    def __init__(self, kind: MessageType, answer_kind: MessageType, timeout: Optional[float],
                 patience: Patience) -> None:
        self.kind = kind
        self.answer_kind = answer_kind
        self.request_id = 0  #: 0 before it is started
        self.future = Reply()
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.expires = None if self.deadline is None else self.deadline + patience.grace
        self.wait = patience.retry_after  #: seconds until the next repeat
        self.sent_at: Optional[float] = None  #: time of the last send; None while it waits to be sent
        self.seen = False  #: the daemon may know it
        self.cancelling = False  #: from now on CANCEL is sent
        self.answered = False  #: its future is done
        self.credit_bytes: Optional[int] = None  #: taken from the credits
        self.pipeline: Optional[PipelineDescription] = None
        self.session: Optional[SessionRequests] = None  #: its session, if any
        self.placement: Optional[SharedPayload] = None  #: its memory in the arena, if any

    @property
    def lingers(self) -> bool:
        """True when it must be tracked until the daemon answers, even without a waiting caller."""
        return False

    def answered_by(self, kind: int) -> bool:
        """True when a message of that type is its answer."""
        return kind == self.answer_kind

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        """The messages to send now; `welcome` is the daemon's latest."""
        return [[wire.encode_header(wire.Header(self.kind, self.request_id))]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Any:
        """Decodes the answer. Raises DecodeError."""
        raise NotImplementedError

    def cancel(self) -> None:
        """From now on CANCEL is sent."""
        self.cancelling = True

    def follow(self, welcome: control.Welcome) -> Optional[PenstockError]:
        """Adapts the request to a restarted daemon, which may number its pipelines differently. Returns an error when
        it can't be sent to that daemon, else None."""
        if self.cancelling:
            return Cancelled("the daemon restarted", step="client", request_id=self.request_id)
        if self.pipeline is not None:
            found = welcome.by_name.get(self.pipeline.name)
            if found is None or not found.serves(self.pipeline):
                why = welcome.why_quarantined(self.pipeline.name)
                return Rejected(why or f"the daemon restarted without the pipeline {self.pipeline.name!r} as it was",
                                status=Status.UNKNOWN_PIPELINE, step="client", request_id=self.request_id)
            self.pipeline = found
        return None

    def release(self) -> None:
        """Drops its references to the caller's memory."""

    def answer(self, value: Any = None, error: Optional[BaseException] = None) -> None:
        """Completes the future, once; later answers are ignored."""
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


class PingRequest(PendingRequest):
    """PING. Gives the seconds from its sending to PONG."""

    def __init__(self, timeout: Optional[float], patience: Patience) -> None:
        super().__init__(MessageType.PING, MessageType.PONG, timeout, patience)

    def read(self, header: wire.Header, parts: List[Any], now: float) -> float:
        return now - (self.sent_at or now)


class StatusRequest(PendingRequest):
    """GET_STATUS. Gives the daemon's counters."""

    def __init__(self, timeout: Optional[float], patience: Patience) -> None:
        super().__init__(MessageType.GET_STATUS, MessageType.STATUS_REPORT, timeout, patience)

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Any:
        return control.decode_json(control.body_of(parts))


class TraceRequest(PendingRequest):
    """GET_TRACE. Gives recent batches, and the next cursor."""

    def __init__(self, cursor: int, timeout: Optional[float], patience: Patience) -> None:
        super().__init__(MessageType.GET_TRACE, MessageType.TRACE_REPORT, timeout, patience)
        self._cursor = cursor

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        return [[wire.encode_header(wire.Header(self.kind, self.request_id, sequence=self._cursor))]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Any:
        return control.decode_json(control.body_of(parts)), header.sequence


class OpenRequest(PendingRequest):
    """OPEN. The engine makes the session from its answer."""

    def __init__(self, pipeline: PipelineDescription, name: str, timeout: Optional[float],
                 patience: Patience) -> None:
        super().__init__(MessageType.OPEN_SESSION, MessageType.SESSION_OPENED, timeout, patience)
        self.pipeline: PipelineDescription = pipeline
        self.name = name
        self.behind: Optional[SessionRequests] = None  #: a session of the same name that is closing

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        body = control.encode(control.OpenSession(self.pipeline.id, self.name))
        return [[wire.encode_header(wire.Header(self.kind, self.request_id)), body]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> control.SessionOpened:
        opened = control.decode(control.SessionOpened, control.body_of(parts))
        if opened.session == 0:
            raise wire.DecodeError("bad_body", header.request_id)
        return opened


class ValuesRequest(PendingRequest):
    """SET of numbers of a session, or GET_VALUES of one or of a pipeline. Gives what holds then."""

    def __init__(self, owner: Union[SessionRequests, PipelineDescription], wanted: Sequence[NumberSetting],
                 timeout: Optional[float], patience: Patience) -> None:
        super().__init__(MessageType.SET_VALUES if wanted else MessageType.GET_VALUES, MessageType.VALUES, timeout,
                         patience)
        self._owner = owner
        self._wanted = tuple(wanted)
        if isinstance(owner, PipelineDescription):
            self.pipeline = owner

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        if self.pipeline is not None:
            header = wire.Header(self.kind, self.request_id, pipeline=self.pipeline.id)
        else:
            header = wire.Header(self.kind, self.request_id, session=self._owner.number)  # type: ignore[union-attr]
        head = wire.encode_header(header)
        return [[head, control.encode(control.SetValues(self._wanted))] if self._wanted else [head]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Tuple[int, control.Values]:
        return header.sequence, control.decode(control.Values, control.body_of(parts))

    def follow(self, welcome: control.Welcome) -> Optional[PenstockError]:
        if self.pipeline is None:
            return SessionLost("the daemon restarted", step="client", request_id=self.request_id)
        return super().follow(welcome)


class AttachRequest(PendingRequest):
    """ATTACH. Gives the arena, which the lease fetches."""

    def __init__(self, nbytes: int, timeout: float, patience: Patience, on_device: bool = False) -> None:
        super().__init__(MessageType.ATTACH, MessageType.ATTACHED, timeout, patience)
        self._nbytes = nbytes
        self.on_device = on_device

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        body = control.encode(control.Attach(self._nbytes, self.on_device))
        return [[wire.encode_header(wire.Header(self.kind, self.request_id)), body]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> control.Attached:
        return control.decode(control.Attached, control.body_of(parts))


class PlaceRequest(PendingRequest):
    """CANCEL of a request that has ended in this client, repeated until the daemon says that it has released the
    memory. The first message is sent only after the retry time: usually the daemon says so by itself."""

    def __init__(self, request_id: int, patience: Patience) -> None:
        super().__init__(MessageType.CANCEL, MessageType.RELEASED, None, patience)
        self.request_id = request_id
        self.cancelling = self.answered = True  # nobody waits for it
        self.asked = False  #: an answer without `holds` is final
        self.begins = True  #: the next send is skipped

    def answered_by(self, kind: int) -> bool:
        return kind in (MessageType.RESULT, MessageType.RESULT_SHARED, MessageType.RELEASED)

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        begins, self.begins = self.begins, False
        self.asked = self.asked or not begins
        return [] if begins else super().messages(now, welcome)


class SubmitRequest(PendingRequest):
    """SUBMIT, or SUBMIT_SHARED while its frames lie in an arena that the daemon knows. Gives a `Result`.

    A request of a session is kept until the daemon has processed it, even without a waiting caller: the session's later
    results depend on its frames.
    """

    def __init__(self, pipeline: PipelineDescription, packed: frames.Frames, trace_id: bytes, timeout: Optional[float],
                 patience: Patience, account: Optional[wire.SampleAccount] = None) -> None:
        super().__init__(MessageType.SUBMIT, MessageType.RESULT, timeout, patience)
        self.pipeline: PipelineDescription = pipeline
        self.frames: Optional[frames.Frames] = packed
        self.placement = packed.placement
        self.nbytes = packed.nbytes  #: of its frames
        self.sequence = 0  #: the session's frames before it
        self._trace_id = trace_id
        self._account = b"" if account is None else wire.encode_account(account)
        self._count, self._single = packed.count, packed.single
        self._cancel_alone = False
        self.placed = packed.placement is not None  #: it was submitted in shared memory
        self._in_place = True  # until the daemon has refused the place
        self.prepare = packed.prepare  #: to be called before it is sent, on a thread that may block; None: nothing to do

    @property
    def stranded(self) -> bool:
        """True when its frames lie in device memory that the daemon does not take any more."""
        placed = self._in_place and self.placement is not None and not self.placement.arena.ended
        return self.frames is not None and isinstance(self.frames.payload, Tensor) and not placed

    @property
    def end_sequence(self) -> int:
        """The session's frames including it."""
        return self.sequence + self._count

    @property
    def lingers(self) -> bool:
        return self.seen or self.session is not None

    def answered_by(self, kind: int) -> bool:
        return kind in (MessageType.RESULT, MessageType.RESULT_SHARED)

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        """SUBMIT with the remaining timeout; after a cancellation, CANCEL. In a session a repeated CANCEL follows a
        repeat of the SUBMIT."""
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
        """Handles the refusal of its memory. True when it must be sent again; False when the ERROR answers an earlier
        send."""
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
                             0 if self.session is None else self.session.number, self.sequence,
                             tensors=len(packed.tensors), frames=packed.count, trace_id=self._trace_id,
                             header_len=wire.HEADER_BYTES + len(self._account))
        head = wire.encode_header(header) + self._account + b"".join(map(wire.encode_tensor, packed.tensors))
        if place is not None:
            return [head, place.lend()]
        if welcome.inline_bytes > 0 and packed.nbytes <= min(welcome.inline_bytes, wire.MAX_INLINE_BYTES):
            return [b"".join((head, *packed.payloads))]
        return [head, *packed.payloads]
