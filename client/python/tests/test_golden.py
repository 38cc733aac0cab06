"""The golden messages: $PENSTOCK_GOLDEN, else proto/golden of the source tree."""
import json
import math
import os
import random
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

try:
    import numpy as np
    import zmq  # noqa: F401
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is missing")

from penstock import control, wire  # noqa: E402

GOLDEN = Path(os.environ.get("PENSTOCK_GOLDEN") or Path(__file__).resolve().parents[3] / "proto" / "golden")
if not (GOLDEN / "index.json").is_file():
    raise unittest.SkipTest(f"no golden messages in {GOLDEN} (PENSTOCK_GOLDEN names their folder)")
INDEX = json.loads((GOLDEN / "index.json").read_text(encoding="utf-8"))
BODIES = {"hello": control.Hello, "welcome": control.Welcome, "open_session": control.OpenSession,
          "session_opened": control.SessionOpened, "attach": control.Attach, "attached": control.Attached,
          "subscribe": control.Subscribe, "subscribed": control.Subscribed, "publisher": control.Publisher,
          "set_values": control.SetValues, "values": control.Values,
          "error": control.ErrorBody}

SHARED = ("submit_shared", "result_shared")  # whose tensors lie in an arena


def parts_of(entry):
    return [(GOLDEN / name).read_bytes() for name in entry["parts"]]


def payloads_of(entry):
    """Of a data message, whichever form it has."""
    parts = parts_of(entry)
    return wire.inline_payloads(parts[0], header_of(entry)) if entry.get("inlined") else parts[1:]


def header_of(entry):
    fields = dict(entry["header"])
    fields["type"] = wire.MessageType[fields["type"].upper()]
    fields["status"] = wire.Status[fields["status"]]
    fields["trace_id"] = bytes.fromhex(fields["trace_id"])
    return wire.Header(**fields)


def tensors_of(entry):
    return [wire.TensorHeader(t["code"], t["bits"], t["bytes"], tuple(t["shape"]), t["lanes"])
            for t in entry["tensors"]]


def read_all(part):
    """What a receiver does with part 0."""
    header = wire.decode_header(part)
    return header, [wire.decode_tensor(part, header, index) for index in range(header.tensors)]


class Golden(unittest.TestCase):
    def test_headers_decode_to_what_the_index_says(self):
        for entry in INDEX["messages"]:
            with self.subTest(entry["name"]):
                self.assertEqual(read_all(parts_of(entry)[0]), (header_of(entry), tensors_of(entry)))

    def test_headers_encode_byte_for_byte(self):
        for entry in INDEX["messages"]:
            with self.subTest(entry["name"]):
                part, header = parts_of(entry)[0], header_of(entry)
                unknown = part[wire.HEADER_BYTES:header.header_len]
                made = wire.encode_header(header) + unknown + b"".join(map(wire.encode_tensor, tensors_of(entry)))
                if entry.get("inlined"):
                    made += b"".join(payloads_of(entry))
                self.assertEqual(made, part)

    def test_payloads_are_the_numbers_of_the_index(self):
        for entry in INDEX["messages"]:
            if entry["header"]["type"] in SHARED:
                continue
            payloads = payloads_of(entry) if entry["tensors"] else []
            self.assertEqual(len(payloads), len(entry["tensors"]), entry["name"])
            for tensor, described, payload in zip(tensors_of(entry), entry["tensors"], payloads):
                with self.subTest(entry["name"], dtype=described["dtype"]):
                    array = np.frombuffer(payload, wire.dtype_of(tensor)).reshape(tensor.shape)
                    flat = array.view(array.real.dtype).ravel() if array.dtype.kind == "c" else array.ravel()
                    is_bfloat16 = described["dtype"] == "bf16"
                    if is_bfloat16:
                        flat = (flat.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
                    self.assertEqual(flat.tolist(), described["numbers"])
                    self.assertEqual(wire.tensor_header(array, is_bfloat16), tensor)
                    self.assertEqual(array.tobytes(), payload)

    def test_payloads_of_other_sizes_are_refused(self):
        self.assertGreaterEqual(len(INDEX["bad_payloads"]), 3)
        for entry in INDEX["bad_payloads"]:
            with self.subTest(entry["name"]), self.assertRaises(wire.DecodeError) as caught:
                part = parts_of(entry)[0]
                wire.inline_payloads(part, read_all(part)[0])
            self.assertEqual(caught.exception.request_id, 7)

    def test_places_decode_to_what_the_index_says_and_encode_byte_for_byte(self):
        placed = [entry for entry in INDEX["messages"] if "place" in entry]
        self.assertGreaterEqual(len(placed), 4)
        for entry in placed:
            with self.subTest(entry["name"]):
                described = dict(entry["place"])
                unknown = described.pop("unknown_flags", 0)
                part, place = parts_of(entry)[1], wire.SharedPlace(**described)
                self.assertEqual(wire.decode_place(part), place)
                self.assertEqual(wire.encode_place(place), part[:4] + bytes(
                    each & ~mask for each, mask in zip(part[4:8], unknown.to_bytes(4, "little"))) + part[8:])

    def test_accounts_decode_to_what_the_index_says_and_encode_byte_for_byte(self):
        told = [entry for entry in INDEX["messages"] if "account" in entry]
        self.assertGreaterEqual(len(told), 7)
        for entry in told:
            with self.subTest(entry["name"]):
                described = dict(entry["account"])
                unknown = described.pop("unknown_quality", None), described.pop("unknown_flags", None)
                described["time_quality"] = described.pop("quality")
                part, header, account = parts_of(entry)[0], header_of(entry), wire.SampleAccount(**described)
                self.assertEqual(wire.decode_account(part, header), account)
                if unknown == (None, None):
                    self.assertEqual(wire.encode_account(account), part[64:104])
                self.assertEqual(wire.output_indices(part, header), tuple(entry.get("indices", ())))

    def test_a_header_without_room_for_one_has_no_account(self):
        without = [entry for entry in INDEX["messages"] if "account" not in entry]
        self.assertIn("submit_account_short", [entry["name"] for entry in without])
        for entry in without:
            self.assertIsNone(wire.decode_account(parts_of(entry)[0], header_of(entry)), entry["name"])
            self.assertEqual(wire.output_indices(parts_of(entry)[0], header_of(entry)), ())

    def test_bad_places_are_refused(self):
        self.assertGreaterEqual(len(INDEX["bad_places"]), 3)
        for entry in INDEX["bad_places"]:
            with self.subTest(entry["name"]), self.assertRaises(wire.DecodeError):
                wire.decode_place(parts_of(entry)[0])

    def test_bodies_come_back_byte_for_byte(self):
        bodies = [entry for entry in INDEX["messages"] if entry["header"]["type"] in BODIES]
        self.assertGreaterEqual(len(bodies), 18)
        for entry in bodies:
            with self.subTest(entry["name"]):
                body = control.decode(BODIES[entry["header"]["type"]], parts_of(entry)[1])
                self.assertEqual(control.encode(body), parts_of(entry)[1])

    def test_keys_that_are_missing_have_their_default(self):
        entries = [entry for entry in INDEX["messages"] if entry["header"]["type"] == "welcome"]
        welcomes = [json.loads(parts_of(entry)[1]) for entry in entries]
        for body in welcomes:
            body.pop("inline_bytes", None)
            for key in ("answering", "shard", "shards"):
                del body[key]
            for pipeline in body["pipelines"]:
                for key in ("keeps_state", "ordered", "period"):
                    del pipeline[key]
            welcome = control.decode(control.Welcome, json.dumps(body).encode())
            self.assertEqual((welcome.answering, welcome.shard, welcome.shards), (0, 0, ()))
            self.assertEqual(welcome.inline_bytes, 0)
            for pipeline in welcome.pipelines:
                self.assertEqual((pipeline.keeps_state, pipeline.ordered, pipeline.period), (False, True, 1))
        self.assertGreaterEqual(len(welcomes), 2)

    def test_malformed_heads_are_refused_with_their_error(self):
        for entry in INDEX["malformed"]:
            with self.subTest(entry["name"]), self.assertRaises(wire.DecodeError) as caught:
                read_all(parts_of(entry)[0])
            self.assertEqual(caught.exception.error, entry["error"])
            self.assertEqual(caught.exception.request_id, entry.get("request_id", 0))

    def test_bad_bodies_are_refused(self):
        for entry in INDEX["bad_bodies"]:
            with self.subTest(entry["name"]), self.assertRaises(wire.DecodeError):
                control.decode(BODIES[entry["type"]], parts_of(entry)[0])

    def test_every_truncation_is_refused(self):
        for entry in INDEX["messages"]:
            part = parts_of(entry)[0]
            for length in range(len(part)):
                with self.subTest(entry["name"], length=length), self.assertRaises(wire.DecodeError):
                    header, _ = read_all(memoryview(part)[:length])
                    if entry.get("inlined"):
                        wire.inline_payloads(memoryview(part)[:length], header)

    def test_a_mutated_message_is_read_or_refused(self):
        seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
        choose = random.Random(seed)
        for entry in INDEX["messages"]:
            for _ in range(100):
                parts = [bytearray(part) for part in parts_of(entry)]
                for part in filter(None, parts):
                    for _ in range(choose.randrange(1, 4)):
                        part[choose.randrange(len(part))] = choose.randrange(256)
                    del part[choose.choice([len(part), choose.randrange(len(part) + 1)]):]
                with self.subTest(entry["name"], PENSTOCK_SEED=seed):
                    self.read_or_refuse(entry, parts)

    def read_or_refuse(self, entry, parts):
        try:
            for tensor in read_all(parts[0])[1]:
                self.assertEqual(math.prod(tensor.shape) * tensor.bits // 8, tensor.nbytes)
            if entry.get("inlined"):
                wire.inline_payloads(parts[0], wire.decode_header(parts[0]))
        except wire.DecodeError:
            pass
        if entry["header"]["type"] in BODIES:
            try:
                control.encode(control.decode(BODIES[entry["header"]["type"]], parts[1]))
            except wire.DecodeError:
                pass


class Generator(unittest.TestCase):
    def test_the_files_are_what_the_generator_writes(self):
        script = GOLDEN / "generate.py"
        if not script.is_file():
            self.skipTest("generate.py is not beside the golden messages")
        checked = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stdout), (0, ""))


class StatusReport(unittest.TestCase):
    def test_it_has_the_keys_that_the_protocol_names_and_balances(self):
        body = control.decode_json((GOLDEN / "status_report.1.bin").read_bytes())
        self.assertEqual(set(body["configuration"]), {"version", "hash"})
        requests = body["requests"]
        self.assertEqual(set(requests), {"accepted", "results", "errors", "in_flight"})
        self.assertEqual(requests["accepted"],
                         requests["results"] + sum(requests["errors"].values()) + requests["in_flight"])
        self.assertLessEqual(set(requests["errors"]), {status.name for status in wire.Status})


class StatusTable(unittest.TestCase):
    def test_it_is_the_one_of_the_protocol(self):
        document = GOLDEN.parent / "PROTOCOL.md"
        if not document.is_file():
            self.skipTest("PROTOCOL.md is not beside the golden messages")
        rows = re.findall(r"^\| 0x([0-9A-F]{4}) \| `(\w+)` \|", document.read_text(encoding="utf-8"), re.M)
        self.assertEqual([(int(code, 16), name) for code, name in rows],
                         [(int(status), status.name) for status in wire.Status])

    def test_an_unknown_code_has_the_name_of_its_kind(self):
        self.assertEqual([wire.status_name(code) for code in (0x01FE, 0x0401, 0x0700, 0xFFFF)],
                         ["REJECTED", "DEVICE_FAILED", "UNKNOWN", "UNKNOWN"])


if __name__ == "__main__":
    unittest.main()
