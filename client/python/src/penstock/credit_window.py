"""What the daemon lets this client have in flight."""
from __future__ import annotations

import collections
import threading
import time
from typing import Callable, Deque, Optional

from .errors import Cancelled, Expired, NoCredit, PenstockError


class CreditTicket:
    """A request that waits for credits, first come first served. It ends once: with credits, or with an error."""

    def __init__(self, nbytes: int, ready: Callable[[], None]) -> None:
        self.nbytes = nbytes
        self.ready = ready  #: called once it has ended, by whichever thread: it must be short
        self.granted = False
        self.error: Optional[PenstockError] = None


class CreditWindow:
    """Requests and payload bytes that may be in flight. Thread-safe. Who waits is served in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Deque[CreditTicket] = collections.deque()
        self._requests = 0
        self._bytes = 0
        self._most_requests = 0
        self._most_bytes = 0
        self._closed = ""

    def resize(self, requests: int, nbytes: int) -> None:
        """Sets the window; what is in flight stays in flight."""
        with self._lock:
            self._most_requests, self._most_bytes = requests, nbytes
        self._serve()

    def take(self, nbytes: int, deadline: Optional[float], block: bool) -> None:
        """Takes one request of that many bytes, waiting for them until `deadline` (of time.monotonic()).

        Raises NoCredit when it may not wait or can never have them, Expired at the deadline, Cancelled when the client
        is closed.
        """
        if not block:
            with self._lock:
                self._check(nbytes)
                if not self._fits(nbytes):
                    raise NoCredit(f"{self._requests} requests of {self._bytes} bytes are in flight", step="client")
                self._take(nbytes)
            return
        come = threading.Event()
        ticket = self.wait_in_line(nbytes, come.set)
        if not ticket.granted:
            try:
                come.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except BaseException:  # Ctrl-C
                self.leave_line(ticket)
                raise
            self.settle(ticket)

    def wait_in_line(self, nbytes: int, ready: Callable[[], None]) -> CreditTicket:
        """As `take`, without waiting: a ticket that has been `granted`, or that calls `ready` when it is to be settled.
        """
        with self._lock:
            self._check(nbytes)
            ticket = CreditTicket(nbytes, ready)
            if not self._waiting and self._fits(nbytes):
                self._take(nbytes)
                ticket.granted = True
            else:
                self._waiting.append(ticket)
            return ticket

    def settle(self, ticket: CreditTicket) -> None:
        """Ends the wait, successful or not. Raises what `take` raises when there are no credits."""
        with self._lock:
            if not ticket.granted and ticket.error is None:
                self._waiting.remove(ticket)
                ticket.error = Expired("no credit came back before the timeout", step="client")
        if ticket.error is not None:
            self._serve()  # it may have stood before others that fit
            raise ticket.error

    def leave_line(self, ticket: CreditTicket) -> None:
        """Its owner does not want the credits any more."""
        with self._lock:
            granted = ticket.granted
            if not granted and ticket.error is None:
                self._waiting.remove(ticket)
        if granted:
            self.give_back(ticket.nbytes)
        else:
            self._serve()

    def give_back(self, nbytes: int) -> None:
        """Gives one request of that many bytes back."""
        with self._lock:
            self._requests -= 1
            self._bytes -= nbytes
            if not self._waiting:
                return
        self._serve()

    def close(self, reason: str = "the client is closed") -> None:
        """Ends every wait, now and later."""
        with self._lock:
            self._closed = self._closed or reason
        self._serve()

    def _serve(self) -> None:
        """Serves those at the head of the line, as far as it goes."""
        served = []
        with self._lock:
            while self._waiting:
                ticket = self._waiting[0]
                try:
                    self._check(ticket.nbytes)
                except PenstockError as error:
                    ticket.error = error
                else:
                    if not self._fits(ticket.nbytes):
                        break
                    self._take(ticket.nbytes)
                    ticket.granted = True
                served.append(self._waiting.popleft())
        for ticket in served:
            ticket.ready()

    def _check(self, nbytes: int) -> None:
        if self._closed:
            raise Cancelled(self._closed, step="client")
        if nbytes > self._most_bytes:
            raise NoCredit(f"{nbytes} bytes are more than the {self._most_bytes} that may be in flight")

    def _take(self, nbytes: int) -> None:
        self._requests += 1
        self._bytes += nbytes

    def _fits(self, nbytes: int) -> bool:
        return self._requests < self._most_requests and self._bytes + nbytes <= self._most_bytes
