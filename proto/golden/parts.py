"""The parts of golden messages, as PROTOCOL.md gives them, and the collection that writes them."""
import json
import math
import struct

HEADER = struct.Struct("<4sBBHQQIIQHHI16s")
TENSOR = struct.Struct("<BBHB3sQ8q")
PLACE = struct.Struct("<IIQQQ")
ACCOUNT = struct.Struct("<qqQIIBB6x")
assert (HEADER.size, TENSOR.size, PLACE.size, ACCOUNT.size) == (64, 80, 32, 40)

TYPES = {"hello": 1, "welcome": 2, "goodbye": 3, "ping": 4, "pong": 5, "get_status": 6, "status_report": 7,
         "open_session": 8, "session_opened": 9, "close_session": 10, "get_trace": 12, "trace_report": 13,
         "attach": 14, "attached": 15, "submit": 16, "cancel": 17, "submit_shared": 18, "subscribe": 20,
         "subscribed": 21, "unsubscribe": 22, "set_values": 24, "values": 25, "get_values": 26, "result": 32, "error": 33, "result_shared": 34, "released": 35,
         "published": 36, "publisher": 37}
STATUS = {"OK": 0, "WRONG_SHAPE": 0x0107, "UNSUPPORTED_VERSION": 0x0102, "HELLO_REQUIRED": 0x0104,
          "SESSION_REQUIRED": 0x010C, "SEQUENCE_GAP": 0x010D, "REPLY_GONE": 0x010E, "TOO_MANY_SESSIONS": 0x010F,
          "UNKNOWN_ARENA": 0x0110, "BAD_PLACE": 0x0111, "UNKNOWN_REPEAT": 0x0112, "UNKNOWN_VALUE": 0x0113,
          "NOT_TUNABLE": 0x0114, "OUT_OF_RANGE": 0x0115, "EXPIRED": 0x0200,
          "CANCELLED": 0x0300, "FAILED": 0x0400, "SHUTDOWN": 0x0500, "SESSION_LOST": 0x0600}
# DLPack: code, bits; and how struct writes one element ("bf": it can't, see pack_numbers).
DTYPES = {"i8": (0, 8, "b"), "i16": (0, 16, "h"), "i32": (0, 32, "i"), "i64": (0, 64, "q"),
          "u8": (1, 8, "B"), "u16": (1, 16, "H"), "u32": (1, 32, "I"), "u64": (1, 64, "Q"),
          "f16": (2, 16, "e"), "f32": (2, 32, "f"), "f64": (2, 64, "d"), "bf16": (4, 16, "bf"),
          "c64": (5, 64, "2f"), "c128": (5, 128, "2d"), "bool": (6, 8, "?")}
TRACE = bytes(range(16))
U64_MAX = 2**64 - 1


def pack_header(fields):
    return HEADER.pack(b"PNSK", fields["major"], TYPES[fields["type"]], fields["header_len"], fields["request_id"],
                       fields["timeout_ns"], fields["pipeline"], fields["session"], fields["sequence"],
                       fields["tensors"], STATUS[fields["status"]], fields["frames"],
                       bytes.fromhex(fields["trace_id"]))


def header_fields(kind, **given):
    fields = {"major": 1, "type": kind, "header_len": 64, "request_id": 0, "timeout_ns": 0, "pipeline": 0,
              "session": 0, "sequence": 0, "tensors": 0, "status": "OK", "frames": 0, "trace_id": bytes(16).hex()}
    fields.update(given)
    return fields


def pack_tensor(code, bits, lanes, nbytes, shape, ndim=None):
    padded = list(shape) + [0] * (8 - len(shape))
    return TENSOR.pack(code, bits, lanes, len(shape) if ndim is None else ndim, bytes(3), nbytes, *padded)


def pack_numbers(dtype, numbers):
    if dtype == "bf16":  # the upper halves of f32, for numbers of at most 8 significant bits
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    return struct.pack(f"<{len(numbers)}{DTYPES[dtype][2][-1]}", *numbers)


def pack_place(place):
    """A place's flags are its first bit, which "repeat" says, and bits that this version does not know."""
    flags = int(place["repeat"]) | place.get("unknown_flags", 0)
    return PLACE.pack(place["arena"], flags, place["input"], place["output"], place["output_bytes"])


def pack_account(account, indices=()):
    """An account, and where each tensor of a result stands. Its flags and quality may have others that this version
    does not know."""
    return ACCOUNT.pack(account["index"], account["time_ns"], account["lost_before"], account["epoch"],
                        account["filled"], account.get("unknown_quality", account["quality"]),
                        account["flags"] | account.get("unknown_flags", 0)) + b"".join(
                            struct.pack("<q", index) for index in indices)


class Collection:
    """The files and the index, in the order in which they are made."""

    def __init__(self):
        self.files = {}
        self.messages = []
        self.malformed = []
        self.bodies = []
        self.places = []
        self.payloads = []

    def _add_parts(self, name, parts):
        names = [f"{name}.{i}.bin" for i in range(len(parts))]
        assert not set(names) & set(self.files), name
        self.files.update(zip(names, parts))
        return names

    def control(self, name, kind, body=None, **given):
        fields = header_fields(kind, **given)
        entry = {"name": name, "header": fields, "tensors": []}
        parts = [pack_header(fields)]
        if body is not None:
            parts.append(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
            entry["body"] = body
        entry["parts"] = self._add_parts(name, parts)
        self.messages.append(entry)

    def data(self, name, kind, tensors, extra=b"", inlined=False, account=None, indices=(), **given):
        """tensors: (dtype, shape, flat numbers); the numbers of a complex tensor are re, im, re, im, ... `inlined`: all
        in one part. `account`: of the samples, with `indices` of a result's tensors; `extra` lies behind it."""
        extra = (b"" if account is None else pack_account(account, indices)) + extra
        fields = header_fields(kind, tensors=len(tensors), header_len=64 + len(extra), **given)
        head, payloads, described = pack_header(fields) + extra, [], []
        for dtype, shape, numbers in tensors:
            code, bits, _ = DTYPES[dtype]
            payload = pack_numbers(dtype, numbers)
            head += pack_tensor(code, bits, 1, len(payload), shape)
            payloads.append(payload)
            described.append({"dtype": dtype, "code": code, "bits": bits, "lanes": 1, "bytes": len(payload),
                              "shape": list(shape), "numbers": list(numbers)})
        entry = {"name": name, "header": fields, "tensors": described}
        if inlined:
            entry["inlined"] = True
        self._describe(entry, account, indices)
        entry["parts"] = self._add_parts(name, [head + b"".join(payloads)] if inlined else [head] + payloads)
        self.messages.append(entry)

    @staticmethod
    def _describe(entry, account, indices):
        if account is not None:
            entry["account"] = account
        if indices:
            entry["indices"] = list(indices)

    def shared(self, name, kind, tensors, place=None, account=None, indices=(), **given):
        """tensors: (dtype, shape), which lie in an arena; a place is part 1."""
        extra = b"" if account is None else pack_account(account, indices)
        fields = header_fields(kind, tensors=len(tensors), header_len=64 + len(extra), **given)
        head, described = pack_header(fields) + extra, []
        for dtype, shape in tensors:
            code, bits, _ = DTYPES[dtype]
            nbytes = math.prod(shape) * bits // 8
            head += pack_tensor(code, bits, 1, nbytes, shape)
            described.append({"dtype": dtype, "code": code, "bits": bits, "lanes": 1, "bytes": nbytes,
                              "shape": list(shape)})
        entry = {"name": name, "header": fields, "tensors": described}
        if place is not None:
            entry["place"] = place
        self._describe(entry, account, indices)
        entry["parts"] = self._add_parts(name, [head] + ([] if place is None else [pack_place(place)]))
        self.messages.append(entry)

    def bad(self, name, error, part, request_id=None):
        """A part 0 that a reader must refuse with `error`; request_id where it can be read all the same."""
        entry = {"name": name, "error": error, "parts": self._add_parts(name, [part])}
        if request_id is not None:
            entry["request_id"] = request_id
        self.malformed.append(entry)

    def bad_body(self, name, kind, body):
        """A JSON body of a control message that a reader must refuse."""
        self.bodies.append({"name": name, "type": kind, "parts": self._add_parts(name, [body])})

    def bad_payloads(self, name, part):
        """A data message of one part, whose payloads do not have the sizes that its tensor headers say."""
        self.payloads.append({"name": name, "parts": self._add_parts(name, [part])})

    def bad_place(self, name, part):
        """A part 1 of SUBMIT_SHARED that a reader must refuse."""
        self.places.append({"name": name, "parts": self._add_parts(name, [part])})
