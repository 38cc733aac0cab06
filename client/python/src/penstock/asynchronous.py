"""The client for asyncio."""
from __future__ import annotations

import asyncio
import collections
import collections.abc
import functools
import time
from concurrent.futures import Future
from types import TracebackType
from typing import (Any, AsyncIterable, AsyncIterator, Callable, Deque, Dict, Generator, Iterable, Mapping,
                    Optional, Tuple, Type, Union)

import numpy as np

from . import wire
from .account import account_to_send
from .arena import Shape
from .client import _LOOK_FOR_ROOM_S, Client
from .control import PipelineDescription
from .errors import Expired, NoRoom
from .frames import checked
from .pending_request import PendingRequest, SubmitRequest
from .recording import Cutter, Joined, flattened, index_behind
from .result import Result
from .session import DEFAULT, Numbers, Session
from .subscription import Feed, Published, Subscription
from .tensor import HOST, is_tensor

_END: Any = object()


class AsyncClient:
    """A `Client` whose methods are awaited. Nothing in it blocks the event loop: not the connection, and not a wait for
    credits; only what is copied of an array takes its time there.

        async with AsyncClient("tcp://127.0.0.1:7600") as c:
            power = (await c.submit("spectrum", samples))["psd"]
            both = await asyncio.gather(c.submit("spectrum", one), c.submit("spectrum", other))

            async with c.session("spectrogram") as s:
                async for result in s.stream(blocks):
                    ...

    It connects when it is entered, or with its first call. Cancelling a task that waits for a result cancels the request.
    One event loop at a time.
    """

    def __init__(self, url: Optional[str] = None, **options: Any) -> None:
        """url, options: `Client`'s."""
        self._make = functools.partial(Client, url, **options)
        self._made: Optional[Client] = None
        self._making: Optional[asyncio.Task[Client]] = None

    async def __aenter__(self) -> AsyncClient:
        await self._client()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        """Says goodbye, and ends what is in flight with Cancelled."""
        if self._making is not None:
            client = await self._client()
            await asyncio.to_thread(client.close)

    async def submit(self, pipeline: str, x: Any, *, timeout: Optional[float] = DEFAULT,
                     trace_id: bytes = wire.NO_TRACE, frames: Optional[int] = None, **samples: Any) -> Result:
        """Sends frames to a pipeline, as soon as there are credits for them, and gives their result: see
        `Client.submit` for the arguments, and for what is raised. Do not write to the array before."""
        account = account_to_send(**samples)
        client = await self._client()
        request = await _placed(client, x, lambda: client._request(client._stateless(pipeline), x, timeout, trace_id,
                                                                   frames, account=account),
                                client._timeout if timeout is DEFAULT else timeout)
        return await _result(await _send(client, request, client._connection.start))

    def session(self, pipeline: str, *, name: Optional[str] = None, timeout: float = 5.0) -> _Opening:
        """Opens a session: `async with c.session(...) as s`, or `s = await c.session(...)`. See `Client.session`."""
        return _Opening(self._open(pipeline, name, timeout))

    def subscribe(self, pipelines: Any, *, sessions: Any = None, outputs: Any = None, queue_bytes: Optional[int] = None,
                  buffer_bytes: int = 64 << 20, timeout: Optional[float] = 5.0,
                  requests: bool = False) -> AsyncSubscription:
        """Results of any client of these pipelines, as they come: `async for item in c.subscribe("waterfall")`. See
        `Client.subscribe`. It subscribes when it is entered, or asked for its first result."""
        return AsyncSubscription(self, (pipelines, sessions, outputs, queue_bytes, buffer_bytes, timeout, requests))

    async def frames(self, pipeline: str, count: Optional[int] = None, *, length: Optional[int] = None,
                     device: str = "cpu") -> Any:
        """`Client.frames`."""
        client = await self._client()
        return await asyncio.to_thread(client.frames, pipeline, count, length=length, device=device)

    async def empty(self, shape: Shape, dtype: Any, *, device: str = "cpu") -> Any:
        """`Client.empty`."""
        client = await self._client()
        return await asyncio.to_thread(client.empty, shape, dtype, device=device)

    async def ping(self, timeout: float = 5.0) -> float:
        """`Client.ping`."""
        client = await self._client()
        return await _ask(client, client._ping(timeout))

    async def status(self, timeout: float = 5.0) -> Dict[str, Any]:
        """`Client.status`."""
        client = await self._client()
        return await _ask(client, client._status(timeout))

    async def trace(self, cursor: int = 0, timeout: float = 5.0) -> Tuple[Dict[str, Any], int]:
        """`Client.trace`."""
        client = await self._client()
        return await _ask(client, client._trace(cursor, timeout))

    @property
    def client(self) -> Client:
        """The client behind it, whose methods may be called from any thread. Raises RuntimeError before it is
        connected."""
        if self._made is None:
            raise RuntimeError("the client is not connected: use it in \"async with\", or await one of its calls first")
        return self._made

    @property
    def pipelines(self) -> Mapping[str, PipelineDescription]:
        """What the daemon offers, by name. Raises RuntimeError before the client is connected."""
        return self.client.pipelines

    async def _client(self) -> Client:
        if self._made is None:
            if self._making is None:
                self._making = asyncio.ensure_future(asyncio.to_thread(self._make))
            making = self._making
            try:
                self._made = await asyncio.shield(making)  # others may wait for it, too
            except BaseException:
                if making.done() and self._making is making:
                    self._making = None  # the next call tries again
                raise
        return self._made

    async def _open(self, pipeline: str, name: Optional[str], timeout: Optional[float]) -> AsyncSession:
        client = await self._client()
        opening = client._opening(pipeline, name, timeout)
        requests = await _ask(client, opening)
        return AsyncSession(Session(client, client._connection, requests, opening.pipeline, opening.name), client)


class AsyncSubscription:
    """A `Subscription` whose results are awaited."""

    def __init__(self, client: AsyncClient, arguments: Tuple[Any, ...]) -> None:
        self._client = client
        self._arguments = arguments
        self._feed: Optional[Feed] = None
        self._subscription: Optional[Subscription] = None
        self._come = asyncio.Event()

    async def get(self) -> Published:
        """The next result. Raises EOFError when the subscription is closed, or what it ended with."""
        feed = await self._subscribed()
        while True:
            self._come.clear()
            item = feed.take()
            if item is not None:
                return item
            if feed.over:
                raise EOFError("the subscription is closed")
            await self._come.wait()

    async def close(self) -> None:
        """Ends it. What has come can still be taken."""
        if self._subscription is not None:
            self._subscription.close()

    def __aiter__(self) -> AsyncSubscription:
        return self

    async def __anext__(self) -> Published:
        try:
            return await self.get()
        except EOFError:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> AsyncSubscription:
        await self._subscribed()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await self.close()

    async def _subscribed(self) -> Feed:
        if self._feed is None:
            client = await self._client._client()
            request = client._subscribing(*self._arguments)
            loop = asyncio.get_running_loop()
            request.feed.notify = lambda: _call_soon(loop, self._come.set)
            try:
                granted = await _ask(client, request)
            except asyncio.CancelledError:
                client._connection.unsubscribe(request.request_id)
                raise
            self._subscription = Subscription(client, client._connection, request.feed, request.request_id, granted)
            self._feed = request.feed
        return self._feed


class _Opening:
    """A session that is to be opened: to be awaited, or entered."""

    def __init__(self, opening: Any) -> None:
        self._opening = opening
        self._session: Optional[AsyncSession] = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._opening.__await__()

    async def __aenter__(self) -> AsyncSession:
        self._session = await self._opening
        return self._session

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        if self._session is not None:
            self._session.close()


class AsyncSession:
    """A `Session` whose methods are awaited. Requests of several tasks are sent in the order of their calls."""

    def __init__(self, session: Session, client: Client) -> None:
        self._session = session
        self._client = client
        self._turn = asyncio.Lock()
        self._sent: Deque[Future[Result]] = collections.deque()
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def name(self) -> str:
        """What the daemon calls it."""
        return self._session.name

    @property
    def pipeline(self) -> PipelineDescription:
        """What it was opened on."""
        return self._session.pipeline

    @property
    def frames(self) -> int:
        """How many frames were taken."""
        return self._session.frames

    async def submit(self, x: Any, *, timeout: Optional[float] = DEFAULT, trace_id: bytes = wire.NO_TRACE,
                     frames: Optional[int] = None, **samples: Any) -> Result:
        """Sends the session's next frames, and gives their result: see `Session.submit`."""
        return await _result(await self._start(x, timeout, trace_id, frames, account_to_send(**samples)))

    async def send(self, x: Any, *, timeout: Optional[float] = DEFAULT, trace_id: bytes = wire.NO_TRACE,
                   frames: Optional[int] = None, **samples: Any) -> None:
        """Sends the session's next frames. It waits for credits, and not for the result: that comes to who iterates
        over the session, `async for result in session`, in the order of the calls."""
        self._sent.append(await self._start(x, timeout, trace_id, frames, account_to_send(**samples)))
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[Result]:
        """The results of `send`, in its order; the end when the session is closed and all have come."""
        while True:
            while self._sent:
                yield await _result(self._sent.popleft())
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()

    async def run(self, x: Any, *, tail: Optional[str] = None, timeout: Optional[float] = DEFAULT,
                  index: Optional[int] = None, epoch: int = 0) -> Result:
        """Sends a whole recording and gives its whole result: see `Session.run`."""
        pipeline = self.pipeline
        cutter = Cutter(pipeline, self._session._most_bytes, tail)
        x = checked(pipeline, x)
        joined = Joined(pipeline, cutter.frames_of(x))
        blocks = _each(list(cutter.blocks_of(x)))
        async for result in self._pipelined(blocks, cutter.window, timeout, index, epoch):
            joined.add(result)
        return joined.result()

    def stream(self, blocks: Union[Iterable[Any], AsyncIterable[Any]], *, tail: Optional[str] = None,
               timeout: Optional[float] = DEFAULT, index: Optional[int] = None,
               epoch: int = 0) -> AsyncIterator[Result]:
        """Sends blocks of samples as they come, and yields their results, in order, as they come: see `Session.stream`.

        blocks: an asynchronous iterable, or another: a sequence, or one that is asked for its next block on another
            thread, so that it may wait.
        """
        cutter = Cutter(self.pipeline, self._session._most_bytes, tail)
        return self._pipelined(cutter.cut_async(_each(blocks)), cutter.window, timeout, index, epoch)

    async def set(self, stage: str, name: str, value: Optional[float], *, timeout: Optional[float] = 5.0) -> Numbers:
        """Sets a number of a stage for this session alone: see `Session.set`."""
        return await self.set_all({f"{stage}.{name}": value}, timeout=timeout)

    async def set_all(self, numbers: Mapping[str, Optional[float]], *, timeout: Optional[float] = 5.0) -> Numbers:
        """Sets several numbers, or none: see `Session.set_all`."""
        return await asyncio.to_thread(self._session.set_all, numbers, timeout=timeout)

    async def values(self, *, timeout: Optional[float] = 5.0) -> Numbers:
        """The session's tunable numbers, as they are for its next frames."""
        return await asyncio.to_thread(self._session.values, timeout=timeout)

    def close(self) -> None:
        """Takes no more. What is in flight still ends as it would have."""
        self._closed = True
        self._changed.set()
        self._session.close()

    async def _start(self, x: Any, timeout: Optional[float], trace_id: bytes = wire.NO_TRACE,
                     frames: Optional[int] = None,
                     account: Optional[wire.SampleAccount] = None) -> Future[Result]:
        async with self._turn:  # so that a wait for credits lets nothing pass
            request = await _placed(self._client, x,
                                    lambda: self._session._request(x, timeout, trace_id, frames, account=account),
                                    self._client._timeout if timeout is DEFAULT else timeout)
            return await _send(self._client, request, self._session._start)

    async def _pipelined(self, blocks: AsyncIterator[np.ndarray], window: int,
                         timeout: Optional[float], index: Optional[int], epoch: int) -> AsyncIterator[Result]:
        """A task sends, and the results are awaited here."""
        sent: asyncio.Queue[Optional[Future[Result]]] = asyncio.Queue()
        room = asyncio.Semaphore(window)

        async def send() -> None:
            first = index
            try:
                async for block in blocks:
                    await room.acquire()
                    account = account_to_send(index=first, epoch=epoch)
                    sent.put_nowait(await self._start(block, timeout, account=account))
                    first = index_behind(self.pipeline, first, block)
            finally:
                sent.put_nowait(None)

        sender = asyncio.ensure_future(send())
        try:
            while (future := await sent.get()) is not None:
                yield flattened(self.pipeline, await _result(future))
                room.release()
            await sender  # raises what went wrong there
        finally:
            if not sender.done():
                sender.cancel()
                await asyncio.wait([sender])
            elif not sender.cancelled():
                sender.exception()  # has been seen, or another came first
            while not sent.empty():
                left = sent.get_nowait()
                if left is not None:
                    left.cancel()


async def _each(blocks: Union[Iterable[Any], AsyncIterable[Any]]) -> AsyncIterator[Any]:
    if hasattr(blocks, "__aiter__"):
        async for block in blocks:  # type: ignore[union-attr]
            yield block
        return
    coming = iter(blocks)  # type: ignore[arg-type]
    at_hand = isinstance(blocks, (collections.abc.Sequence, np.ndarray))
    while True:  # what is not at hand may have to be waited for, or read
        block = next(coming, _END) if at_hand else await asyncio.to_thread(next, coming, _END)
        if block is _END:
            return
        yield block
        await asyncio.sleep(0)


async def _placed(client: Client, x: Any, make: Callable[[], SubmitRequest],
                  timeout: Optional[float]) -> SubmitRequest:
    """What `make` makes of x, once there is room for it in device memory. It is made on the loop's thread: what makes x
    is on that thread's current stream."""
    memory = client._connection.device
    if memory.device is None and is_tensor(x) and x.__dlpack_device__()[0] not in HOST:
        await asyncio.to_thread(memory.refusal)  # opens the GPU
    began = time.monotonic()
    while True:
        try:
            return make()
        except NoRoom:
            if timeout is not None and time.monotonic() - began >= timeout:
                raise Expired("device memory had no room for it within the timeout: what is kept of results takes its "
                              "room", step="client") from None
        await asyncio.sleep(_LOOK_FOR_ROOM_S)


async def _send(client: Client, request: SubmitRequest, start: Callable[[SubmitRequest], None]) -> Future[Result]:
    """Waits for credits and hands the request over."""
    prepare, request.prepare = request.prepare, None
    if prepare is not None:
        await asyncio.to_thread(prepare)
    credits = client._connection.credits
    loop = asyncio.get_running_loop()
    come = asyncio.Event()
    waiter = credits.enqueue(request.nbytes, lambda: _call_soon(loop, come.set))
    if not waiter.granted:
        left = None if request.deadline is None else max(0.0, request.deadline - time.monotonic())
        try:
            await asyncio.wait_for(come.wait(), left)
        except asyncio.TimeoutError:
            pass
        except BaseException:  # the task is cancelled
            credits.dequeue(waiter)
            raise
        credits.settle(waiter)
    return client._hand_over(request, start)


def _call_soon(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:
        pass  # the loop is closed: nobody waits


async def _result(future: Future[Any]) -> Any:
    """Cancelling the task cancels the request."""
    return await asyncio.wrap_future(future)


async def _ask(client: Client, pending: PendingRequest) -> Any:
    pending.future.client = client
    client._connection.start(pending)
    return await _result(pending.future)
