"""The credit window: the requests and bytes that a client may have in flight."""
from __future__ import annotations

import collections
import threading
import time
from typing import Callable, Deque, Optional

from .errors import Cancelled, Expired, NoCredit, PenstockError


class CreditWaiter:
    """A request in the queue for credits. It ends once, with credits or with an error."""

    def __init__(self, nbytes: int, ready: Callable[[], None]) -> None:
        self.nbytes = nbytes
        self.ready = ready  #: called once when it has ended, on any thread; must not block
        self.granted = False
        self.error: Optional[PenstockError] = None


class CreditWindow:
    """Limits requests and payload bytes in flight. Waiters are served in order. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Deque[CreditWaiter] = collections.deque()
        self._requests = 0
        self._bytes = 0
        self._most_requests = 0
        self._most_bytes = 0
        self._closed = ""

    def resize(self, requests: int, nbytes: int) -> None:
        """Sets the limits. What is in flight above a lower limit stays in flight."""
        with self._lock:
            self._most_requests, self._most_bytes = requests, nbytes
        self._serve()

    def take(self, nbytes: int, deadline: Optional[float], block: bool) -> None:
        """Takes credit for one request of `nbytes`, waiting until `deadline` (in seconds of time.monotonic()).

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
        waiter = self.enqueue(nbytes, come.set)
        if not waiter.granted:
            try:
                come.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except BaseException:  # Ctrl-C
                self.dequeue(waiter)
                raise
            self.settle(waiter)

    def enqueue(self, nbytes: int, ready: Callable[[], None]) -> CreditWaiter:
        """Begins to take credits without blocking. The waiter is `granted`, or calls `ready` before `settle`."""
        with self._lock:
            self._check(nbytes)
            waiter = CreditWaiter(nbytes, ready)
            if not self._waiting and self._fits(nbytes):
                self._take(nbytes)
                waiter.granted = True
            else:
                self._waiting.append(waiter)
            return waiter

    def settle(self, waiter: CreditWaiter) -> None:
        """Ends the wait. Raises as `take` when there are no credits."""
        with self._lock:
            if not waiter.granted and waiter.error is None:
                self._waiting.remove(waiter)
                waiter.error = Expired("no credit came back before the timeout", step="client")
        if waiter.error is not None:
            self._serve()  # later waiters may fit
            raise waiter.error

    def dequeue(self, waiter: CreditWaiter) -> None:
        """Gives up the wait, or returns the credits."""
        with self._lock:
            granted = waiter.granted
            if not granted and waiter.error is None:
                self._waiting.remove(waiter)
        if granted:
            self.give_back(waiter.nbytes)
        else:
            self._serve()

    def give_back(self, nbytes: int) -> None:
        """Returns the credit of one request of `nbytes`."""
        with self._lock:
            self._requests -= 1
            self._bytes -= nbytes
            if not self._waiting:
                return
        self._serve()

    def close(self, reason: str = "the client is closed") -> None:
        """Ends all waits, present and later."""
        with self._lock:
            self._closed = self._closed or reason
        self._serve()

    def _serve(self) -> None:
        """Grants credits to the waiters at the head of the queue."""
        served = []
        with self._lock:
            while self._waiting:
                waiter = self._waiting[0]
                try:
                    self._check(waiter.nbytes)
                except PenstockError as error:
                    waiter.error = error
                else:
                    if not self._fits(waiter.nbytes):
                        break
                    self._take(waiter.nbytes)
                    waiter.granted = True
                served.append(self._waiting.popleft())
        for waiter in served:
            waiter.ready()

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
