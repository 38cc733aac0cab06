"""Between numpy arrays and the payloads of messages."""
from __future__ import annotations

import math
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import wire
from .arena import SharedPayload
from .control import PipelineDescription, TensorDescription
from .result import Result

#: Arrays below this are copied when they are submitted; larger ones are sent from where they lie.
COPY_BELOW_BYTES = 65536

_DTYPES: Dict[str, np.dtype[Any]] = {
    "u8": np.dtype("<u1"), "u16": np.dtype("<u2"), "i8": np.dtype("<i1"), "i16": np.dtype("<i2"),
    "i32": np.dtype("<i4"), "i64": np.dtype("<i8"), "f16": np.dtype("<f2"), "bf16": wire.BFLOAT16,
    "f32": np.dtype("<f4"), "f64": np.dtype("<f8"), "c64": np.dtype("<c8"), "bool": np.dtype("?")}


class Frames(NamedTuple):
    """The frames of one request, ready to be sent."""
    count: int
    single: bool  #: given without a frames dimension
    tensor: wire.TensorHeader
    payload: Any  #: contiguous bytes
    placement: Optional[SharedPayload] = None  #: where they lie in shared memory

    def copied(self) -> Frames:
        """A copy in memory of its own, so that the caller may reuse the array."""
        return self._replace(payload=bytes(self.payload), placement=None)


#: Finds a place in shared memory for a batch of a pipeline's frames, to be of that dtype, and puts them there.
Placer = Callable[[PipelineDescription, np.ndarray, "np.dtype[Any]"], Optional[SharedPayload]]


def dtype_of(described: TensorDescription) -> np.dtype[Any]:
    """The numpy dtype of a tensor. numpy has no bf16: that is ml_dtypes.bfloat16 where ml_dtypes is installed, and else
    uint16, its bits. Raises TypeError for a dtype of a later daemon."""
    try:
        return _DTYPES[described.dtype]
    except KeyError:
        raise TypeError(f"this client does not know the dtype {described.dtype!r} of {described.name!r}: it is older "
                        "than the daemon") from None


def most_bytes(described: TensorDescription, count: int) -> int:
    """The largest size in bytes of so many frames of a tensor."""
    return count * math.prod(described.shape) * dtype_of(described).itemsize


def pack(pipeline: PipelineDescription, x: Any, place: Optional[Placer] = None,
         count: Optional[int] = None) -> Frames:
    """Takes one frame (the pipeline's frame shape) or several (with a leading frames dimension).

    count: how many frames x has. It must be said where x's shape does not tell: of a pipeline that takes "max N" alone,
        [200, 3] may be 200 short frames as well as 200 samples of 3 channels.

    Raises TypeError when x does not have the pipeline's dtype (nothing is converted silently but the byte order, and
    uint16 is taken as the bits of bf16), and ValueError when it does not have its shape, or has more frames than a request may have.
    """
    described = pipeline.input
    dtype = dtype_of(described)
    array = checked(pipeline, x)
    single = array.ndim == len(described.shape)
    batch = array[np.newaxis] if single else array
    if batch.ndim != len(described.shape) + 1 or not _is_frame(described, batch.shape[1:], 1):
        raise ValueError(f"pipeline {pipeline.name!r} takes {described}, one frame or several with a leading "
                         f"dimension; x has shape {list(array.shape)}")
    if not 1 <= batch.shape[0] <= pipeline.max_frames:
        raise ValueError(f"a request of pipeline {pipeline.name!r} has 1 to {pipeline.max_frames} frames; x has "
                         f"{batch.shape[0]}")
    if count is not None and count != batch.shape[0]:
        raise ValueError(f"x of shape {list(array.shape)} is {batch.shape[0]} frames of pipeline {pipeline.name!r}, "
                         f"which takes {described}, and not {count}")
    if count is None and batch.shape[0] > 1 and _may_be_channels(described, batch.shape[1:]):
        raise ValueError(f"pipeline {pipeline.name!r} takes {described}: x of shape {list(array.shape)} may be "
                         f"{batch.shape[0]} frames of {batch.shape[1]} samples or {batch.shape[0]} samples of "
                         f"{batch.shape[1]} channels. Say frames={batch.shape[0]} for the former; channels go one by "
                         "one (x[:, 0], in a session each), or to a pipeline whose input has them: "
                         f'["max {described.shape[0]}", {batch.shape[1]}]')
    placement = None if place is None else place(pipeline, batch, dtype)
    packed = np.ascontiguousarray(batch, dtype=dtype) if placement is None else placement.frames
    payload: Any = memoryview(packed.reshape(-1).view(np.uint8))
    if placement is None and packed.nbytes < COPY_BELOW_BYTES:
        payload = bytes(payload)
    return Frames(batch.shape[0], single, wire.tensor_header(packed, described.dtype == "bf16"), payload, placement)


def checked(pipeline: PipelineDescription, x: Any) -> np.ndarray:
    """x as an array, if it has the pipeline's dtype, in whatever byte order. Raises TypeError, which says what to write
    instead."""
    described = pipeline.input
    dtype = dtype_of(described)
    if isinstance(x, np.ma.MaskedArray):
        missing = "x.filled(np.nan)" if dtype.kind in "fc" else "x.filled(VALUE)"
        raise TypeError(f"pipeline {pipeline.name!r} takes no masked array: say what its masked values are to count as, "
                        f"with {missing}" + (", or x.filled(0)" if dtype.kind in "fc" else ""))
    if isinstance(x, (bytes, bytearray, memoryview)) and not _has_dtype(np.asarray(x), dtype):
        raise TypeError(_wrong(described, pipeline.name, type(x).__name__,
                               f"np.frombuffer(x, {_name(dtype)}){_reshaped(described)}"))
    try:
        array = np.asarray(x)
    except ValueError as error:  # ragged lists
        raise TypeError(_wrong(described, pipeline.name, f"what is no array ({error})", "")) from None
    if _has_dtype(array, dtype):
        return array
    if described.dtype == "bf16" and _has_dtype(array, np.dtype("<u2")):
        return array.astype("<u2", copy=False).view(dtype)
    if not isinstance(x, np.ndarray):
        what = f"{type(x).__name__} (of {array.dtype} {list(array.shape)})"
        return _refuse(described, pipeline.name, what, f"np.asarray(x, {_name(dtype)})", array)
    return _refuse(described, pipeline.name, f"{array.dtype} {list(array.shape)}", f"x.astype({_name(dtype)})", array)


def _refuse(described: TensorDescription, name: str, what: str, instead: str, array: np.ndarray) -> np.ndarray:
    convertible = array.dtype.kind in "biuf" or (array.dtype.kind == "c" and described.dtype == "c64")
    if described.dtype in ("u8", "u16", "i8", "i16") and array.dtype.kind in "fc":
        instead += ", after scaling to its range"
    if described.dtype == "bf16" and wire.BFLOAT16.kind == "u":
        instead = "x.astype(ml_dtypes.bfloat16), with the package ml_dtypes, or give the bits as np.uint16"
    raise TypeError(_wrong(described, name, what, instead if convertible else ""))


def _wrong(described: TensorDescription, name: str, what: str, instead: str) -> str:
    return f"pipeline {name!r} takes {described}, not {what}" + (f": write {instead}" if instead else "")


def _has_dtype(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    return array.dtype == dtype or (array.dtype.kind in "biufc" and array.dtype.newbyteorder("<") == dtype)


def _name(dtype: np.dtype[Any]) -> str:
    return {"bool": "bool", "bfloat16": "ml_dtypes.bfloat16"}.get(dtype.name, f"np.{dtype.name}")


def _reshaped(described: TensorDescription) -> str:
    inner = ", ".join(map(str, described.shape[1:]))
    return f".reshape(-1, {inner})" if inner else ""


def _is_frame(described: TensorDescription, shape: Tuple[int, ...], least: int) -> bool:
    if described.variable:
        most, *others = described.shape
        return len(shape) == len(described.shape) and least <= shape[0] <= most and list(shape[1:]) == others
    return shape == described.shape


def _may_be_channels(described: TensorDescription, shape: Tuple[int, ...]) -> bool:
    """True when only the order of dimensions distinguishes a leading frames dimension from channels."""
    axes = len(described.shape) - (described.element in ("cu8", "ci8", "ci16"))
    return described.variable and axes == 1 and shape != described.shape


#: Gives the next payload of a result, which must have that size, as a buffer. Raises DecodeError.
TakePayload = Callable[[int], Any]


def taken_from(parts: Sequence[wire.Buffer]) -> TakePayload:
    """Returns a function that reads one payload after the other."""
    left = iter(parts)

    def take(nbytes: int) -> wire.Buffer:
        part = next(left)
        if len(part) != nbytes:
            raise wire.DecodeError("bad_result")
        return part
    return take


def unpack(outputs: Sequence[TensorDescription], header: wire.Header, head: wire.Buffer, take: TakePayload,
           single: bool) -> Result:
    """Decodes a RESULT into views of its payloads. A variable output may have any length from 0 up to its maximum. Raises
    DecodeError when the message does not match `outputs`."""
    if header.tensors != len(outputs):
        raise wire.DecodeError("bad_result", header.request_id)
    arrays: Dict[str, np.ndarray] = {}
    for index, described in enumerate(outputs):
        tensor = wire.decode_tensor(head, header, index)
        dtype = wire.dtype_of(tensor)
        is_type = dtype == _DTYPES.get(described.dtype) and (tensor.code == wire.BFLOAT) == (described.dtype == "bf16")
        if (not is_type or len(tensor.shape) == 0
                or tensor.shape[0] != header.frames or (single and header.frames != 1)
                or not _is_frame(described, tensor.shape[1:], 0)):
            raise wire.DecodeError("bad_result", header.request_id)
        array: np.ndarray = np.ndarray(tensor.shape, dtype, take(tensor.nbytes))
        arrays[described.name] = array[0] if single else array
    return Result(arrays, header.request_id, header.trace_id)
