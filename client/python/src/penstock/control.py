"""The JSON bodies of control messages."""
from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from .wire import MAX_BODY_BYTES, Buffer, DecodeError

#: What a daemon's answer may have, so that reading it takes no longer than its bytes.
_MAX_DEPTH = 16
_MAX_VALUES = 32768


@dataclasses.dataclass(frozen=True)
class Hello:
    """HELLO: who asks, for people who read the daemon's log. At most 64 bytes each."""
    client: str
    version: str
    inline_bytes: int = 0  #: a RESULT of at most so many payload bytes may come in one part; 0: none may
    resume: str = ""  #: the token of an earlier WELCOME, whose place it takes back; "": a new client


@dataclasses.dataclass(frozen=True)
class TensorDescription:
    """One tensor of a pipeline, as one frame of it travels. Integer IQ has dtype "u8", "i8" or "i16" and a last
    extent of 2."""
    name: str  #: "input", or the output's stage
    #: "u8", "u16", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "bool", or another of a later daemon
    dtype: str
    element: str  #: what it means: as dtype, or "cu8", "ci8", "ci16" or "cf32"
    shape: Tuple[int, ...]  #: of one frame, without the leading frames dimension
    variable: bool  #: whether shape[0] is only the most that it can be
    op: str  #: the operator that makes it; "" for the input
    steps: int = 1  #: of the input's first dimension that `indices` of shape[0] cover, where that lies along time
    indices: int = 1  #: more than 1 only behind a `resample`
    axis: int = 0  #: of the input: the dimension of `shape` that is time

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
    keeps_state: bool = False  #: frames must belong to a session
    ordered: bool = True  #: results of a session come in its order
    period: int = 1  #: several frames of one session request have a first extent that is a multiple of it
    inputs: Tuple[TensorDescription, ...] = ()  #: all, if it has several; `input` is the first

    def serves(self, other: PipelineDescription) -> bool:
        """Whether what was packed for the other can be sent to this one."""
        return self.input == other.input and self.inputs == other.inputs and self.outputs == other.outputs and self.max_frames >= other.max_frames


@dataclasses.dataclass(frozen=True)
class QuarantinedPipeline:
    """A pipeline of the configuration that the daemon does not serve."""
    name: str
    reason: str  #: a sentence for people


@dataclasses.dataclass(frozen=True)
class Welcome:
    """WELCOME: what there is, and what this client may have in flight."""
    server: str
    instance: str  #: changes with every start of the daemon
    credit_requests: int
    credit_bytes: int  #: of payload
    max_request_bytes: int  #: of the payload of one request
    pipelines: Tuple[PipelineDescription, ...]
    answering: int = 0  #: the shard that sent this
    shard: int = 0  #: the shard that this client should use
    shards: Tuple[Tuple[str, ...], ...] = ()  #: for each shard its endpoints; empty when there is only one
    shared_bytes: int = 0  #: the most memory that this client may share with the daemon; 0: none
    device_bytes: int = 0  #: the same of the memory of the daemon's GPU
    device: str = ""  #: its UUID, 32 hexadecimal digits
    inline_bytes: int = 0  #: a SUBMIT of at most so many payload bytes may be sent in one part; 0: none may
    resume: str = ""  #: this client's token, to show in its next HELLO; "": the daemon gives none
    resumed: bool = False  #: this client still has the place that it had before its HELLO
    quarantined: Tuple[QuarantinedPipeline, ...] = ()  #: that the daemon does not serve

    @functools.cached_property
    def by_name(self) -> Mapping[str, PipelineDescription]:
        """The pipelines by name."""
        return MappingProxyType({pipeline.name: pipeline for pipeline in self.pipelines})

    def why_quarantined(self, pipeline: str) -> str:
        """Why the daemon does not serve a pipeline of its configuration; "" if it does, or has none of that name."""
        return next((each.reason for each in self.quarantined if each.name == pipeline), "")


@dataclasses.dataclass(frozen=True)
class OpenSession:
    """OPEN: which session."""
    pipeline: int
    name: str  #: the client's own, at most 64 bytes; "" always opens another


@dataclasses.dataclass(frozen=True)
class SessionOpened:
    """OPENED: its number, and how many frames it has had."""
    session: int
    next_sequence: int


@dataclasses.dataclass(frozen=True)
class Attach:
    """ATTACH: how much memory to share."""
    bytes: int
    device: bool = False  #: of the daemon's GPU


@dataclasses.dataclass(frozen=True)
class Attached:
    """ATTACHED: where to fetch it, and with what."""
    socket: str  #: a path, or "@" and the name of an abstract socket
    ticket: str  #: 32 hexadecimal digits


@dataclasses.dataclass(frozen=True)
class Subscribe:
    """SUBSCRIBE: whose results, and which of them."""
    pipelines: Tuple[str, ...]  #: names, at least one
    sessions: Tuple[str, ...] = ()  #: patterns of sessions' names, with "*" and "?"; none: all
    outputs: Tuple[str, ...] = ()  #: names; none: all
    queue_bytes: int = 0  #: what may wait for this subscriber; 0: the daemon's own choice
    requests: bool = False  #: what was sent, instead of the results; then without outputs


@dataclasses.dataclass(frozen=True)
class Subscribed:
    """SUBSCRIBED: what the daemon keeps for it."""
    queue_bytes: int
    next_sequence: int  #: of the next result that matches


@dataclasses.dataclass(frozen=True)
class Publisher:
    """PUBLISHER: whose results come next, or come no more."""
    session: int  #: as PUBLISHED has it
    name: str = ""  #: of its session; "" without one
    client: str = ""  #: as it said in its HELLO
    pipeline: str = ""
    outputs: Tuple[str, ...] = ()  #: the tensors of each PUBLISHED, in this order
    source: bool = False  #: a source of the daemon itself
    ended: bool = False  #: nothing else is told then but the session


@dataclasses.dataclass(frozen=True)
class NumberSetting:
    """A number of a stage, and what it is to be."""
    stage: str
    name: str
    value: Optional[float]  #: finite; None: what the pipeline has, from now on


@dataclasses.dataclass(frozen=True)
class SetValues:
    """SET: numbers of a session. All change, or none."""
    values: Tuple[NumberSetting, ...]  #: at least one


@dataclasses.dataclass(frozen=True)
class NumberReport:
    """A number of a stage that may change, and what it is."""
    stage: str
    name: str
    value: float
    own: bool  #: the session has set it; otherwise it follows the pipeline


@dataclasses.dataclass(frozen=True)
class Values:
    """VALUES: all tunable numbers, as they are for the next frames."""
    values: Tuple[NumberReport, ...]


@dataclasses.dataclass(frozen=True)
class ErrorBody:
    """ERROR: why. Texts that do not apply are empty."""
    reason: str
    step: str
    stage: str
    device_error: str
    holds: bool = False  #: shared memory: the request still has its own, RELEASED follows


Body = TypeVar("Body", Hello, Welcome, OpenSession, SessionOpened, Attach, Attached, Subscribe, Subscribed, Publisher,
               SetValues, Values, ErrorBody)

# By field: its type, and its limit where it is a number.
_U32, _U64, _I64 = (1 << 32) - 1, (1 << 64) - 1, (1 << 63) - 1
_LIMITS = {"id": _U32, "max_frames": _U32, "credit_requests": _U32, "credit_bytes": _U64, "max_request_bytes": _U64,
           "period": _U64, "answering": _U32, "shard": _U32, "pipeline": _U32, "session": _U32, "next_sequence": _U64,
           "shared_bytes": _U64, "device_bytes": _U64, "inline_bytes": _U64, "bytes": _U64, "steps": _U64,
           "indices": _U64, "axis": _U64, "queue_bytes": _U64}
_NESTED = {"input": TensorDescription, "inputs": TensorDescription, "outputs": TensorDescription, "pipelines": PipelineDescription,
           "quarantined": QuarantinedPipeline}
_LISTS = ("inputs", "outputs", "pipelines", "quarantined")
_FLAGS = ("variable", "keeps_state", "ordered", "holds", "resumed", "ended", "source", "requests", "own")
_VALUES = {SetValues: NumberSetting, Values: NumberReport}
_LEFT_OUT = ("shared_bytes", "device_bytes", "device", "inline_bytes", "holds", "resume", "quarantined")  # where they are 0
_NAMES = ("pipelines", "sessions", "outputs")  # of Subscribe and Publisher: lists of texts
_OPTIONAL = {Subscribe: ("sessions", "outputs", "queue_bytes", "requests"),
             Publisher: ("name", "client", "pipeline", "outputs", "source", "ended")}
_TOKEN = re.compile("[0-9a-f]{32}")


def encode(body: Union[Hello, Welcome, OpenSession, SessionOpened, Attach, Attached, Subscribe, Subscribed, Publisher,
                       SetValues, Values, ErrorBody]) -> bytes:
    """The body as one line of JSON."""
    fields = {name: value for name, value in dataclasses.asdict(body, dict_factory=_members).items()
              if value or name not in _OPTIONAL.get(type(body), _LEFT_OUT)}
    if "resume" not in fields:
        fields.pop("resumed", None)
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _members(fields: List[Tuple[str, Any]]) -> Dict[str, Any]:
    absent = (("steps", 1), ("indices", 1), ("axis", 0), ("inputs", ()))
    return {name: value for name, value in fields if (name, value) not in absent}


def body_of(parts: Sequence[Buffer]) -> Buffer:
    """The body of a control message that must have one. Raises DecodeError."""
    if len(parts) != 2:
        raise DecodeError("bad_body")
    return parts[1]


def decode_json(part: Buffer) -> Dict[str, Any]:
    """A body of no fixed form, such as STATUS. Raises DecodeError."""
    if len(part) > MAX_BODY_BYTES:
        raise DecodeError("bad_body")
    try:
        value = json.loads(bytes(part).decode())
    except (ValueError, RecursionError):
        raise DecodeError("bad_body") from None
    if not isinstance(value, dict) or not _is_bounded(value):
        raise DecodeError("bad_body")
    return value


def _is_bounded(value: Any) -> bool:
    """Whether it has at most so many values, nested at most so deep."""
    level, values = [value], 1
    for _ in range(_MAX_DEPTH):
        below: List[Any] = []
        for each in level:
            below.extend(each.values() if isinstance(each, dict) else each)
        values += len(below)
        if values > _MAX_VALUES:
            return False
        level = [each for each in below if isinstance(each, (dict, list))]
        if not level:
            return True
    return False


def decode(kind: Type[Body], part: Buffer) -> Body:
    """Reads a body. Unknown keys are skipped, missing ones have their default; raises DecodeError for a mistyped one,
    or where there is no default."""
    body = _object(kind, decode_json(part))
    if isinstance(body, Hello) and not all(is_name(text) for text in (body.client, body.version)):
        raise DecodeError("bad_body")
    if isinstance(body, OpenSession) and not is_name(body.name):
        raise DecodeError("bad_body")
    if isinstance(body, Subscribe) and not (body.pipelines and all(
            map(is_name, body.pipelines + body.sessions + body.outputs))):
        raise DecodeError("bad_body")
    if isinstance(body, SetValues) and not (body.values and all(
            is_name(text) for each in body.values for text in (each.stage, each.name))):
        raise DecodeError("bad_body")
    return body


def is_name(text: str) -> bool:
    """Whether it has at most 64 bytes and no control characters."""
    return len(text.encode()) <= 64 and all(ord(letter) >= 0x20 and letter != "\x7f" for letter in text)


def _object(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise DecodeError("bad_body")
    fields = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            fields[field.name] = _field(kind, field.name, value[field.name])
        elif field.default is dataclasses.MISSING:
            raise DecodeError("bad_body")
    if fields.get("axis", 0) > 0 and fields["axis"] >= len(fields["shape"]):
        raise DecodeError("bad_body")
    return kind(**fields)


def _field(kind: Any, name: str, value: Any) -> Any:
    if kind in _OPTIONAL and name in _NAMES:
        return _texts(value)
    if name == "values":
        if not isinstance(value, list):
            raise DecodeError("bad_body")
        return tuple(_object(_VALUES[kind], each) for each in value)
    if name == "value":
        return _finite(value, may_be_none=kind is NumberSetting)
    if kind is Publisher and name == "pipeline":
        return _text(value)
    if name in _LIMITS:
        return _number(value, _LIMITS[name])
    if name == "resume" and not (isinstance(value, str) and _TOKEN.fullmatch(value)):
        raise DecodeError("bad_body")
    if name in _LISTS or name == "shape":
        if not isinstance(value, list) or (name == "shape" and len(value) > 7):
            raise DecodeError("bad_body")
        return tuple(_number(each, _I64) if name == "shape" else _object(_NESTED[name], each) for each in value)
    if name == "shards":
        return _shards(value)
    if name in _NESTED:
        return _object(_NESTED[name], value)
    if not isinstance(value, bool if name in _FLAGS or (name == "device" and kind is Attach) else str):
        raise DecodeError("bad_body")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DecodeError("bad_body")
    return value


def _texts(value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list):
        raise DecodeError("bad_body")
    return tuple(map(_text, value))


def _shards(value: Any) -> Tuple[Tuple[str, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(endpoints, list) for endpoints in value):
        raise DecodeError("bad_body")
    if not all(isinstance(endpoint, str) for endpoints in value for endpoint in endpoints):
        raise DecodeError("bad_body")
    return tuple(map(tuple, value))


def _finite(value: Any, may_be_none: bool) -> Optional[float]:
    if value is None and may_be_none:
        return None
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        number = math.nan
    if not math.isfinite(number):
        raise DecodeError("bad_body")
    return number


def _number(value: Any, limit: int) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise DecodeError("bad_body")
    return value
