"""The result of a request."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np

from .account import Account
from .tensor import Tensor


class Result(Mapping[str, Any]):
    """The outputs of one request by name, in the pipeline's order: `result["psd"]`.

    An array has the output's frame shape when one frame was submitted, and a leading frames dimension when the input
    had one. A pipeline with a single output needs no name: `result.array`, or `numpy.asarray(result)`.
    The arrays are views of the message as it was received, or of the memory that is shared with the daemon, and keep it
    from being used again: copy what is to be kept for long.

    Other libraries take an output without a copy: `torch.from_dlpack(result)` where there is only one, else
    `torch.from_dlpack(result.tensor("psd"))`. What was submitted from the daemon's GPU has its outputs there: they are
    `Tensor`s, and no numpy arrays.
    """

    __slots__ = ("_outputs", "request_id", "trace_id", "bfloats", "account")

    def __init__(self, outputs: Dict[str, Any], request_id: int, trace_id: bytes, bfloats: Sequence[str] = (),
                 account: Optional[Account] = None) -> None:
        self._outputs = outputs
        self.request_id = request_id
        self.trace_id = trace_id
        self.bfloats = bfloats  #: the outputs that are bf16, which numpy may call uint16
        #: which samples of its sender's clock it is of; None where `submit` was told nothing of them
        self.account = account

    def __getitem__(self, name: str) -> Any:
        try:
            return self._outputs[name]
        except KeyError:
            raise KeyError(f"the result has no output {name!r}; it has {', '.join(self._outputs)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    @property
    def array(self) -> Any:
        """The only output. Raises ValueError when there are several: name one of them."""
        return self._outputs[self._only()]

    def tensor(self, name: Optional[str] = None) -> Tensor:
        """An output, or the only one, for other libraries: `torch.from_dlpack(result.tensor("psd"))`. It keeps the
        memory; nothing is copied."""
        name = self._only() if name is None else name
        output = self[name]
        return output if isinstance(output, Tensor) else Tensor.of_array(output, name in self.bfloats)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = self.array
        if isinstance(array, Tensor):
            return array.__array__(dtype, copy)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self.tensor().__dlpack_device__()

    def __repr__(self) -> str:
        outputs = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self._outputs.items())
        return f"Result({outputs})"

    def _only(self) -> str:
        if len(self._outputs) != 1:
            raise ValueError(f"the result has {len(self._outputs)} outputs: {', '.join(self._outputs)}")
        return next(iter(self._outputs))
