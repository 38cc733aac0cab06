"""Between numpy arrays and the payloads of messages."""
from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np

from . import wire
from .account import account_of
from .arena import SharedPayload
from .control import PipelineDescription, TensorDescription
from .cuda import CudaDevice
from .device_memory import DevicePayload
from .result import Result
from .tensor import HOST, Tensor, converted, is_negated, is_tensor, made_contiguous, to_host

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
    payload: Any  #: contiguous bytes, or a Tensor on a GPU
    placement: Optional[SharedPayload] = None  #: where they lie in shared memory
    prepare: Optional[Callable[[], None]] = None  #: call it before they are sent; it blocks
    #: the other inputs of a pipeline with several; `tensor` and `payload` are the first
    further: Tuple[Tuple[wire.TensorHeader, Any], ...] = ()

    @property
    def tensors(self) -> Tuple[wire.TensorHeader, ...]:
        """The headers of all inputs."""
        return (self.tensor, *(tensor for tensor, _ in self.further))

    @property
    def payloads(self) -> Tuple[Any, ...]:
        """Their payloads."""
        return (self.payload, *(payload for _, payload in self.further))

    @property
    def nbytes(self) -> int:
        """Bytes of all payloads."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def copied(self) -> Frames:
        """A copy in memory of its own, so that the caller may reuse the array."""
        payload = self.payload.numpy().tobytes() if isinstance(self.payload, Tensor) else bytes(self.payload)
        return self._replace(payload=payload, placement=None, prepare=None,
                             further=tuple((tensor, bytes(other)) for tensor, other in self.further))


#: Finds a place in shared memory for a batch of a pipeline's frames, to be of that dtype, and puts them there.
Placer = Callable[[PipelineDescription, np.ndarray, "np.dtype[Any]"], Optional[SharedPayload]]


class DevicePlaces(Protocol):
    """The memory of the daemon's GPU, as `pack` uses it."""

    def refusal(self) -> str:
        """Why there is none; "" where there may be."""

    @property
    def device(self) -> Optional[CudaDevice]:
        """The GPU."""

    def place_frames(self, pipeline: PipelineDescription, batch: Tensor, wait: bool) -> DevicePayload:
        """Finds a place. Raises NoRoom."""


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


def pack(pipeline: PipelineDescription, x: Any, place: Optional[Placer] = None, count: Optional[int] = None,
         places: Optional[DevicePlaces] = None, wait: bool = True) -> Frames:
    """Takes one frame (the pipeline's frame shape) or several (with a leading frames dimension).

    count: how many frames x has. It must be said where x's shape does not tell: of a pipeline that takes "max N" alone,
        [200, 3] may be 200 short frames as well as 200 samples of 3 channels.
    places, wait: the memory of the daemon's GPU, for what lies on it, and whether to wait for that.

    Raises NoRoom when that has none, TypeError when x does not have the pipeline's dtype (nothing is converted silently but the byte order, and
    uint16 is taken as the bits of bf16), and ValueError when it does not have its shape, or has more frames than a request may have.
    """
    if pipeline.inputs:
        return _pack_several(pipeline, x, count)
    described = pipeline.input
    dtype = dtype_of(described)
    if is_tensor(x) and x.__dlpack_device__()[0] not in HOST:
        device = places.device if places is not None and not places.refusal() else None
        tensor = x if isinstance(x, Tensor) else Tensor.of_other(x, device)
        return _pack_on_device(pipeline, x, tensor, count, places, wait)
    array = checked(pipeline, x)
    single = array.ndim == len(described.shape)
    batch = array[np.newaxis] if single else array
    _check_shape(pipeline, array.shape, batch.shape, count)
    placement = None if place is None else place(pipeline, batch, dtype)
    packed = np.ascontiguousarray(batch, dtype=dtype) if placement is None else placement.frames
    payload: Any = memoryview(packed.reshape(-1).view(np.uint8))
    if placement is None and packed.nbytes < COPY_BELOW_BYTES:
        payload = bytes(payload)
    return Frames(batch.shape[0], single, wire.tensor_header(packed, described.dtype == "bf16"), payload, placement)


def _pack_several(pipeline: PipelineDescription, x: Any, count: Optional[int]) -> Frames:
    """The same for a pipeline with several inputs. x: an array for each, by name."""
    names = [each.name for each in pipeline.inputs]
    if not isinstance(x, Mapping) or sorted(x) != sorted(names):
        got = f"a mapping of {', '.join(map(str, x))}" if isinstance(x, Mapping) else type(x).__name__
        raise TypeError(f"pipeline {pipeline.name!r} takes {{{', '.join(f'{name!r}: array' for name in names)}}}, not {got}")
    packed = [pack(dataclasses.replace(pipeline, name=f"{pipeline.name}.{each.name}", input=each, inputs=()),
                   x[each.name], count=count) for each in pipeline.inputs]
    first = packed[0]
    for described, other in zip(pipeline.inputs, packed):
        if (other.count, other.single) != (first.count, first.single):
            raise ValueError(f"all inputs of pipeline {pipeline.name!r} have the same frames: {names[0]!r} has "
                             f"{list(first.tensor.shape)}, and {described.name!r} {list(other.tensor.shape)}")
        if described.variable and other.tensor.shape[1] != first.tensor.shape[1]:
            raise ValueError(f"the frames of a request of pipeline {pipeline.name!r} have one length: {names[0]!r} has "
                             f"{first.tensor.shape[1]}, and {described.name!r} {other.tensor.shape[1]}")
    return first._replace(further=tuple((each.tensor, each.payload) for each in packed[1:]))


def one_input(pipeline: PipelineDescription, what: str) -> None:
    """Raises ValueError where the pipeline has several."""
    if pipeline.inputs:
        raise ValueError(f"{what} has one input, and pipeline {pipeline.name!r} takes several: "
                         f"{', '.join(each.name for each in pipeline.inputs)}")


def _pack_on_device(pipeline: PipelineDescription, given: Any, x: Tensor, count: Optional[int],
                    places: Optional[DevicePlaces], wait: bool) -> Frames:
    """The same for what lies on a GPU: it stays there. x: a view of `given`, which is another library's or x itself."""
    described = pipeline.input
    refusal = "nothing else than the host's memory is taken here" if places is None else places.refusal()
    device = None if places is None else places.device
    if device is None or not x.on_cuda or x.device_id != device.ordinal:
        why = refusal or f"its GPU is cuda:{0 if device is None else device.ordinal}"
        raise TypeError(f"x lies on {x.device}, and the daemon can't read it there: {why}. {to_host(given)} takes it "
                        "through the host's memory")
    if x.dtype != dtype_of(described) or x.is_bfloat16 != (described.dtype == "bf16"):
        raise TypeError(_wrong(described, pipeline.name, repr(x), converted(given, _torch_name(described))))
    if not x.contiguous:
        raise ValueError(f"x of shape {list(x.shape)} is not contiguous: write {made_contiguous(given)}")
    single = x.ndim == len(described.shape)
    shape = (1, *x.shape) if single else x.shape
    _check_shape(pipeline, x.shape, shape, count)
    code, bits = wire.dlpack_type(x.dtype, x.is_bfloat16)
    placement = places.place_frames(pipeline, x.viewed(shape, code, bits), wait)  # type: ignore[union-attr]
    batch = placement.frames
    return Frames(shape[0], single, wire.tensor_header(batch, batch.is_bfloat16), batch, placement,
                  lambda: placement.prepare(device, x is given))


def _check_shape(pipeline: PipelineDescription, given: Tuple[int, ...], batch: Tuple[int, ...],
                 count: Optional[int]) -> None:
    """given: x's shape; batch: the same with a leading frames dimension. Raises ValueError."""
    described = pipeline.input
    if len(batch) != len(described.shape) + 1 or not _is_frame(described, batch[1:], 1):
        raise ValueError(f"pipeline {pipeline.name!r} takes {described}, one frame or several with a leading "
                         f"dimension; x has shape {list(given)}")
    if not 1 <= batch[0] <= pipeline.max_frames:
        raise ValueError(f"a request of pipeline {pipeline.name!r} has 1 to {pipeline.max_frames} frames; x has "
                         f"{batch[0]}")
    if count is not None and count != batch[0]:
        raise ValueError(f"x of shape {list(given)} is {batch[0]} frames of pipeline {pipeline.name!r}, "
                         f"which takes {described}, and not {count}")
    if count is None and batch[0] > 1 and _may_be_channels(described, batch[1:]):
        raise ValueError(f"pipeline {pipeline.name!r} takes {described}: x of shape {list(given)} may be "
                         f"{batch[0]} frames of {batch[1]} samples or {batch[0]} samples of "
                         f"{batch[1]} channels. Say frames={batch[0]} for the former; channels go one by "
                         "one (x[:, 0], in a session each), or to a pipeline whose input has them: "
                         f'["max {described.shape[0]}", {batch[1]}]')


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
        array = _array_of(described, pipeline.name, x) if is_tensor(x) else np.asarray(x)
    except ValueError as error:  # ragged lists
        raise TypeError(_wrong(described, pipeline.name, f"what is no array ({error})", "")) from None
    if _has_dtype(array, dtype):
        return array
    if described.dtype == "bf16" and _has_dtype(array, np.dtype("<u2")):
        return array.astype("<u2", copy=False).view(dtype)
    if not isinstance(x, np.ndarray):
        what = f"{type(x).__name__} (of {array.dtype} {list(array.shape)})"
        instead = converted(x, _torch_name(described)) or f"np.asarray(x, {_name(dtype)})"
        return _refuse(described, pipeline.name, what, instead, array, is_numpy=not is_tensor(x))
    return _refuse(described, pipeline.name, f"{array.dtype} {list(array.shape)}", f"x.astype({_name(dtype)})", array)


def _array_of(described: TensorDescription, name: str, x: Any) -> np.ndarray:
    """An array of another library, which lies in the host's memory. Raises TypeError."""
    if not isinstance(x, Tensor) and x.__dlpack_device__()[0] in HOST and not is_negated(x):
        try:
            return np.from_dlpack(x)
        except Exception:
            pass  # numpy can't take every dtype: and what can't be taken at all says why below
    tensor = x if isinstance(x, Tensor) else Tensor.of_other(x)
    if not tensor.on_host:
        raise TypeError(f"x lies on {tensor.device}: a recording is taken from the host's memory, {to_host(x)}")
    if tensor.is_bfloat16 != (described.dtype == "bf16"):
        raise TypeError(_wrong(described, name, repr(tensor), converted(x, _torch_name(described))))
    return tensor.numpy()


def _refuse(described: TensorDescription, name: str, what: str, instead: str, array: np.ndarray,
            is_numpy: bool = True) -> np.ndarray:
    convertible = array.dtype.kind in "biuf" or (array.dtype.kind == "c" and described.dtype == "c64")
    if described.dtype in ("u8", "u16", "i8", "i16") and array.dtype.kind in "fc":
        instead += ", after scaling to its range"
    if described.dtype == "bf16" and wire.BFLOAT16.kind == "u" and is_numpy:
        instead = "x.astype(ml_dtypes.bfloat16), with the package ml_dtypes, or give the bits as np.uint16"
    raise TypeError(_wrong(described, name, what, instead if convertible else ""))


def _wrong(described: TensorDescription, name: str, what: str, instead: str) -> str:
    return f"pipeline {name!r} takes {described}, not {what}" + (f": write {instead}" if instead else "")


def _has_dtype(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    return array.dtype == dtype or (array.dtype.kind in "biufc" and array.dtype.newbyteorder("<") == dtype)


def _name(dtype: np.dtype[Any]) -> str:
    return {"bool": "bool", "bfloat16": "ml_dtypes.bfloat16"}.get(dtype.name, f"np.{dtype.name}")


def _torch_name(described: TensorDescription) -> str:
    """As torch, CuPy and JAX call its dtype."""
    return "bfloat16" if described.dtype == "bf16" else dtype_of(described).name


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
    arrays: Dict[str, Any] = {}
    bfloats = []
    for index, described in enumerate(outputs):
        tensor = wire.decode_tensor(head, header, index)
        dtype = wire.dtype_of(tensor)
        is_type = dtype == _DTYPES.get(described.dtype) and (tensor.code == wire.BFLOAT) == (described.dtype == "bf16")
        if (not is_type or len(tensor.shape) == 0
                or tensor.shape[0] != header.frames or (single and header.frames != 1)
                or not _is_frame(described, tensor.shape[1:], 0)):
            raise wire.DecodeError("bad_result", header.request_id)
        taken = take(tensor.nbytes)
        array: Any = taken.viewed(tensor.shape, tensor.code, tensor.bits) if isinstance(taken, Tensor) else \
            np.ndarray(tensor.shape, dtype, taken)
        arrays[described.name] = array[0] if single else array
        if tensor.code == wire.BFLOAT:
            bfloats.append(described.name)
    return Result(arrays, header.request_id, header.trace_id, bfloats, account_of(header, head, list(arrays)))
