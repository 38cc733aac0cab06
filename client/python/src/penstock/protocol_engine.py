"""The client's side of the protocol: handshake, retries, deadlines and the end of each request."""
from __future__ import annotations

import collections
import dataclasses
import heapq
import logging
import math
import time
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

from . import control, wire
from .arena import PLACE_REFUSALS
from .control import ErrorBody, Welcome, body_of
from .credit_window import CreditWindow
from .dealer import Dealer
from .endpoint import better_endpoint
from .errors import Cancelled, Expired, PenstockError, Rejected, error_of
from .keys import Keys
from .pending_request import AttachRequest, OpenRequest, Patience, PendingRequest, SubmitRequest
from .session_requests import SessionRequests
from .shared_memory import Leases
from .subscription import Feed, SubscribeRequest
from .wire import MessageType, Status

#: How long an abandoned request holds its credits while the daemon does not answer.
_LINGER_S = 10.0
#: A client that is refused with TOO_MANY_CLIENTS says HELLO again at this interval, for so long.
_PLACE_AGAIN_S, _PLACE_S = 0.2, 2.0
#: A subscription that nobody here has is told to end at most so often.
_UNSUBSCRIBE_AGAIN_S = 1.0

LOGGER = logging.getLogger("penstock")


class Timers:
    """One timer for each request id, and one for each session under its negative number, in seconds of
    time.monotonic(). Holds ids only, so that no request outlives its end."""

    def __init__(self) -> None:
        self._due: Dict[int, float] = {}
        self._heap: List[Tuple[float, int]] = []  # includes timers that were reset or cleared

    def set(self, request_id: int, due: float) -> None:
        """Sets the timer, replacing an earlier one; infinity clears it."""
        if due == math.inf:
            self.clear(request_id)
            return
        self._due[request_id] = due
        heapq.heappush(self._heap, (due, request_id))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [(time, each) for each, time in self._due.items()]
            heapq.heapify(self._heap)

    def clear(self, request_id: int) -> None:
        """Removes the timer."""
        self._due.pop(request_id, None)

    def take_due(self, now: float) -> Iterator[int]:
        """Removes and returns the expired timers, earliest first."""
        while self._heap and self._heap[0][0] <= now:
            due, request_id = heapq.heappop(self._heap)
            if self._due.get(request_id) == due:
                del self._due[request_id]
                yield request_id

    def seconds_left(self, now: float) -> Optional[float]:
        """Seconds until the next timer; None when there is none."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return max(0.0, self._heap[0][0] - now) if self._heap else None


class ProtocolEngine:
    """Sends requests, repeats them after silence, and ends each with a result or an error. Thread: the connection's,
    except for `credits`, `welcome` and the futures of requests."""

    def __init__(self, url: str, hello: control.Hello, patience: Patience, keys: Optional[Keys] = None) -> None:
        self.credits = CreditWindow()
        self.welcome: Optional[Welcome] = None  #: the latest; written by the connection's thread
        self.welcomed = PendingRequest(MessageType.HELLO, MessageType.WELCOME, None, patience)
        self.dealer = Dealer(url, keys)
        self.leases = Leases(self, self.dealer, patience)
        self._hello = hello
        self._hello_parts = [wire.encode_header(wire.Header(MessageType.HELLO)), control.encode(hello)]
        self._patience = patience
        self._url: Optional[str] = url  #: until the first WELCOME has named the shard
        self._timers = Timers()
        self._pending: Dict[int, PendingRequest] = {}
        self._sessions: Dict[int, SessionRequests] = {}  #: by the daemon's number
        self._waiting: Deque[PendingRequest] = collections.deque()  #: to send after WELCOME
        self._feeds: Dict[int, Feed] = {}  #: of subscriptions, by the id of their request
        self._unsubscribed_at = -math.inf
        self._greeted = False
        self._token = ""  # of the last WELCOME, shown in the next HELLO; "" = none
        self._stranger = False  # HELLO_REQUIRED came
        self._lost = False  # the connection was lost: send everything in flight again after WELCOME
        self._hello_wait = patience.retry_after
        self._no_place_since: Optional[float] = None  # before the first WELCOME
        self._last_heard = time.monotonic()

    @property
    def busy(self) -> bool:
        """True while a caller waits for an answer."""
        return any(not pending.answered for pending in self._pending.values())

    @property
    def last_heard(self) -> float:
        """Arrival of the last message, in seconds of time.monotonic()."""
        return self._last_heard

    @property
    def greeted(self) -> bool:
        """True after WELCOME, until the connection is lost."""
        return self._greeted

    def begin(self, pending: PendingRequest) -> None:
        """Sends a request that has its id, and tracks it until its end."""
        self._pending[pending.request_id] = pending
        if isinstance(pending, SubscribeRequest):
            self._feeds[pending.request_id] = pending.feed
        if pending.session is None or pending.session.begin(pending):
            self.send(pending)

    def cancel(self, request_id: int) -> None:
        """Cancels a request, with CANCEL if the daemon may have it."""
        pending = self._pending.get(request_id)
        if pending is None or pending.cancelling:
            return
        if pending.seen and not pending.future.cancelled():
            pending.cancel()
            self.send(pending)
        else:
            self.give_away(pending, Cancelled("cancelled before it was sent", step="client", request_id=request_id))

    def leave(self) -> List[PendingRequest]:
        """Sends GOODBYE. Returns the requests that have not ended."""
        unanswered = [self.welcomed, *self._pending.values()]
        try:
            self.leases.leave()
            self._pending.clear()
            self.dealer.close(_goodbye())
        except Exception:
            LOGGER.exception("penstock: the client could not take its leave")
        return unanswered

    # Subscriptions.

    def unsubscribe(self, request_id: int) -> None:
        """Ends a subscription; no effect if it has ended."""
        if self._feeds.pop(request_id, None) is not None:
            pending = self._pending.get(request_id)
            if pending is not None:
                self.end(pending, error=Cancelled("unsubscribed", step="client", request_id=request_id))
            self._timers.clear(request_id)
            self._send_unsubscribe(request_id)

    def end_feeds(self, error: Optional[BaseException]) -> None:
        """Nothing more comes of any subscription."""
        feeds, self._feeds = self._feeds, {}
        for feed in feeds.values():
            feed.end(error)

    def _send_unsubscribe(self, request_id: int) -> None:
        if self._greeted:
            self.dealer.send([wire.encode_header(wire.Header(MessageType.UNSUBSCRIBE, request_id))])

    def _subscribe_again(self, anew: bool) -> None:
        """After WELCOME. anew: the daemon has lost the subscriptions."""
        for request_id, feed in self._feeds.items():
            if anew:
                feed.restart()
            if request_id not in self._pending:
                again = SubscribeRequest(feed, None, self._patience)
                again.request_id = request_id
                again.answered = True  # nobody waits for it
                self._pending[request_id] = again
                self.send(again)

    def _hear_feed(self, header: wire.Header, parts: List[Any]) -> None:
        feed = self._feeds.get(header.request_id)
        if feed is None:  # UNSUBSCRIBE was lost, or is on its way
            now = time.monotonic()
            if now - self._unsubscribed_at >= _UNSUBSCRIBE_AGAIN_S:
                self._unsubscribed_at = now
                self._send_unsubscribe(header.request_id)
        elif header.type == MessageType.PUBLISHER:
            feed.hear(control.decode(control.Publisher, body_of(parts)))
        else:
            feed.take_in(header, parts)

    def _look_after_feed(self, request_id: int, now: float) -> None:
        """The daemon looks every few seconds whether a client that is silent is there. Where even that does not come,
        the connection or the daemon may be gone: HELLO finds out, and SUBSCRIBE follows it."""
        if self._greeted and now - self._last_heard >= self._patience.retry_limit:
            self._lost = True
            self.greet()
        self._timers.set(request_id, now + self._patience.retry_limit)

    # Sending.

    def send(self, pending: PendingRequest) -> None:
        """Sends a request now, or after WELCOME; not while its session `holds_back`. An exception ends this request
        only."""
        try:
            self._send(pending)
        except Exception as error:
            self.fail(pending, error)

    def fail(self, pending: PendingRequest, error: Exception) -> None:
        """Ends a request after an exception in the client."""
        LOGGER.error("penstock: request %d failed", pending.request_id, exc_info=error)
        failure = PenstockError(f"the client failed with it: {error!r}", status=Status.FAILED, step="client",
                                request_id=pending.request_id)
        failure.__cause__ = error
        if pending.session is not None and isinstance(pending, SubmitRequest):
            pending.session.failed(pending, failure)
        elif self._pending.get(pending.request_id) is pending:
            self.end(pending, error=failure)
        pending.answer(error=failure)

    def _send(self, pending: PendingRequest) -> None:
        now = time.monotonic()
        if isinstance(pending, SubmitRequest) and pending.session is not None and pending.session.holds_back(pending):
            pending.sent_at = None
        elif isinstance(pending, SubmitRequest) and pending.stranded:
            self._strand(pending)
            return
        elif self._greeted and self.welcome is not None:
            messages = pending.messages(now, self.welcome)
            pending.sent_at = now
            pending.seen = True
            self.leases.lend(pending)
            for parts in messages:
                self.dealer.send(parts)
        else:
            pending.sent_at = None
            self._waiting.append(pending)
        self._schedule(pending, now)

    def _strand(self, pending: SubmitRequest) -> None:
        """Ends a request whose device memory is gone: its result was to lie there."""
        error = Rejected("the device memory in which it lies is not shared any more: submit it again", step="client",
                         request_id=pending.request_id)
        if pending.session is not None:
            pending.session.failed(pending, error)
        elif self._pending.get(pending.request_id) is pending:
            self.end(pending, error=error)

    def _schedule(self, pending: PendingRequest, now: float) -> None:
        retry = math.inf if pending.sent_at is None else now + pending.wait
        limit = math.inf if pending.expires is None else pending.expires
        self._timers.set(pending.request_id, min(retry, limit))

    def greet(self) -> None:
        """Sends HELLO, and repeats it until WELCOME comes."""
        self._greeted = False
        self.dealer.send(self._hello_parts)
        self._timers.set(self.welcomed.request_id, time.monotonic() + self._hello_wait)
        self._hello_wait = min(2 * self._hello_wait, self._patience.retry_limit)

    def follow_connection(self) -> None:
        """Sends HELLO after a reconnection; what was sent before may be lost."""
        if self.dealer.has_reconnected():
            self._lost = True
            self._hello_wait = self._patience.retry_after
            self.greet()

    def check_handshake(self) -> None:
        """Fails the handshake when the daemon refuses this client's keys."""
        if self.dealer.shut_out and not self.welcomed.answered:
            self.welcomed.answer(error=Rejected(f"the daemon does not let this client in: {self.dealer.trouble}",
                                                step="client"))

    # Time.

    def seconds_left(self, now: float) -> Optional[float]:
        """Seconds until run_timers is due; None = never."""
        return self._timers.seconds_left(now)

    def run_timers(self, now: float) -> None:
        """Repeats requests without an answer, and ends expired ones."""
        for timer in self._timers.take_due(now):
            pending = self._pending.get(timer)
            if pending is not None:
                try:
                    self._overdue(pending, now)
                except Exception as error:
                    self.fail(pending, error)
            elif timer in self._feeds:
                self._look_after_feed(timer, now)
            elif timer < 0:
                if -timer in self._sessions:
                    self._sessions[-timer].resume()
            elif not self._greeted:
                self.greet()  # the remaining timer is that of HELLO

    def _overdue(self, pending: PendingRequest, now: float) -> None:
        if pending.expires is not None and pending.expires <= now:
            self._expire(pending)
            return
        if pending.sent_at is None:
            return  # it waits for WELCOME or for the end of its session's pause
        pending.wait = min(2 * pending.wait, self._patience.retry_limit)
        if self._last_heard <= pending.sent_at and self._greeted:
            self.greet()  # complete silence: the daemon may have forgotten this client
        for each in [pending] if pending.session is None else pending.session.to_repeat(pending):
            self.send(each)

    def _expire(self, pending: PendingRequest) -> None:
        if pending.answered:
            self.end(pending)
        else:
            self.give_away(pending, Expired("no answer came within the timeout", step="client",
                                             request_id=pending.request_id))

    def give_away(self, pending: PendingRequest, error: PenstockError) -> None:
        """Ends the future now; the credits come back when the daemon has finished with the request."""
        if not pending.lingers:
            self.end(pending, error=error)
        elif not pending.answered:
            now = time.monotonic()
            pending.release()
            pending.expires = now + _LINGER_S
            pending.wait = self._patience.retry_after
            if pending.cancelling:
                self._schedule(pending, now)
            else:
                pending.cancel()
                self.send(pending)
            pending.answer(error=error)

    # Receiving.

    def receive(self, parts: List[Any]) -> None:
        """Handles one message of the daemon."""
        self._last_heard = time.monotonic()
        try:
            header = wire.decode_header(parts[0])
        except wire.DecodeError as error:
            if error.error == "unsupported_version":
                self.welcomed.answer(error=Rejected("the daemon speaks another major version",
                                                    status=Status.UNSUPPORTED_VERSION))
            return  # otherwise it is no daemon: retries and timeouts handle it
        try:
            self._handle(header, parts)
        except wire.DecodeError as error:
            pending = self._pending.get(header.request_id)
            if pending is not None:
                self.end(pending, error=PenstockError(f"the daemon's answer can't be read: {error.error}",
                                                       status=Status.MALFORMED, step="client",
                                                       request_id=header.request_id))
        except Exception as error:
            pending = self._pending.get(header.request_id)
            if pending is not None:
                self.fail(pending, error)
            else:
                LOGGER.exception("penstock: a message of the daemon's could not be taken")

    def _handle(self, header: wire.Header, parts: List[Any]) -> None:
        if header.type == MessageType.WELCOME:
            self._welcome(control.decode(Welcome, body_of(parts)))
            return
        if header.type == MessageType.GOODBYE:  # it stops, and waits for our GOODBYE, which says that its replies have arrived
            self.dealer.send(_goodbye())
            return
        if header.type in (MessageType.PUBLISHED, MessageType.PUBLISHER):
            self._hear_feed(header, parts)
            return
        body = control.decode(ErrorBody, body_of(parts)) if header.type == MessageType.ERROR else None
        if body is not None and header.status == Status.HELLO_REQUIRED:
            self._greet_anew(self._pending.get(header.request_id))
            return
        self.leases.hear(header, body)
        if body is not None and header.request_id == 0:
            error = error_of(header.status, body, 0)
            if header.status != Status.TOO_MANY_CLIENTS or not self._ask_for_place(str(error)):
                self.welcomed.answer(error=error)
            return
        pending = self._pending.get(header.request_id)
        if pending is None:  # answered before, or abandoned
            if header.type == MessageType.SESSION_OPENED and header.session not in self._sessions:
                self._close_session(header.session)
        elif body is not None:
            self._error(pending, header, body)
        elif pending.answered_by(header.type) and pending.answered:
            self.end(pending, taken=True)
        elif pending.answered_by(header.type):
            value = pending.read(header, parts, self._last_heard)
            if isinstance(pending, OpenRequest):
                self._opened(pending, value)
            elif isinstance(pending, AttachRequest):
                self.leases.fetch(pending, value)
            else:
                self.end(pending, value, taken=True)

    def _ask_for_place(self, refusal: str) -> bool:
        """Schedules another HELLO after TOO_MANY_CLIENTS; False when that has gone on for too long."""
        now = time.monotonic()
        if self._no_place_since is None:
            self._no_place_since = now
        if self.welcome is not None or now - self._no_place_since >= _PLACE_S:
            return False
        self.dealer.trouble = refusal
        self._timers.set(self.welcomed.request_id, now + _PLACE_AGAIN_S)
        return True

    def _opened(self, pending: OpenRequest, opened: control.SessionOpened) -> None:
        known = self._sessions.get(opened.session)
        if known is None and opened.next_sequence == 0:
            self._sessions[opened.session] = session = SessionRequests(self, opened.session, self._patience)
            self.end(pending, session)
        elif known is None:  # an earlier session of that name whose CLOSE was lost; OPEN is repeated
            self._close_session(opened.session)
        elif known.closing:
            pending.behind = known
        else:
            self.end(pending, error=Rejected(f"this client has a session {pending.name!r} open", step="client",
                                              request_id=pending.request_id))

    def _greet_anew(self, pending: Optional[PendingRequest]) -> None:
        """Handles HELLO_REQUIRED: says HELLO and sends that request again."""
        if self._greeted:
            self._lost = True
            self._stranger = True
            self._hello_wait = self._patience.retry_after
            self.greet()
        if pending is not None and pending.sent_at is not None:
            pending.seen = pending.seen and self._token != ""
            self.send(pending)

    def _error(self, pending: PendingRequest, header: wire.Header, body: ErrorBody) -> None:
        unknown = header.status in (Status.REJECTED, *PLACE_REFUSALS)
        if pending.cancelling and unknown and pending.session is None:  # the daemon does not have the request
            self.end(pending, error=Cancelled("cancelled by the client", step="client",
                                               request_id=pending.request_id))
        elif header.status in PLACE_REFUSALS and isinstance(pending, SubmitRequest) and pending.placed:
            if pending.refuse_place(header.status):
                again = self.send if pending.session is None else pending.session.send_again
                again(pending)
        elif pending.session is not None:
            pending.session.refused(pending, header, body)
        else:
            self.end(pending, error=error_of(header.status, body, pending.request_id))

    def _welcome(self, welcome: Welcome) -> None:
        before, self._token = self._token, welcome.resume
        self._hello_parts[1] = control.encode(dataclasses.replace(self._hello, resume=self._token))
        if self._url is not None and self._move(better_endpoint(welcome, self._url)):
            return
        self._greeted = True
        self._hello_wait = self._patience.retry_after
        restarted = self.welcome is not None and self.welcome.instance != welcome.instance
        forgotten = self.welcome is not None and before not in ("", self._token)
        self.credits.resize(welcome.credit_requests, welcome.credit_bytes)
        self.welcome = welcome
        lost = self._lost
        if restarted:
            self._follow_restart(welcome)
        else:
            self._follow_loss(forgotten)
        if restarted or forgotten or lost:
            self._subscribe_again(restarted or forgotten)
        self.welcomed.answer(welcome)
        waiting, self._waiting = self._waiting, collections.deque()
        for pending in sorted(waiting, key=lambda each: each.request_id):  # a session's in its order
            if self._pending.get(pending.request_id) is pending and pending.sent_at is None:
                self.send(pending)

    def _move(self, url: Optional[str]) -> bool:
        """Connects to the shard that the first WELCOME names, once, before anything but HELLO was sent."""
        self._url = None
        try:
            if url is not None:
                self.dealer.move(url, _goodbye())
                self._hello_wait = self._patience.retry_after
                self.greet()
                return True
        except ValueError:
            pass  # not reachable from here; this shard serves the client as well
        return False

    def _follow_loss(self, forgotten: bool) -> None:
        """Queues what may be lost to be sent again. forgotten: the daemon has dropped this client's state."""
        if forgotten or (self._stranger and not self._token):
            self.leases.leave()
        if forgotten:
            for session in list(self._sessions.values()):
                session.lose("the daemon has given this client's place away", gone=True)
        if self._lost or forgotten:
            for pending in list(self._pending.values()):
                if pending.sent_at is not None:
                    pending.sent_at = None
                    pending.wait = self._patience.retry_after
                    self._waiting.append(pending)
            for session in self._sessions.values():
                session.repeated()
        self._lost = self._stranger = False

    def _follow_restart(self, welcome: Welcome) -> None:
        """Handles a restarted daemon, which knows none of the requests."""
        self._lost = self._stranger = False
        self.leases.leave()
        for session in list(self._sessions.values()):
            session.lose("the daemon restarted", gone=True)
        for pending in list(self._pending.values()):
            error = pending.follow(welcome)
            if error is not None:
                self.end(pending, error=error)
            elif pending.sent_at is not None:
                self.send(pending)

    def resume_in(self, session: SessionRequests, seconds: float) -> None:
        """Calls the session's `resume` after that time."""
        self._timers.set(-session.number, time.monotonic() + seconds)

    def forget(self, session: SessionRequests, tell: bool) -> None:
        """Removes a session. tell: send CLOSE, because the daemon may still have it."""
        self._sessions.pop(session.number, None)
        self._timers.clear(-session.number)
        if tell:
            self._close_session(session.number)
        for each in [each for each in self._pending.values() if isinstance(each, OpenRequest) and each.behind is session]:
            each.behind = None
            self.send(each)

    def _close_session(self, number: int) -> None:
        self.dealer.send([wire.encode_header(wire.Header(MessageType.CLOSE_SESSION, session=number))])

    def end(self, pending: PendingRequest, value: Any = None, error: Optional[PenstockError] = None,
            taken: bool = False) -> None:
        """Ends a request that the daemon has finished with. taken: it sent the result."""
        del self._pending[pending.request_id]
        self._timers.clear(pending.request_id)
        if pending.session is not None:
            session, pending.session = pending.session, None
            session.ended(pending, taken)
        pending.release()
        self.leases.ended(pending)
        if pending.credit_bytes is not None:
            self.credits.give_back(pending.credit_bytes)
        if isinstance(pending, SubscribeRequest):
            self._subscribed(pending, error)
        pending.answer(value, error)

    def _subscribed(self, pending: SubscribeRequest, error: Optional[PenstockError]) -> None:
        if error is None:
            self._timers.set(pending.request_id, time.monotonic() + self._patience.retry_limit)
        elif self._feeds.pop(pending.request_id, None) is not None:
            self._send_unsubscribe(pending.request_id)  # the daemon may have it
            pending.feed.end(error)


def _goodbye() -> List[Any]:
    return [wire.encode_header(wire.Header(MessageType.GOODBYE))]
