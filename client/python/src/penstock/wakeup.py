"""How other threads hand work to the connection's thread."""
from __future__ import annotations

import collections
import logging
import socket
import threading
from typing import Callable, Deque

LOGGER = logging.getLogger("penstock")


class Wakeup:
    """A queue of functions that one thread runs, and a descriptor that is readable when there are some."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._lock = threading.Lock()
        self._work: Deque[Callable[[], None]] = collections.deque()
        self._signalled = False
        self._closed = False

    def fileno(self) -> int:
        """The descriptor to poll for reading."""
        return self._reader.fileno()

    def post(self, work: Callable[[], None]) -> bool:
        """From any thread: `work` will run on the connection's thread, after what was posted before. False when that
        thread has ended, and nothing will run."""
        with self._lock:
            if self._closed:
                return False
            self._work.append(work)
            if not self._signalled:
                self._signalled = True
                self._writer.send(b"\0")
            return True

    def run(self) -> None:
        """On the connection's thread: runs all that was posted. What one of them raises is logged, and stops no other.
        """
        with self._lock:
            if not self._closed:
                try:
                    self._reader.recv(4096)  # whoever wrote: a forked child may have
                except BlockingIOError:
                    pass
                self._signalled = False
            work, self._work = self._work, collections.deque()
        for each in work:
            try:
                each()
            except Exception:
                LOGGER.exception("penstock: work of the client's thread failed")

    def close(self) -> None:
        """On the connection's thread: takes no more. What was posted before is left to one last `run`."""
        with self._lock:
            self._closed = True
            self._reader.close()
            self._writer.close()
