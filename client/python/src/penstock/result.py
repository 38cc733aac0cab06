"""The result of a request."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping

import numpy as np


class Result(Mapping[str, np.ndarray]):
    """The outputs of one request by name, in the pipeline's order: `result["psd"]`.

    An array has the output's frame shape when one frame was submitted, and a leading frames dimension when the input
    had one. A pipeline with a single output needs no name: `result.array`, or `numpy.asarray(result)`.
    The arrays are views of the message as it was received, or of the memory that is shared with the daemon, and keep it
    from being used again: copy what is to be kept for long.
    """

    __slots__ = ("_outputs", "request_id", "trace_id")

    def __init__(self, outputs: Dict[str, np.ndarray], request_id: int, trace_id: bytes) -> None:
        self._outputs = outputs
        self.request_id = request_id
        self.trace_id = trace_id

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._outputs[name]
        except KeyError:
            raise KeyError(f"the result has no output {name!r}; it has {', '.join(self._outputs)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    @property
    def array(self) -> np.ndarray:
        """The only output. Raises ValueError when there are several: name one of them."""
        if len(self._outputs) != 1:
            raise ValueError(f"the result has {len(self._outputs)} outputs: {', '.join(self._outputs)}")
        return next(iter(self._outputs.values()))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = self.array
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        outputs = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self._outputs.items())
        return f"Result({outputs})"
