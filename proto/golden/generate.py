#!/usr/bin/env python3
"""Writes the golden messages: one binary file a part, and index.json with what each message says.

    generate.py            write them beside this script
    generate.py --check    exit 1, naming what differs, when the files are not what this script writes
    generate.py --hex FILE print one part as PROTOCOL.md shows it

It knows the format from PROTOCOL.md alone: `struct`, and no code of the daemon or of a client.
"""
import json
import struct
import sys
from pathlib import Path

HEADER = struct.Struct("<4sBBHQQIIQHHI16s")
TENSOR = struct.Struct("<BBHB3sQ8q")
assert (HEADER.size, TENSOR.size) == (64, 80)

TYPES = {"hello": 1, "welcome": 2, "goodbye": 3, "ping": 4, "pong": 5, "get_status": 6, "status_report": 7,
         "submit": 16, "cancel": 17, "result": 32, "error": 33}
STATUS = {"OK": 0, "WRONG_SHAPE": 0x0107, "UNSUPPORTED_VERSION": 0x0102, "HELLO_REQUIRED": 0x0104, "EXPIRED": 0x0200,
          "CANCELLED": 0x0300, "FAILED": 0x0400, "SHUTDOWN": 0x0500, "SESSION_LOST": 0x0600}
# DLPack: code, bits; and how struct writes one element.
DTYPES = {"i8": (0, 8, "b"), "i16": (0, 16, "h"), "i32": (0, 32, "i"), "i64": (0, 64, "q"),
          "u8": (1, 8, "B"), "u16": (1, 16, "H"), "u32": (1, 32, "I"), "u64": (1, 64, "Q"),
          "f32": (2, 32, "f"), "f64": (2, 64, "d"), "c64": (5, 64, "2f"), "c128": (5, 128, "2d")}
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


class Collection:
    """The files and the index, in the order in which they are made."""

    def __init__(self):
        self.files = {}
        self.messages = []
        self.malformed = []
        self.bodies = []

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

    def data(self, name, kind, tensors, extra=b"", **given):
        """tensors: (dtype, shape, flat numbers); the numbers of a complex tensor are re, im, re, im, ..."""
        fields = header_fields(kind, tensors=len(tensors), header_len=64 + len(extra), **given)
        head, payloads, described = pack_header(fields) + extra, [], []
        for dtype, shape, numbers in tensors:
            code, bits, letter = DTYPES[dtype]
            payload = struct.pack(f"<{len(numbers)}{letter[-1]}", *numbers)
            head += pack_tensor(code, bits, 1, len(payload), shape)
            payloads.append(payload)
            described.append({"dtype": dtype, "code": code, "bits": bits, "lanes": 1, "bytes": len(payload),
                              "shape": list(shape), "numbers": list(numbers)})
        entry = {"name": name, "header": fields, "tensors": described}
        entry["parts"] = self._add_parts(name, [head] + payloads)
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


def tensor(name, dtype, element, shape, op="", variable=False):
    return {"name": name, "dtype": dtype, "element": element, "shape": shape, "variable": variable, "op": op}


WELCOME = {
    "server": "penstockd 0.1.0", "instance": "5f0c7a52b1d94e38", "credit_requests": 256, "credit_bytes": 67108864,
    "max_request_bytes": 67108864,
    "pipelines": [
        {"id": 0, "name": "spectrum", "max_frames": 256, "input": tensor("input", "u8", "cu8", [4, 2]),
         "outputs": [tensor("psd", "f32", "f32", [4], "power_spectrum"), tensor("stats", "f32", "f32", [5], "moments")]},
        {"id": 1, "name": "motion – ecg", "max_frames": 64,
         "input": tensor("input", "i16", "i16", [512], variable=True),
         "outputs": [tensor("scaled", "f32", "f32", [512], "affine", variable=True)]},
    ]}


def error_body(reason, step="", stage="", device_error=""):
    return {"reason": reason, "step": step, "stage": stage, "device_error": device_error}


def add_control(to):
    to.control("hello", "hello", {"client": "golden", "version": "0.1.0"}, request_id=1)
    to.control("welcome", "welcome", WELCOME, request_id=1)
    to.control("goodbye", "goodbye", request_id=2)
    to.control("ping", "ping", request_id=3)
    to.control("pong", "pong", request_id=3)
    to.control("get_status", "get_status", request_id=4)
    to.control("status_report", "status_report", {"accepted": 3, "results": 2, "errors": {"EXPIRED": 1}},
               request_id=4)
    to.control("cancel", "cancel", request_id=8)


def add_data(to):
    iq = [127, 128, 255, 128, 127, 0, 0, 127]
    to.data("submit_one_tensor", "submit", [("u8", [1, 4, 2], iq)], request_id=7, timeout_ns=250_000_000, frames=1,
            trace_id=TRACE.hex())
    to.data("submit_two_tensors", "submit", [("f32", [1, 3], [0.5, -1.0, 3.25]), ("i16", [1, 2], [-32768, 32767])],
            request_id=8, pipeline=2, frames=1)
    to.data("submit_frames", "submit", [("c64", [3, 2], [1, 0, 0, 1, -1, 0, 0, -1, 0.5, 0.25, -0.5, -0.25])],
            request_id=9, pipeline=3, frames=3, timeout_ns=U64_MAX)
    to.data("submit_variable", "submit", [("i16", [2, 3], [1, -2, 3, -4, 5, -6])], request_id=10, pipeline=1, frames=2)
    to.data("submit_long_header", "submit", [("u8", [1, 4, 2], iq)], extra=bytes(range(0xA0, 0xA8)), request_id=11,
            frames=1)
    to.data("submit_session", "submit", [("i32", [1, 1], [-2])], request_id=U64_MAX, pipeline=2**32 - 1,
            session=2**32 - 2, sequence=2**63, frames=1)
    to.data("submit_every_dtype", "submit",
            [(name, [1, 1], [1, -1] if code == 5 else [1]) for name, (code, _, _) in DTYPES.items()],
            request_id=12, frames=1)
    to.data("submit_eight_dimensions", "submit", [("i8", [1, 1, 2, 1, 1, 2, 1, 1], [-1, 2, -3, 4])], request_id=13,
            frames=1)
    to.data("submit_no_elements", "submit", [("u8", [1, 0, 2], [])], request_id=14, frames=1)
    to.data("submit_no_tensors", "submit", [], request_id=15)
    to.data("result", "result", [("f32", [1, 4], [4.0, 1.0, 0.0, 1.0]), ("f32", [1, 5], [0.5, 0.25, -1.0, 1.0, 0.75])],
            request_id=7, frames=1, trace_id=TRACE.hex())


def add_errors(to):
    def error(name, status, body, **given):
        to.control(name, "error", body, status=status, **given)

    error("error_rejected", "WRONG_SHAPE", error_body("the input has shape [1, 5, 2], the pipeline takes [frames, 4, 2]"),
          request_id=7)
    error("error_unsupported_version", "UNSUPPORTED_VERSION",
          error_body("the message's major version is 2, this daemon reads 1"), request_id=7)
    error("error_hello_required", "HELLO_REQUIRED", error_body("this client is not known: send HELLO"), request_id=7)
    error("error_expired", "EXPIRED", error_body("the timeout of 250 ms ran out", step="queued"), request_id=7)
    error("error_cancelled", "CANCELLED", error_body("the client cancelled the request", step="batched"), request_id=8)
    error("error_failed", "FAILED", error_body("the device failed", stage="psd",
                                               device_error="cudaErrorIllegalAddress"), request_id=7, pipeline=1)
    error("error_shutdown", "SHUTDOWN", error_body("the daemon is stopping"), request_id=7)
    error("error_session_lost", "SESSION_LOST", error_body("the session's state is gone"), request_id=7, session=5,
          sequence=41)


def add_malformed_headers(to):
    good = pack_header(header_fields("submit", request_id=7, frames=1))

    def patched(offset, replacement):
        return good[:offset] + replacement + good[offset + len(replacement):]

    to.bad("bad_empty", "truncated", b"")
    to.bad("bad_short", "truncated", good[:63])
    to.bad("bad_magic", "bad_magic", patched(0, b"KSNP"))
    to.bad("bad_major", "unsupported_version", patched(4, b"\x02"), request_id=7)
    to.bad("bad_major_0", "unsupported_version", patched(4, b"\x00"), request_id=7)
    to.bad("bad_header_len_under", "bad_header_len", patched(6, struct.pack("<H", 63)), request_id=7)
    to.bad("bad_header_len_over_part", "bad_header_len", patched(6, struct.pack("<H", 65)), request_id=7)
    to.bad("bad_header_len_absurd", "bad_header_len", patched(6, struct.pack("<H", 4097)) + bytes(5000), request_id=7)
    to.bad("bad_tensor_count", "too_many_tensors", patched(40, struct.pack("<H", 65)) + bytes(65 * 80), request_id=7)
    one = patched(40, struct.pack("<H", 1))
    to.bad("bad_no_tensor_header", "truncated_tensors", one, request_id=7)
    to.bad("bad_short_tensor_header", "truncated_tensors", one + pack_tensor(1, 8, 1, 2, [1, 2])[:79], request_id=7)


def add_malformed_tensors(to):
    one = pack_header(header_fields("submit", request_id=7, frames=1, tensors=1))

    def bad(name, *given, **more):
        to.bad(name, "bad_tensor", one + pack_tensor(*given, **more), request_id=7)

    bad("bad_dtype_code", 3, 8, 1, 2, [1, 2])
    bad("bad_dtype_bits", 2, 16, 1, 4, [1, 2])
    bad("bad_dtype_no_bits", 1, 0, 1, 0, [1, 2])
    bad("bad_dtype_lanes", 1, 8, 2, 4, [1, 2])
    bad("bad_dtype_no_lanes", 1, 8, 0, 0, [1, 2])
    bad("bad_dimensions", 1, 8, 1, 1, [1] * 8, ndim=9)
    bad("bad_dimensions_255", 1, 8, 1, 1, [1] * 8, ndim=255)
    bad("bad_negative_extent", 1, 8, 1, 2, [-1, -2])
    bad("bad_size_over", 1, 8, 1, 3, [1, 2])
    bad("bad_size_under", 2, 32, 1, 2, [1, 2])
    bad("bad_overflow_to_zero", 1, 8, 1, 0, [2**32, 2**32])
    bad("bad_overflow_to_size", 2, 32, 1, 4, [1, 2**62 + 1])
    bad("bad_overflow_of_many", 5, 128, 1, 16, [2**62] * 8)
    bad("bad_overflow_beside_zero", 1, 8, 1, 0, [0, 2**62, 2**62])


def add_malformed_bodies(to):
    to.bad_body("bad_body_not_json", "hello", b'{"client":"golden"')
    to.bad_body("bad_body_not_object", "hello", b'["golden","0.1.0"]')
    to.bad_body("bad_body_missing_key", "hello", b'{"client":"golden"}')
    to.bad_body("bad_body_wrong_type", "hello", b'{"client":7,"version":"0.1.0"}')
    to.bad_body("bad_body_long_name", "hello", b'{"client":"' + b"x" * 65 + b'","version":"0.1.0"}')
    to.bad_body("bad_body_control_character", "hello", b'{"client":"\\u001b[2J","version":"0.1.0"}')
    to.bad_body("bad_body_not_utf8", "hello", b'{"client":"\xff","version":"0.1.0"}')
    to.bad_body("bad_body_error_missing_key", "error", b'{"reason":"r","step":"","stage":""}')
    for name, patch in (("negative", {"credit_requests": -1}), ("too_large", {"credit_requests": 2**32}),
                        ("fraction", {"credit_bytes": 1.5}), ("no_pipelines", {"pipelines": None})):
        to.bad_body(f"bad_body_{name}", "welcome", json.dumps({**WELCOME, **patch}).encode())


def collect():
    to = Collection()
    for add in (add_control, add_data, add_errors, add_malformed_headers, add_malformed_tensors, add_malformed_bodies):
        add(to)
    index = {"messages": to.messages, "malformed": to.malformed, "bad_bodies": to.bodies}
    lines = [f' "{key}": [\n' + ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n ]"
             for key, entries in index.items()]
    to.files["index.json"] = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    return to.files


def hex_block(data):
    rows = (data[i:i + 16] for i in range(0, len(data), 16))
    return "\n".join(f"{i * 16:04x}  {row.hex(' ')}" for i, row in enumerate(rows))


def main(arguments):
    folder = Path(__file__).resolve().parent
    files = collect()
    if arguments[:1] == ["--hex"]:
        print(hex_block(files[arguments[1]]))
        return 0
    stored = {path.name for path in folder.iterdir() if path.suffix in (".bin", ".json")}
    differing = sorted(name for name in stored | set(files)
                       if name not in files or name not in stored or (folder / name).read_bytes() != files[name])
    if arguments == ["--check"]:
        for name in differing:
            print(f"differs: {name}")
        return 1 if differing else 0
    for name in differing:
        if name in files:
            (folder / name).write_bytes(files[name])
        else:
            (folder / name).unlink()
    print(f"{len(files)} files, {len(differing)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
