"""The unanswered requests of one session: when they are sent again, and how they end."""
from __future__ import annotations

from typing import Dict, List, Optional, Protocol

from . import wire
from .control import ErrorBody
from .errors import Cancelled, Expired, PenstockError, SessionLost, error_of
from .pending_request import Patience, PendingRequest, SubmitRequest
from .wire import Status

#: The longest first pause after NO_CREDIT.
_FIRST_PAUSE_S = 0.1


class Outlet(Protocol):
    """The part of the protocol engine that a session calls."""

    def send(self, pending: PendingRequest) -> None:
        """Sends a request now, or after WELCOME; not while its session `holds_back`."""

    def end(self, pending: PendingRequest, value: object = None, error: Optional[PenstockError] = None) -> None:
        """Ends a request."""

    def give_away(self, pending: PendingRequest, error: PenstockError) -> None:
        """Ends its future; the daemon may still have the request."""

    def resume_in(self, session: SessionRequests, seconds: float) -> None:
        """Calls the session's `resume` after that time."""

    def forget(self, session: SessionRequests, tell: bool) -> None:
        """Removes a session. tell: send CLOSE, because the daemon may still have it."""


class SessionRequests:
    """The requests of one session that the daemon has not answered, in order.

    A request stays until the daemon has certainly processed its frames. A refused request loses the session, because
    nothing can fill its gap; EXPIRED, CANCELLED and REPLY_GONE leave no gap. A request refused with NO_CREDIT is sent
    again after a pause, with those behind it. Thread: the connection's.
    """

    def __init__(self, outlet: Outlet, number: int, patience: Patience) -> None:
        self.number = number  #: the daemon's number
        self.lost: Optional[str] = None  #: why it can't go on; written by the connection's thread, read by any
        self.closing = False
        self._outlet = outlet
        self._patience = patience
        self._requests: Dict[int, SubmitRequest] = {}  # by id, which rises in the session's order
        self._taken = 0  # frames that the daemon has certainly processed
        self._filled_from: Optional[int] = None  # the last gap that was resent
        self._held_from: Optional[int] = None  # the first frame that waits during a pause
        self._refused: Optional[int] = None  # the last request refused with NO_CREDIT
        self._pause = 0.0  # its last pause, in seconds

    def begin(self, request: SubmitRequest) -> bool:
        """Adds the session's next request. False when the session is lost, and the request has ended."""
        if self.lost is not None:
            request.session = None
            self._outlet.end(request, error=self.error(request.request_id))
            return False
        self._requests[request.request_id] = request
        return True

    def ended(self, request: SubmitRequest, taken: bool) -> None:
        """Removes a request. taken: it has its result."""
        if taken:
            self._taken = max(self._taken, request.end_sequence)
        self._requests.pop(request.request_id, None)
        self._leave_when_done()

    def to_repeat(self, request: SubmitRequest) -> List[SubmitRequest]:
        """What to send when this request has no answer: first those before it that were sent earlier than it, so that
        no gap arises."""
        self.repeated()
        last = request.sent_at or 0.0
        return [each for each in self._requests.values() if each is request or (
            each.sequence < request.sequence and each.sent_at is not None and each.sent_at <= last)]

    def repeated(self) -> None:
        """Forgets which gap was resent: the repeat may be lost too."""
        self._filled_from = None

    def holds_back(self, request: SubmitRequest) -> bool:
        """True during a pause after NO_CREDIT, for the refused request and those behind it."""
        return self._held_from is not None and request.sequence >= self._held_from

    def resume(self) -> None:
        """Ends the pause: sends what was held back, in order."""
        if self._held_from is None:
            return
        first, self._held_from = self._held_from, None
        if self._has(first):
            self._filled_from = first  # late reports of earlier gaps ask for nothing
        self._send_from(first)

    def send_again(self, request: SubmitRequest) -> None:
        """Sends a request again, with those behind it."""
        self._filled_from = request.sequence
        self._send_from(request.sequence)

    def refused(self, request: SubmitRequest, header: wire.Header, body: ErrorBody) -> None:
        """Handles an ERROR other than HELLO_REQUIRED."""
        error = error_of(header.status, body, request.request_id)
        if header.status == Status.SEQUENCE_GAP:
            self._fill(header.sequence)
        elif header.status == Status.NO_CREDIT:
            self._hold(request.sequence)
        elif request.cancelling and header.status == Status.REJECTED:
            # CANCEL found no request: it has ended, or it never arrived. The repeat of SUBMIT tells which.
            self._outlet.give_away(request, Cancelled("cancelled by the client", step="client",
                                                      request_id=request.request_id))
        elif isinstance(error, (Expired, Cancelled)) or header.status == Status.REPLY_GONE:
            self._taken = max(self._taken, request.end_sequence)
            self._outlet.end(request, error=error)
        else:
            gone = header.status == Status.SESSION_LOST
            del self._requests[request.request_id]
            request.session = None
            self._outlet.end(request, error=error)
            self.lose(body.reason if gone else f"request {request.request_id} was refused: {error}", gone)

    def failed(self, request: SubmitRequest, error: PenstockError) -> None:
        """The client failed to send a request or to read its answer: the session is lost."""
        if self._requests.pop(request.request_id, None) is not None:
            request.session = None
            self._outlet.end(request, error=error)
            self.lose(f"request {request.request_id} failed: {error}", gone=False)

    def lose(self, reason: str, gone: bool) -> None:
        """Ends all requests with SessionLost. gone: the daemon has none of them."""
        if self.lost is not None:
            return
        self.lost = reason
        requests, self._requests = list(self._requests.values()), {}
        for each in requests:
            each.session = None
            each.release()
            if gone:
                self._outlet.end(each, error=self.error(each.request_id))
            else:
                self._outlet.give_away(each, self.error(each.request_id))
        self._outlet.forget(self, tell=not gone)

    def close(self) -> None:
        """Accepts no more requests; CLOSE is sent when those in flight have ended."""
        if not self.closing:
            self.closing = True
            self._leave_when_done()

    def error(self, request_id: int = 0) -> SessionLost:
        """The error of the requests of a lost session."""
        return SessionLost(self.lost or "the session is lost", request_id=request_id)

    def _fill(self, expected: int) -> None:
        if expected < self._taken or expected == self._filled_from or self._held_from is not None:
            return  # every request behind a gap reports it: this one was resent, or will be
        if not self._has(expected):
            self.lose(f"the daemon lacks its frame {expected}, which was given up", gone=False)
            return
        self._filled_from = expected
        self._send_from(expected)

    def _hold(self, sequence: int) -> None:
        if sequence < self._taken or self._held_from is not None:
            return  # it was processed since, or waits already
        again = sequence == self._refused
        self._pause = min(2 * self._pause, self._patience.retry_limit) if again else min(self._patience.retry_after,
                                                                                         _FIRST_PAUSE_S)
        self._refused = self._held_from = sequence
        self._outlet.resume_in(self, self._pause)
        self._send_from(sequence)  # which only waits now

    def _has(self, sequence: int) -> bool:
        return any(each.sequence == sequence for each in self._requests.values())

    def _send_from(self, sequence: int) -> None:
        for each in [each for each in self._requests.values() if each.sequence >= sequence]:
            self._outlet.send(each)

    def _leave_when_done(self) -> None:
        if self.closing and not self._requests and self.lost is None:
            self._outlet.forget(self, tell=True)

