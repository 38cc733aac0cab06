"""Requests: arguments, credits, results and errors."""
import dataclasses
import unittest

from scripted_router import LARGE, PATIENCE_S, RouterTest, SCALED, SPECTRUM, TensorDescription, iq, spectra, welcome

import numpy as np

import penstock
from penstock import Client, Status, control, wire
from penstock.wire import MessageType


class Requests(RouterTest):
    def test_one_frame_gives_outputs_of_the_frame_shape(self):
        client = self.connect()
        future = client.submit("spectrum", iq()[0])
        self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
        result = self.wait(future)
        np.testing.assert_array_equal(result["psd"], spectra()[0][0])
        np.testing.assert_array_equal(result["stats"], spectra()[1][0])
        self.assertEqual(list(result), ["psd", "stats"])

    def test_several_frames_give_outputs_with_a_frames_dimension(self):
        client = self.connect()
        for count in (1, 3):
            future = client.submit("spectrum", iq(count))
            self.router.result(self.router.expect(MessageType.SUBMIT), *spectra(count))
            np.testing.assert_array_equal(self.wait(future)["psd"], spectra(count)[0])

    def test_a_variable_pipeline_takes_shorter_frames(self):
        client = self.connect()
        future = client.submit("scaled", np.ones((2, 3), np.float32), frames=2)
        message = self.router.expect(MessageType.SUBMIT)
        self.assertEqual(message.array().shape, (2, 3))
        self.router.result(message, np.full((2, 3), 7, np.float32))
        np.testing.assert_array_equal(self.wait(future).array, np.full((2, 3), 7))

    def test_frames_that_might_be_channels_are_refused_until_they_are_counted(self):
        client = self.connect()
        with self.assertRaisesRegex(ValueError, r"2 frames of 3 samples or 2 samples of 3 channels.*frames=2.*max 8"):
            client.submit("scaled", np.ones((2, 3), np.float32))
        with self.assertRaisesRegex(ValueError, "is 2 frames of pipeline 'scaled'.* and not 3"):
            client.submit("scaled", np.ones((2, 3), np.float32), frames=3)
        for x in (np.ones(3), np.ones((1, 3)), np.ones((2, 8))):  # nothing else than these can be meant
            client.submit("scaled", x.astype(np.float32))
            self.router.expect(MessageType.SUBMIT)

    def test_channels_of_iq_are_none_of_its_frames_either(self):
        radio = dataclasses.replace(SCALED, input=TensorDescription("input", "i16", "ci16", (8, 2), True, ""))
        channels = dataclasses.replace(SCALED, input=TensorDescription("input", "f32", "f32", (8, 2), True, ""))
        with self.assertRaisesRegex(ValueError, "frames=4"):
            self.connect({"pipelines": (radio,)}).submit("scaled", np.ones((4, 3, 2), np.int16))
        self.connect({"pipelines": (channels,)}).submit("scaled", np.ones((4, 3, 2), np.float32))

    def test_the_message_says_what_was_asked(self):
        client = self.connect()
        client.submit("scaled", np.arange(8, dtype=">f4"), timeout=5, trace_id=bytes(range(16)))
        message = self.router.expect(MessageType.SUBMIT)
        self.assertEqual((message.header.pipeline, message.header.frames, message.header.tensors), (1, 1, 1))
        self.assertEqual(message.header.trace_id, bytes(range(16)))
        self.assertGreater(message.header.timeout_ns, 0)
        self.assertLessEqual(message.header.timeout_ns, 5_000_000_000)
        np.testing.assert_array_equal(message.array(), [np.arange(8)])

    def test_small_payloads_go_in_one_part_to_a_daemon_that_takes_them(self):
        client = self.connect({"inline_bytes": 16})
        for count in (1, 2, 3):
            future = client.submit("spectrum", iq(count))
            message = self.router.expect(MessageType.SUBMIT)
            self.assertEqual(len(message.parts), 1 if count <= 2 else 2)
            np.testing.assert_array_equal(message.array(), iq(count))
            self.router.result(message, *spectra(count), inlined=True)
            result = self.wait(future)
            for name, expected in zip(("psd", "stats"), spectra(count)):
                np.testing.assert_array_equal(result[name], expected)

    def test_a_payload_of_no_bytes_is_a_part_where_the_daemon_says_nothing_of_one_part(self):
        nothing = dataclasses.replace(SCALED, input=TensorDescription("input", "f32", "f32", (0,), False, ""))
        for offer, parts in (({}, 2), ({"inline_bytes": 4096}, 1)):
            client = self.connect({"pipelines": (nothing,), **offer})
            client.submit("scaled", np.zeros((1, 0), np.float32))
            self.assertEqual(len(self.router.expect(MessageType.SUBMIT).parts), parts)

    def test_no_more_goes_in_one_part_than_this_version_sends(self):
        many = dataclasses.replace(SPECTRUM, max_frames=513)
        client = self.connect({"inline_bytes": 1 << 63, "pipelines": (many,)})
        for count in (512, 513):
            client.submit("spectrum", np.zeros((count, 4, 2), np.uint8))
            self.assertEqual(len(self.router.expect(MessageType.SUBMIT).parts), 1 if count == 512 else 2)

    def test_a_result_in_one_part_may_have_empty_and_odd_outputs(self):
        odd = dataclasses.replace(SCALED, outputs=(
            TensorDescription("few", "u8", "u8", (3,), False, "affine"),
            TensorDescription("none", "c64", "cf32", (8,), True, "fir"),
            TensorDescription("out", "f32", "f32", (8,), True, "affine")))
        client = self.connect({"pipelines": (odd,)})
        future = client.submit("scaled", np.ones((1, 2), np.float32))
        outputs = (np.arange(3, dtype=np.uint8)[None], np.zeros((1, 0), np.complex64),
                   np.arange(2, dtype=np.float32)[None])
        self.router.result(self.router.expect(MessageType.SUBMIT), *outputs, inlined=True)
        result = self.wait(future)
        for name, expected in zip(("few", "none", "out"), outputs):
            np.testing.assert_array_equal(result[name], expected)
            self.assertEqual((result[name].dtype, result[name].shape), (expected.dtype, expected.shape))
        self.assertEqual(float(result["out"].sum()), 1.0)

    def test_a_welcome_that_comes_unasked_says_anew_what_may_go_in_one_part(self):
        client = self.connect()
        for parts, inline_bytes in ((2, 4096), (1, 0), (2, 0)):
            future = client.submit("spectrum", iq())
            message = self.router.expect(MessageType.SUBMIT)
            self.assertEqual(len(message.parts), parts)
            self.router.send_header(message, MessageType.WELCOME, control.encode(welcome(inline_bytes=inline_bytes)),
                                    request_id=0)
            self.router.result(message, *spectra())
            self.wait(future)

    def test_hello_says_what_may_come_in_one_part(self):
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S)
        hello = self.router.expect(MessageType.HELLO)
        self.assertEqual(control.decode(control.Hello, hello.parts[1]).inline_bytes, wire.MAX_INLINE_BYTES)
        self.router.welcome(hello)
        connecting.result(PATIENCE_S).close()

    def test_a_result_in_one_part_of_another_size_is_an_error(self):
        client = self.connect()
        for spoil in (lambda part: part[:-1], lambda part: part + b"\0", lambda part: part[:64 + 2 * 80]):
            future = client.submit("spectrum", iq())
            message = self.router.expect(MessageType.SUBMIT)
            arrays = spectra()
            head = wire.encode_header(wire.Header(MessageType.RESULT, message.id, tensors=2, frames=1))
            head += b"".join(wire.encode_tensor(wire.tensor_header(array)) for array in arrays)
            self.router.send(message, spoil(head + b"".join(array.tobytes() for array in arrays)))
            self.assertEqual(self.error_of(future).status, Status.MALFORMED)

    def test_no_timeout_is_zero_on_the_wire(self):
        self.connect(timeout=None).submit("spectrum", iq())
        self.assertEqual(self.router.expect(MessageType.SUBMIT).header.timeout_ns, 0)

    def test_large_arrays_arrive_whole(self):
        client = self.connect()
        x = np.arange(1 << 20, dtype=np.float32)
        future = client.submit("large", x)
        message = self.router.expect(MessageType.SUBMIT)
        np.testing.assert_array_equal(message.array()[0], x)
        self.router.result(message, np.ones((1, 1), np.float32))
        np.testing.assert_array_equal(np.asarray(self.wait(future)), [1])

    def test_small_arrays_may_be_written_to_after_submit(self):
        client, x = self.connect(), iq()
        client.submit("spectrum", x)
        x[:] = 255
        np.testing.assert_array_equal(self.router.expect(MessageType.SUBMIT).array(), iq())

    def test_replies_may_come_in_any_order(self):
        client = self.connect()
        futures = [client.submit("spectrum", iq()) for _ in range(3)]
        messages = [self.router.expect(MessageType.SUBMIT) for _ in futures]
        self.assertEqual(len({message.id for message in messages}), 3)
        for index in (2, 0, 1):
            self.router.result(messages[index], spectra()[0] + index, spectra()[1])
        for index, future in enumerate(futures):
            self.assertEqual(self.wait(future)["psd"][0, 0], index)

    def test_requests_of_many_threads_each_get_their_own_answer(self):
        client = self.connect({"credit_requests": 7})

        def submit_all(thread):
            for round in range(50):
                x = np.full(8, 100 * thread + round, np.float32)
                np.testing.assert_array_equal(client.submit("scaled", x).result(PATIENCE_S).array, x)

        running = [self.aside(submit_all, thread) for thread in range(4)]
        for _ in range(200):
            message = self.router.expect(MessageType.SUBMIT)
            self.router.result(message, message.array())
        for each in running:
            self.wait(each)

    def test_what_does_not_fit_is_refused_before_it_is_sent(self):
        client = self.connect()
        for error, pipeline, x in (
                (LookupError, "nothing", iq()), (TypeError, "spectrum", iq().astype(np.int8)),
                (TypeError, "scaled", np.ones(8)), (ValueError, "spectrum", iq()[0, :3]),
                (ValueError, "spectrum", iq()[np.newaxis]), (ValueError, "spectrum", iq(17)),
                (ValueError, "spectrum", iq()[:0]), (ValueError, "scaled", np.ones(9, np.float32)),
                (ValueError, "scaled", np.ones(0, np.float32)), (ValueError, "decimated", np.ones(4, np.float32))):
            with self.subTest(pipeline=pipeline, x=x), self.assertRaises(error):
                client.submit(pipeline, x)
        self.expect_nothing_before_a_ping(client)

    def test_a_request_over_the_limit_is_refused_before_it_is_sent(self):
        client = self.connect({"max_request_bytes": 15})
        with self.assertRaisesRegex(ValueError, "at most 15 bytes"):
            client.submit("spectrum", iq(2))

    def test_ping_measures_and_status_reports(self):
        client = self.connect()
        self.assertTrue(0 < self.expect_nothing_before_a_ping(client) < PATIENCE_S)
        status = self.aside(client.status)
        self.router.send_header(self.router.expect(MessageType.GET_STATUS), MessageType.STATUS_REPORT, b'{"accepted":3}')
        self.assertEqual(self.wait(status), {"accepted": 3})

    def test_a_status_without_bound_is_malformed_and_the_client_lives_on(self):
        client = self.connect()
        deep, many, large = b"[" * 20000 + b"]" * 20000, b"[0" + b",0" * 32768 + b"]", b" " * 65536
        bodies = [b'{"a":' + value + b"}" for value in (deep, b"[" * 16 + b"]" * 16, many[:65000], large + b"1")]
        for body in bodies + [b"[]", b"", b"{"]:
            with self.subTest(body=body[:8], length=len(body)):
                status = self.aside(client.status)
                self.router.send_header(self.router.expect(MessageType.GET_STATUS), MessageType.STATUS_REPORT, body)
                self.assertEqual(self.error_of(status).status, Status.MALFORMED)
        self.expect_nothing_before_a_ping(client)

    def test_a_welcome_without_bound_is_no_welcome(self):
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S, retry_after=60)
        hello = self.router.expect(MessageType.HELLO)
        for body in (b"{" + b" " * 65536 + b"}", b'{"pipelines":' + b"[" * 20000 + b"]" * 20000 + b"}"):
            self.router.send_header(hello, MessageType.WELCOME, body)
        self.router.welcome(hello)
        self.addCleanup(self.wait(connecting).close)

    def test_a_trace_is_asked_for_with_a_cursor_and_gives_the_next(self):
        client = self.connect()
        for cursor, following in ((0, 17), (17, 17)):
            trace = self.aside(client.trace, cursor)
            message = self.router.expect(MessageType.GET_TRACE)
            self.assertEqual(message.header.sequence, cursor)
            self.router.send_header(message, MessageType.TRACE_REPORT, b'{"batches":[]}', sequence=following)
            self.assertEqual(self.wait(trace), ({"batches": []}, following))

    def test_a_bad_cursor_is_refused_before_it_is_sent(self):
        client = self.connect()
        for error, cursor in ((ValueError, -1), (ValueError, 1 << 64), (TypeError, 0.5)):
            with self.subTest(cursor=cursor), self.assertRaises(error):
                client.trace(cursor)
        self.expect_nothing_before_a_ping(client)

    def test_it_lists_the_pipelines(self):
        client = self.connect()
        self.assertEqual(list(client.pipelines), ["spectrum", "scaled", "large", "decimated"])
        self.assertEqual(client.pipelines["large"], LARGE)
        self.assertEqual(str(client.pipelines["spectrum"].input), "u8[4, 2] (cu8)")
        self.assertEqual(str(client.pipelines["scaled"].input), "f32[max 8]")
        self.assertEqual(client.server, "penstockd test")


class Errors(RouterTest):
    def test_each_kind_has_its_class(self):
        client = self.connect()
        kinds = {1: penstock.Rejected, 2: penstock.Expired, 3: penstock.Cancelled, 4: penstock.Failed,
                 5: penstock.Shutdown, 6: penstock.SessionLost}
        for status in set(Status) - {Status.OK, Status.HELLO_REQUIRED}:
            with self.subTest(status=status.name):
                future = client.submit("spectrum", iq())
                message = self.router.expect(MessageType.SUBMIT)
                self.router.error(message, status, "why", "queued", "psd", "cudaErrorUnknown")
                error = self.error_of(future)
                self.assertIsInstance(error, kinds[status >> 8])
                self.assertEqual((error.status_name, error.status), (status.name, status))
                self.assertEqual((error.reason, error.step, error.stage, error.device_error, error.request_id),
                                 ("why", "queued", "psd", "cudaErrorUnknown", message.id))
                self.assertIn("why", str(error))

    def test_an_unknown_reason_is_of_its_kind(self):
        future = self.connect().submit("spectrum", iq())
        self.router.error(self.router.expect(MessageType.SUBMIT), 0x04FE)
        error = self.error_of(future)
        self.assertIsInstance(error, penstock.Failed)
        self.assertEqual((error.status, error.status_name), (0x04FE, "FAILED"))

    def test_a_result_that_is_not_the_pipelines_is_malformed(self):
        client = self.connect()
        good = spectra()
        for arrays in ((good[0],), (*good, good[0]), (good[0].astype(np.float64), good[1]), (good[0][:, :3], good[1]),
                       spectra(2)):
            with self.subTest(shapes=[array.shape for array in arrays]):
                future = client.submit("spectrum", iq())
                self.router.result(self.router.expect(MessageType.SUBMIT), *arrays)
                self.assertEqual(self.error_of(future).status_name, "MALFORMED")

    def test_messages_that_cannot_be_read_disturb_nothing(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        message = self.router.expect(MessageType.SUBMIT)
        good = wire.encode_header(wire.Header(MessageType.RESULT, message.id))
        for parts in ((b"",), (b"PNSK",), (b"x" * 64,), (good[:63],), (good[:6] + b"\0\0" + good[8:],)):
            self.router.send(message, *parts)
        self.router.send_header(message, 200)
        self.router.result(message, *spectra())
        self.assertEqual(len(self.wait(future)), 2)

    def test_a_refused_hello_is_raised_by_the_constructor(self):
        for status, kind in ((Status.MALFORMED, penstock.Rejected), (Status.SHUTDOWN, penstock.Shutdown)):
            connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S)
            self.router.error(self.router.expect(MessageType.HELLO), status)
            self.assertIsInstance(self.error_of(connecting), kind)
            self.router.expect(MessageType.GOODBYE)

    def test_a_client_without_a_place_asks_again_soon(self):
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S, retry_after=60)
        for _ in range(2):
            self.router.error(self.router.expect(MessageType.HELLO), Status.TOO_MANY_CLIENTS)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        connecting.result(PATIENCE_S).close()

    def test_a_client_that_finds_no_place_for_long_is_told_so(self):
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S, retry_after=60)
        message = self.router.expect(MessageType.HELLO)
        while message.type == MessageType.HELLO:
            self.router.error(message, Status.TOO_MANY_CLIENTS)
            message = self.router.receive()
        self.assertEqual(message.type, MessageType.GOODBYE)
        error = self.error_of(connecting)
        self.assertIsInstance(error, penstock.Rejected)
        self.assertEqual(error.status_name, "TOO_MANY_CLIENTS")

    def test_a_daemon_of_another_major_is_named(self):
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S)
        hello = self.router.expect(MessageType.HELLO)
        self.router.send(hello, wire.encode_header(wire.Header(MessageType.ERROR, major=2)), b"{}")
        self.assertEqual(self.error_of(connecting).status_name, "UNSUPPORTED_VERSION")

    def test_no_daemon_is_an_expired_constructor(self):
        with self.assertRaisesRegex(penstock.Expired, "no daemon answered"):
            Client(self.router.url, connect_timeout=0.05)

    def test_a_bad_url_is_a_value_error(self):
        with self.assertRaises(ValueError):
            Client("nonsense")


class Results(unittest.TestCase):
    def test_only_a_single_output_needs_no_name(self):
        one = penstock.Result({"a": np.ones(2)}, 1, bytes(16))
        two = penstock.Result({"a": np.ones(2), "b": np.ones(3)}, 1, bytes(16))
        self.assertEqual(np.asarray(one, np.float32).dtype, np.float32)
        with self.assertRaisesRegex(ValueError, "a, b"):
            two.array
        with self.assertRaisesRegex(KeyError, "no output 'c'; it has a, b"):
            two["c"]
        self.assertNotIn("c", two)
        self.assertIsNone(two.get("c"))


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


class Credits(RouterTest):
    def test_submit_waits_for_a_credit(self):
        client = self.connect({"credit_requests": 2})
        futures = [client.submit("spectrum", iq()) for _ in range(2)]
        third = self.aside(client.submit, "spectrum", iq())
        messages = [self.router.expect(MessageType.SUBMIT) for _ in futures]
        self.expect_nothing_before_a_ping(client)
        self.assertFalse(third.done())
        self.router.result(messages[0], *spectra())
        self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
        self.wait(self.wait(third))

    def test_submit_waits_for_bytes(self):
        client = self.connect({"credit_bytes": 16})
        client.submit("spectrum", iq())
        second = self.aside(client.submit, "spectrum", iq(2))
        message = self.router.expect(MessageType.SUBMIT)
        self.expect_nothing_before_a_ping(client)
        self.router.result(message, *spectra())
        self.assertEqual(self.router.expect(MessageType.SUBMIT).header.frames, 2)
        self.wait(second)

    def test_every_terminal_reply_gives_its_credit_back(self):
        client = self.connect({"credit_requests": 1})
        for status in (Status.WRONG_SHAPE, Status.EXPIRED, Status.CANCELLED, Status.FAILED, Status.SHUTDOWN):
            future = client.submit("spectrum", iq(), block=False)
            self.router.error(self.router.expect(MessageType.SUBMIT), status)
            self.error_of(future)

    def test_without_blocking_it_raises(self):
        client = self.connect({"credit_requests": 1})
        client.submit("spectrum", iq(), block=False)
        with self.assertRaises(penstock.NoCredit) as caught:
            client.submit("spectrum", iq(), block=False)
        self.assertIsInstance(caught.exception, penstock.Rejected)
        self.assertEqual(caught.exception.status_name, "NO_CREDIT")

    def test_waiting_counts_against_the_timeout(self):
        client = self.connect({"credit_requests": 1})
        client.submit("spectrum", iq())
        with self.assertRaisesRegex(penstock.Expired, "no credit"):
            client.submit("spectrum", iq(), timeout=0.05)

    def test_a_second_welcome_does_not_add_credits(self):
        client = self.connect({"credit_requests": 1})
        first = client.submit("spectrum", iq())
        message = self.router.expect(MessageType.SUBMIT)
        self.router.error(message, Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO), credit_requests=1)
        self.router.expect(MessageType.SUBMIT)
        with self.assertRaises(penstock.NoCredit):
            client.submit("spectrum", iq(), block=False)
        self.assertFalse(first.done())

    def test_close_ends_the_wait(self):
        client = self.connect({"credit_requests": 1})
        client.submit("spectrum", iq())
        waiting = self.aside(client.submit, "spectrum", iq(), timeout=None)
        self.router.expect(MessageType.SUBMIT)
        client.close()
        self.assertIsInstance(self.error_of(waiting), penstock.Cancelled)

    def test_a_callback_never_waits(self):
        client = self.connect({"credit_requests": 1})
        seen = []

        def submit_twice(_):
            for _ in range(2):
                try:
                    client.submit("spectrum", iq())
                except penstock.NoCredit as error:
                    seen.append(error)

        client.submit("spectrum", iq()).add_done_callback(submit_twice)
        self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
        self.router.expect(MessageType.SUBMIT)
        self.expect_nothing_before_a_ping(client)
        self.assertEqual(len(seen), 1)


if __name__ == "__main__":
    unittest.main()
