"""What of the daemon's memory this client has, on the connection's thread."""
from __future__ import annotations

import time
from typing import Dict, List, Optional, Protocol

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
#: How long until it is seen that nothing lies in what was outgrown: nobody tells of it.
_BETWEEN_LOOKS_S = 1.0
_RETURNS = (MessageType.RESULT, MessageType.RESULT_SHARED, MessageType.RELEASED)


class Outlet(Protocol):
    """What it asks of its conversation."""

    def begin(self, exchange: Exchange) -> None:
        """Sends an exchange that has its id, and sees it to its end."""

    def end(self, exchange: Exchange, value: object = None, error: Optional[PenstockError] = None) -> None:
        """Ends an exchange."""


class Tenancy:
    """The arena, its lease, those that it has outgrown, and which requests the daemon may still read and write memory of: theirs is kept until its
    word, or until their arena goes, also when nobody waits for them any more. That word can be lost like any other: it
    is asked for."""

    def __init__(self, outlet: Outlet, dealer: Dealer, patience: Patience) -> None:
        self.arena: Optional[Arena] = None  #: written by the connection's thread, read by any
        self._outlet = outlet
        self._dealer = dealer
        self._patience = patience
        self._lease: Optional[Lease] = None
        self._outgrown: List[Lease] = []  # in whose arenas something still lies
        self._coming: Optional[Lease] = None  # whose arena is being fetched
        self._attachment: Optional[Attachment] = None  # for it
        self._connect_at = 0.0  # of one that is not connected; in time.monotonic()'s seconds
        self._lent: Dict[int, Placement] = {}
        self._questions: Dict[int, PlaceQuestion] = {}  # after what is lent and has ended here

    # The lease.

    def fetch(self, exchange: Attachment, attached: Attached) -> None:
        """ATTACHED came: the exchange ends when the arena is there, or when it can't be had."""
        if self._coming is not None:
            return  # a repeat
        try:
            self._coming = Lease(attached)
        except OSError as error:
            self._outlet.end(exchange, error=Rejected(str(error), step="client", request_id=exchange.request_id))
            return
        self._attachment = exchange
        self._connect_at = 0.0
        self.look()

    def seconds_left(self, now: float) -> Optional[float]:
        """Until `look` has something to do that the dealer does not tell of; None when it has nothing."""
        if self._coming is not None and not self._coming.connected:
            return max(0.0, self._connect_at - now)
        return _BETWEEN_LOOKS_S if self._outgrown else None

    def look(self) -> None:
        """Connects where that is due, and takes what has come over the leases' connections; perhaps their end."""
        for lease in self._leases():
            try:
                if not lease.connected:
                    self._connect(lease)
                elif self._dealer.is_ready(lease.fileno()):
                    lease.receive()
            except OSError as error:
                self._leave(lease, str(error))
        if self._coming is not None and self._coming.arena is not None:
            self._take_over(self._coming, self._coming.arena)
        for lease in self._outgrown.copy():
            if lease.arena is not None and lease.arena.unused:
                self._leave(lease, "it was outgrown")

    def end(self, arena: Arena) -> None:
        """The daemon does not know this one any more."""
        arena.end()
        for lease in self._leases():
            if lease.arena is arena:
                self._leave(lease, "the daemon does not know this memory any more")

    def leave(self) -> None:
        """Ends what leases there are: the daemon is another one, or the client goes."""
        for lease in self._leases():
            self._leave(lease, "the lease has ended")

    def ended(self, exchange: Exchange) -> None:
        """Nobody waits for that exchange any more: an arena that comes later is not wanted, and what the daemon may still
        use of its memory is asked for."""
        if exchange is self._attachment:
            self._attachment = None
            if self._coming is not None:
                self._leave(self._coming, "nobody waits for it")
        request_id = exchange.request_id
        question = self._questions.pop(request_id, None)
        if request_id in self._lent:
            self._questions[request_id] = question = question or PlaceQuestion(request_id, self._patience)
            question.begins = True
            self._outlet.begin(question)

    def _leases(self) -> List[Lease]:
        held = [] if self._lease is None else [self._lease]
        return self._outgrown + held + ([] if self._coming is None else [self._coming])

    def _take_over(self, lease: Lease, arena: Arena) -> None:
        """Requests that lie in the one before, results and arrays stay where they are."""
        if self._lease is not None and self._lease.arena is not None:
            self._lease.arena.outgrow()
            self._outgrown.append(self._lease)
        attachment, self._attachment = self._attachment, None
        self._lease, self._coming, self.arena = lease, None, arena
        if attachment is not None:
            self._outlet.end(attachment, arena)

    def _leave(self, lease: Lease, reason: str) -> None:
        if lease.connected:
            self._dealer.unwatch(lease.fileno())
        lease.close()
        if lease is self._coming:
            attachment, self._coming, self._attachment = self._attachment, None, None
            if attachment is not None:
                self._outlet.end(attachment,
                                 error=Rejected(reason, step="client", request_id=attachment.request_id))
            return
        if lease is self._lease:
            self._lease = self.arena = None
        else:
            self._outgrown.remove(lease)
        if lease.arena is not None:
            lease.arena.end()
        self._lent = {request_id: each for request_id, each in self._lent.items() if each.arena is not lease.arena}
        for request_id, question in list(self._questions.items()):
            if request_id not in self._lent:
                self._outlet.end(question)

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
        """A message came, with its body if it is an ERROR, but for HELLO_REQUIRED, which says nothing of memory."""
        placement = self._lent.get(header.request_id)
        if placement is None or (error is None and header.type not in _RETURNS) or (error is not None and error.holds):
            return
        placement.lent -= 1
        if header.status == Status.UNKNOWN_ARENA:
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
