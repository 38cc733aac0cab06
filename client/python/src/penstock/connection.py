"""The client's thread, which owns the socket."""
from __future__ import annotations

import atexit
import collections
import itertools
import logging
import math
import os
import socket
import sys
import threading
import time
import weakref
from typing import Callable, Deque, Optional

import zmq.utils.garbage  # noqa: F401  # its end at exit is registered before ours, and so comes after it

from .control import Hello, Welcome
from .errors import Cancelled
from .keys import Keys
from .pending_request import Patience, PendingRequest, foreign_process
from .protocol_engine import ProtocolEngine
from .session_requests import SessionRequests
from .shared_memory import DeviceMemory, SharedMemory

_RECEIVED_AT_ONCE = 256
#: At the end of the program: seconds of silence after which what is in flight is abandoned, connected and not.
_EXIT_SILENCE_S, _EXIT_UNGREETED_S = 10.0, 2.0

LOGGER = logging.getLogger("penstock")

_running: weakref.WeakSet[Connection] = weakref.WeakSet()


def _leave_all() -> None:
    """Runs at exit, before the interpreter ends threads and pyzmq."""
    for each in list(_running):
        each.finish()


def _leave_with_child() -> None:
    """Children of multiprocessing end without atexit; they have finalizers instead."""
    if "multiprocessing.util" in sys.modules:
        from multiprocessing import process, util
        if process.parent_process() is not None:
            util.Finalize(None, _leave_all, exitpriority=10)


atexit.register(_leave_all)


class WorkQueue:
    """A queue of functions for the connection's thread, with a descriptor that is readable while it is not empty."""

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
        """Queues `work` to run on the connection's thread. False when that thread has ended. Any thread."""
        with self._lock:
            if self._closed:
                return False
            self._work.append(work)
            if not self._signalled:
                self._signalled = True
                self._writer.send(b"\0")
            return True

    def run(self) -> None:
        """Runs everything queued, and logs exceptions. Thread: the connection's."""
        with self._lock:
            if not self._closed:
                try:
                    self._reader.recv(4096)  # a forked child may have written too
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
        """Accepts no more work; one last `run` does what is queued. Thread: the connection's."""
        with self._lock:
            self._closed = True
            self._reader.close()
            self._writer.close()


class Connection:
    """Runs one client's protocol engine on its own thread. Public methods are thread-safe."""

    def __init__(self, url: str, hello: Hello, patience: Patience, keys: Optional[Keys] = None, *,
                 shared_bytes: int = 0, shared_at_first: int = 0, shared_timeout: float = 0.0) -> None:
        """shared_bytes: upper limit of shared memory, 0 = none; shared_at_first: bytes of the first arena; shared_timeout:
        seconds to wait for it."""
        self._engine = ProtocolEngine(url, hello, patience, keys)
        self.credits = self._engine.credits
        self.welcomed = self._engine.welcomed
        self._work = WorkQueue()
        leases = self._engine.leases
        self.shared = SharedMemory(shared_bytes, shared_at_first, shared_timeout, patience, leases.host, self.start,
                                   lambda: self._engine.welcome)
        self.device = DeviceMemory(shared_bytes, shared_at_first, shared_timeout, patience, leases.device, self.start,
                                   lambda: self._engine.welcome)
        self._ids = itertools.count(1)
        self._closing = False
        self._finishing_since = math.inf  # in time.monotonic()'s seconds
        self._failure: Optional[BaseException] = None
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="penstock", daemon=True)
        _running.add(self)
        _leave_with_child()
        self._thread.start()

    @property
    def welcome(self) -> Optional[Welcome]:
        """The latest WELCOME."""
        return self._engine.welcome

    @property
    def trouble(self) -> str:
        """Why the last handshake failed; "" when none did."""
        return self._engine.dealer.trouble

    @property
    def broken_off(self) -> int:
        """Number of handshakes that the peer closed without a reason."""
        return self._engine.dealer.broken_off

    @property
    def process(self) -> int:
        """The process that it belongs to."""
        return self._process

    def is_own_process(self) -> bool:
        """False in a forked child: thread and socket belong to the parent."""
        return os.getpid() == self._process

    def check_process(self) -> None:
        """Raises RuntimeError in a forked child."""
        if not self.is_own_process():
            raise RuntimeError(foreign_process(self._process))

    def start(self, pending: PendingRequest) -> None:
        """Gives a request the next id, sends it and tracks it until its end."""
        self.check_process()
        pending.request_id = pending.future.request_id = next(self._ids)
        if not self._work.post(lambda: self._begin(pending)):
            pending.answer(error=self._closed(pending))

    def cancel(self, request_id: int) -> None:
        """Cancels a request."""
        self.check_process()
        self._work.post(lambda: self._engine.cancel(request_id))

    def close_session(self, session: SessionRequests) -> None:
        """Accepts no more requests; CLOSE is sent when those in flight have ended."""
        if self.is_own_process():
            self._work.post(session.close)

    def unsubscribe(self, request_id: int) -> None:
        """Ends a subscription."""
        if self.is_own_process():
            self._work.post(lambda: self._engine.unsubscribe(request_id))

    def is_own_thread(self) -> bool:
        """True on the connection's thread, where callbacks of futures run."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Sends GOODBYE and ends what is in flight with Cancelled. Waits for the thread, except when called on it."""
        if not self.is_own_process():
            return
        self.credits.close()
        self._work.post(self._stop)
        if not self.is_own_thread():
            self._thread.join()

    def finish(self) -> None:
        """Accepts no more requests, waits for those in flight as long as the daemon is not silent, and closes."""
        if self.is_own_process() and self._thread.is_alive() and not self.is_own_thread():
            self._work.post(self._begin_to_finish)
            self._thread.join()

    # On the connection's thread.

    def _run(self) -> None:
        try:
            self._converse()
        except BaseException as error:
            LOGGER.exception("penstock: the client's thread has ended")
            self._failure = error
        finally:
            self._shut()

    def _converse(self) -> None:
        engine = self._engine
        engine.greet()
        while not self._closing:
            readable = engine.dealer.wait(self._work.fileno(), self._seconds_left(time.monotonic()))
            engine.check_handshake()
            engine.follow_connection()
            engine.leases.look()
            self._work.run()
            for _ in range(_RECEIVED_AT_ONCE if readable else 0):
                parts = engine.dealer.receive()
                if parts is None:
                    break
                engine.receive(parts)
            engine.dealer.flush()
            engine.run_timers(time.monotonic())
            self._finish_when_done(time.monotonic())

    def _seconds_left(self, now: float) -> Optional[float]:
        """Seconds until something is due; None = never."""
        left = [self._engine.seconds_left(now), self._engine.leases.seconds_left(now)]
        if self._finishing_since < math.inf:
            left.append(max(0.0, self._given_up_at() - now))
        return min((each for each in left if each is not None), default=None)

    def _begin(self, pending: PendingRequest) -> None:
        if self._closing or self._finishing_since < math.inf:
            pending.answer(error=self._closed(pending))
            if pending.credit_bytes is not None:
                self.credits.give_back(pending.credit_bytes)
        else:
            self._engine.begin(pending)

    def _stop(self) -> None:
        self._closing = True

    def _begin_to_finish(self) -> None:
        self._finishing_since = time.monotonic()

    def _finish_when_done(self, now: float) -> None:
        if self._finishing_since < math.inf and (not self._engine.busy or now >= self._given_up_at()):
            self._closing = True

    def _given_up_at(self) -> float:
        patience = _EXIT_SILENCE_S if self._engine.greeted else _EXIT_UNGREETED_S
        return max(self._finishing_since, self._engine.last_heard) + patience

    def _shut(self) -> None:
        self._closing = True
        self.credits.close(self._reason())
        self._work.close()
        self._work.run()
        for pending in self._engine.leave():
            pending.answer(error=self._closed(pending))
        self._engine.end_feeds(None if self._failure is None else Cancelled(self._reason(), step="client"))

    def _reason(self) -> str:
        return "the client was closed" if self._failure is None else f"the client's thread has ended: {self._failure!r}"

    def _closed(self, pending: PendingRequest) -> Cancelled:
        error = Cancelled(self._reason(), step="client", request_id=pending.request_id)
        error.__cause__ = self._failure
        return error
