"""Arguments that can't be right are refused where they are given, with what to write instead."""
import unittest

from scripted_router import RouterTest, iq, spectra

import numpy as np

from penstock import Client
from penstock.wire import MessageType


class Arguments(RouterTest):
    def test_times_that_no_clock_has_are_refused_and_nothing_is_sent(self):
        client = self.connect()
        for error, timeout in ((ValueError, float("inf")), (ValueError, float("nan")), (ValueError, 1e11),
                               (TypeError, "5"), (TypeError, 1j), (ValueError, -float("inf"))):
            for call in (lambda: client.submit("spectrum", iq(), timeout=timeout),
                         lambda: client.ping(timeout=timeout), lambda: client.session("decimated", timeout=timeout),
                         lambda: client.status(timeout=timeout), lambda: client.trace(timeout=timeout)):
                with self.subTest(timeout=timeout), self.assertRaisesRegex(error, "timeout"):
                    call()
        self.expect_nothing_before_a_ping(client)

    def test_a_trace_id_is_16_bytes(self):
        client = self.connect()
        for error, trace_id in ((TypeError, "0123456789abcdef"), (ValueError, b"0"), (TypeError, None), (TypeError, 16)):
            with self.subTest(trace_id=trace_id), self.assertRaisesRegex(error, "trace id"):
                client.submit("spectrum", iq(), trace_id=trace_id)
        self.expect_nothing_before_a_ping(client)

    def test_long_times_are_times(self):
        client = self.connect(retry_after=1e9, retry_limit=1e9, grace=1e9)
        future = client.submit("spectrum", iq(), timeout=np.float32(1e8))
        message = self.router.expect(MessageType.SUBMIT)
        self.assertGreater(message.header.timeout_ns, 1e16)
        self.router.result(message, *spectra())
        self.wait(future)

    def test_a_client_of_wrong_times_is_not_made(self):
        for name, value in (("retry_after", -1), ("retry_after", 0), ("retry_limit", float("nan")), ("grace", -0.1),
                            ("timeout", float("inf")), ("timeout", -1), ("connect_timeout", float("nan"))):
            with self.subTest(name=name), self.assertRaisesRegex(ValueError, name):
                Client(self.router.url, **{name: value})
        for name in ("retry_after", "timeout", "connect_timeout"):
            with self.subTest(name=name), self.assertRaisesRegex(TypeError, name):
                Client(self.router.url, **{name: "1"})
        with self.assertRaisesRegex(TypeError, "name"):
            Client(self.router.url, name=b"bytes")

    def test_what_is_no_array_of_the_pipelines_is_refused_with_what_to_write(self):
        client = self.connect()
        masked = np.ma.masked_array(np.ones(8, np.float32), [1] + [0] * 7)
        for pipeline, x, wanted in (
                ("scaled", masked, r"masked.*x\.filled\(np\.nan\)"),
                ("spectrum", np.ma.masked_array(iq()), r"masked.*x\.filled\("),
                ("scaled", b"12345678", r"bytes: write np\.frombuffer\(x, np\.float32\)$"),
                ("spectrum", bytes(8), r"bytes: write np\.frombuffer\(x, np\.uint8\)\.reshape\(-1, 2\)"),
                ("scaled", bytearray(8), r"bytearray: write np\.frombuffer\(x, np\.float32\)$"),
                ("scaled", [1.0, 2.0], r"list .*float64.*: write np\.asarray\(x, np\.float32\)$"),
                ("scaled", (1, 2), r"tuple .*: write np\.asarray\(x, np\.float32\)$"),
                ("scaled", np.ones(8), r"float64 \[8\]: write x\.astype\(np\.float32\)$"),
                ("spectrum", iq().astype(np.float32), r"float32.*: write x\.astype\(np\.uint8\), after scaling"),
                ("scaled", np.ones(8, np.complex64), r"complex64 \[8\]$"),
                ("scaled", [[1.0], [2.0, 3.0]], "what is no array"),
                ("scaled", None, "NoneType"), ("scaled", "text", "str"), ("scaled", {}, "dict")):
            with self.subTest(x=x), self.assertRaisesRegex(TypeError, wanted):
                client.submit(pipeline, x)
        self.expect_nothing_before_a_ping(client)

    def test_a_memoryview_of_the_right_kind_is_an_array(self):
        client = self.connect()
        client.submit("scaled", memoryview(np.arange(8, dtype=np.float32)))
        np.testing.assert_array_equal(self.router.expect(MessageType.SUBMIT).array(), [np.arange(8)])


if __name__ == "__main__":
    unittest.main()
