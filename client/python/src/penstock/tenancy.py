"""What of the daemon's memory this client has, on the connection's thread."""
from __future__ import annotations

import time
from typing import Dict, Optional, Protocol

from . import wire
from .arena import Arena
from .control import Attached, ErrorBody
from .dealer import Dealer
from .errors import PenstockError, Rejected
from .exchange import Attachment, Exchange, Patience, PlaceQuestion
from .lease import Lease
from .placement import Placement
from .wire import MessageType, Status

#: How long until the Unix socket is tried again where too many wait.
_BETWEEN_CONNECTS_S = 0.005
_RETURNS = (MessageType.RESULT, MessageType.RESULT_SHARED, MessageType.RELEASED)


class Outlet(Protocol):
    """What it asks of its conversation."""

    def begin(self, exchange: Exchange) -> None:
        """Sends an exchange that has its id, and sees it to its end."""

    def end(self, exchange: Exchange, value: object = None, error: Optional[PenstockError] = None) -> None:
        """Ends an exchange."""


class Tenancy:
    """The arena, its lease, and which requests the daemon may still read and write memory of: theirs is kept until its
    word, or until their arena goes, also when nobody waits for them any more. That word can be lost like any other: it
    is asked for."""

    def __init__(self, outlet: Outlet, dealer: Dealer, patience: Patience) -> None:
        self.arena: Optional[Arena] = None  #: written by the connection's thread, read by any
        self._outlet = outlet
        self._dealer = dealer
        self._patience = patience
        self._lease: Optional[Lease] = None
        self._connect_at = 0.0  # of a lease that is not connected; in time.monotonic()'s seconds
        self._attachment: Optional[Attachment] = None  # whose arena is being fetched
        self._lent: Dict[int, Placement] = {}
        self._questions: Dict[int, PlaceQuestion] = {}  # after what is lent and has ended here

    # The lease.

    def fetch(self, exchange: Attachment, attached: Attached) -> None:
        """ATTACHED came: the exchange ends when the arena is there, or when it can't be had."""
        if self._lease is not None:
            return  # a repeat
        try:
            self._lease = Lease(attached)
        except OSError as error:
            self._outlet.end(exchange, error=Rejected(str(error), step="client", request_id=exchange.request_id))
            return
        self._attachment = exchange
        self._connect_at = 0.0
        self.look()

    def seconds_left(self, now: float) -> Optional[float]:
        """Until `look` has something to do that the dealer does not tell of; None when it has nothing."""
        waits = self._lease is not None and not self._lease.connected
        return max(0.0, self._connect_at - now) if waits else None

    def look(self) -> None:
        """Connects where that is due, and takes what has come over the lease's connection; perhaps its end."""
        lease = self._lease
        if lease is None:
            return
        try:
            if not lease.connected:
                self._connect(lease)
            elif self._dealer.is_ready(lease.fileno()):
                lease.receive()
        except OSError as error:
            self._leave(str(error))
            return
        attachment = self._attachment
        if attachment is not None and lease.arena is not None:
            self._attachment, self.arena = None, lease.arena
            self._outlet.end(attachment, self.arena)

    def end(self, arena: Arena) -> None:
        """The daemon does not know this one any more."""
        arena.end()
        if self._lease is not None and self._lease.arena is arena:
            self._leave("the daemon does not know this memory any more")

    def leave(self) -> None:
        """Ends the lease, if there is one: the daemon is another one, or the client goes."""
        if self._lease is not None:
            self._leave("the lease has ended")

    def ended(self, exchange: Exchange) -> None:
        """Nobody waits for that exchange any more: an arena that comes later is not wanted, and what the daemon may still
        use of its memory is asked for."""
        if exchange is self._attachment:
            self._attachment = None
            self.leave()
        request_id = exchange.request_id
        question = self._questions.pop(request_id, None)
        if request_id in self._lent:
            self._questions[request_id] = question = question or PlaceQuestion(request_id, self._patience)
            question.begins = True
            self._outlet.begin(question)

    def _leave(self, reason: str) -> None:
        lease, self._lease = self._lease, None
        attachment, self._attachment = self._attachment, None
        assert lease is not None
        if lease.connected:
            self._dealer.unwatch(lease.fileno())
        lease.close()
        if self.arena is not None:
            self.arena.end()
            self._lent = {request_id: each for request_id, each in self._lent.items() if each.arena is not self.arena}
            self.arena = None
        for question in list(self._questions.values()):
            self._outlet.end(question)
        if attachment is not None:
            self._outlet.end(attachment, error=Rejected(reason, step="client", request_id=attachment.request_id))

    def _connect(self, lease: Lease) -> None:
        now = time.monotonic()
        if self._connect_at <= now:
            self._connect_at = now + _BETWEEN_CONNECTS_S
            lease.connect()
            if lease.connected:
                self._dealer.watch(lease.fileno())

    # What is lent.

    def lend(self, exchange: Exchange) -> None:
        """It was sent."""
        placement = exchange.placement
        if placement is not None and placement.lent > 0 and not placement.arena.ended:
            self._lent[exchange.request_id] = placement

    def hear(self, header: wire.Header, error: Optional[ErrorBody]) -> None:
        """A message came, with its body if it is an ERROR."""
        placement = self._lent.get(header.request_id)
        if placement is None or (error is None and header.type not in _RETURNS) or (error is not None and error.holds):
            return
        placement.lent -= 1
        if header.status in (Status.HELLO_REQUIRED, Status.UNKNOWN_ARENA):
            self.end(placement.arena)
        elif error is None or placement.lent == 0 or self._asked(header) or not _only_refuses(header.status):
            del self._lent[header.request_id]
            placement.lent = 0

    def _asked(self, header: wire.Header) -> bool:
        """Whether it answers a question: the last word, however often the request was sent."""
        question = self._questions.get(header.request_id)
        return question is not None and question.asked


def _only_refuses(status: int) -> bool:
    """Whether such an ERROR ends no request that was taken: what else was sent of it may still be in flight."""
    return status >> 8 == Status.REJECTED >> 8 and status != Status.OVERFLOW
