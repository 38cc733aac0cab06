"""The binary part of the wire protocol: message headers and tensor headers, as PROTOCOL.md gives them."""
from __future__ import annotations

import enum
import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np

MAGIC = b"PNSK"
MAJOR = 1
HEADER_BYTES = 64
TENSOR_BYTES = 80
MAX_DIMENSIONS = 8
MAX_HEADER_LEN = 4096
MAX_TENSORS = 64
MAX_BODY_BYTES = 65536
MAX_INLINE_BYTES = 4096  #: of payload that this version sends, and takes, behind the headers of part 0
PLACE_BYTES = 32
PLACE_ALIGNMENT = 64
ACCOUNT_BYTES = 40
ACCOUNT_HEADER_BYTES = HEADER_BYTES + ACCOUNT_BYTES  #: header_len of a request with an account
NO_TRACE = bytes(16)

_HEADER = struct.Struct("<4sBBHQQIIQHHI16s")
_TENSOR = struct.Struct("<BBHB3xQ8q")
_PLACE = struct.Struct("<IIQQQ")
_REPEAT = 1
_ACCOUNT = struct.Struct("<qqQIIBB6x")
_INDEX = struct.Struct("<q")
_REQUEST_ID = struct.Struct("<Q")
_NBYTES = struct.Struct("<8xQ64x")
_U64_LIMIT = 1 << 64

Buffer = Union[bytes, bytearray, memoryview]


class MessageType(enum.IntEnum):
    """What a message is."""
    HELLO = 1
    WELCOME = 2
    GOODBYE = 3
    PING = 4
    PONG = 5
    GET_STATUS = 6
    STATUS_REPORT = 7
    OPEN_SESSION = 8
    SESSION_OPENED = 9
    CLOSE_SESSION = 10
    GET_TRACE = 12
    TRACE_REPORT = 13
    ATTACH = 14
    ATTACHED = 15
    SUBMIT = 16
    CANCEL = 17
    SUBMIT_SHARED = 18
    SUBSCRIBE = 20
    SUBSCRIBED = 21
    UNSUBSCRIBE = 22
    SET_VALUES = 24
    VALUES = 25
    GET_VALUES = 26
    RESULT = 32
    ERROR = 33
    RESULT_SHARED = 34
    RELEASED = 35
    PUBLISHED = 36
    PUBLISHER = 37


class Status(enum.IntEnum):
    """How a request ended: the high byte is the kind, the low byte the reason."""
    OK = 0x0000
    REJECTED = 0x0100
    MALFORMED = 0x0101
    UNSUPPORTED_VERSION = 0x0102
    UNSUPPORTED_TYPE = 0x0103
    HELLO_REQUIRED = 0x0104
    UNKNOWN_PIPELINE = 0x0105
    WRONG_DTYPE = 0x0106
    WRONG_SHAPE = 0x0107
    TOO_LARGE = 0x0108
    NO_CREDIT = 0x0109
    OVERFLOW = 0x010A
    TOO_MANY_CLIENTS = 0x010B
    SESSION_REQUIRED = 0x010C
    SEQUENCE_GAP = 0x010D
    REPLY_GONE = 0x010E
    TOO_MANY_SESSIONS = 0x010F
    UNKNOWN_ARENA = 0x0110
    BAD_PLACE = 0x0111
    UNKNOWN_REPEAT = 0x0112
    UNKNOWN_VALUE = 0x0113
    NOT_TUNABLE = 0x0114
    OUT_OF_RANGE = 0x0115
    EXPIRED = 0x0200
    CANCELLED = 0x0300
    FAILED = 0x0400
    DEVICE_FAILED = 0x0401
    SHUTDOWN = 0x0500
    SESSION_LOST = 0x0600


class TimeQuality(enum.IntEnum):
    """Where the time of a sample comes from."""
    NONE = 0  #: there is none
    ARRIVAL = 1  #: the time of its arrival
    ESTIMATED = 2  #: counted from an earlier one by the sample rate
    SOURCE = 3  #: the source said it
    DISCIPLINED = 4  #: the source said it, from a clock that follows a reference


class SampleFlag(enum.IntFlag):
    """What an account says of its samples."""
    INDEX_KNOWN = 1
    FILLED = 2
    LOSS_SUSPECTED = 4
    RESTORED = 8  #: the order of packets was restored
    EPOCH_BEGINS = 16
    WITHHELD = 32  #: the result is for its sender alone, not for subscribers


_KNOWN_FLAGS = 63

_KINDS = ("OK", "REJECTED", "EXPIRED", "CANCELLED", "FAILED", "SHUTDOWN", "SESSION_LOST")


def status_name(code: int) -> str:
    """"WRONG_SHAPE"; for a code that this version does not know the name of its kind, else "UNKNOWN"."""
    try:
        return Status(code).name
    except ValueError:
        kind = code >> 8
        return _KINDS[kind] if kind < len(_KINDS) else "UNKNOWN"


def known_status(code: int) -> int:
    """The code as a Status where this version knows it."""
    try:
        return Status(code)
    except ValueError:
        return code


class DecodeError(ValueError):
    """A message can't be read. `error` is what is wrong, by the names of PROTOCOL.md; `request_id` is 0 where it
    could not be read either."""

    def __init__(self, error: str, request_id: int = 0) -> None:
        super().__init__(error)
        self.error = error
        self.request_id = request_id


class Header(NamedTuple):
    """The fixed header of every message."""
    type: int
    request_id: int = 0
    timeout_ns: int = 0
    pipeline: int = 0
    session: int = 0
    sequence: int = 0
    tensors: int = 0
    status: int = 0
    frames: int = 0
    trace_id: bytes = NO_TRACE
    header_len: int = HEADER_BYTES
    major: int = MAJOR


class TensorHeader(NamedTuple):
    """One tensor of a SUBMIT or a RESULT: DLPack's code and bits, its size, and its shape, frames first."""
    code: int
    bits: int
    nbytes: int
    shape: Tuple[int, ...]
    lanes: int = 1


class SampleAccount(NamedTuple):
    """Which samples of its sender's clock a request has, in the bytes behind its header."""
    index: int = 0  #: of the request's first sample; 0 without INDEX_KNOWN
    time_ns: int = 0  #: of that sample, since 1970, UTC
    lost_before: int = 0  #: samples known to be lost directly before it
    epoch: int = 0  #: of the clock: indices of different epochs do not compare
    filled: int = 0  #: samples of the request that are filled in; of a result also earlier ones that it reaches back to
    time_quality: int = 0  #: a TimeQuality
    flags: int = 0  #: SampleFlags


class SharedPlace(NamedTuple):
    """Part 1 of SUBMIT_SHARED: where in an arena a request's frames lie, and where its outputs go. Bytes; offsets are
    multiples of PLACE_ALIGNMENT."""
    arena: int
    input: int
    output: int  #: of the first; each further one at the next multiple of PLACE_ALIGNMENT
    output_bytes: int
    repeat: bool = False  #: sent again


def room_for(nbytes: int) -> int:
    """Bytes that a tensor occupies in an arena, padding included."""
    return (nbytes + PLACE_ALIGNMENT - 1) // PLACE_ALIGNMENT * PLACE_ALIGNMENT


BFLOAT = 4  #: DLPack's code

try:
    import ml_dtypes
    BFLOAT16: np.dtype = np.dtype(ml_dtypes.bfloat16)
except (ImportError, AttributeError):  # the latter from one that is newer than numpy
    BFLOAT16 = np.dtype("<u2")  #: numpy has no bfloat16: without ml_dtypes its bits, as uint16

#: DLPack's code and bits, in numpy's words.
DLPACK_TYPES: Dict[Tuple[int, int], np.dtype] = {
    **{(0, bits): np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(1, bits): np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(2, bits): np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
    (BFLOAT, 16): BFLOAT16,
    **{(5, bits): np.dtype(f"<c{bits // 8}") for bits in (64, 128)},
    (6, 8): np.dtype("?"),
}
_CODES = {dtype: key for key, dtype in reversed(DLPACK_TYPES.items())}  # uint16 alone is u16


def dtype_of(tensor: TensorHeader) -> np.dtype:
    """The numpy dtype of a tensor that decode_tensor took. A bf16 tensor has ml_dtypes.bfloat16 where that package is
    installed, and uint16, its bits, where it is not."""
    return DLPACK_TYPES[tensor.code, tensor.bits]


def dlpack_type(dtype: np.dtype, is_bfloat16: bool = False) -> Tuple[int, int]:
    """DLPack's code and bits of a little-endian dtype that the wire knows; KeyError otherwise. `is_bfloat16`: it stands
    for bf16, whatever numpy calls it."""
    return (BFLOAT, 16) if is_bfloat16 else _CODES[dtype]


def tensor_header(array: Any, is_bfloat16: bool = False) -> TensorHeader:
    """The header of an array whose dtype is little-endian and known to the wire; KeyError otherwise. `is_bfloat16`: its
    elements are bf16, whatever numpy calls them."""
    code, bits = dlpack_type(array.dtype, is_bfloat16)
    return TensorHeader(code, bits, array.nbytes, array.shape)


def encode_header(header: Header) -> bytes:
    """The 64 bytes of a header, whatever its header_len says."""
    return _HEADER.pack(MAGIC, header.major, header.type, header.header_len, header.request_id, header.timeout_ns,
                        header.pipeline, header.session, header.sequence, header.tensors, header.status, header.frames,
                        header.trace_id)


def encode_tensor(tensor: TensorHeader) -> bytes:
    """The 80 bytes of a tensor header."""
    padding = (0,) * (MAX_DIMENSIONS - len(tensor.shape))
    return _TENSOR.pack(tensor.code, tensor.bits, tensor.lanes, len(tensor.shape), tensor.nbytes, *tensor.shape,
                        *padding)


def decode_header(part: Buffer) -> Header:
    """Reads part 0 of a message, up to its tensor headers. Raises DecodeError."""
    if len(part) < HEADER_BYTES:
        raise DecodeError("truncated")
    if bytes(part[:4]) != MAGIC:
        raise DecodeError("bad_magic")
    if part[4] != MAJOR:
        raise DecodeError("unsupported_version", _REQUEST_ID.unpack_from(part, 8)[0])
    (_, major, kind, header_len, request_id, timeout_ns, pipeline, session, sequence, tensors, status, frames,
     trace_id) = _HEADER.unpack_from(part)
    if not HEADER_BYTES <= header_len <= min(MAX_HEADER_LEN, len(part)):
        raise DecodeError("bad_header_len", request_id)
    if tensors > MAX_TENSORS:
        raise DecodeError("too_many_tensors", request_id)
    if len(part) - header_len < tensors * TENSOR_BYTES:
        raise DecodeError("truncated_tensors", request_id)
    return Header(kind, request_id, timeout_ns, pipeline, session, sequence, tensors, status, frames, trace_id,
                  header_len, major)


def decode_tensor(part: Buffer, header: Header, index: int) -> TensorHeader:
    """Reads tensor header `index` of a part 0 whose header has been read. Raises DecodeError."""
    offset = header.header_len + index * TENSOR_BYTES
    if not 0 <= index < header.tensors or len(part) < offset + TENSOR_BYTES:
        raise DecodeError("truncated_tensors", header.request_id)
    code, bits, lanes, ndim, nbytes, *extents = _TENSOR.unpack_from(part, offset)
    shape = tuple(extents[:ndim])
    if ndim > MAX_DIMENSIONS or lanes != 1 or (code, bits) not in DLPACK_TYPES or min(shape, default=0) < 0:
        raise DecodeError("bad_tensor", header.request_id)
    product = bits // 8
    for extent in shape:
        product *= extent or 1
    if product >= _U64_LIMIT or nbytes != (0 if 0 in shape else product):
        raise DecodeError("bad_tensor", header.request_id)
    return TensorHeader(code, bits, nbytes, shape, lanes)


def inline_payloads(part: Buffer, header: Header) -> List[memoryview]:
    """The payloads of a data message that is one part: they lie behind the tensor headers, one straight behind the
    other. Raises DecodeError when they do not have the sizes that those say."""
    view = memoryview(part)
    begin = header.header_len + header.tensors * TENSOR_BYTES
    payloads = []
    for nbytes, in _NBYTES.iter_unpack(view[header.header_len:begin]):
        payloads.append(view[begin:begin + nbytes])
        begin += nbytes
    if begin != len(view):
        raise DecodeError("bad_payloads", header.request_id)
    return payloads


def encode_account(account: SampleAccount) -> bytes:
    """The 40 bytes of an account; struct.error where a number does not fit."""
    return _ACCOUNT.pack(*account)


def decode_account(part: Buffer, header: Header) -> Optional[SampleAccount]:
    """Reads the account of a part 0 whose header has been read; None when it has none. What this version does not know
    of it is left out."""
    if header.header_len < ACCOUNT_HEADER_BYTES:
        return None
    *counts, quality, flags = _ACCOUNT.unpack_from(part, HEADER_BYTES)
    return SampleAccount(*counts, quality if quality <= TimeQuality.DISCIPLINED else 0, flags & _KNOWN_FLAGS)


def output_indices(part: Buffer, header: Header) -> Tuple[int, ...]:
    """Where the tensors of a result stand in its sender's clock; none where the header does not say it of all."""
    if header.header_len < ACCOUNT_HEADER_BYTES + header.tensors * _INDEX.size:
        return ()
    return tuple(_INDEX.unpack_from(part, ACCOUNT_HEADER_BYTES + index * _INDEX.size)[0]
                 for index in range(header.tensors))


def encode_place(place: SharedPlace) -> bytes:
    """The 32 bytes of a place."""
    return _PLACE.pack(place.arena, _REPEAT if place.repeat else 0, place.input, place.output, place.output_bytes)


def decode_place(part: Buffer) -> SharedPlace:
    """Reads part 1 of a SUBMIT_SHARED. Raises DecodeError."""
    if len(part) != PLACE_BYTES:
        raise DecodeError("bad_place")
    arena, flags, source, output, output_bytes = _PLACE.unpack(part)
    return SharedPlace(arena, source, output, output_bytes, bool(flags & _REPEAT))
