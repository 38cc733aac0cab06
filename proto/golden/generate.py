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

from offers import WELCOME, WELCOME_INPUTS, WELCOME_SHARDS
from parts import Collection, DTYPES, TRACE, U64_MAX, header_fields, pack_header, pack_place, pack_tensor


def error_body(reason, step="", stage="", device_error=""):
    return {"reason": reason, "step": step, "stage": stage, "device_error": device_error}


def add_control(to):
    to.control("hello", "hello", {"client": "golden", "version": "0.1.0"}, request_id=1)
    to.control("welcome", "welcome", WELCOME, request_id=1)
    to.control("goodbye", "goodbye", request_id=2)
    to.control("ping", "ping", request_id=3)
    to.control("pong", "pong", request_id=3)
    to.control("get_status", "get_status", request_id=4)
    to.control("status_report", "status_report", {
        "configuration": {"version": 1, "hash": "9cff63b188fe43af"},
        "requests": {"accepted": 3, "results": 2, "errors": {"EXPIRED": 1}, "in_flight": 0}}, request_id=4)
    to.control("cancel", "cancel", request_id=8)
    to.control("welcome_shards", "welcome", WELCOME_SHARDS, request_id=1)


def add_sessions(to):
    """A session of "decimated", a decimation by 8: 20 samples give 3, the next 13 give 2."""
    to.control("open_session", "open_session", {"pipeline": 0, "name": "antenna – 1"}, request_id=20)
    to.control("open_session_unnamed", "open_session", {"pipeline": 2**32 - 1, "name": ""}, request_id=21)
    to.control("session_opened", "session_opened", {"session": 5, "next_sequence": 0}, request_id=20, session=5)
    to.control("session_opened_again", "session_opened", {"session": 2**32 - 1, "next_sequence": U64_MAX},
               request_id=21, session=2**32 - 1)
    to.data("submit_session_first", "submit", [("c64", [1, 20], [part for i in range(20) for part in (i, -i)])],
            request_id=22, session=5, sequence=0, frames=1)
    to.data("result_session_first", "result", [("c64", [1, 3], [0, 0, 8, -8, 16, -16])], request_id=22, session=5,
            sequence=0, frames=1)
    to.data("submit_session_next", "submit", [("c64", [1, 13], [part for i in range(20, 33) for part in (i, -i)])],
            request_id=23, session=5, sequence=1, frames=1)
    to.data("result_session_next", "result", [("c64", [1, 2], [24, -24, 32, -32])], request_id=23, session=5,
            sequence=1, frames=1)
    to.data("result_session_no_rows", "result", [("c64", [1, 0], [])], request_id=24, session=5, sequence=2, frames=1)
    to.control("close_session", "close_session", session=5)


def add_traces(to):
    to.control("get_trace", "get_trace", request_id=30, sequence=0)
    to.control("trace_report", "trace_report", {"batches": [{"pipeline": "spectrum", "frames": 3}]}, request_id=30,
               sequence=17)
    to.control("trace_report_nothing_new", "trace_report", {"batches": []}, request_id=31, sequence=17)


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
    to.data("submit_every_float", "submit",
            [("f16", [1, 4], [65504.0, -0.0, 2.0 ** -24, -1.5]), ("bf16", [1, 4], [2.0 ** 127, -0.0, 2.0 ** -126, -1.5]),
             ("f64", [1, 3], [0.1, -2.5e300, 5e-324])], request_id=16, frames=1)
    to.data("submit_every_integer", "submit",
            [("i64", [1, 2], [-2**63, 2**63 - 1]), ("u16", [1, 2], [0, 65535]), ("bool", [1, 4], [True, False, 1, 0])],
            request_id=17, frames=1)
    to.data("submit_eight_dimensions", "submit", [("i8", [1, 1, 2, 1, 1, 2, 1, 1], [-1, 2, -3, 4])], request_id=13,
            frames=1)
    to.data("submit_no_elements", "submit", [("u8", [1, 0, 2], [])], request_id=14, frames=1)
    to.data("submit_no_tensors", "submit", [], request_id=15)
    to.data("result", "result", [("f32", [1, 4], [4.0, 1.0, 0.0, 1.0]), ("f32", [1, 5], [0.5, 0.25, -1.0, 1.0, 0.75])],
            request_id=7, frames=1, trace_id=TRACE.hex())


def add_inlined(to):
    """Payloads behind their headers, in the same part."""
    to.control("hello_inline", "hello", {"client": "golden", "version": "0.1.0", "inline_bytes": 4096}, request_id=1)
    to.control("welcome_inline", "welcome", {**WELCOME, "inline_bytes": 4096}, request_id=1)
    to.data("submit_inline", "submit", [("u8", [1, 4, 2], [127, 128, 255, 128, 127, 0, 0, 127])], inlined=True,
            request_id=7, timeout_ns=250_000_000, frames=1, trace_id=TRACE.hex())
    to.data("submit_inline_long_header", "submit", [("i16", [2, 3], [1, -2, 3, -4, 5, -6])], inlined=True,
            extra=bytes(range(0xA0, 0xA8)), request_id=10, pipeline=1, frames=2)
    to.data("submit_inline_session", "submit", [("c64", [1, 3], [1, -1, 2, -2, 3, -3])], inlined=True, request_id=22,
            session=5, sequence=7, frames=1)
    to.data("result_inline", "result",
            [("u8", [1, 3], [1, 2, 3]), ("f32", [1, 2], [0.5, -1.0]), ("c64", [1, 1], [0.25, -8.0])], inlined=True,
            request_id=7, frames=1, trace_id=TRACE.hex())
    to.data("result_inline_some_rows", "result", [("c64", [1, 0], []), ("i16", [1, 2], [-32768, 32767])],
            inlined=True, request_id=24, session=5, sequence=2, frames=1)
    to.data("result_inline_no_rows", "result", [("c64", [1, 0], [])], inlined=True, request_id=25, session=5,
            sequence=3, frames=1)


def add_resumed(to):
    token = "00f1e2d3c4b5a69788796a5b4c3d2e1f"
    to.control("hello_resume", "hello", {"client": "golden", "version": "0.1.0", "inline_bytes": 4096,
                                         "resume": token}, request_id=1)
    to.control("welcome_resumed", "welcome", {**WELCOME, "inline_bytes": 4096, "resume": token, "resumed": True},
               request_id=1)
    to.control("welcome_not_resumed", "welcome", {**WELCOME, "resume": "f" * 32, "resumed": False}, request_id=1)


def account(index, time_ns=0, lost_before=0, epoch=0, filled=0, quality=0, flags=1, **unknown):
    return {"index": index, "time_ns": time_ns, "lost_before": lost_before, "epoch": epoch, "filled": filled,
            "quality": quality, "flags": flags, **unknown}


def add_accounts(to):
    """The session's second request, whose first sample is 1,020 of its sender's clock: 5 were lost before it. Of its
    outputs that of a decimation by 8 begins at 1,024."""
    second = account(1020, time_ns=1_700_000_000_000_001_020, lost_before=5, epoch=2, quality=3)
    samples = [("c64", [1, 13], [part for i in range(20, 33) for part in (i, -i)])]
    to.data("submit_account", "submit", samples, account=second, request_id=23, session=5, sequence=1, frames=1)
    to.data("result_account", "result", [("c64", [1, 2], [24, -24, 32, -32])], account=second, indices=[1024],
            request_id=23, session=5, sequence=1, frames=1)
    to.data("submit_account_inline", "submit", [("u8", [1, 4, 2], [127, 128, 255, 128, 127, 0, 0, 127])], inlined=True,
            account=account(-2**63, time_ns=2**63 - 1, lost_before=U64_MAX, epoch=2**32 - 1, filled=2**32 - 1,
                            quality=4, flags=63), request_id=26, frames=1)
    to.data("result_account_inline", "result",
            [("u8", [1, 3], [1, 2, 3]), ("f32", [1, 2], [0.5, -1.0])], inlined=True,
            account=account(0, time_ns=-1, quality=1, flags=0), indices=[2**63 - 1, -2**63], request_id=27, frames=1)
    to.data("submit_account_unknown", "submit", samples, extra=bytes(range(0xA0, 0xA7)),
            account=account(7, flags=2, filled=1, unknown_flags=0xC0, unknown_quality=5), request_id=28, frames=1)
    to.data("submit_account_short", "submit", samples, extra=bytes(39), request_id=29, frames=1)
    to.shared("submit_shared_account", "submit_shared", [("u8", [2, 4, 2])], place=place(3, 64, 4096, 192),
              account=second, request_id=44, frames=2)
    to.shared("result_shared_account", "result_shared", [("f32", [2, 4]), ("f32", [2, 5])], account=second,
              indices=[1020, 1020], request_id=44, frames=2)


def add_malformed_resumed(to):
    hello = {"client": "golden", "version": "0.1.0"}
    for name, token in (("short", "0" * 31), ("long", "0" * 33), ("capital", "A" * 32), ("empty", ""), ("number", 7)):
        to.bad_body(f"bad_body_hello_resume_{name}", "hello", json.dumps({**hello, "resume": token}).encode())
    for name, patch in (("resume_letters", {"resume": "g" * 32}), ("resumed_number", {"resumed": 1})):
        to.bad_body(f"bad_body_welcome_{name}", "welcome", json.dumps({**WELCOME, **patch}).encode())


def add_malformed_inlined(to):
    whole = to.files["result_inline.0.bin"]
    to.bad_payloads("bad_payloads_short", whole[:-1])
    to.bad_payloads("bad_payloads_long", whole + bytes(1))
    to.bad_payloads("bad_payloads_none", whole[:64 + 3 * 80])
    to.bad_body("bad_body_hello_inline_text", "hello", b'{"client":"golden","version":"0.1.0","inline_bytes":"4096"}')
    to.bad_body("bad_body_hello_inline_negative", "hello", b'{"client":"golden","version":"0.1.0","inline_bytes":-1}')
    to.bad_body("bad_body_welcome_inline_fraction", "welcome", json.dumps({**WELCOME, "inline_bytes": 0.5}).encode())


def place(arena, source, output, output_bytes, repeat=False):
    return {"arena": arena, "repeat": repeat, "input": source, "output": output, "output_bytes": output_bytes}


def add_shared(to):
    """Frames of "spectrum" in the memory of arena 3: psd at 4096, stats at 4096 + 64."""
    to.control("welcome_shared", "welcome", {**WELCOME, "shared_bytes": 2**30}, request_id=1)
    to.control("welcome_device", "welcome", {**WELCOME, "shared_bytes": 2**30, "device_bytes": 2**28,
                                             "device": TRACE.hex()}, request_id=1)
    to.control("attach", "attach", {"bytes": 67108864}, request_id=40)
    to.control("attach_device", "attach", {"bytes": 67108864, "device": True}, request_id=40)
    to.control("attached", "attached", {"socket": "/run/penstock/memory.sock", "ticket": TRACE.hex()}, request_id=40)
    to.control("attached_abstract", "attached", {"socket": "@penstock – 1", "ticket": "f" * 32}, request_id=41)
    to.shared("submit_shared", "submit_shared", [("u8", [1, 4, 2])], place(3, 64, 4096, 128), request_id=42,
              timeout_ns=250_000_000, frames=1, trace_id=TRACE.hex())
    to.shared("submit_shared_again", "submit_shared", [("u8", [1, 4, 2])], place(3, 64, 4096, 128, repeat=True),
              request_id=42, timeout_ns=1, frames=1, trace_id=TRACE.hex())
    to.shared("submit_shared_session", "submit_shared", [("c64", [1, 20])],
              place(2**32 - 1, 2**63, U64_MAX - 63, U64_MAX), request_id=43, session=5, sequence=7, frames=1)
    to.shared("submit_shared_unknown_flags", "submit_shared", [("u8", [1, 4, 2])],
              {**place(3, 0, 64, 128), "unknown_flags": 2**32 - 2}, request_id=44, frames=1)
    to.shared("result_shared", "result_shared", [("f32", [1, 4]), ("f32", [1, 5])], request_id=42, frames=1,
              trace_id=TRACE.hex())
    to.shared("result_shared_no_rows", "result_shared", [("c64", [1, 0])], request_id=43, session=5, sequence=7,
              frames=1)
    to.control("released", "released", request_id=45)


def add_shared_errors(to):
    def error(name, status, body, **given):
        to.control(name, "error", body, status=status, request_id=42, **given)

    error("error_expired_holds", "EXPIRED", {**error_body("the timeout of 250 ms ran out", step="executing"),
                                             "holds": True})
    error("error_unknown_arena", "UNKNOWN_ARENA", error_body("this client shares no arena 3"))
    error("error_bad_place", "BAD_PLACE", error_body("the outputs take 128 bytes, the place has 64"))
    error("error_unknown_repeat", "UNKNOWN_REPEAT", error_body("this request is neither in flight nor kept"))


def add_subscriptions(to):
    """One who listens to "spectrum": subscription 60, and its publisher 1. Of four results the third is lost."""
    to.control("subscribe", "subscribe", {"pipelines": ["spectrum"]}, request_id=60)
    to.control("subscribe_some", "subscribe", {"pipelines": ["spectrum", "motion – ecg"], "sessions": ["antenna*", "?"],
                                               "outputs": ["psd"], "queue_bytes": 2**24}, request_id=61)
    to.control("subscribe_requests", "subscribe", {"pipelines": ["spectrum"], "requests": True}, request_id=62)
    to.control("subscribed", "subscribed", {"queue_bytes": 16777216, "next_sequence": 0}, request_id=60)
    to.control("subscribed_again", "subscribed", {"queue_bytes": U64_MAX, "next_sequence": U64_MAX}, request_id=60)
    to.control("publisher", "publisher", {"session": 1, "name": "antenna – 1", "client": "golden",
                                          "pipeline": "spectrum", "outputs": ["psd", "stats"]}, request_id=60)
    to.control("publisher_of_no_session", "publisher", {"session": 2**32 - 1, "client": "golden",
                                                        "pipeline": "spectrum", "outputs": ["psd"]}, request_id=60)
    to.control("publisher_source", "publisher", {"session": 2, "name": "north", "client": "source north",
                                                 "pipeline": "spectrum", "outputs": ["psd"], "source": True},
               request_id=60)
    to.control("publisher_ended", "publisher", {"session": 1, "ended": True}, request_id=60)
    psd, stats = ("f32", [1, 4], [4.0, 1.0, 0.0, 1.0]), ("f32", [1, 5], [0.5, 0.25, -1.0, 1.0, 0.75])
    to.data("published", "published", [psd, stats], request_id=60, session=1, sequence=1, frames=1,
            trace_id=TRACE.hex())
    to.data("published_after_a_loss", "published", [psd, stats], request_id=60, session=1, sequence=3, frames=1)
    to.data("published_inline", "published", [psd], inlined=True, request_id=61, session=1, sequence=2**63, frames=1)
    to.data("published_account", "published", [stats], request_id=61, session=2, sequence=5, frames=1, indices=[1020],
            account=account(1020, time_ns=1_700_000_000_000_001_020, lost_before=5, epoch=2, quality=3))
    to.control("unsubscribe", "unsubscribe", request_id=60)


def add_malformed_subscriptions(to):
    for name, body in (("no_pipelines", b"{}"), ("none", b'{"pipelines":[]}'), ("text", b'{"pipelines":"spectrum"}'),
                       ("number", b'{"pipelines":[1]}'), ("long_name", b'{"pipelines":["' + b"x" * 65 + b'"]}'),
                       ("control_character", b'{"pipelines":["a"],"sessions":["\\u0007"]}'),
                       ("outputs_null", b'{"pipelines":["a"],"outputs":null}'),
                       ("negative", b'{"pipelines":["a"],"queue_bytes":-1}'), ("requests_number", b'{"pipelines":["a"],"requests":1}')):
        to.bad_body(f"bad_body_subscribe_{name}", "subscribe", body)
    to.bad_body("bad_body_subscribed_no_sequence", "subscribed", b'{"queue_bytes":1}')
    to.bad_body("bad_body_publisher_no_session", "publisher", b'{"name":"x"}')
    to.bad_body("bad_body_publisher_ended_number", "publisher", b'{"session":1,"ended":1}')


def add_malformed_shared(to):
    good = pack_place(place(3, 64, 4096, 128))
    to.bad_place("bad_place_empty", b"")
    to.bad_place("bad_place_short", good[:31])
    to.bad_place("bad_place_long", good + bytes(1))
    to.bad_body("bad_body_shared_bytes_text", "welcome", json.dumps({**WELCOME, "shared_bytes": "1 GiB"}).encode())
    to.bad_body("bad_body_shared_bytes_negative", "welcome", json.dumps({**WELCOME, "shared_bytes": -1}).encode())
    to.bad_body("bad_body_attach_no_bytes", "attach", b"{}")
    to.bad_body("bad_body_attach_fraction", "attach", b'{"bytes":1.5}')
    to.bad_body("bad_body_attach_device_text", "attach", b'{"bytes":1,"device":"cuda"}')
    to.bad_body("bad_body_welcome_device_flag", "welcome", json.dumps({**WELCOME, "device": True}).encode())
    to.bad_body("bad_body_attached_no_ticket", "attached", b'{"socket":"@penstock"}')
    to.bad_body("bad_body_attached_number", "attached", b'{"socket":7,"ticket":"' + b"0" * 32 + b'"}')
    to.bad_body("bad_body_holds_number", "error", json.dumps({**error_body("r"), "holds": 1}).encode())


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
    error("error_session_required", "SESSION_REQUIRED",
          error_body("the pipeline \"decimated\" keeps state: open a session"), request_id=7)
    error("error_sequence_gap", "SEQUENCE_GAP", error_body("frame 2 of the session is expected, this one is 5"),
          request_id=26, session=5, sequence=2)
    error("error_reply_gone", "REPLY_GONE", error_body("the reply is no longer kept"), request_id=22, session=5)
    error("error_too_many_sessions", "TOO_MANY_SESSIONS", error_body("all 64 places for sessions are taken"),
          request_id=20)


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
    bad("bad_dtype_bits", 2, 8, 1, 2, [1, 2])
    bad("bad_dtype_bfloat_bits", 4, 32, 1, 8, [1, 2])
    bad("bad_dtype_bool_bits", 6, 1, 1, 2, [1, 2])
    bad("bad_dtype_unknown", 7, 8, 1, 2, [1, 2])
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


def add_malformed_later_keys(to):
    """Keys that may be missing, but not be of another type."""
    for name, patch in (("answering_text", {"answering": "0"}), ("shard_negative", {"shard": -1}),
                        ("shards_flat", {"shards": ["tcp://*:7600"]}), ("shards_number", {"shards": [[7600]]}),
                        ("shards_null", {"shards": None})):
        to.bad_body(f"bad_body_{name}", "welcome", json.dumps({**WELCOME, **patch}).encode())
    for name, patch in (("keeps_state_number", {"keeps_state": 1}), ("ordered_null", {"ordered": None}),
                        ("period_fraction", {"period": 1.5})):
        spoiled = {**WELCOME, "pipelines": [{**WELCOME["pipelines"][0], **patch}]}
        to.bad_body(f"bad_body_{name}", "welcome", json.dumps(spoiled).encode())
    to.bad_body("bad_body_open_no_name", "open_session", b'{"pipeline":0}')
    to.bad_body("bad_body_open_long_name", "open_session", b'{"pipeline":0,"name":"' + b"x" * 65 + b'"}')
    to.bad_body("bad_body_open_pipeline_name", "open_session", b'{"pipeline":"decimated","name":"x"}')
    to.bad_body("bad_body_open_control_character", "open_session", b'{"pipeline":0,"name":"\\u0007"}')
    to.bad_body("bad_body_opened_no_sequence", "session_opened", b'{"session":5}')
    to.bad_body("bad_body_opened_too_large", "session_opened", b'{"session":4294967296,"next_sequence":0}')


def add_inputs(to):
    """Two frames for "masked", whose inputs are a signal, a mask of the same length, and a gain."""
    to.control("welcome_inputs", "welcome", WELCOME_INPUTS, request_id=1)
    tensors = [("c64", [2, 3], [1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6]), ("f32", [2, 3], [1, 0, 1, 0, 1, 0]),
               ("f32", [2, 1], [0.5, -2])]
    to.data("submit_inputs", "submit", tensors, request_id=80, frames=2)
    to.data("submit_inputs_inline", "submit", tensors, inlined=True, request_id=81, frames=2)
    to.shared("submit_shared_inputs", "submit_shared", [("c64", [2, 3]), ("f32", [2, 3]), ("f32", [2, 1])],
              place(3, 64, 4096, 64), request_id=82, frames=2)
    spoiled = {**WELCOME_INPUTS, "pipelines": [{**WELCOME_INPUTS["pipelines"][0], "inputs": {"signal": "c64"}}]}
    to.bad_body("bad_body_inputs_object", "welcome", json.dumps(spoiled).encode())


def add_values(to):
    """A session of a pipeline with a stage "gain" (affine: a, b) and a stage "find" (detect: high, low)."""
    def number(stage, name, value, **more):
        return {"stage": stage, "name": name, "value": value, **more}

    to.control("set_values", "set_values", {"values": [number("gain", "a", 2.5)]}, request_id=70, session=5)
    to.control("set_values_several", "set_values",
               {"values": [number("find", "high", 0.75), number("find", "low", -1e-05), number("gain", "b", None)]},
               request_id=71, session=2**32 - 1)
    to.control("values", "values",
               {"values": [number("gain", "a", 2.5, own=True), number("gain", "b", 0.0, own=False)]},
               request_id=70, session=5, sequence=7)
    to.control("values_of_none", "values", {"values": []}, request_id=73)
    to.control("get_values", "get_values", request_id=72, session=5)
    to.control("get_values_of_pipeline", "get_values", request_id=73, pipeline=3)

    def error(name, status, reason):
        to.control(name, "error", error_body(reason), status=status, request_id=70, session=5)

    error("error_unknown_value", "UNKNOWN_VALUE", "pipeline 'spectrum' has no stage 'gian'")
    error("error_not_tunable", "NOT_TUNABLE", "'b' of stage 'gain' can't change: 'tunable' does not name it")
    error("error_out_of_range", "OUT_OF_RANGE", "'low' of stage 'find' must be at most 'high'")


def add_malformed_values(to):
    for name, body in (("none", b"[]"), ("text", b'"a"'), ("flat", b'["gain","a",2.5]'),
                       ("no_stage", b'[{"name":"a","value":2.5}]'), ("no_value", b'[{"stage":"gain","name":"a"}]'),
                       ("value_text", b'[{"stage":"gain","name":"a","value":"2.5"}]'),
                       ("value_flag", b'[{"stage":"gain","name":"a","value":true}]'),
                       ("value_infinite", b'[{"stage":"gain","name":"a","value":1e999}]'),
                       ("value_no_number", b'[{"stage":"gain","name":"a","value":NaN}]'),
                       ("long_name", b'[{"stage":"gain","name":"' + b"a" * 65 + b'","value":1}]'),
                       ("control_character", b'[{"stage":"\\u0007","name":"a","value":1}]')):
        to.bad_body(f"bad_body_set_values_{name}", "set_values", b'{"values":' + body + b"}")
    to.bad_body("bad_body_set_values_missing", "set_values", b"{}")
    to.bad_body("bad_body_values_no_own", "values", b'{"values":[{"stage":"gain","name":"a","value":2.5}]}')
    to.bad_body("bad_body_values_null", "values", b'{"values":[{"stage":"gain","name":"a","value":null,"own":true}]}')


def collect():
    to = Collection()
    for add in (add_control, add_data, add_sessions, add_traces, add_errors, add_malformed_headers,
                add_malformed_tensors, add_malformed_bodies, add_malformed_later_keys, add_shared, add_shared_errors,
                add_malformed_shared, add_inlined, add_malformed_inlined, add_resumed, add_malformed_resumed,
                add_accounts, add_subscriptions, add_malformed_subscriptions, add_values, add_malformed_values, add_inputs):
        add(to)
    index = {"messages": to.messages, "malformed": to.malformed, "bad_bodies": to.bodies, "bad_places": to.places,
             "bad_payloads": to.payloads}
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
