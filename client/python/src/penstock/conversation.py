"""What is said to the daemon and made of its answers: greetings, retries, deadlines and the ends of exchanges."""
from __future__ import annotations

import collections
import dataclasses
import logging
import math
import time
from typing import Any, Deque, Dict, List, Optional

from . import control, wire
from .control import ErrorBody, Welcome, body_of
from .credit_window import CreditWindow
from .dealer import Dealer
from .errors import Cancelled, Expired, PenstockError, Rejected, error_of
from .exchange import Attachment, Exchange, Opening, Patience, Request
from .keys import Keys
from .placement import PLACE_REFUSALS
from .session_requests import SessionRequests
from .shard_choice import better_endpoint
from .tenancy import Tenancy
from .timers import Timers
from .wire import MessageType, Status

#: How long a request that the client gave up may hold its credits while the daemon does not say what became of it.
_LINGER_S = 10.0
#: A client for which there is no place at first asks again this often, for so long: places become free all the time.
_PLACE_AGAIN_S, _PLACE_S = 0.2, 2.0

LOGGER = logging.getLogger("penstock")


class Conversation:
    """One client's side of it. Thread: the connection's, but for `credits`, `welcome` and the futures of exchanges."""

    def __init__(self, url: str, hello: control.Hello, patience: Patience, keys: Optional[Keys] = None) -> None:
        self.credits = CreditWindow()
        self.welcome: Optional[Welcome] = None  #: the latest; written by the connection's thread
        self.welcomed = Exchange(MessageType.HELLO, MessageType.WELCOME, None, patience)
        self.dealer = Dealer(url, keys)
        self.tenancy = Tenancy(self, self.dealer, patience)
        self._hello = hello
        self._hello_parts = [wire.encode_header(wire.Header(MessageType.HELLO)), control.encode(hello)]
        self._patience = patience
        self._url: Optional[str] = url  #: until the first WELCOME has said which shard is ours
        self._timers = Timers()
        self._exchanges: Dict[int, Exchange] = {}
        self._sessions: Dict[int, SessionRequests] = {}  #: by the daemon's number
        self._waiting: Deque[Exchange] = collections.deque()  #: to be sent once the daemon knows us
        self._greeted = False
        self._token = ""  # brings us back to our place at the daemon; "" where it gives none
        self._stranger = False  # the daemon has said that it does not know us
        self._lost = False  # what was sent may be lost: all that is in flight is sent again after WELCOME
        self._hello_wait = patience.retry_after
        self._no_place_since: Optional[float] = None  # before the first WELCOME
        self._last_heard = time.monotonic()

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return any(not exchange.answered for exchange in self._exchanges.values())

    @property
    def last_heard(self) -> float:
        """When the last message came, in time.monotonic()'s seconds."""
        return self._last_heard

    @property
    def greeted(self) -> bool:
        """Whether the daemon knows us."""
        return self._greeted

    def begin(self, exchange: Exchange) -> None:
        """Sends an exchange that has its id, and sees it to its end."""
        self._exchanges[exchange.request_id] = exchange
        if exchange.session is None or exchange.session.begin(exchange):
            self.send(exchange)

    def cancel(self, request_id: int) -> None:
        """Asks the daemon to give a request up, where it may have it."""
        exchange = self._exchanges.get(request_id)
        if exchange is None or exchange.cancelling:
            return
        if exchange.seen and not exchange.future.cancelled():
            exchange.cancel()
            self.send(exchange)
        else:
            self.give_away(exchange, Cancelled("cancelled before it was sent", step="client", request_id=request_id))

    def leave(self) -> List[Exchange]:
        """Gives what has not ended, and says goodbye."""
        unanswered = [self.welcomed, *self._exchanges.values()]
        try:
            self.tenancy.leave()
            self._exchanges.clear()
            self.dealer.close(_goodbye())
        except Exception:
            LOGGER.exception("penstock: the client could not take its leave")
        return unanswered

    # Sending.

    def send(self, exchange: Exchange) -> None:
        """Sends it now, or when the daemon knows us. One that its session `holds_back` is only looked after. What goes
        wrong with it ends that one alone."""
        try:
            self._send(exchange)
        except Exception as error:
            self.fail(exchange, error)

    def fail(self, exchange: Exchange, error: Exception) -> None:
        """It can't go on, for a reason of this client's."""
        LOGGER.error("penstock: request %d failed", exchange.request_id, exc_info=error)
        failure = PenstockError(f"the client failed with it: {error!r}", status=Status.FAILED, step="client",
                                request_id=exchange.request_id)
        failure.__cause__ = error
        if exchange.session is not None and isinstance(exchange, Request):
            exchange.session.failed(exchange, failure)
        elif self._exchanges.get(exchange.request_id) is exchange:
            self.end(exchange, error=failure)
        exchange.answer(error=failure)

    def _send(self, exchange: Exchange) -> None:
        now = time.monotonic()
        if isinstance(exchange, Request) and exchange.session is not None and exchange.session.holds_back(exchange):
            exchange.sent_at = None
        elif self._greeted and self.welcome is not None:
            messages = exchange.messages(now, self.welcome)
            exchange.sent_at = now
            exchange.seen = True
            self.tenancy.lend(exchange)
            for parts in messages:
                self.dealer.send(parts)
        else:
            exchange.sent_at = None
            self._waiting.append(exchange)
        self._schedule(exchange, now)

    def _schedule(self, exchange: Exchange, now: float) -> None:
        retry = math.inf if exchange.sent_at is None else now + exchange.wait
        limit = math.inf if exchange.expires is None else exchange.expires
        self._timers.set(exchange.request_id, min(retry, limit))

    def greet(self) -> None:
        """Sends HELLO, and again until WELCOME comes."""
        self._greeted = False
        self.dealer.send(self._hello_parts)
        self._timers.set(self.welcomed.request_id, time.monotonic() + self._hello_wait)
        self._hello_wait = min(2 * self._hello_wait, self._patience.retry_limit)

    def follow_connection(self) -> None:
        """Says HELLO over a connection that stands in for one that broke: what was sent over that may be lost."""
        if self.dealer.has_reconnected():
            self._lost = True
            self._hello_wait = self._patience.retry_after
            self.greet()

    def look_at_door(self) -> None:
        """Gives the greeting up when the daemon does not let us in, and never will."""
        if self.dealer.shut_out and not self.welcomed.answered:
            self.welcomed.answer(error=Rejected(f"the daemon does not let this client in: {self.dealer.trouble}",
                                                step="client"))

    # Time.

    def seconds_left(self, now: float) -> Optional[float]:
        """Until run_timers has something to do; None when it has nothing."""
        return self._timers.seconds_left(now)

    def run_timers(self, now: float) -> None:
        """Sends again what has not been answered for long, and ends what has run out of time."""
        for timer in self._timers.take_due(now):
            exchange = self._exchanges.get(timer)
            if exchange is not None:
                try:
                    self._overdue(exchange, now)
                except Exception as error:
                    self.fail(exchange, error)
            elif timer < 0:
                if -timer in self._sessions:
                    self._sessions[-timer].resume()
            elif not self._greeted:
                self.greet()  # the one time that belongs to no request is that of HELLO

    def _overdue(self, exchange: Exchange, now: float) -> None:
        if exchange.expires is not None and exchange.expires <= now:
            self._expire(exchange)
            return
        if exchange.sent_at is None:
            return  # it waits for WELCOME, or for its session to go on
        exchange.wait = min(2 * exchange.wait, self._patience.retry_limit)
        if self._last_heard <= exchange.sent_at and self._greeted:
            self.greet()  # nothing at all since then: the daemon may not know us any more
        for each in [exchange] if exchange.session is None else exchange.session.to_repeat(exchange):
            self.send(each)

    def _expire(self, exchange: Exchange) -> None:
        if exchange.answered:
            self.end(exchange)
        else:
            self.give_away(exchange, Expired("no answer came within the timeout", step="client",
                                             request_id=exchange.request_id))

    def give_away(self, exchange: Exchange, error: PenstockError) -> None:
        """Its caller does not wait any more. Its credits come back when the daemon has let go of it."""
        if not exchange.lingers:
            self.end(exchange, error=error)
        elif not exchange.answered:
            now = time.monotonic()
            exchange.release()
            exchange.expires = now + _LINGER_S
            exchange.wait = self._patience.retry_after
            if exchange.cancelling:
                self._schedule(exchange, now)
            else:
                exchange.cancel()
                self.send(exchange)
            exchange.answer(error=error)

    # Receiving.

    def receive(self, parts: List[Any]) -> None:
        """Takes a message of the daemon's."""
        self._last_heard = time.monotonic()
        try:
            header = wire.decode_header(parts[0])
        except wire.DecodeError as error:
            if error.error == "unsupported_version":
                self.welcomed.answer(error=Rejected("the daemon speaks another major version",
                                                    status=Status.UNSUPPORTED_VERSION))
            return  # else no daemon of ours: the retries and timeouts see to it
        try:
            self._handle(header, parts)
        except wire.DecodeError as error:
            exchange = self._exchanges.get(header.request_id)
            if exchange is not None:
                self.end(exchange, error=PenstockError(f"the daemon's answer can't be read: {error.error}",
                                                       status=Status.MALFORMED, step="client",
                                                       request_id=header.request_id))
        except Exception as error:
            exchange = self._exchanges.get(header.request_id)
            if exchange is not None:
                self.fail(exchange, error)
            else:
                LOGGER.exception("penstock: a message of the daemon's could not be taken")

    def _handle(self, header: wire.Header, parts: List[Any]) -> None:
        if header.type == MessageType.WELCOME:
            self._welcome(control.decode(Welcome, body_of(parts)))
            return
        if header.type == MessageType.GOODBYE:  # it stops, and waits for our word that its replies have arrived
            self.dealer.send(_goodbye())
            return
        body = control.decode(ErrorBody, body_of(parts)) if header.type == MessageType.ERROR else None
        if body is not None and header.status == Status.HELLO_REQUIRED:
            self._greet_anew(self._exchanges.get(header.request_id))
            return
        self.tenancy.hear(header, body)
        if body is not None and header.request_id == 0:
            error = error_of(header.status, body, 0)
            if header.status != Status.TOO_MANY_CLIENTS or not self._ask_for_place(str(error)):
                self.welcomed.answer(error=error)
            return
        exchange = self._exchanges.get(header.request_id)
        if exchange is None:  # answered before, or given up
            if header.type == MessageType.SESSION_OPENED and header.session not in self._sessions:
                self._close_session(header.session)
        elif body is not None:
            self._error(exchange, header, body)
        elif exchange.answered_by(header.type) and exchange.answered:
            self.end(exchange, taken=True)
        elif exchange.answered_by(header.type):
            value = exchange.read(header, parts, self._last_heard)
            if isinstance(exchange, Opening):
                self._opened(exchange, value)
            elif isinstance(exchange, Attachment):
                self.tenancy.fetch(exchange, value)
            else:
                self.end(exchange, value, taken=True)

    def _ask_for_place(self, refusal: str) -> bool:
        """Says HELLO again soon, as there was no place for this client; False when that has gone on for long."""
        now = time.monotonic()
        if self._no_place_since is None:
            self._no_place_since = now
        if self.welcome is not None or now - self._no_place_since >= _PLACE_S:
            return False
        self.dealer.trouble = refusal
        self._timers.set(self.welcomed.request_id, now + _PLACE_AGAIN_S)
        return True

    def _opened(self, exchange: Opening, opened: control.SessionOpened) -> None:
        known = self._sessions.get(opened.session)
        if known is None and opened.next_sequence == 0:
            self._sessions[opened.session] = session = SessionRequests(self, opened.session, self._patience)
            self.end(exchange, session)
        elif known is None:  # an earlier session of that name, whose CLOSE was lost; OPEN will be repeated
            self._close_session(opened.session)
        elif known.closing:
            exchange.behind = known
        else:
            self.end(exchange, error=Rejected(f"this client has a session {exchange.name!r} open", step="client",
                                              request_id=exchange.request_id))

    def _greet_anew(self, exchange: Optional[Exchange]) -> None:
        """The daemon does not know us, at least not over this connection, and has not taken that one."""
        if self._greeted:
            self._lost = True
            self._stranger = True
            self._hello_wait = self._patience.retry_after
            self.greet()
        if exchange is not None and exchange.sent_at is not None:
            exchange.seen = exchange.seen and self._token != ""
            self.send(exchange)

    def _error(self, exchange: Exchange, header: wire.Header, body: ErrorBody) -> None:
        unknown = header.status in (Status.REJECTED, *PLACE_REFUSALS)
        if exchange.cancelling and unknown and exchange.session is None:  # the daemon has no such request
            self.end(exchange, error=Cancelled("cancelled by the client", step="client",
                                               request_id=exchange.request_id))
        elif header.status in PLACE_REFUSALS and isinstance(exchange, Request) and exchange.placed:
            if exchange.refuse_place(header.status):
                again = self.send if exchange.session is None else exchange.session.send_again
                again(exchange)
        elif exchange.session is not None:
            exchange.session.refused(exchange, header, body)
        else:
            self.end(exchange, error=error_of(header.status, body, exchange.request_id))

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
        if restarted:
            self._follow_restart(welcome)
        else:
            self._follow_loss(forgotten)
        self.welcomed.answer(welcome)
        waiting, self._waiting = self._waiting, collections.deque()
        for exchange in sorted(waiting, key=lambda each: each.request_id):  # a session's in its order
            if self._exchanges.get(exchange.request_id) is exchange and exchange.sent_at is None:
                self.send(exchange)

    def _move(self, url: Optional[str]) -> bool:
        """Goes to the shard that the first WELCOME names, once, before anything but HELLO has been sent."""
        self._url = None
        try:
            if url is not None:
                self.dealer.move(url, _goodbye())
                self._hello_wait = self._patience.retry_after
                self.greet()
                return True
        except ValueError:
            pass  # it can't be reached from here, and this shard serves us all the same
        return False

    def _follow_loss(self, forgotten: bool) -> None:
        """What may be lost waits to be sent again. `forgotten`: the daemon has given our place away."""
        if forgotten or (self._stranger and not self._token):
            self.tenancy.leave()
        if forgotten:
            for session in list(self._sessions.values()):
                session.lose("the daemon has given this client's place away", gone=True)
        if self._lost or forgotten:
            for exchange in list(self._exchanges.values()):
                if exchange.sent_at is not None:
                    exchange.sent_at = None
                    exchange.wait = self._patience.retry_after
                    self._waiting.append(exchange)
            for session in self._sessions.values():
                session.repeated()
        self._lost = self._stranger = False

    def _follow_restart(self, welcome: Welcome) -> None:
        """The daemon is a new one, and knows none of the requests."""
        self._lost = self._stranger = False
        self.tenancy.leave()
        for session in list(self._sessions.values()):
            session.lose("the daemon restarted", gone=True)
        for exchange in list(self._exchanges.values()):
            error = exchange.follow(welcome)
            if error is not None:
                self.end(exchange, error=error)
            elif exchange.sent_at is not None:
                self.send(exchange)

    def resume_in(self, session: SessionRequests, seconds: float) -> None:
        """Calls its `resume` after that time."""
        self._timers.set(-session.number, time.monotonic() + seconds)

    def forget(self, session: SessionRequests, tell: bool) -> None:
        """The session is over; `tell` the daemon, which may still hold it."""
        self._sessions.pop(session.number, None)
        self._timers.clear(-session.number)
        if tell:
            self._close_session(session.number)
        for each in [each for each in self._exchanges.values() if isinstance(each, Opening) and each.behind is session]:
            each.behind = None
            self.send(each)

    def _close_session(self, number: int) -> None:
        self.dealer.send([wire.encode_header(wire.Header(MessageType.CLOSE_SESSION, session=number))])

    def end(self, exchange: Exchange, value: Any = None, error: Optional[PenstockError] = None,
            taken: bool = False) -> None:
        """The daemon has let go of it; `taken` when it has sent the result."""
        del self._exchanges[exchange.request_id]
        self._timers.clear(exchange.request_id)
        if exchange.session is not None:
            session, exchange.session = exchange.session, None
            session.ended(exchange, taken)
        exchange.release()
        self.tenancy.ended(exchange)
        if exchange.credit_bytes is not None:
            self.credits.give_back(exchange.credit_bytes)
        exchange.answer(value, error)


def _goodbye() -> List[Any]:
    return [wire.encode_header(wire.Header(MessageType.GOODBYE))]
