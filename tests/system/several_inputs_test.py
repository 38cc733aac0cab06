"""Requests that carry several tensors: a signal, and what travels with it."""

import json
import tempfile
import unittest

import numpy
from penstock import Client, wire
from penstock.wire import Status

from daemon_process import VERSION, Daemon, Daemons, backends, pipeline
from raw_client import RawClient
from shared_client import PLACE, SharedClient


def several(name, inputs, stages, outputs, extra=""):
    """A pipeline with these inputs: name, dtype and shape of each."""
    listed = ", ".join(f'{{ name = "{each}", dtype = "{dtype}", shape = {json.dumps(shape)} }}'
                       for each, dtype, shape in inputs)
    return pipeline(name, "f32", [1], stages, outputs, extra).replace(
        'input = { dtype = "f32", shape = [1] }', f"inputs = [{listed}]")


BATCH = 'batch = { max_frames = 32, max_delay = "5ms" }\n'
MASKED = [("signal", "f32", ["max 500", 3]), ("mask", "u8", ["max 500", 3]), ("gain", "f32", [3])]
CONFIGURATION = (
    VERSION
    + several("masked", MASKED, [("y", "map", 'from = ["signal", "mask", "gain"]\n'
                                  'expr = "mask > 0 ? signal * gain : -1"\n')], ["y"], BATCH)
    + several("matched", [("x", "cf32", [64]), ("template", "cf32", [64])],
              [("product", "multiply", 'from = ["x", "template"]\n'), ("level", "magnitude", "")],
              ["product", "level"], BATCH)
    + several("smooth", [("x", "f32", ["max 64"]), ("weight", "f32", ["max 64"])],
              [("weighted", "multiply", 'from = ["x", "weight"]\n'), ("sum", "fir", "taps = [1.0, 1.0]\n")], ["sum"],
              BATCH)
    + pipeline("plain", "f32", [4], [("y", "affine", "a = 2.0\n")], ["y"]))


def draft(random, frames, length):
    return {"signal": random.standard_normal((frames, length, 3)).astype(numpy.float32),
            "mask": random.integers(0, 2, (frames, length, 3)).astype(numpy.uint8),
            "gain": random.standard_normal((frames, 3)).astype(numpy.float32)}


def masked(x):
    return numpy.where(x["mask"] > 0, x["signal"] * x["gain"][:, None, :], numpy.float32(-1))


class SeveralInputsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        cls.daemons.stop()

    def test_each_frame_meets_its_own(self):
        def check(daemon):
            random = numpy.random.default_rng(5)
            with Client(daemon.url) as client:
                self.assertEqual([each.name for each in client.pipelines["masked"].inputs], ["signal", "mask", "gain"])
                requests = [draft(random, int(random.integers(1, 9)), int(random.choice([1, 7, 123, 500])))
                            for _ in range(120)]
                futures = [client.submit("masked", each, frames=len(each["gain"])) for each in requests]
                for each, future in zip(requests, futures):
                    numpy.testing.assert_array_equal(future.result()["y"], masked(each))
        self.daemons.each(self, check)

    def test_one_frame_needs_no_leading_dimension(self):
        def check(daemon):
            random = numpy.random.default_rng(6)
            x, template = ((random.standard_normal(64) + 1j * random.standard_normal(64)).astype(numpy.complex64)
                           for _ in range(2))
            with Client(daemon.url) as client:
                result = client.submit("matched", {"template": template, "x": x}).result()
            numpy.testing.assert_allclose(result["product"], x * template, rtol=1e-5, atol=1e-6)
            numpy.testing.assert_allclose(result["level"], abs(x * template), rtol=1e-5, atol=1e-6)
        self.daemons.each(self, check)

    def test_sessions_keep_their_state(self):
        def check(daemon):
            random = numpy.random.default_rng(7)
            x, weight = (random.standard_normal(1000).astype(numpy.float32) for _ in range(2))
            with Client(daemon.url) as client, client.session("smooth") as session:
                cuts = numpy.cumsum([0, *random.integers(1, 65, 60)])
                futures = [session.submit({"x": x[a:b], "weight": weight[a:b]})
                           for a, b in zip(cuts, cuts[1:]) if b <= len(x)]
                found = numpy.concatenate([future.result()["sum"] for future in futures])
            product = (x * weight)[:len(found)]
            numpy.testing.assert_allclose(found, product + numpy.concatenate([[0], product[:-1]]), atol=1e-5)
        self.daemons.each(self, check)

    def test_the_client_says_what_is_missing(self):
        def check(daemon):
            whole = draft(numpy.random.default_rng(8), 2, 10)
            with Client(daemon.url) as client:
                for wrong, error, words in (
                        (whole["signal"], TypeError, "takes {'signal': array, 'mask': array, 'gain': array}, not ndarray"),
                        ({"signal": whole["signal"]}, TypeError, "not a mapping of signal"),
                        ({**whole, "other": 1}, TypeError, "other"),
                        ({**whole, "mask": whole["mask"][:1]}, ValueError, "frames"),
                        ({**whole, "mask": whole["mask"][:, :9]}, ValueError, "have one length"),
                        ({**whole, "gain": whole["gain"].astype(float)}, TypeError, "masked.gain")):
                    with self.assertRaises(error) as refusal:
                        client.submit("masked", wrong, frames=2)
                    self.assertIn(words, str(refusal.exception))
                with client.session("masked") as session, self.assertRaises(ValueError):
                    session.run(whole["signal"])
                with self.assertRaises(ValueError):
                    client.frames("masked")
        self.daemons.each(self, check)

    def test_the_daemon_says_what_is_wrong(self):
        x = numpy.ones((1, 64), numpy.complex64)

        def check(daemon):
            with RawClient(daemon.url) as raw:
                def answer(*tensors, parts=None, announced=None):
                    header, body = raw.submit_all("matched", tensors, parts, announced)
                    return wire.status_name(header.status), "" if body is None else body["reason"]

                self.assertEqual(answer(x, x), ("OK", ""))
                status, reason = answer(x)
                self.assertEqual(status, "MALFORMED")
                self.assertIn("takes 2 tensors (x, template) in 3 parts; this message announces 1 tensors in 2 parts", reason)
                self.assertEqual(answer(x, x, x)[0], "MALFORMED")
                self.assertEqual(answer(x, x, parts=[x.tobytes()])[0], "MALFORMED")
                self.assertEqual(answer(x, x, parts=[x.tobytes()] * 3)[0], "MALFORMED")
                status, reason = answer(x, x.real.copy())
                self.assertEqual(status, "WRONG_DTYPE")
                self.assertIn("takes cf32[64] as 'template'", reason)
                self.assertEqual(answer(x, x[:, :63].copy())[0], "WRONG_SHAPE")
                self.assertEqual(answer(x, numpy.ones((2, 64), numpy.complex64))[0], "WRONG_SHAPE")
                status, reason = answer(x, x, parts=[x.tobytes(), x.tobytes()[:-8]])
                self.assertEqual((status, reason), (
                    "WRONG_SHAPE", "the header of tensor 'template' says 512 bytes, its payload has 504"))
                self.assertEqual(answer(x, x, parts=[x.tobytes()[:-8], x.tobytes()])[0], "WRONG_SHAPE")
                self.assertEqual(answer(x, x, parts=[])[0], "WRONG_SHAPE")  # inline, and nothing there
                self.assertEqual(answer(x, x), ("OK", ""))
                header, body = raw.submit_all("plain", [numpy.ones((1, 4), numpy.float32)] * 2)
                self.assertEqual((header.status, body["reason"]), (
                    Status.MALFORMED, "a SUBMIT has one tensor and so two parts, or one with the payload behind its "
                    "headers; this one announces 2 tensors in 3 parts"))
        self.daemons.each(self, check)

    def test_they_may_lie_in_shared_memory(self):
        def check(daemon):
            x = numpy.arange(64, dtype=numpy.complex64)[None]
            with SharedClient(daemon.url) as raw:
                arena = raw.attach(1 << 16)
                for at, values in ((64, x), (64 + 512, x.conj())):
                    arena.memory[at:at + 512] = values.tobytes()

                def submit(source):
                    raw.send_place("matched", 2 * [wire.tensor_header(x)],
                                   PLACE.pack(arena.number, 0, source, 4096, 1024))
                    return raw.receive()[0]

                self.assertEqual(submit(64).type, wire.MessageType.RESULT_SHARED)
                found = numpy.frombuffer(arena.memory[4096:4096 + 512], numpy.complex64)
                numpy.testing.assert_allclose(found, (x * x.conj())[0], rtol=1e-6)
                self.assertEqual(submit(65536 - 576).status, Status.BAD_PLACE)
                arena.end()
        self.daemons.each(self, check)

    def test_who_listens_to_requests_gets_all_inputs(self):
        def check(daemon):
            x = draft(numpy.random.default_rng(9), 2, 10)
            with Client(daemon.url) as client, client.subscribe("masked", requests=True) as heard:
                client.submit("masked", x, frames=2).result()
                item = heard.get(timeout=10)
                for name, array in x.items():
                    numpy.testing.assert_array_equal(item[name], array)
        self.daemons.each(self, check)

    def test_the_command_line_and_its_client(self):
        def check(daemon):
            daemon.cli("bench", "--pipeline", "masked", "--clients", "3", "--in-flight", "4", "--duration", "0.3s",
                       "--size", "5")
            self.assertIn("input   mask  u8[max 500, 3]", daemon.cli("info").stdout)
            with tempfile.NamedTemporaryFile(suffix=".npy") as file:
                numpy.save(file, numpy.zeros((4, 3), numpy.float32))
                file.flush()
                send = daemon.cli("send", "--pipeline", "masked", file.name, check=False)
            self.assertEqual(send.returncode, 1)
            self.assertIn("takes several inputs", send.stderr)
        self.daemons.each(self, check)


class ConfigurationTest(unittest.TestCase):
    def test_what_does_not_fit_together_is_refused(self):
        daemon = Daemon(backends()[0], "callback", CONFIGURATION)
        self.addCleanup(daemon.stop)
        stage = [("y", "map", 'from = ["a", "b"]\nexpr = "a + b"\n')]
        x = ("a", "f32", ["max 8"])
        for inputs, reason in (([x, ("b", "f32", ["max 9"])], "the frames of a request have one length"),
                               ([x, ("a", "f32", ["max 8"])], "'a' is given twice"),
                               ([x, ("y", "f32", ["max 8"])], "'y' is the pipeline's own input"),
                               ([x, ("b", "f32", ["max 8"]), ("c", "f32", [8])], "no stage reads 'c'"),
                               ([x, ("no name", "f32", ["max 8"])], "is not a name"),
                               ([x], "there is no stage 'b'")):
            (daemon.path / "penstock.toml").write_text(CONFIGURATION + several("wrong", inputs, stage, ["y"]))
            status, answer = daemon.ask_for_reload()
            self.assertEqual(status, 422, answer)
            self.assertIn(reason, answer["error"])
        text = CONFIGURATION + pipeline("both", "f32", [4], [("y", "affine", "")], ["y"], "inputs = []\n")
        (daemon.path / "penstock.toml").write_text(text)
        self.assertIn("leave one of them out", daemon.ask_for_reload()[1]["error"])


if __name__ == "__main__":
    unittest.main()
