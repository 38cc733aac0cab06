"""Results of other clients, as they come."""
from __future__ import annotations

import collections
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from . import control, wire
from .account import Account, account_of
from .control import Publisher, Subscribe, Subscribed
from .frames import taken_from
from .pending_request import Patience, PendingRequest, foreign_process
from .result import Result
from .wire import MessageType

if TYPE_CHECKING:
    from .connection import Connection


class Published(NamedTuple):
    """A result of some client's request, or with `requests` the request itself. Its arrays have a leading frames dimension."""
    result: Result  #: the outputs by name; `item["psd"]` is `item.result["psd"]`
    session: str  #: the name of the session that it belongs to; "" without one
    client: str  #: the name of the client whose request it was
    pipeline: str
    sequence: int  #: its number among the results that match the subscription
    lost: int  #: how many of these were lost directly before it, in the daemon or here
    restarted: bool  #: the daemon restarted, or forgot this client, before it: what was lost then is not in `lost`

    @property
    def array(self) -> np.ndarray:
        """The only output. Raises ValueError when there are several: name one of them."""
        return self.result.array

    @property
    def account(self) -> Optional[Account]:
        """Which samples of its sender's clock it is of; None where the sender said nothing of them."""
        return self.result.account

    def __getitem__(self, name: Any) -> Any:
        return self.result[name] if isinstance(name, str) else tuple.__getitem__(self, name)


class SubscribeRequest(PendingRequest):
    """SUBSCRIBE. Gives what the daemon keeps for it."""

    def __init__(self, feed: Feed, timeout: Optional[float], patience: Patience) -> None:
        super().__init__(MessageType.SUBSCRIBE, MessageType.SUBSCRIBED, timeout, patience)
        self.feed = feed

    def messages(self, now: float, welcome: control.Welcome) -> List[List[Any]]:
        return [[wire.encode_header(wire.Header(self.kind, self.request_id)), control.encode(self.feed.wanted)]]

    def read(self, header: wire.Header, parts: List[Any], now: float) -> Subscribed:
        return control.decode(Subscribed, control.body_of(parts))


class Feed:
    """What has come of one subscription and was not taken yet. When it is full the oldest goes. The connection's thread
    fills it, any thread takes from it."""

    def __init__(self, wanted: Subscribe, most_bytes: int) -> None:
        self.wanted = wanted
        self.most_bytes = most_bytes
        self.notify: Optional[Callable[[], None]] = None  #: called on the connection's thread when something has come
        self._changed = threading.Condition()
        self._items: Deque[Tuple[Published, int]] = collections.deque()
        self._bytes = 0
        self._passed_over = 0  # dropped here, before the first of _items
        self._ended = False
        self._error: Optional[BaseException] = None
        # Of the connection's thread alone.
        self._publishers: Dict[int, Publisher] = {}
        self._next = 0
        self._restarted = False

    # On the connection's thread.

    def restart(self) -> None:
        """The daemon has lost the subscription; another one begins."""
        self._publishers.clear()
        self._next = 0
        self._restarted = True

    def hear(self, publisher: Publisher) -> None:
        """PUBLISHER has come."""
        if publisher.ended:
            self._publishers.pop(publisher.session, None)
        else:
            self._publishers[publisher.session] = publisher

    def take_in(self, header: wire.Header, parts: List[Any]) -> None:
        """PUBLISHED has come. Raises DecodeError."""
        publisher = self._publishers.get(header.session)
        if publisher is None:
            return  # PUBLISHER was lost with a connection: it comes again
        if header.sequence < self._next:
            return  # of the connection before
        result = _unpacked(publisher, header, parts)
        item = Published(result, publisher.name, publisher.client, publisher.pipeline, header.sequence,
                         header.sequence - self._next, self._restarted)
        self._next, self._restarted = header.sequence + 1, False
        self._add(item, sum(array.nbytes for array in result.values()))

    def end(self, error: Optional[BaseException] = None) -> None:
        """Nothing more comes; what has come can still be taken."""
        with self._changed:
            if not self._ended:
                self._ended, self._error = True, error
            self._changed.notify_all()
        self._tell()

    def _add(self, item: Published, nbytes: int) -> None:
        with self._changed:
            while self._items and self._bytes + nbytes > self.most_bytes:
                gone, size = self._items.popleft()
                self._bytes -= size
                self._passed_over += 1 + gone.lost
                if gone.restarted and not self._items:
                    item = item._replace(restarted=True)
                elif gone.restarted:
                    first, size = self._items[0]
                    self._items[0] = first._replace(restarted=True), size
            self._items.append((item, nbytes))
            self._bytes += nbytes
            self._changed.notify()
        self._tell()

    def _tell(self) -> None:
        notify = self.notify
        if notify is not None:
            notify()

    # Any thread.

    def take(self) -> Optional[Published]:
        """The oldest item; None when there is none just now."""
        with self._changed:
            return self._take()

    def wait(self, seconds: Optional[float]) -> Optional[Published]:
        """The same, and waits for it so long; None = until the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._ended, seconds)
            return self._take()

    @property
    def over(self) -> bool:
        """True when nothing is left and nothing comes. Raises what it ended with, once."""
        with self._changed:
            if self._items or not self._ended:
                return False
            error, self._error = self._error, None
        if error is not None:
            raise error
        return True

    def _take(self) -> Optional[Published]:
        if not self._items:
            return None
        item, nbytes = self._items.popleft()
        self._bytes -= nbytes
        passed_over, self._passed_over = self._passed_over, 0
        return item._replace(lost=item.lost + passed_over) if passed_over else item


class Subscription:
    """Results of a pipeline's clients, from `Client.subscribe`. Iterating over it gives each `Published` as it comes, and
    ends when it, or its client, is closed.

        with c.subscribe("waterfall") as results:
            for item in results:
                show(item.session, item.array)
                if item.lost:
                    print(f"{item.lost} results were lost")
    """

    def __init__(self, client: Any, connection: Connection, feed: Feed, request_id: int, granted: Subscribed) -> None:
        self._client = client  # kept alive
        self._connection = connection
        self._feed = feed
        self._id = request_id
        self.queue_bytes = granted.queue_bytes  #: how much the daemon keeps for this subscriber while it does not read

    def get(self, timeout: Optional[float] = None) -> Published:
        """The next result. timeout: seconds to wait for it; None = no limit. Raises TimeoutError when none came in time,
        EOFError when the subscription is closed, or what it ended with."""
        if not self._connection.is_own_process():
            raise RuntimeError(foreign_process(self._connection.process))
        if self._connection.is_own_thread():
            raise RuntimeError("a future's callback can't wait for results")
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            item = self._feed.wait(None if end is None else max(0.0, end - time.monotonic()))
            if item is not None:
                return item
            if self._feed.over:
                raise EOFError("the subscription is closed")
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"no result came within {timeout:g} s")

    def close(self) -> None:
        """Ends it. What has come can still be taken."""
        self._connection.unsubscribe(self._id)
        self._feed.end()

    def __iter__(self) -> Iterator[Published]:
        return self

    def __next__(self) -> Published:
        try:
            return self.get()
        except EOFError:
            raise StopIteration from None

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _unpacked(publisher: Publisher, header: wire.Header, parts: List[Any]) -> Result:
    """Views of the payloads. Raises DecodeError."""
    if header.tensors != len(publisher.outputs) or len(parts) not in (1, 1 + header.tensors):
        raise wire.DecodeError("bad_result", header.request_id)
    take = taken_from(parts[1:] or wire.inline_payloads(parts[0], header))
    arrays: Dict[str, np.ndarray] = {}
    bfloats = []
    for index, name in enumerate(publisher.outputs):
        tensor = wire.decode_tensor(parts[0], header, index)
        if not tensor.shape or tensor.shape[0] != header.frames:
            raise wire.DecodeError("bad_result", header.request_id)
        arrays[name] = np.ndarray(tensor.shape, wire.dtype_of(tensor), take(tensor.nbytes))
        if tensor.code == wire.BFLOAT:
            bfloats.append(name)
    return Result(arrays, header.request_id, header.trace_id, bfloats, account_of(header, parts[0], publisher.outputs))


def subscribe_body(pipelines: Any, sessions: Any, outputs: Any, queue_bytes: Optional[int],
                   requests: bool) -> Subscribe:
    """What is asked, of a caller's arguments. Raises TypeError or ValueError."""
    body = Subscribe(_names("pipelines", pipelines), _names("sessions", sessions), _names("outputs", outputs),
                     0 if queue_bytes is None else int(queue_bytes), bool(requests))
    if not body.pipelines:
        raise ValueError("a subscription names at least one pipeline")
    if not 0 <= body.queue_bytes < 1 << 63:
        raise ValueError("queue_bytes is a number of bytes")
    return body


def _names(name: str, given: Any) -> Tuple[str, ...]:
    names = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    for each in names:
        if not isinstance(each, str):
            raise TypeError(f"{name} are texts, not {type(each).__name__}")
        if not control.is_name(each):
            raise ValueError(f"each of {name} has at most 64 bytes and no control characters")
    return names

