"""What of the daemon's memory this client has, on the connection's thread."""
from __future__ import annotations

from typing import Dict, Optional, Protocol

from . import wire
from .arena import Arena
from .control import Attached, ErrorBody
from .dealer import Dealer
from .errors import PenstockError, Rejected
from .exchange import Attachment, Exchange
from .lease import Lease
from .placement import Placement
from .wire import MessageType, Status

_RETURNS = (MessageType.RESULT, MessageType.RESULT_SHARED, MessageType.RELEASED)


class Outlet(Protocol):
    """What it asks of its conversation."""

    def end(self, exchange: Exchange, value: object = None, error: Optional[PenstockError] = None) -> None:
        """Ends an exchange."""


class Tenancy:
    """The arena, its lease, and which requests the daemon may still read and write memory of: theirs is kept until its
    word, or until their arena goes, also when nobody waits for them any more."""

    def __init__(self, outlet: Outlet, dealer: Dealer) -> None:
        self.arena: Optional[Arena] = None  #: written by the connection's thread, read by any
        self._outlet = outlet
        self._dealer = dealer
        self._lease: Optional[Lease] = None
        self._attachment: Optional[Attachment] = None  # whose arena is being fetched
        self._lent: Dict[int, Placement] = {}

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
        self._dealer.watch(self._lease.fileno())

    def look(self) -> None:
        """Takes what has come over the lease's connection; perhaps its end."""
        if self._lease is None or not self._dealer.is_ready(self._lease.fileno()):
            return
        try:
            self._lease.receive()
        except OSError as error:
            self._leave(str(error))
            return
        attachment = self._attachment
        if attachment is not None and self._lease.arena is not None:
            self._attachment, self.arena = None, self._lease.arena
            self._outlet.end(attachment, self.arena)

    def end(self, arena: Arena) -> None:
        """The daemon does not know this one any more."""
        arena.ended = True
        if self._lease is not None and self._lease.arena is arena:
            self._leave("the daemon does not know this memory any more")

    def leave(self) -> None:
        """Ends the lease, if there is one: the daemon is another one, or the client goes."""
        if self._lease is not None:
            self._leave("the lease has ended")

    def ended(self, exchange: Exchange) -> None:
        """Nobody waits for that exchange any more: an arena that comes later is not wanted."""
        if exchange is self._attachment:
            self._attachment = None
            self.leave()

    def _leave(self, reason: str) -> None:
        lease, self._lease = self._lease, None
        attachment, self._attachment = self._attachment, None
        assert lease is not None
        self._dealer.unwatch(lease.fileno())
        lease.close()
        if self.arena is not None:
            self.arena.ended = True
            self._lent = {request_id: each for request_id, each in self._lent.items() if each.arena is not self.arena}
            self.arena = None
        if attachment is not None:
            self._outlet.end(attachment, error=Rejected(reason, step="client", request_id=attachment.request_id))

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
        elif error is None or placement.lent == 0 or not _only_refuses(header.status):
            del self._lent[header.request_id]
            placement.lent = 0


def _only_refuses(status: int) -> bool:
    """Whether such an ERROR ends no request that was taken: what else was sent of it may still be in flight."""
    return status >> 8 == Status.REJECTED >> 8 and status != Status.OVERFLOW
