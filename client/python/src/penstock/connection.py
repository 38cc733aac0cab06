"""The thread that owns the socket: sending, receiving, retries, greetings and deadlines."""
from __future__ import annotations

import collections
import math
import threading
import time
from typing import Any, Deque, Dict, List, NamedTuple, Optional

from . import control, frames, wire
from .control import ErrorBody, PipelineDescription, Welcome
from .credit_window import CreditWindow
from .dealer import Dealer
from .errors import Cancelled, Expired, PenstockError, Rejected, error_of
from .exchange import Exchange
from .timers import Timers
from .wakeup import Wakeup

_RECEIVED_AT_ONCE = 256
#: How long a request that the client gave up may hold its credits while the daemon does not say what became of it.
_LINGER_S = 10.0


class Patience(NamedTuple):
    """Times in seconds."""
    retry_after: float = 2.0  #: without an answer a request is sent again; each further wait is twice the last
    retry_limit: float = 16.0  #: the longest such wait
    grace: float = 0.25  #: how much longer than its timeout a request waits for the daemon's own word


class Connection:
    """One client's side of the conversation. `start`, `cancel` and `close` may be called from any thread; everything
    else runs on the connection's own thread."""

    def __init__(self, url: str, hello: control.Hello, patience: Patience) -> None:
        self.credits = CreditWindow()
        self.welcome: Optional[Welcome] = None  #: the latest; written by the connection's thread
        self.welcomed: Exchange = Exchange(wire.MessageType.HELLO, 0, None, 0, patience.retry_after)
        self._hello = [wire.encode_header(wire.Header(wire.MessageType.HELLO)), control.encode(hello)]
        self._patience = patience
        self._dealer = Dealer(url)
        self._wakeup = Wakeup()
        self._timers = Timers()
        self._exchanges: Dict[int, Exchange] = {}
        self._waiting: Deque[Exchange] = collections.deque()  #: to be sent once the daemon knows us
        self._greeted = False
        self._hello_wait = patience.retry_after
        self._last_heard = time.monotonic()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="penstock", daemon=True)
        self._thread.start()

    # From any thread.

    def start(self, exchange: Exchange) -> None:
        """Sends an exchange and sees it to its end."""
        if not self._wakeup.post(lambda: self._begin(exchange)):
            exchange.answer(error=_closed(exchange))

    def cancel(self, request_id: int) -> None:
        """Asks the daemon to give a request up."""
        self._wakeup.post(lambda: self._give_up(request_id))

    def is_own_thread(self) -> bool:
        """Whether the caller runs on the connection's thread, as a future's callback does."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Says goodbye and ends what is in flight with Cancelled. Returns when the thread has ended (at once when it is
        called from that thread)."""
        self.credits.close()
        self._wakeup.post(self._stop)
        if not self.is_own_thread():
            self._thread.join()

    # On the connection's thread.

    def _run(self) -> None:
        try:
            self._greet()
            while not self._closing:
                readable = self._dealer.wait(self._wakeup.fileno(), self._timers.seconds_left(time.monotonic()))
                self._wakeup.run()
                for _ in range(_RECEIVED_AT_ONCE if readable else 0):
                    parts = self._dealer.receive()
                    if parts is None:
                        break
                    self._receive(parts)
                self._dealer.flush()
                self._run_timers()
        finally:
            self._shut()

    def _stop(self) -> None:
        self._closing = True

    def _shut(self) -> None:
        self._closing = True
        self.credits.close()
        self._wakeup.close()
        self._wakeup.run()
        for exchange in [self.welcomed, *self._exchanges.values()]:
            exchange.answer(error=_closed(exchange))
        self._exchanges.clear()
        self._dealer.close([wire.encode_header(wire.Header(wire.MessageType.GOODBYE))])

    # Sending.

    def _begin(self, exchange: Exchange) -> None:
        if self._closing:
            exchange.answer(error=_closed(exchange))
            return
        self._exchanges[exchange.request_id] = exchange
        self._send(exchange)

    def _send(self, exchange: Exchange) -> None:
        """Sends it now, or when the daemon knows us."""
        now = time.monotonic()
        if self._greeted:
            exchange.sent_at = now
            exchange.seen = True
            self._dealer.send(exchange.parts(now))
        else:
            exchange.sent_at = None
            self._waiting.append(exchange)
        self._schedule(exchange, now)

    def _schedule(self, exchange: Exchange, now: float) -> None:
        retry = math.inf if exchange.sent_at is None else now + exchange.wait
        limit = math.inf if exchange.expires is None else exchange.expires
        self._timers.set(exchange.request_id, min(retry, limit))

    def _greet(self) -> None:
        """Sends HELLO, and again until WELCOME comes."""
        self._greeted = False
        self._dealer.send(self._hello)
        self._timers.set(self.welcomed.request_id, time.monotonic() + self._hello_wait)
        self._hello_wait = min(2 * self._hello_wait, self._patience.retry_limit)

    # Time.

    def _run_timers(self) -> None:
        now = time.monotonic()
        for request_id in self._timers.take_due(now):
            exchange = self._exchanges.get(request_id)
            if exchange is not None:
                self._overdue(exchange, now)
            elif not self._greeted:
                self._greet()  # the one time that belongs to no request is that of HELLO

    def _overdue(self, exchange: Exchange, now: float) -> None:
        if exchange.expires is not None and exchange.expires <= now:
            self._expire(exchange, now)
            return
        exchange.wait = min(2 * exchange.wait, self._patience.retry_limit)
        if exchange.sent_at is not None and self._last_heard <= exchange.sent_at and self._greeted:
            self._greet()  # nothing at all since then: the daemon may not know us any more
        if exchange.sent_at is not None:
            self._send(exchange)

    def _expire(self, exchange: Exchange, now: float) -> None:
        abandoned = exchange.answered or not exchange.seen or exchange.kind != wire.MessageType.SUBMIT
        error = Expired("no answer came within the timeout", step="client", request_id=exchange.request_id)
        if abandoned:
            self._end(exchange, error=error)
        else:
            exchange.answer(error=error)
            self._abandon(exchange, now)

    def _abandon(self, exchange: Exchange, now: float) -> None:
        """Nobody waits for it any more. Its credits come back when the daemon has let go of it."""
        exchange.cancelling = True
        exchange.expires = now + _LINGER_S
        exchange.wait = self._patience.retry_after
        self._send(exchange)

    def _give_up(self, request_id: int) -> None:
        exchange = self._exchanges.get(request_id)
        if exchange is None or exchange.cancelling:
            return
        if not exchange.seen:
            self._end(exchange, error=Cancelled("cancelled before it was sent", step="client", request_id=request_id))
            return
        if exchange.future.cancelled():
            exchange.answer()
            self._abandon(exchange, time.monotonic())
        else:
            exchange.cancelling = True
            self._send(exchange)

    # Receiving.

    def _receive(self, parts: List[Any]) -> None:
        self._last_heard = time.monotonic()
        try:
            header = wire.decode_header(parts[0])
        except wire.DecodeError as error:
            if error.error == "unsupported_version":
                self.welcomed.answer(error=Rejected("the daemon speaks another major version",
                                                    status=wire.Status.UNSUPPORTED_VERSION))
            return  # else no daemon of ours: the retries and timeouts see to it
        try:
            self._handle(header, parts)
        except wire.DecodeError as error:
            exchange = self._exchanges.get(header.request_id)
            if exchange is not None:
                self._end(exchange, error=PenstockError(f"the daemon's answer can't be read: {error.error}",
                                                        status=wire.Status.MALFORMED, step="client",
                                                        request_id=header.request_id))

    def _handle(self, header: wire.Header, parts: List[Any]) -> None:
        if header.type == wire.MessageType.WELCOME:
            self._welcome(control.decode(Welcome, _body(parts)))
            return
        if header.type == wire.MessageType.ERROR and header.request_id == 0:
            self.welcomed.answer(error=error_of(header.status, control.decode(ErrorBody, _body(parts)), 0))
            return
        exchange = self._exchanges.get(header.request_id)
        if exchange is None:
            return  # answered before, or given up
        if header.type == wire.MessageType.ERROR:
            self._error(exchange, header, control.decode(ErrorBody, _body(parts)))
        elif header.type == wire.MessageType.RESULT and exchange.pipeline is not None and exchange.frames is not None:
            self._end(exchange, frames.unpack(exchange.pipeline.outputs, header, parts, exchange.frames.single))
        elif header.type == wire.MessageType.RESULT and exchange.answered:
            self._end(exchange)
        elif header.type == wire.MessageType.PONG and exchange.kind == wire.MessageType.PING:
            self._end(exchange, self._last_heard - (exchange.sent_at or self._last_heard))
        elif header.type == wire.MessageType.STATUS_REPORT and exchange.kind == wire.MessageType.GET_STATUS:
            self._end(exchange, control.decode_json(_body(parts)))

    def _error(self, exchange: Exchange, header: wire.Header, body: ErrorBody) -> None:
        unknown = header.status in (wire.Status.HELLO_REQUIRED, wire.Status.REJECTED)
        if exchange.cancelling and unknown:  # the daemon has no such request
            self._end(exchange, error=Cancelled("cancelled by the client", step="client",
                                                request_id=exchange.request_id))
        elif header.status == wire.Status.HELLO_REQUIRED:
            if self._greeted:
                self._hello_wait = self._patience.retry_after
                self._greet()
            if exchange.sent_at is not None:
                exchange.seen = False
                self._send(exchange)
        else:
            self._end(exchange, error=error_of(header.status, body, exchange.request_id))

    def _welcome(self, welcome: Welcome) -> None:
        self._greeted = True
        self._hello_wait = self._patience.retry_after
        restarted = self.welcome is not None and self.welcome.instance != welcome.instance
        self.credits.resize(welcome.credit_requests, welcome.credit_bytes)
        self.welcome = welcome
        if restarted:
            self._follow_restart(welcome)
        self.welcomed.answer(welcome)
        waiting, self._waiting = self._waiting, collections.deque()
        for exchange in waiting:
            if self._exchanges.get(exchange.request_id) is exchange and exchange.sent_at is None:
                self._send(exchange)

    def _follow_restart(self, welcome: Welcome) -> None:
        """The daemon is a new one: it knows none of the requests, and may number its pipelines otherwise."""
        for exchange in list(self._exchanges.values()):
            if exchange.cancelling:
                self._end(exchange, error=Cancelled("the daemon restarted", step="client",
                                                    request_id=exchange.request_id))
                continue
            if exchange.pipeline is not None:
                found = welcome.by_name.get(exchange.pipeline.name)
                if found is None or not _takes_the_same(found, exchange.pipeline):
                    self._end(exchange, error=Rejected(
                        f"the daemon restarted without the pipeline {exchange.pipeline.name!r} as it was",
                        status=wire.Status.UNKNOWN_PIPELINE, step="client", request_id=exchange.request_id))
                    continue
                exchange.pipeline = found
            if exchange.sent_at is not None:
                self._send(exchange)

    def _end(self, exchange: Exchange, value: Any = None, error: Optional[PenstockError] = None) -> None:
        del self._exchanges[exchange.request_id]
        self._timers.clear(exchange.request_id)
        if exchange.credit_bytes is not None:
            self.credits.give_back(exchange.credit_bytes)
        exchange.answer(value, error)


def _closed(exchange: Exchange) -> Cancelled:
    return Cancelled("the client was closed", step="client", request_id=exchange.request_id)


def _body(parts: List[Any]) -> Any:
    if len(parts) != 2:
        raise wire.DecodeError("bad_body")
    return parts[1]


def _takes_the_same(one: PipelineDescription, other: PipelineDescription) -> bool:
    return one.input == other.input and one.outputs == other.outputs and one.max_frames >= other.max_frames
