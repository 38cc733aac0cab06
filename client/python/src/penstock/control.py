"""The JSON bodies of control messages."""
from __future__ import annotations

import dataclasses
import functools
import json
from types import MappingProxyType
from typing import Any, Dict, Mapping, Tuple, Type, TypeVar, Union

from .wire import MAX_BODY_BYTES, Buffer, DecodeError


@dataclasses.dataclass(frozen=True)
class Hello:
    """HELLO: who asks, for people who read the daemon's log. At most 64 bytes each."""
    client: str
    version: str


@dataclasses.dataclass(frozen=True)
class TensorDescription:
    """One tensor of a pipeline, as one frame of it travels. Integer IQ has dtype "u8", "i8" or "i16" and a last
    extent of 2."""
    name: str  #: "input", or the output's stage
    dtype: str  #: "u8", "i8", "i16", "i32", "f32" or "c64"
    element: str  #: what it means: as dtype, or "cu8", "ci8", "ci16" or "cf32"
    shape: Tuple[int, ...]  #: of one frame, without the leading frames dimension
    variable: bool  #: whether shape[0] is only the most that it can be
    op: str  #: the operator that makes it; "" for the input

    def __str__(self) -> str:
        extents = [str(extent) for extent in self.shape]
        if self.variable:
            extents[0] = f"max {extents[0]}"
        meaning = "" if self.element == self.dtype else f" ({self.element})"
        return f"{self.dtype}[{', '.join(extents)}]{meaning}"


@dataclasses.dataclass(frozen=True)
class PipelineDescription:
    """What a pipeline takes and gives."""
    id: int
    name: str
    max_frames: int  #: of one request
    input: TensorDescription
    outputs: Tuple[TensorDescription, ...]


@dataclasses.dataclass(frozen=True)
class Welcome:
    """WELCOME: what there is, and what this client may have in flight."""
    server: str
    instance: str  #: changes with every start of the daemon
    credit_requests: int
    credit_bytes: int  #: of payload
    max_request_bytes: int  #: of the payload of one request
    pipelines: Tuple[PipelineDescription, ...]

    @functools.cached_property
    def by_name(self) -> Mapping[str, PipelineDescription]:
        """The pipelines by name."""
        return MappingProxyType({pipeline.name: pipeline for pipeline in self.pipelines})


@dataclasses.dataclass(frozen=True)
class ErrorBody:
    """ERROR: why. Texts that do not apply are empty."""
    reason: str
    step: str
    stage: str
    device_error: str


Body = TypeVar("Body", Hello, Welcome, ErrorBody)

# By field: its type, and its limit where it is a number.
_U32, _U64, _I64 = (1 << 32) - 1, (1 << 64) - 1, (1 << 63) - 1
_LIMITS = {"id": _U32, "max_frames": _U32, "credit_requests": _U32, "credit_bytes": _U64, "max_request_bytes": _U64}
_NESTED = {"input": TensorDescription, "outputs": TensorDescription, "pipelines": PipelineDescription}
_LISTS = ("outputs", "pipelines")


def encode(body: Union[Hello, Welcome, ErrorBody]) -> bytes:
    """The body as one line of JSON."""
    return json.dumps(dataclasses.asdict(body), separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(part: Buffer) -> Dict[str, Any]:
    """A body of no fixed form, such as STATUS. Raises DecodeError."""
    if len(part) > MAX_BODY_BYTES:
        raise DecodeError("bad_body")
    try:
        value = json.loads(bytes(part).decode())
    except (ValueError, RecursionError):
        raise DecodeError("bad_body") from None
    if not isinstance(value, dict):
        raise DecodeError("bad_body")
    return value


def decode(kind: Type[Body], part: Buffer) -> Body:
    """Reads a body. Unknown keys are skipped; raises DecodeError for a missing or mistyped one."""
    body = _object(kind, decode_json(part))
    if isinstance(body, Hello) and not all(_is_name(text) for text in (body.client, body.version)):
        raise DecodeError("bad_body")
    return body


def _is_name(text: str) -> bool:
    return len(text.encode()) <= 64 and all(ord(letter) >= 0x20 and letter != "\x7f" for letter in text)


def _object(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise DecodeError("bad_body")
    fields = {}
    for field in dataclasses.fields(kind):
        if field.name not in value:
            raise DecodeError("bad_body")
        fields[field.name] = _field(field.name, value[field.name])
    return kind(**fields)


def _field(name: str, value: Any) -> Any:
    if name in _LIMITS:
        return _number(value, _LIMITS[name])
    if name in _LISTS or name == "shape":
        if not isinstance(value, list) or (name == "shape" and len(value) > 7):
            raise DecodeError("bad_body")
        return tuple(_number(each, _I64) if name == "shape" else _object(_NESTED[name], each) for each in value)
    if name in _NESTED:
        return _object(_NESTED[name], value)
    if not isinstance(value, bool if name == "variable" else str):
        raise DecodeError("bad_body")
    return value


def _number(value: Any, limit: int) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise DecodeError("bad_body")
    return value
