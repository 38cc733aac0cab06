"""The client."""
from __future__ import annotations

import math
import numbers
import operator
import os
import time
import weakref
from concurrent.futures import Future, TimeoutError as WaitTimeout
from types import TracebackType
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Type, Union

import numpy as np

from . import wire
from .account import account_to_send
from .arena import Shape
from .connection import Connection
from .control import Hello, PipelineDescription, Welcome, is_name
from .endpoint import EndpointReport, inspect_endpoint
from .errors import Expired, NoRoom, Rejected, Unreachable
from .frames import dtype_of, one_input, pack
from .keys import read_keys
from .pending_request import (OpenRequest, Patience, PendingRequest, PingRequest, StatusRequest, SubmitRequest,
                              TraceRequest, ValuesRequest, done_within)
from .result import Result
from .session import DEFAULT, Numbers, Session
from .subscription import Feed, SubscribeRequest, Subscription, subscribe_body
from .version import __version__


_CONNECT_S = 5.0  #: to wait for a welcome, where nobody says how long
_ABSENT_S = 1.0  #: of it where nobody listens
_LOOK_AFTER_S, _LOOK_AGAIN_S = 0.25, 0.25
_LOOK_FOR_ROOM_S = 0.0005  #: between two looks for room in device memory
_LONGEST_S = 1e9  #: 31 years: what the clocks of all that is involved can add


class Client:
    """A connection to one daemon.

        with Client("tcp://127.0.0.1:7600") as c:
            r = c.submit("spectrum", samples).result()
            r["psd"]

    Every method may be called from any thread. One thread of the client's own does all input and output; callbacks of
    futures run on it, so they must be short and must not wait.

    Each request ends exactly once: with a `Result`, or with a `PenstockError` of the class that says how. While the
    daemon is silent, or restarts, a request is sent again under the same id until its timeout.

    Pipelines that keep state (`pipelines[name].keeps_state`) take frames in sessions only: see `session`.

    Leaving the `with` block, or `close`, ends what is still in flight with `Cancelled`. A client that is not closed lives
    as long as one of its futures does, and until the program ends: what is in flight then is waited for, as long as the
    daemon says something, before the client says goodbye.

    A process that is forked can't use its parent's clients: every call in it raises RuntimeError. Make another one there.
    """

    def __init__(self, url: Optional[str] = None, *, timeout: Optional[float] = 30.0,
                 connect_timeout: Optional[float] = None, name: str = "penstock-python", retry_after: float = 2.0,
                 retry_limit: float = 16.0, grace: float = 0.25, server_key: Optional[str] = None,
                 key_file: Optional[str] = None, transport: Optional[str] = None, shared_bytes: int = 64 << 20,
                 shared_at_first: int = 4 << 20) -> None:
        """Connects and waits for the daemon's welcome.

        url: "tcp://HOST:PORT" or "ipc://PATH" (or another endpoint of ZeroMQ's). Where the daemon there runs several shards and
            names another one for this client, that is the one it connects to. Without it, as on the command line, the
            environment stands for it and for what else is not given: PENSTOCK_URL, which is "tcp://127.0.0.1:7600" by
            default, PENSTOCK_SERVER_KEY, PENSTOCK_KEY_FILE and PENSTOCK_TRANSPORT.
        timeout: seconds that a request may take, from submit to reply, where submit names none; None = no limit.
        connect_timeout: seconds to wait for the welcome, also while nobody listens there yet. None waits for 5 s, but
            for 1 s only where nobody listens. What waiting can't help, a name that does not exist or missing keys, is
            raised at once.
        name: for people who read the daemon's log; at most 64 bytes.
        retry_after, retry_limit: seconds without an answer until a request is sent again; each further wait is twice
            the last, up to the limit.
        grace: seconds beyond its timeout that a request waits for the daemon's own word that it expired.

        server_key, key_file: the daemon's public key (40 letters of Z85) and a file with a key of the client's own, as
            `penstock keygen` makes both, where the daemon asks for keys. The connection is then encrypted.

        transport: how frames travel to a daemon on this machine. "auto", the default: through memory that it shares with the client,
            where it offers some and the frames or the outputs of a request have 16 KiB or more; the first such request
            asks for it, and goes through the socket like all others. "zmq": through the socket only. "shm": as "auto",
            but the memory is there when this returns. A request for which it has no room just now goes through the
            socket in each of them, which `large_requests` counts.
        shared_bytes: of that memory at most, for inputs and outputs in flight and for the results that are kept:
            `shared_at_first`, or what two requests need, and twice as much whenever a request found no room; less where
            the daemon has no room for so much. What was outgrown stays beside it as long as anything lies there.
        shared_at_first: for a program that writes into the same arrays of `empty` again and again: as much as those and
            the results take. An array that lies in memory which was outgrown is copied into what there is now.

        Raises Unreachable, an Expired, when no welcome came in time, which says what is there instead; Expired when
        with "shm" no memory did; Rejected or Shutdown when the daemon refused, also the client's key; ValueError or
        TypeError for a url, transport, key or time that can't be right, or a key file that others can read; OSError
        when it can't be read.
        """
        if not isinstance(name, str):
            raise TypeError(f"a client's name is a str, not {type(name).__name__}")
        if len(name.encode()) > 64:
            raise ValueError("a client's name has at most 64 bytes")
        if url is None:
            url = os.environ.get("PENSTOCK_URL") or "tcp://127.0.0.1:7600"
            server_key = os.environ.get("PENSTOCK_SERVER_KEY") if server_key is None else server_key
            key_file = os.environ.get("PENSTOCK_KEY_FILE") if key_file is None else key_file
            transport = os.environ.get("PENSTOCK_TRANSPORT") or None if transport is None else transport
        transport = "auto" if transport is None else transport
        if transport not in ("auto", "zmq", "shm"):
            raise ValueError(f"transport is \"auto\", \"zmq\" or \"shm\", not {transport!r}")
        if shared_bytes < 1 or shared_at_first < 1:
            raise ValueError("shared_bytes and shared_at_first are at least 1")
        self._timeout = _seconds("timeout", timeout)
        connect_timeout = _seconds("connect_timeout", connect_timeout)
        self._patience = Patience(_some_seconds("retry_after", retry_after), _some_seconds("retry_limit", retry_limit),
                                  _some_seconds("grace", grace, least=0.0))
        hello = Hello(name, __version__, wire.MAX_INLINE_BYTES)
        keys = read_keys(server_key, key_file)
        began = time.monotonic()
        self._connection = Connection(url, hello, self._patience, keys,
                                      shared_bytes=0 if transport == "zmq" else shared_bytes,
                                      shared_at_first=shared_at_first,
                                      shared_timeout=_CONNECT_S if connect_timeout is None else connect_timeout)
        self._finalizer = weakref.finalize(self, self._connection.close)
        self._finalizer.atexit = False  # the connection has a way of its own to end with the program
        try:
            self._await_welcome(url, keys is not None, connect_timeout, began)
            if transport == "shm":
                self._share()
        except WaitTimeout:
            self.close()
            raise Expired(f"no memory came from {url} in time", step="client") from None
        except BaseException:
            self.close()
            raise

    def submit(self, pipeline: str, x: Any, *, timeout: Optional[float] = DEFAULT, block: bool = True,
               trace_id: bytes = wire.NO_TRACE, frames: Optional[int] = None, index: Optional[int] = None,
               time_ns: Optional[int] = None, epoch: int = 0, lost_before: int = 0, filled: int = 0,
               account: Optional[wire.SampleAccount] = None) -> Future[Result]:
        """Sends frames to a pipeline and returns the future of their result.

        x: an array of numpy, or of any library that has DLPack (torch, CuPy, JAX), with the pipeline's dtype
            (`pipelines[name].input`), of one frame (its frame shape) or several (with
            a leading frames dimension); a frame of a variable pipeline may be shorter in its first dimension. Integer
            IQ is integers with a last dimension of 2: a frame of `cu8` is uint8 [n, 2]. numpy has no bf16: it is
            ml_dtypes.bfloat16, or its bits as uint16, which results are where ml_dtypes is not installed. Arrays of
            64 KiB and more may be sent from where they lie: do not write to them until the future is done. What lies on
            the daemon's GPU stays there: it is read in place where it lies in memory of `empty` or `frames`, else
            copied on the GPU, and the outputs are `Tensor`s there. The request is sent when the work that makes x, on
            its library's current stream, is done. What lies on another GPU, or where the daemon shares no memory of
            its own, is refused: x.cpu() takes it through the host's memory.
        timeout: seconds from now to the reply, in place of the client's; None = no limit. It is one budget: waiting for
            credit counts. Nothing is left of one that is not above 0.
        block: whether to wait when all credits are in use; if not, NoCredit is raised. A callback of a future never
            waits.
        trace_id: 16 bytes that follow the request through the daemon's logs and timelines.
        frames: how many frames x has. Needed for several frames of a pipeline that takes "max N" alone, where they are
            shorter: [200, 3] might as well be 200 samples of 3 channels.
        index, time_ns, epoch, lost_before, filled: which samples these are, which the result then repeats and maps to its
            outputs (`Result.account`). index: the number of the first one in the sender's clock; time_ns: its time
            since 1970, UTC; epoch: of that clock; lost_before: samples known to be lost directly before it; filled:
            samples that are filled in, and not real. All are optional.
        account: a `SampleAccount` in their place, for what else is known.

        The future's exception is Rejected, Expired, Cancelled, Failed, Shutdown or SessionLost. Its `cancel` gives the
        request up at once, without waiting for the daemon's word; `Client.cancel` waits for it.

        Raises LookupError for an unknown pipeline, TypeError and ValueError when x or another argument does not fit,
        ValueError when the pipeline keeps state, Expired when no credit came in time, Cancelled when the client is
        closed, RuntimeError in a process that was forked from the client's.
        """
        samples = account_to_send(index, time_ns, epoch, lost_before, filled, account)
        request = self._request_when_placed(lambda wait: self._request(self._stateless(pipeline), x, timeout, trace_id,
                                                                       frames, wait, samples), timeout, block)
        return self._submit(request, block, self._connection.start)

    def session(self, pipeline: str, *, name: Optional[str] = None, timeout: float = 5.0) -> Session:
        """Opens a session of a pipeline, with or without state, and waits until the daemon has it.

        name: for people who read the daemon's log and status, at most 64 bytes, no control characters; no two open
            sessions of this client and pipeline have the same. None gives a random one.
        timeout: seconds to wait.

        Raises LookupError for an unknown pipeline, ValueError for a bad name, Rejected when the daemon has no room or
        the name is in use, Expired when no answer came in time.
        """
        opening = self._opening(pipeline, name, timeout)
        return Session(self, self._connection, self._ask(opening), opening.pipeline, opening.name)

    def subscribe(self, pipelines: Union[str, Sequence[str]], *, sessions: Union[None, str, Sequence[str]] = None,
                  outputs: Union[None, str, Sequence[str]] = None, queue_bytes: Optional[int] = None,
                  buffer_bytes: int = 64 << 20, timeout: Optional[float] = 5.0,
                  requests: bool = False) -> Subscription:
        """Listens to the results that any client gets of these pipelines, from now on.

            for item in c.subscribe("waterfall"):
                draw(item.array)

        pipelines: a name, or several.
        sessions: patterns of sessions' names, of which one must match: "*" stands for any letters, "?" for one. None:
            all, and requests of no session, whose name is "".
        outputs: names of the outputs that come; None: all.
        queue_bytes: how much the daemon keeps for this subscription when its connection is too slow; None: what the
            daemon thinks right, 16 MiB or more. Results beyond it are lost, and the next one says how many.
        buffer_bytes: how much waits in this process for the iteration. The oldest results beyond it are lost, likewise.
        timeout: seconds to wait for the daemon's answer.
        requests: what clients send instead of the results: each request that the daemon accepts, as one output "input".

        When the connection was lost the subscription goes on over the next one. When the daemon restarted it is made
        again, and the next result has `restarted`. With several shards, it is of the one that this client is connected
        to. A daemon that does not serve the pipeline any more after a restart ends the iteration with Rejected.

        Raises Rejected for an unknown pipeline or output, or where the daemon takes no more subscriptions, and Expired
        when no answer came in time.
        """
        request = self._subscribing(pipelines, sessions, outputs, queue_bytes, buffer_bytes, timeout, requests)
        granted = self._ask(request)
        return Subscription(self, self._connection, request.feed, request.request_id, granted)

    def empty(self, shape: Shape, dtype: Any, *, device: str = "cpu") -> Any:
        """A new array in the memory that the daemon shares, whatever it then holds: `submit` takes it, or a contiguous
        part of it that begins at a multiple of 64 bytes, without copying it. Its room is free again when it has gone,
        as with any array, and no request that it was submitted with is in flight.

        An ordinary array where there is no such memory, or no room in it. The first call, and one that finds no room,
        waits for it, for the client's `connect_timeout` at most. An array whose request ended with Expired or Cancelled
        may still be read by the device: do not write to it, but let it go and take another.

        device: "cuda", or "cuda:N" where that is the daemon's, gives a `Tensor` in the memory of the daemon's GPU,
            which the daemon owns and which torch, CuPy and JAX take without a copy
            (`torch.from_dlpack(c.empty(n, np.float32, device="cuda"))`). Submit that library's array rather than the
            Tensor, so that only its own stream is waited for.

        Raises ValueError and TypeError as numpy.empty does, ValueError where the daemon shares no memory of a GPU that
        this process sees, and Rejected where that has no room.
        """
        return self._empty(shape, np.dtype(dtype), False, device)

    def _empty(self, shape: Shape, dtype: np.dtype[Any], is_bfloat16: bool, device: str) -> Any:
        connection = self._connection
        connection.check_process()
        kind, _, number = str(device).partition(":")  # torch.device's text is the same
        if kind not in ("cpu", "cuda") or (":" in str(device) and not number.isdecimal()):
            raise ValueError(f'device is "cpu", "cuda" or "cuda:N", not {device!r}')
        if kind == "cuda":
            refusal = connection.device.refusal()
            if refusal:
                raise ValueError(f"there is no device memory for this client: {refusal}")
            gpu = connection.device.device
            if number and gpu is not None and int(number) != gpu.ordinal:
                raise ValueError(f"the daemon's GPU is cuda:{gpu.ordinal} in this process, not {device}")
            if connection.is_own_thread():
                raise RuntimeError("a future's callback can't wait for device memory")
            return connection.device.tensor(shape, dtype, is_bfloat16)
        return connection.shared.empty(shape, dtype, wait=not connection.is_own_thread())

    def frames(self, pipeline: str, count: Optional[int] = None, *, length: Optional[int] = None,
               device: str = "cpu") -> Any:
        """`empty` for a pipeline's input: of the shape and dtype of one frame, or of `count` frames with a leading
        frames dimension. length: the first dimension of a frame, where the pipeline takes "max N"; None = N.

        Raises LookupError for an unknown pipeline, ValueError for a count or a length that it does not take, and what
        `empty` raises.
        """
        described = self._described(pipeline)
        one_input(described, "frames")
        shape = described.input.shape
        if count is not None and not 1 <= count <= described.max_frames:
            raise ValueError(f"a request of pipeline {pipeline!r} has 1 to {described.max_frames} frames, not {count}")
        if length is not None:
            if length != shape[0] and not (described.input.variable and 1 <= length <= shape[0]):
                raise ValueError(f"pipeline {pipeline!r} takes {described.input}, not a length of {length}")
            shape = (length, *shape[1:])
        return self._empty(shape if count is None else (count, *shape), dtype_of(described.input),
                           described.input.dtype == "bf16", device)

    def cancel(self, request: Union[Future[Result], int]) -> None:
        """Asks the daemon to give a request up: a future that submit returned, or its `request_id`. It still ends
        exactly once, with Cancelled, or as it would have when it is too late."""
        self._connection.cancel(request if isinstance(request, int) else request.request_id)  # type: ignore

    @property
    def pipelines(self) -> Mapping[str, PipelineDescription]:
        """What the daemon offers, by name."""
        return self._welcome.by_name

    @property
    def transport(self) -> str:
        """What large requests travel through just now: "shm" or "zmq"."""
        return "zmq" if self._connection.shared.arena is None else "shm"

    @property
    def large_requests(self) -> Dict[str, int]:
        """How many of them began their way through what: {"shm": 12, "zmq": 1}. With "shm" and "auto" the ones under
        "zmq" found no room in shared memory, or none was there; the first one of "auto" never finds any."""
        shared, unshared = self._connection.shared.requests
        return {"shm": shared, "zmq": unshared}

    @property
    def server(self) -> str:
        """The daemon's name and version: "penstockd 0.1.0"."""
        return self._welcome.server

    def ping(self, timeout: float = 5.0) -> float:
        """Seconds from sending a PING to its PONG. Raises Expired when none came in time."""
        return self._ask(self._ping(timeout))

    def status(self, timeout: float = 5.0) -> Dict[str, Any]:
        """The daemon's counters. Raises Expired when they did not come in time."""
        return self._ask(self._status(timeout))

    def values(self, pipeline: str, timeout: Optional[float] = 5.0) -> Numbers:
        """The tunable numbers of a pipeline, which hold where a session has not set its own (`Session.set`). Raises
        LookupError for an unknown pipeline, and Expired when they did not come in time."""
        return Numbers(*self._ask(self._pipeline_values(pipeline, timeout)))

    def trace(self, cursor: int = 0, timeout: float = 5.0) -> Tuple[Dict[str, Any], int]:
        """The daemon's recent batches (`["batches"]`, oldest first) since a cursor, and the cursor to ask with next; 0
        asks from the oldest that it keeps. Raises Expired when they did not come in time, ValueError for a bad cursor.
        """
        return self._ask(self._trace(cursor, timeout))

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

    def _described(self, pipeline: str) -> PipelineDescription:
        described = self.pipelines.get(pipeline)
        if described is None:
            raise LookupError(self._welcome.why_quarantined(pipeline) or
                              f"no pipeline {pipeline!r}; the daemon has {', '.join(self.pipelines) or 'none'}")
        return described

    # What is asked, of arguments that have been checked.

    def _opening(self, pipeline: str, name: Optional[str], timeout: Optional[float]) -> OpenRequest:
        described = self._described(pipeline)
        if name is None:
            name = os.urandom(8).hex()
        elif not name or not is_name(name):
            raise ValueError("a session's name has 1 to 64 bytes and no control characters")
        return OpenRequest(described, name, _seconds("timeout", timeout), self._patience)

    def _subscribing(self, pipelines: Any, sessions: Any, outputs: Any, queue_bytes: Optional[int], buffer_bytes: int,
                     timeout: Optional[float], requests: bool) -> SubscribeRequest:
        feed = Feed(subscribe_body(pipelines, sessions, outputs, queue_bytes, requests), buffer_bytes)
        return SubscribeRequest(feed, _seconds("timeout", timeout), self._patience)

    def _ping(self, timeout: Optional[float]) -> PingRequest:
        return PingRequest(_seconds("timeout", timeout), self._patience)

    def _status(self, timeout: Optional[float]) -> StatusRequest:
        return StatusRequest(_seconds("timeout", timeout), self._patience)

    def _pipeline_values(self, pipeline: str, timeout: Optional[float]) -> ValuesRequest:
        return ValuesRequest(self._described(pipeline), (), _seconds("timeout", timeout), self._patience)

    def _trace(self, cursor: int, timeout: Optional[float]) -> TraceRequest:
        cursor = operator.index(cursor)
        if not 0 <= cursor < 1 << 64:
            raise ValueError("a cursor is what the last trace gave, or 0")
        return TraceRequest(cursor, _seconds("timeout", timeout), self._patience)

    def _stateless(self, pipeline: str) -> PipelineDescription:
        described = self._described(pipeline)
        if described.keeps_state:
            raise ValueError(f"pipeline {pipeline!r} keeps state, so its frames must belong to a session: use "
                             f"c.session({pipeline!r}) and its submit")
        return described

    def _request(self, pipeline: PipelineDescription, x: Any, timeout: Optional[float] = DEFAULT,
                 trace_id: bytes = wire.NO_TRACE, frames: Optional[int] = None, wait: bool = False,
                 account: Optional[wire.SampleAccount] = None) -> SubmitRequest:
        self._connection.check_process()
        timeout = self._timeout if timeout is DEFAULT else _seconds("timeout", timeout, least=-_LONGEST_S)
        if not isinstance(trace_id, (bytes, bytearray, memoryview)):
            raise TypeError(f"a trace id is 16 bytes, not {type(trace_id).__name__}: bytes.fromhex reads 32 digits")
        trace_id = bytes(trace_id)
        if len(trace_id) != 16:
            raise ValueError("a trace id has 16 bytes")
        packed = pack(pipeline, x, self._connection.shared.place, frames, self._connection.device, wait)
        nbytes = packed.nbytes
        most = min(self._welcome.max_request_bytes, self._welcome.credit_bytes)
        if nbytes > most:
            raise ValueError(f"a request has at most {most} bytes; x has {nbytes}")
        return SubmitRequest(pipeline, packed, trace_id, timeout, self._patience, account)

    def _request_when_placed(self, make: Callable[[bool], SubmitRequest], timeout: Optional[float],
                             block: bool) -> SubmitRequest:
        """What `make(wait)` makes, once there is room for it in device memory; block: whether to wait for that."""
        block = block and not self._connection.is_own_thread()
        timeout = self._timeout if timeout is DEFAULT else timeout
        began = time.monotonic()
        while True:
            try:
                return make(block)
            except NoRoom:
                if not block:
                    raise
                if timeout is not None and time.monotonic() - began >= timeout:
                    raise Expired("device memory had no room for it within the timeout: what is kept of results takes "
                                  "its room", step="client") from None
            time.sleep(_LOOK_FOR_ROOM_S)

    def _submit(self, request: SubmitRequest, block: bool, start: Callable[[SubmitRequest], None]) -> Future[Result]:
        """Takes credits and hands the request over with `start`."""
        prepare, request.prepare = request.prepare, None
        if prepare is not None:
            prepare()
        connection, nbytes = self._connection, request.nbytes
        connection.credits.take(nbytes, request.deadline, block and not connection.is_own_thread())
        return self._hand_over(request, start)

    def _hand_over(self, request: SubmitRequest, start: Callable[[SubmitRequest], None]) -> Future[Result]:
        """The credits are there."""
        connection, future = self._connection, request.future
        request.credit_bytes = request.nbytes
        future.client = self
        try:
            start(request)
        except BaseException:
            connection.credits.give_back(request.nbytes)
            raise
        request_id = request.request_id
        future.add_done_callback(lambda done: connection.cancel(request_id) if done.cancelled() else None)
        return future

    def _await_welcome(self, url: str, has_keys: bool, connect_timeout: Optional[float], began: float) -> None:
        """Waits for it. What is there instead is looked at when it does not come soon."""
        connection = self._connection
        patience = _CONNECT_S if connect_timeout is None else connect_timeout
        found, broken_off = EndpointReport(""), math.inf
        while not done_within(connection.welcomed.future, min(began + patience, time.monotonic() + (
                _LOOK_AGAIN_S if found.text else _LOOK_AFTER_S))):
            now = time.monotonic()
            if has_keys and connection.broken_off > broken_off:  # again, by what asks for keys, too
                raise Unreachable(f"the daemon at {url} does not let this client in: {connection.trouble}", step="client")
            if math.isinf(broken_off):
                found = inspect_endpoint(url, has_keys, began + patience)
                if not found.text:
                    broken_off = connection.broken_off  # a daemon may be there: it is not looked at again
            if done_within(connection.welcomed.future, now):
                break
            if found.refused:
                raise Rejected(f"the daemon does not let this client in: {found.text}", step="client")
            if found.final:
                raise Unreachable(f"no daemon answers at {url}: {found.text}", step="client")
            if now >= began + (_ABSENT_S if found.absent and connect_timeout is None else patience):
                why = found.text or connection.trouble or "something listens there, but sends no welcome"
                raise Unreachable(f"no daemon answered at {url} within {now - began:.2g} s: {why}", step="client")
        connection.welcomed.future.result()  # or raises what the daemon refused with

    def _share(self) -> None:
        """Waits for memory of the daemon's."""
        coming = self._connection.shared.fetch()
        if coming is None:
            raise Rejected("the daemon shares no memory with its clients", step="client")
        coming.result()

    def _ask(self, pending: PendingRequest) -> Any:
        if self._connection.is_own_thread():
            raise RuntimeError("a future's callback can't wait for the daemon")
        self._connection.start(pending)
        return pending.future.result()


def _seconds(name: str, value: Any, least: float = 0.0) -> Optional[float]:
    """The value, if it can be a time in seconds, or None. Raises TypeError or ValueError."""
    return None if value is None else _some_seconds(name, value, least)


def _some_seconds(name: str, value: Any, least: float = 1e-6) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is a number of seconds, not {type(value).__name__}")
    seconds = float(value)
    if seconds < least:
        raise ValueError(f"{name} is at least {least:g} s, not {seconds:g}")
    if not seconds <= _LONGEST_S:  # nan neither
        hint = ": None is no limit" if name == "timeout" else ""
        raise ValueError(f"{name} is a number of seconds, at most {_LONGEST_S:g}, not {seconds:g}{hint}")
    return seconds
