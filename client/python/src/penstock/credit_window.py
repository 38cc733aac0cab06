"""What the daemon lets this client have in flight."""
from __future__ import annotations

import threading
import time
from typing import Optional

from .errors import Cancelled, Expired, NoCredit


class CreditWindow:
    """Requests and payload bytes that may be in flight. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests = 0
        self._bytes = 0
        self._most_requests = 0
        self._most_bytes = 0
        self._closed = False

    def resize(self, requests: int, nbytes: int) -> None:
        """Sets the window; what is in flight stays in flight."""
        with self._changed:
            self._most_requests, self._most_bytes = requests, nbytes
            self._changed.notify_all()

    def take(self, nbytes: int, deadline: Optional[float], block: bool) -> None:
        """Takes one request of that many bytes, waiting for them until `deadline` (of time.monotonic()).

        Raises NoCredit when it may not wait or can never have them, Expired at the deadline, Cancelled when the client
        is closed.
        """
        with self._changed:
            while not self._closed and not self._fits(nbytes):
                if nbytes > self._most_bytes:
                    raise NoCredit(f"{nbytes} bytes are more than the {self._most_bytes} that may be in flight")
                if not block:
                    raise NoCredit(f"{self._requests} requests of {self._bytes} bytes are in flight", step="client")
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise Expired("no credit came back before the timeout", step="client")
                self._changed.wait(left)
            if self._closed:
                raise Cancelled("the client is closed", step="client")
            self._requests += 1
            self._bytes += nbytes

    def give_back(self, nbytes: int) -> None:
        """Gives one request of that many bytes back."""
        with self._changed:
            self._requests -= 1
            self._bytes -= nbytes
            self._changed.notify_all()

    def close(self) -> None:
        """Ends every wait, now and later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, nbytes: int) -> bool:
        return self._requests < self._most_requests and self._bytes + nbytes <= self._most_bytes
