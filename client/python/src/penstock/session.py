"""The caller's side of a session."""
from __future__ import annotations

import collections
import math
import threading
import time
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Deque, Iterable, Iterator, List, Mapping, Optional, Sequence, Type

import numpy as np

from . import wire
from .account import account_to_send
from .connection import Connection
from .control import NumberSetting, PipelineDescription, Values, is_name
from .errors import SessionLost
from .frames import checked
from .pending_request import SubmitRequest, ValuesRequest, done_within
from .recording import Cutter, Joined, flattened, index_behind
from .result import Result
from .session_requests import SessionRequests

if TYPE_CHECKING:
    from .client import Client

class Numbers(Mapping[str, float]):
    """The tunable numbers of a session or a pipeline, by "stage.name": what holds for the next frames."""

    def __init__(self, frame: int, values: Values) -> None:
        self.frame = frame  #: how many frames the session had before those for which they hold
        #: those that the session has set; the others follow the pipeline
        self.own = frozenset(f"{each.stage}.{each.name}" for each in values.values if each.own)
        self._values = {f"{each.stage}.{each.name}": each.value for each in values.values}

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Numbers({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"


def settings_of(numbers: Mapping[str, Optional[float]]) -> List[NumberSetting]:
    """Raises ValueError for what no message can say."""
    made = []
    for path, value in numbers.items():
        stage, dot, name = path.rpartition(".")
        if not (dot and stage and name and is_name(stage) and is_name(name)):
            raise ValueError(f"{path!r} is not STAGE.NAME")
        number = None if value is None else float(value)
        if number is not None and not math.isfinite(number):
            raise ValueError(f"{path} must be a finite number, not {value!r}")
        made.append(NumberSetting(stage, name, number))
    if not 1 <= len(made) <= MOST_SETTINGS:
        raise ValueError(f"1 to {MOST_SETTINGS} numbers can be set at once, not {len(made)}")
    return made


#: Numbers that one SET has room for.
MOST_SETTINGS = 15
#: Stands for a timeout that was not given: the client's.
DEFAULT: Any = object()


class Session:
    """An ordered sequence of frames that share what a pipeline's operators remember: a filter's history, running
    statistics. From `Client.session`.

        with c.session("spectrogram") as s:
            futures = [s.submit(block) for block in blocks]
            for f in futures:
                f.result()["fir"]

        with c.session("spectrogram") as s:
            s.run(recording)["fir"]  # all of it

    Order: requests are numbered as `submit` takes them, go through the pipeline in that order, and are sent again in
    it. No frame runs twice. A request that expires or is cancelled still goes through the state when its turn comes, so
    that what follows it is right. Its array is the caller's again (but for one of `Client.empty`, see there); its
    frames are kept for 10 s, should the daemon still need them.

    Loss: when the daemon restarts, has dropped the session (it was idle for too long), refuses one of its requests, or
    needs frames that are no longer kept, nothing can follow. The refused request ends with its own error, the others in
    flight with `SessionLost`, and later submits raise that. Open another session and begin anew. A reply that the
    daemon no longer keeps (`REPLY_GONE`) is no such loss: its request alone ends with that. Nor is `NO_CREDIT`: the
    request, and what follows it, is sent again after a pause, until its timeout.

    Every method may be called from any thread; the order of requests of several threads is for the caller to settle.
    """

    def __init__(self, client: Client, connection: Connection, requests: SessionRequests,
                 pipeline: PipelineDescription, name: str) -> None:
        self.name = name  #: what the daemon calls it
        self.pipeline = pipeline  #: what it was opened on
        self._client = client
        self._connection = connection
        self._requests = requests
        self._lock = threading.Lock()
        self._setting = threading.Lock()
        self._frames = 0
        self._finalizer = weakref.finalize(self, connection.close_session, requests)
        self._finalizer.atexit = False  # the client's goodbye closes all

    @property
    def frames(self) -> int:
        """How many frames `submit` has taken."""
        return self._frames

    def submit(self, x: Any, *, timeout: Optional[float] = DEFAULT, block: bool = True,
               trace_id: bytes = wire.NO_TRACE, frames: Optional[int] = None, index: Optional[int] = None,
               time_ns: Optional[int] = None, epoch: int = 0, lost_before: int = 0, filled: int = 0,
               account: Optional[wire.SampleAccount] = None) -> Future[Result]:
        """Sends the session's next frames and returns the future of their result: `Client.submit` for its pipeline.

        Where the pipeline takes "max N", a variable output may have another length for each request, also 0: a
        decimation by 8 gives 97 or 98 for 777 samples. One frame may have any length from 1 to N. Several frames must
        have a length that is a multiple of `pipeline.period`: send one longer frame rather than those.

        Raises SessionLost when the session is lost or closed, ValueError also for several frames of another length,
        and what `Client.submit` raises. What raises has no place in the session: its frames do not count.
        """
        client = self._client
        samples = account_to_send(index, time_ns, epoch, lost_before, filled, account)
        request = client._request_when_placed(lambda wait: self._request(x, timeout, trace_id, frames, wait, samples),
                                              timeout, block)
        return client._submit(request, block, self._start)

    def run(self, x: Any, *, tail: Optional[str] = None, timeout: Optional[float] = DEFAULT,
            index: Optional[int] = None, epoch: int = 0) -> Result:
        """Sends a whole recording, as the session's next frames, and gives its whole result.

        x: the recording along its first dimension: [samples, ...] for a frame of [length, ...]; along the dimension
            that is time, where the pipeline's is another: [channels, samples] for a frame of [channels, length]. It is
            cut into the pipeline's frames, the last of which is shorter where the pipeline takes "max N". Or frames,
            with a leading frames dimension.
        tail: what becomes of samples that fill no frame, where the pipeline takes frames of one length: "drop" leaves
            them out, "pad" fills the frame with zeros, "error" raises ValueError before anything is sent. None leaves
            them out and says so in a warning.
        timeout: as in submit, for each of the requests.
        index, epoch: the number of the recording's first sample in its clock, and that clock's epoch. The result's
            account is that of the first request: it says where each output begins.

        An output of variable length is joined along its first dimension, and others have one entry a frame: what
        concatenating the results of `stream` gives. The result's arrays are copies, so that nothing else is kept.

        Raises the error of the first request that fails, after it has cancelled the others, and what submit raises.
        """
        self._check_may_wait()
        cutter = Cutter(self.pipeline, self._most_bytes, tail)
        x = checked(self.pipeline, x)
        blocks = cutter.blocks_of(x)
        joined = Joined(self.pipeline, cutter.frames_of(x))
        for result in self._pipelined(blocks, cutter.window, timeout, index, epoch):
            joined.add(result)
        return joined.result()

    def stream(self, blocks: Iterable[Any], *, tail: Optional[str] = None,
               timeout: Optional[float] = DEFAULT, index: Optional[int] = None,
               epoch: int = 0) -> Iterator[Result]:
        """Sends blocks of samples as they come, and yields their results, in order, as they come.

        blocks: arrays of any length along their first dimension, [samples, ...] for a frame of [length, ...], or along
            the one that is time, as in `run`. Where the pipeline takes "max N" each is sent at once, in frames of at
            most N; otherwise what does not fill a frame waits for the next block, and what is left at the end is for
            `tail` to say, as in `run`.

        index, epoch: the number of the first block's first sample in its clock, and that clock's epoch. The samples of all
            blocks follow one another. What lost samples, or has another epoch, uses `submit`.

        Yields one result a request: an output of variable length is [length, ...], others are [frames, ...].
        For a live source it yields what has come back before it waits for the next block.

        Raises as `run` does, and what `blocks` raises. Leaving it early cancels what is in flight.
        """
        self._check_may_wait()
        cutter = Cutter(self.pipeline, self._most_bytes, tail)
        return self._pipelined(cutter.cut(blocks), cutter.window, timeout, index, epoch)

    def set(self, stage: str, name: str, value: Optional[float], *, timeout: Optional[float] = 5.0) -> Numbers:
        """Sets a number of a stage for this session alone, and waits until the daemon has it: it holds for what is
        submitted from then on. The pipeline must let it change (`tunable`). None: it follows the pipeline's again.

        Gives what holds then. Its `frame` says how many frames of the session came before.

        Raises Rejected for a number that is not there (UNKNOWN_VALUE), may not change (NOT_TUNABLE) or has no such
        value (OUT_OF_RANGE), SessionLost, and Expired when no answer came in time.
        """
        return self.set_all({f"{stage}.{name}": value}, timeout=timeout)

    def set_all(self, numbers: Mapping[str, Optional[float]], *, timeout: Optional[float] = 5.0) -> Numbers:
        """As `set`, for several numbers by "stage.name": all of them change between two frames, or none."""
        wanted = settings_of(numbers)
        with self._setting:  # a late repeat of one must not follow another
            return Numbers(*self._client._ask(self._values_request(wanted, timeout)))

    def values(self, *, timeout: Optional[float] = 5.0) -> Numbers:
        """The session's tunable numbers, as they are for its next frames."""
        return Numbers(*self._client._ask(self._values_request((), timeout)))

    def _values_request(self, wanted: Sequence[NumberSetting], timeout: Optional[float]) -> ValuesRequest:
        with self._lock:
            if self._requests.lost is not None:
                raise self._requests.error()
            if not self._finalizer.alive:
                raise SessionLost("the session is closed", step="client")
        return ValuesRequest(self._requests, wanted, timeout, self._client._patience)

    @property
    def _most_bytes(self) -> int:
        welcome = self._client._welcome
        return min(welcome.max_request_bytes, welcome.credit_bytes)

    def _check_may_wait(self) -> None:
        self._connection.check_process()
        if self._connection.is_own_thread():
            raise RuntimeError("a future's callback can't wait for results")

    def _pipelined(self, blocks: Iterable[np.ndarray], window: int, timeout: Optional[float], index: Optional[int],
                   epoch: int) -> Iterator[Result]:
        """Sends each block as a request, and yields the results, in order."""
        sent: Deque[Future[Result]] = collections.deque()
        coming = iter(blocks)
        try:
            while True:
                asked = time.monotonic()
                block = next(coming, None)
                if block is None:
                    break
                sent.append(self.submit(block, timeout=timeout, index=index, epoch=epoch))
                index = index_behind(self.pipeline, index, block)
                # As long as the source kept us waiting, so may the results: those of a live one come before its next
                # block, and those of a recording do not hold it up.
                came = time.monotonic()
                patience = came + (came - asked)
                while sent and (len(sent) >= window or done_within(sent[0], patience)):
                    yield flattened(self.pipeline, sent.popleft().result())
            while sent:
                yield flattened(self.pipeline, sent.popleft().result())
        finally:
            for each in sent:
                each.cancel()

    def _request(self, x: Any, timeout: Optional[float], trace_id: bytes = wire.NO_TRACE,
                 frames: Optional[int] = None, wait: bool = False,
                 account: Optional[wire.SampleAccount] = None) -> SubmitRequest:
        request = self._client._request(self.pipeline, x, timeout, trace_id, frames, wait, account)
        packed, period = request.frames, self.pipeline.period
        assert packed is not None  # it has not been sent
        length = packed.tensor.shape[1:2]
        if packed.count > 1 and self.pipeline.input.variable and period > 1 and length[0] % period != 0:
            allowed = (f"have a length that is a multiple of {period}, not {length[0]}"
                       if period <= self.pipeline.input.shape[0] else "are never submitted together")
            raise ValueError(f"several frames of pipeline {self.pipeline.name!r} in a session {allowed}: submit them as "
                             "one longer frame")
        return request

    def close(self) -> None:
        """Takes no more. What is in flight still ends as it would have; then the daemon drops the state. A second call
        does nothing, nor does one in a forked process."""
        if self._connection.is_own_process():
            with self._lock:
                self._finalizer()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def _start(self, request: SubmitRequest) -> None:
        """Numbering and handing over are one step, so that requests are sent in the order of their numbers."""
        with self._lock:
            if self._requests.lost is not None:
                raise self._requests.error()
            if not self._finalizer.alive:
                raise SessionLost("the session is closed", step="client")
            request.session, request.sequence = self._requests, self._frames
            self._connection.start(request)
            self._frames = request.end_sequence
