"""The client."""
from __future__ import annotations

import itertools
import weakref
from concurrent.futures import Future, TimeoutError as WaitTimeout
from types import TracebackType
from typing import Any, Dict, Mapping, Optional, Type, Union

from . import frames, wire
from .connection import Connection, Patience
from .control import Hello, PipelineDescription, Welcome
from .errors import Expired
from .exchange import Exchange
from .result import Result
from .version import __version__

_UNSET: Any = object()


class Client:
    """A connection to one daemon.

        with Client("tcp://127.0.0.1:7600") as c:
            r = c.submit("spectrum", samples).result()
            r["psd"]

    Every method may be called from any thread. One thread of the client's own does all input and output; callbacks of
    futures run on it, so they must be short and must not wait.

    Each request ends exactly once: with a `Result`, or with a `PenstockError` of the class that says how. While the
    daemon is silent, or restarts, a request is sent again under the same id until its timeout.

    Leaving the `with` block, or `close`, ends what is still in flight with `Cancelled`.
    """

    def __init__(self, url: str = "tcp://127.0.0.1:7600", *, timeout: Optional[float] = 30.0,
                 connect_timeout: float = 5.0, name: str = "penstock-python", retry_after: float = 2.0,
                 retry_limit: float = 16.0, grace: float = 0.25) -> None:
        """Connects and waits for the daemon's welcome.

        url: any ZeroMQ endpoint, "tcp://HOST:PORT" or "ipc://PATH".
        timeout: seconds that a request may take, from submit to reply, where submit names none; None = no limit.
        connect_timeout: seconds to wait for the welcome.
        name: for people who read the daemon's log; at most 64 bytes.
        retry_after, retry_limit: seconds without an answer until a request is sent again; each further wait is twice
            the last, up to the limit.
        grace: seconds beyond its timeout that a request waits for the daemon's own word that it expired.

        Raises Expired when no welcome came, Rejected or Shutdown when the daemon refused, ValueError for a bad url.
        """
        if len(name.encode()) > 64:
            raise ValueError("a client's name has at most 64 bytes")
        self._timeout = timeout
        self._grace = grace
        self._retry_after = retry_after
        self._ids = itertools.count(1)
        self._connection = Connection(url, Hello(name, __version__), Patience(retry_after, retry_limit, grace))
        self._finalizer = weakref.finalize(self, self._connection.close)
        try:
            self._connection.welcomed.future.result(connect_timeout)
        except WaitTimeout:
            self.close()
            raise Expired(f"no daemon answered at {url} within {connect_timeout:g} s", step="client") from None
        except BaseException:
            self.close()
            raise

    def submit(self, pipeline: str, x: Any, *, timeout: Optional[float] = _UNSET, block: bool = True,
               trace_id: bytes = wire.NO_TRACE) -> Future[Result]:
        """Sends frames to a pipeline and returns the future of their result.

        x: an array with the pipeline's dtype (`pipelines[name].input`), of one frame (its frame shape) or several (with
            a leading frames dimension); a frame of a variable pipeline may be shorter in its first dimension. Integer
            IQ is integers with a last dimension of 2: a frame of `cu8` is uint8 [n, 2]. Arrays of 64 KiB and more are
            sent from where they lie: do not write to them until the future is done.
        timeout: seconds from now to the reply, in place of the client's; None = no limit. It is one budget: waiting for
            credit counts.
        block: whether to wait when all credits are in use; if not, NoCredit is raised. A callback of a future never
            waits.
        trace_id: 16 bytes that follow the request through the daemon's logs and timelines.

        The future's exception is Rejected, Expired, Cancelled, Failed, Shutdown or SessionLost. Its `cancel` gives the
        request up at once, without waiting for the daemon's word; `Client.cancel` waits for it.

        Raises LookupError for an unknown pipeline, TypeError and ValueError when x does not fit it, Expired when no
        credit came in time, Cancelled when the client is closed.
        """
        described = self.pipelines.get(pipeline)
        if described is None:
            raise LookupError(f"no pipeline {pipeline!r}; the daemon has {', '.join(self.pipelines) or 'none'}")
        if len(trace_id) != 16:
            raise ValueError("a trace id has 16 bytes")
        packed = frames.pack(described, x)
        nbytes = packed.tensor.nbytes
        most = min(self._welcome.max_request_bytes, self._welcome.credit_bytes)
        if nbytes > most:
            raise ValueError(f"a request has at most {most} bytes; x has {nbytes}")
        exchange = self._exchange(wire.MessageType.SUBMIT, self._timeout if timeout is _UNSET else timeout)
        exchange.pipeline, exchange.frames, exchange.trace_id = described, packed, trace_id
        connection, request_id = self._connection, exchange.request_id
        connection.credits.take(nbytes, exchange.deadline, block and not connection.is_own_thread())
        exchange.credit_bytes = nbytes
        future = exchange.future
        connection.start(exchange)
        future.add_done_callback(lambda done: connection.cancel(request_id) if done.cancelled() else None)
        future.request_id = request_id  # type: ignore[attr-defined]
        return future

    def cancel(self, request: Union[Future[Result], int]) -> None:
        """Asks the daemon to give a request up: a future that submit returned, or its `request_id`. It still ends
        exactly once, with Cancelled, or as it would have when it is too late."""
        self._connection.cancel(request if isinstance(request, int) else request.request_id)  # type: ignore

    @property
    def pipelines(self) -> Mapping[str, PipelineDescription]:
        """What the daemon offers, by name."""
        return self._welcome.by_name

    @property
    def server(self) -> str:
        """The daemon's name and version: "penstockd 0.1.0"."""
        return self._welcome.server

    def ping(self, timeout: float = 5.0) -> float:
        """Seconds from sending a PING to its PONG. Raises Expired when none came in time."""
        return self._ask(wire.MessageType.PING, timeout)

    def status(self, timeout: float = 5.0) -> Dict[str, Any]:
        """The daemon's counters. Raises Expired when they did not come in time."""
        return self._ask(wire.MessageType.GET_STATUS, timeout)

    def close(self) -> None:
        """Says goodbye and ends what is in flight with Cancelled. A second call does nothing."""
        self._finalizer()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    @property
    def _welcome(self) -> Welcome:
        welcome = self._connection.welcome
        assert welcome is not None  # the constructor waited for it
        return welcome

    def _exchange(self, kind: wire.MessageType, timeout: Optional[float]) -> Exchange:
        return Exchange(kind, next(self._ids), timeout, self._grace, self._retry_after)

    def _ask(self, kind: wire.MessageType, timeout: float) -> Any:
        if self._connection.is_own_thread():
            raise RuntimeError("a future's callback can't wait for the daemon")
        exchange = self._exchange(kind, timeout)
        self._connection.start(exchange)
        return exchange.future.result()
