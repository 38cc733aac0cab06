"""One session on the connection's thread: its unanswered requests, when they are sent again and how they end."""
from __future__ import annotations

from typing import Dict, List, Optional, Protocol

from . import wire
from .control import ErrorBody
from .errors import Cancelled, Expired, PenstockError, SessionLost, error_of
from .exchange import Exchange, Patience, Request
from .wire import Status

#: The longest that a request pauses when the daemon has refused it for want of room the first time.
_FIRST_PAUSE_S = 0.1


class Outlet(Protocol):
    """What a session asks of its connection."""

    def send(self, exchange: Exchange) -> None:
        """Sends it now, or when the daemon knows us. One that its session `holds_back` is only looked after."""

    def end(self, exchange: Exchange, value: object = None, error: Optional[PenstockError] = None) -> None:
        """The daemon has let go of it."""

    def give_away(self, exchange: Exchange, error: PenstockError) -> None:
        """Its caller does not wait any more; the daemon may still have it."""

    def resume_in(self, session: SessionRequests, seconds: float) -> None:
        """Calls its `resume` after that time."""

    def forget(self, session: SessionRequests, tell: bool) -> None:
        """The session is over; `tell` the daemon, which may still hold it."""


class SessionRequests:
    """The requests of one session that the daemon has not answered, in their order.

    A request stays until the daemon has taken its frames for certain. One that the daemon refused leaves a hole that
    nothing can fill, so that the session is lost; EXPIRED, CANCELLED and REPLY_GONE leave none. One that the daemon had
    no room for (NO_CREDIT) is sent again after a pause, with what follows it.
    """

    def __init__(self, outlet: Outlet, number: int, patience: Patience) -> None:
        self.number = number  #: the daemon's for it
        self.lost: Optional[str] = None  #: why it can't go on; written by the connection's thread, read by any
        self.closing = False
        self._outlet = outlet
        self._patience = patience
        self._requests: Dict[int, Request] = {}  # by id, which rises in the session's order
        self._taken = 0  # frames that the daemon has taken for certain
        self._filled_from: Optional[int] = None  # the gap that was answered last
        self._held_from: Optional[int] = None  # the first frame that waits for the end of a pause
        self._refused: Optional[int] = None  # the one that there was no room for last
        self._pause = 0.0  # how long that one waited, in seconds

    def begin(self, request: Request) -> bool:
        """Takes the session's next request. False when it has ended already, because the session is lost."""
        if self.lost is not None:
            request.session = None
            self._outlet.end(request, error=self.error(request.request_id))
            return False
        self._requests[request.request_id] = request
        return True

    def ended(self, request: Request, taken: bool) -> None:
        """A request is done with; `taken` when it has its result."""
        if taken:
            self._taken = max(self._taken, request.end_sequence)
        self._requests.pop(request.request_id, None)
        self._leave_when_done()

    def to_repeat(self, request: Request) -> List[Request]:
        """What to send when this one has long not been answered: before it those that were last sent before it was, so
        that it finds them there."""
        self.repeated()
        last = request.sent_at or 0.0
        return [each for each in self._requests.values() if each is request or (
            each.sequence < request.sequence and each.sent_at is not None and each.sent_at <= last)]

    def repeated(self) -> None:
        """What was sent to fill a gap may be lost, too."""
        self._filled_from = None

    def holds_back(self, request: Request) -> bool:
        """Whether it is not to be sent now: the daemon had no room for it, or for one before it."""
        return self._held_from is not None and request.sequence >= self._held_from

    def resume(self) -> None:
        """The pause is over: what was held back is sent again, in its order."""
        if self._held_from is None:
            return
        first, self._held_from = self._held_from, None
        if self._has(first):
            self._filled_from = first  # gaps that were told before may come late
        self._send_from(first)

    def send_again(self, request: Request) -> None:
        """The daemon did not take it, and now will: it is sent again, with what follows it."""
        self._filled_from = request.sequence
        self._send_from(request.sequence)

    def refused(self, request: Request, header: wire.Header, body: ErrorBody) -> None:
        """An ERROR came for one of its requests, other than HELLO_REQUIRED."""
        error = error_of(header.status, body, request.request_id)
        if header.status == Status.SEQUENCE_GAP:
            self._fill(header.sequence)
        elif header.status == Status.NO_CREDIT:
            self._hold(request.sequence)
        elif request.cancelling and header.status == Status.REJECTED:
            # CANCEL found nothing: it is done with, or it never came. The repeat of its SUBMIT will tell.
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

    def failed(self, request: Request, error: PenstockError) -> None:
        """It could not be sent, or its answer not be used: nothing can follow."""
        if self._requests.pop(request.request_id, None) is not None:
            request.session = None
            self._outlet.end(request, error=error)
            self.lose(f"request {request.request_id} failed: {error}", gone=False)

    def lose(self, reason: str, gone: bool) -> None:
        """It can't go on: its requests end with SessionLost. `gone`: the daemon has none of them."""
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
        """No more requests come. The daemon is told when it has answered those that there are."""
        if not self.closing:
            self.closing = True
            self._leave_when_done()

    def error(self, request_id: int = 0) -> SessionLost:
        """What its requests end with once it is lost."""
        return SessionLost(self.lost or "the session is lost", request_id=request_id)

    def _fill(self, expected: int) -> None:
        if expected < self._taken or expected == self._filled_from or self._held_from is not None:
            return  # every request behind a gap tells of it: this one is being filled, or has been, or will be
        if not self._has(expected):
            self.lose(f"the daemon lacks its frame {expected}, which was given up", gone=False)
            return
        self._filled_from = expected
        self._send_from(expected)

    def _hold(self, sequence: int) -> None:
        if sequence < self._taken or self._held_from is not None:
            return  # it was taken since, or waits already
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

