"""The thread that owns the socket."""
from __future__ import annotations

import atexit
import itertools
import logging
import math
import os
import sys
import threading
import time
import weakref
from typing import Optional

import zmq.utils.garbage  # noqa: F401  # its end at exit is registered before ours, and so comes after it

from .control import Hello, Welcome
from .conversation import Conversation
from .errors import Cancelled
from .exchange import Exchange, Patience, foreign_process
from .keys import Keys
from .session_requests import SessionRequests
from .shared_memory import SharedMemory
from .wakeup import Wakeup

_RECEIVED_AT_ONCE = 256
#: At the end of the program: how long without any word from the daemon until what is in flight is given up, in seconds;
#: and while there is no connection.
_EXIT_SILENCE_S, _EXIT_UNGREETED_S = 10.0, 2.0

LOGGER = logging.getLogger("penstock")

_running: weakref.WeakSet[Connection] = weakref.WeakSet()


def _leave_all() -> None:
    """At the end of the program, before the interpreter takes threads and pyzmq away."""
    for each in list(_running):
        each.finish()


def _leave_with_child() -> None:
    """A child of multiprocessing ends without atexit, and has a way of its own."""
    if "multiprocessing.util" in sys.modules:
        from multiprocessing import process, util
        if process.parent_process() is not None:
            util.Finalize(None, _leave_all, exitpriority=10)


atexit.register(_leave_all)


class Connection:
    """Runs one client's conversation on a thread of its own. Every method may be called from any thread, but for those
    that say otherwise."""

    def __init__(self, url: str, hello: Hello, patience: Patience, keys: Optional[Keys] = None, *,
                 shared_bytes: int = 0, shared_at_first: int = 0, shared_timeout: float = 0.0) -> None:
        """shared_bytes: of memory to share with the daemon, 0 = none; shared_at_first: of it, to begin with;
        shared_timeout: seconds to wait for it."""
        self._conversation = Conversation(url, hello, patience, keys)
        self.credits = self._conversation.credits
        self.welcomed = self._conversation.welcomed
        self._wakeup = Wakeup()
        self.shared = SharedMemory(shared_bytes, shared_at_first, shared_timeout, patience, self._conversation.tenancy,
                                   self.start, lambda: self._conversation.welcome)
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
        """The latest."""
        return self._conversation.welcome

    @property
    def trouble(self) -> str:
        """Why the last handshake failed; "" when none did."""
        return self._conversation.dealer.trouble

    @property
    def broken_off(self) -> int:
        """How many handshakes were broken off without a reason."""
        return self._conversation.dealer.broken_off

    def is_own_process(self) -> bool:
        """Not so in a forked child: the thread and the socket are its parent's."""
        return os.getpid() == self._process

    def check_process(self) -> None:
        """Raises RuntimeError in a forked child."""
        if not self.is_own_process():
            raise RuntimeError(foreign_process(self._process))

    def start(self, exchange: Exchange) -> None:
        """Gives an exchange its id, higher than those before it, sends it and sees it to its end."""
        self.check_process()
        exchange.request_id = exchange.future.request_id = next(self._ids)
        if not self._wakeup.post(lambda: self._begin(exchange)):
            exchange.answer(error=self._closed(exchange))

    def cancel(self, request_id: int) -> None:
        """Asks the daemon to give a request up."""
        self.check_process()
        self._wakeup.post(lambda: self._conversation.cancel(request_id))

    def close_session(self, session: SessionRequests) -> None:
        """No more requests of it come. The daemon is told when those that there are have ended."""
        if self.is_own_process():
            self._wakeup.post(session.close)

    def is_own_thread(self) -> bool:
        """Whether the caller runs on the connection's thread, as a future's callback does."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Says goodbye and ends what is in flight with Cancelled. Returns when the thread has ended (at once when it is
        called from that thread)."""
        if not self.is_own_process():
            return
        self.credits.close()
        self._wakeup.post(self._stop)
        if not self.is_own_thread():
            self._thread.join()

    def finish(self) -> None:
        """Waits until what is in flight has ended, as long as the daemon says something, and closes. Nothing more is
        taken."""
        if self.is_own_process() and self._thread.is_alive() and not self.is_own_thread():
            self._wakeup.post(self._begin_to_finish)
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
        conversation = self._conversation
        conversation.greet()
        while not self._closing:
            readable = conversation.dealer.wait(self._wakeup.fileno(), self._seconds_left(time.monotonic()))
            conversation.look_at_door()
            conversation.follow_connection()
            conversation.tenancy.look()
            self._wakeup.run()
            for _ in range(_RECEIVED_AT_ONCE if readable else 0):
                parts = conversation.dealer.receive()
                if parts is None:
                    break
                conversation.receive(parts)
            conversation.dealer.flush()
            conversation.run_timers(time.monotonic())
            self._finish_when_done(time.monotonic())

    def _seconds_left(self, now: float) -> Optional[float]:
        """Until something is due; None when nothing is."""
        left = [self._conversation.seconds_left(now), self._conversation.tenancy.seconds_left(now)]
        if self._finishing_since < math.inf:
            left.append(max(0.0, self._given_up_at() - now))
        return min((each for each in left if each is not None), default=None)

    def _begin(self, exchange: Exchange) -> None:
        if self._closing or self._finishing_since < math.inf:
            exchange.answer(error=self._closed(exchange))
            if exchange.credit_bytes is not None:
                self.credits.give_back(exchange.credit_bytes)
        else:
            self._conversation.begin(exchange)

    def _stop(self) -> None:
        self._closing = True

    def _begin_to_finish(self) -> None:
        self._finishing_since = time.monotonic()

    def _finish_when_done(self, now: float) -> None:
        if self._finishing_since < math.inf and (not self._conversation.busy or now >= self._given_up_at()):
            self._closing = True

    def _given_up_at(self) -> float:
        patience = _EXIT_SILENCE_S if self._conversation.greeted else _EXIT_UNGREETED_S
        return max(self._finishing_since, self._conversation.last_heard) + patience

    def _shut(self) -> None:
        self._closing = True
        self.credits.close(self._reason())
        self._wakeup.close()
        self._wakeup.run()
        for exchange in self._conversation.leave():
            exchange.answer(error=self._closed(exchange))

    def _reason(self) -> str:
        return "the client was closed" if self._failure is None else f"the client's thread has ended: {self._failure!r}"

    def _closed(self, exchange: Exchange) -> Cancelled:
        error = Cancelled(self._reason(), step="client", request_id=exchange.request_id)
        error.__cause__ = self._failure
        return error
