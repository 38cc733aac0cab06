"""Splits recordings and streams into requests, and joins the results."""
from __future__ import annotations

import warnings
from typing import Any, AsyncIterable, AsyncIterator, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from .account import Account
from .control import PipelineDescription, TensorDescription
from .frames import checked, dtype_of, most_bytes, one_input
from .result import Result
from .wire import NO_TRACE

#: Large enough to keep the daemon busy while further requests are in flight.
_REQUEST_BYTES = 256 << 10
_IN_FLIGHT_BYTES = 16 << 20
_LEAST_WINDOW, _MOST_WINDOW = 2, 32
_TAILS = (None, "drop", "pad", "error")


class Cutter:
    """Splits samples into frames of a pipeline, and groups small frames into requests."""

    def __init__(self, pipeline: PipelineDescription, most: int, tail: Optional[str]) -> None:
        """most: bytes of a request. tail: as in `Session.run`. Raises ValueError."""
        if tail not in _TAILS:
            raise ValueError(f"tail is \"drop\", \"pad\" or \"error\", not {tail!r}")
        one_input(pipeline, "a recording")
        self._pipeline = pipeline
        self._tail = tail
        described = pipeline.input
        self._axis = described.axis
        self._length = described.shape[self._axis]
        self._channels = described.shape[:self._axis] + described.shape[self._axis + 1:]
        nbytes = max(most_bytes(described, 1), 1)
        several = min(pipeline.max_frames, max(1, min(_REQUEST_BYTES, most) // nbytes))
        # In a session, several frames in one request must have a length that is a multiple of the period.
        self._several = 1 if described.variable and self._length % pipeline.period != 0 else several
        self.window = max(_LEAST_WINDOW, min(_MOST_WINDOW, _IN_FLIGHT_BYTES // (self._several * nbytes)))

    def frames_of(self, x: np.ndarray) -> int:
        """The number of frames of a recording, including its tail. Raises ValueError for a scalar."""
        if x.ndim > len(self._pipeline.input.shape):
            return len(x)
        samples = self._samples_of(x)
        more = self._pipeline.input.variable or self._tail == "pad"
        return (samples + self._length - 1) // self._length if more else samples // self._length

    def blocks_of(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """The requests of a whole recording, of samples or of frames."""
        if x.ndim > len(self._pipeline.input.shape):
            several = self._several if x.shape[1] % self._pipeline.period == 0 else 1
            return (x[at:at + several] for at in range(0, len(x), several))
        if self._tail == "error" and not self._pipeline.input.variable:
            self._refuse_rest(self._samples_of(x) % self._length)
        return self.cut([x])

    def cut(self, blocks: Iterable[Any]) -> Iterator[np.ndarray]:
        """The requests of an iterable of blocks."""
        rest = self._nothing()
        for block in blocks:
            pieces, rest = self._add(rest, block)
            yield from pieces
        yield from self._end(rest)

    async def cut_async(self, blocks: AsyncIterable[Any]) -> AsyncIterator[np.ndarray]:
        """The same for an asynchronous iterable."""
        rest = self._nothing()
        async for block in blocks:
            pieces, rest = self._add(rest, block)
            for piece in pieces:
                yield piece
        for piece in self._end(rest):
            yield piece

    def _samples_of(self, x: np.ndarray) -> int:
        if x.ndim == 0:
            raise ValueError(f"pipeline {self._pipeline.name!r} takes {self._pipeline.input}, not a single number")
        return int(x.shape[min(self._axis, x.ndim - 1)])

    def _nothing(self) -> np.ndarray:
        return np.empty((0, *self._channels), dtype_of(self._pipeline.input))

    def _frames(self, x: np.ndarray, count: int) -> np.ndarray:
        """`count` frames of samples that lie along the first dimension."""
        frames = x.reshape((count, self._length, *self._channels))
        return np.moveaxis(frames, 1, 1 + self._axis)

    def _add(self, rest: np.ndarray, block: Any) -> Tuple[List[np.ndarray], np.ndarray]:
        """The requests that one more block completes, and the samples left over, along the first dimension."""
        described = self._pipeline.input
        x = checked(self._pipeline, block)
        if x.ndim != len(described.shape) or x.shape[:self._axis] + x.shape[self._axis + 1:] != self._channels:
            wanted = [*map(str, self._channels)]
            wanted.insert(self._axis, "samples")
            raise ValueError(f"pipeline {self._pipeline.name!r} takes {described}: a recording of it, or a block of one, "
                             f"has the shape [{', '.join(wanted)}], not {list(x.shape)}")
        x = np.moveaxis(x, self._axis, 0)
        if len(rest) > 0:
            x = np.concatenate([rest, x])
        whole = len(x) // self._length
        batch = self._frames(x[:whole * self._length], whole)
        pieces = [batch[at:at + self._several] for at in range(0, whole, self._several)]
        rest = x[whole * self._length:]
        if described.variable and len(rest) > 0:
            pieces.append(rest[np.newaxis])
            rest = rest[:0]
        return pieces, rest.copy()  # the caller may reuse the block

    def _end(self, rest: np.ndarray) -> List[np.ndarray]:
        """The requests of the last samples."""
        if len(rest) == 0:
            return []
        if self._tail == "error":
            self._refuse_rest(len(rest))
        if self._tail is None:
            warnings.warn(f"{self._unfilled(len(rest))}, and are left out: tail=\"pad\" fills the frame with zeros, "
                          "tail=\"drop\" leaves them out without a word", stacklevel=3)
        if self._tail != "pad":
            return []
        padded = np.zeros((self._length, *self._channels), rest.dtype)
        padded[:len(rest)] = rest
        return [self._frames(padded, 1)]

    def _unfilled(self, samples: int) -> str:
        return (f"{samples} samples at the end fill no frame of {self._length}, which is what pipeline "
                f"{self._pipeline.name!r} takes")

    def _refuse_rest(self, samples: int) -> None:
        if samples > 0:
            raise ValueError(f"{self._unfilled(samples)}: tail=\"drop\" leaves them out, tail=\"pad\" fills the frame "
                             "with zeros")


def flattened(pipeline: PipelineDescription, result: Result) -> Result:
    """Removes the frames dimension of variable outputs, whose lengths are joined."""
    arrays: Dict[str, np.ndarray] = {}
    for described in pipeline.outputs:
        array = result[described.name]
        if described.variable:
            array = array.reshape((array.shape[0] * array.shape[1], *array.shape[2:]))
        arrays[described.name] = array
    return Result(arrays, result.request_id, result.trace_id, result.bfloats, result.account)


def index_behind(pipeline: PipelineDescription, index: Optional[int], batch: np.ndarray) -> Optional[int]:
    """The index of the first sample behind a request of frames; None where they are not numbered."""
    return None if index is None else index + batch.shape[0] * batch.shape[1 + pipeline.input.axis]


class Joined:
    """Joins the results of a recording. Copies each part at once, which frees the memory shared with the daemon."""

    def __init__(self, pipeline: PipelineDescription, frames: int) -> None:
        self._pipeline = pipeline
        self._outputs = [_JoinedOutput(described, frames) for described in pipeline.outputs]
        self._request_id = 0
        self._account: Optional[Account] = None
        self._empty = True

    def add(self, result: Result) -> None:
        """Appends the next part, flattened."""
        self._request_id = result.request_id
        self._account = result.account if self._empty else self._account
        self._empty = False
        for output in self._outputs:
            output.add(result[output.described.name])

    def result(self) -> Result:
        """The whole, with the request id of the last part and the account of the first."""
        return Result({each.described.name: each.array() for each in self._outputs}, self._request_id, NO_TRACE,
                      [each.described.name for each in self._outputs if each.described.dtype == "bf16"], self._account)


class _JoinedOutput:
    def __init__(self, described: TensorDescription, frames: int) -> None:
        self.described = described
        shape = (0 if described.variable else frames, *described.shape[1 if described.variable else 0:])
        self._whole = np.empty(shape, dtype_of(described))
        self._pieces: List[np.ndarray] = []
        self._filled = 0

    def add(self, piece: np.ndarray) -> None:
        if self.described.variable:
            self._pieces.append(piece.copy())
        else:
            self._whole[self._filled:self._filled + len(piece)] = piece
        self._filled += len(piece)

    def array(self) -> np.ndarray:
        if not self.described.variable:
            return self._whole[:self._filled]
        return np.concatenate([self._whole, *self._pieces])
