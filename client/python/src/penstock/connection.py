"""The thread that owns the socket."""
from __future__ import annotations

import itertools
import os
import threading
import time
from typing import Optional

from .control import Hello, Welcome
from .conversation import Conversation
from .errors import Cancelled
from .exchange import Exchange, Patience
from .keys import Keys
from .session_requests import SessionRequests
from .shared_memory import SharedMemory
from .wakeup import Wakeup

_RECEIVED_AT_ONCE = 256


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
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="penstock", daemon=True)
        self._thread.start()

    @property
    def welcome(self) -> Optional[Welcome]:
        """The latest."""
        return self._conversation.welcome

    @property
    def trouble(self) -> str:
        """Why the last handshake failed; "" when none did."""
        return self._conversation.dealer.trouble

    def start(self, exchange: Exchange) -> None:
        """Gives an exchange its id, higher than those before it, sends it and sees it to its end."""
        exchange.request_id = next(self._ids)
        if not self._wakeup.post(lambda: self._begin(exchange)):
            exchange.answer(error=_closed(exchange))

    def cancel(self, request_id: int) -> None:
        """Asks the daemon to give a request up."""
        self._wakeup.post(lambda: self._conversation.cancel(request_id))

    def close_session(self, session: SessionRequests) -> None:
        """No more requests of it come. The daemon is told when those that there are have ended."""
        self._wakeup.post(session.close)

    def is_own_thread(self) -> bool:
        """Whether the caller runs on the connection's thread, as a future's callback does."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Says goodbye and ends what is in flight with Cancelled. Returns when the thread has ended (at once when it is
        called from that thread)."""
        if os.getpid() != self._process:
            return  # a forked child, which has no such thread
        self.credits.close()
        self._wakeup.post(self._stop)
        if not self.is_own_thread():
            self._thread.join()

    # On the connection's thread.

    def _run(self) -> None:
        conversation = self._conversation
        try:
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
        finally:
            self._shut()

    def _seconds_left(self, now: float) -> Optional[float]:
        """Until something is due; None when nothing is."""
        left = (self._conversation.seconds_left(now), self._conversation.tenancy.seconds_left(now))
        return min((each for each in left if each is not None), default=None)

    def _begin(self, exchange: Exchange) -> None:
        if self._closing:
            exchange.answer(error=_closed(exchange))
        else:
            self._conversation.begin(exchange)

    def _stop(self) -> None:
        self._closing = True

    def _shut(self) -> None:
        self._closing = True
        self.credits.close()
        self._wakeup.close()
        self._wakeup.run()
        for exchange in self._conversation.leave():
            exchange.answer(error=_closed(exchange))


def _closed(exchange: Exchange) -> Cancelled:
    return Cancelled("the client was closed", step="client", request_id=exchange.request_id)
