"""Whole recordings and streams through a session: cut, sent, and put together."""
import threading
import unittest
import warnings

from scripted_router import PATIENCE_S, RouterTest

import numpy as np

import penstock
from penstock import Status, wire
from penstock.control import PipelineDescription, TensorDescription
from penstock.wire import MessageType

_INPUT = TensorDescription("input", "f32", "f32", (8,), True, "")
#: Takes "max 8": a sum for each frame, and every second sample.
HALVED = PipelineDescription(0, "halved", 4, _INPUT, (TensorDescription("sum", "f32", "f32", (1,), False, "moments"),
                                                       TensorDescription("half", "f32", "f32", (4,), True, "fir")),
                             keeps_state=True, period=2)
#: The same with a period that does not divide 8.
ODD = PipelineDescription(1, "odd", 4, _INPUT, HALVED.outputs, keeps_state=True, period=3)
#: Takes frames of 4 of two channels.
FIXED = PipelineDescription(2, "fixed", 4, TensorDescription("input", "i16", "i16", (4, 2), False, ""),
                            (TensorDescription("out", "i16", "i16", (4, 2), False, "affine"),))
#: Takes frames of two channels, each of 4 samples.
PLANAR = PipelineDescription(3, "planar", 4, TensorDescription("input", "i16", "i16", (2, 4), False, "", axis=1),
                             (TensorDescription("out", "i16", "i16", (2, 4), False, "affine"),))


class Recordings(RouterTest):
    def setUp(self):
        super().setUp()
        self.client = self.connect({"pipelines": (HALVED, ODD, FIXED, PLANAR)})
        self.sizes = []
        self.indices = []

    def serve(self):
        """Answers what comes as the pipelines do, until the session is closed."""
        seen = {}
        while (message := self.router.receive()).type != MessageType.CLOSE_SESSION:
            if message.type == MessageType.OPEN_SESSION:
                number = len(seen) + 5
                seen[number] = 0
                self.router.opened(message, number)
                continue
            if message.type == MessageType.CANCEL:
                continue  # it has been answered
            x = message.array()
            self.sizes.append(x.shape[:2])
            account = wire.decode_account(message.parts[0], message.header)
            self.indices.append(None if account is None else account.index)
            if message.header.pipeline in (FIXED.id, PLANAR.id):
                self.router.result(message, x * 2)
                continue
            taken = seen[message.header.session]
            stream = x.reshape(-1)
            seen[message.header.session] += stream.size
            half = stream[taken % 2::2]
            self.router.result(message, x.sum(axis=1, keepdims=True), half.reshape(len(x), -1))

    def through(self, pipeline, what):
        serving = self.aside(self.serve)
        try:
            with self.client.session(pipeline, timeout=PATIENCE_S) as session:
                return what(session)
        finally:
            self.wait(serving)

    def check(self, x, result):
        np.testing.assert_array_equal(result["half"], x[::2])
        np.testing.assert_array_equal(result["sum"], np.add.reduceat(x, np.arange(0, len(x), 8))[:, None])

    def test_a_recording_gives_its_whole_result(self):
        x = np.arange(101, dtype=np.float32)
        for length in (101, 96, 8, 7, 1):
            self.check(x[:length], self.through("halved", lambda session: session.run(x[:length])))

    def test_small_frames_travel_together_and_the_tail_alone(self):
        self.through("halved", lambda session: session.run(np.zeros(101, np.float32)))
        self.assertEqual(self.sizes, [(4, 8), (4, 8), (4, 8), (1, 5)])

    def test_frames_of_a_length_that_is_no_multiple_of_the_period_travel_alone(self):
        x = np.arange(21, dtype=np.float32)
        self.check(x, self.through("odd", lambda session: session.run(x)))
        self.assertEqual(self.sizes, [(1, 8), (1, 8), (1, 5)])

    def test_frames_may_be_given_as_such(self):
        x = np.arange(40, dtype=np.int16).reshape(5, 4, 2)
        given = self.through("fixed", lambda session: session.run(x))
        np.testing.assert_array_equal(given.array, x * 2)
        self.assertEqual(self.sizes, [(4, 4), (1, 4)])

    def test_a_planar_recording_is_cut_along_its_time(self):
        x = np.arange(46, dtype=np.int16).reshape(2, 23)
        frames = np.moveaxis(x[:, :20].reshape(2, 5, 4), 0, 1)
        rest = np.concatenate([x[:, 20:], np.zeros((2, 1), np.int16)], axis=1)
        given = self.through("planar", lambda session: session.run(x, tail="pad", index=100))
        np.testing.assert_array_equal(given.array, 2 * np.concatenate([frames, rest[np.newaxis]]))
        self.assertEqual((self.sizes, self.indices), ([(4, 2), (1, 2), (1, 2)], [100, 116, 120]))
        given = self.through("planar", lambda session: session.run(frames, index=7))
        np.testing.assert_array_equal(given.array, 2 * frames)
        self.assertEqual(self.indices[3:], [7, 23])
        blocks = [x[:, :3], x[:, 3:4], x[:, 4:21], x[:, 21:]]
        given = self.through("planar", lambda session: [
            each.array for each in session.stream(blocks, tail="drop", index=0)])
        np.testing.assert_array_equal(np.concatenate(given), 2 * frames)
        self.assertEqual(self.indices[5:], [0, 4])
        with self.assertRaisesRegex(ValueError, r"has the shape \[2, samples\], not \[4, 2\]"):
            self.through("planar", lambda session: session.run(np.zeros((4, 2), np.int16)))

    def test_an_empty_recording_gives_empty_outputs(self):
        given = self.through("halved", lambda session: session.run(np.zeros(0, np.float32)))
        self.assertEqual((given["sum"].shape, given["half"].shape), ((0, 1), (0,)))

    def test_a_tail_that_fills_no_frame_is_what_the_caller_says(self):
        x = np.arange(22, dtype=np.int16).reshape(11, 2)
        with self.assertWarnsRegex(UserWarning, "3 samples at the end fill no frame of 4"):
            given = self.through("fixed", lambda session: session.run(x))
        np.testing.assert_array_equal(given.array, (x[:8] * 2).reshape(2, 4, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            given = self.through("fixed", lambda session: session.run(x, tail="drop"))
            np.testing.assert_array_equal(given.array, (x[:8] * 2).reshape(2, 4, 2))
            given = self.through("fixed", lambda session: session.run(x, tail="pad"))
        np.testing.assert_array_equal(given.array.reshape(-1, 2), np.concatenate([x * 2, np.zeros((1, 2), np.int16)]))
        for tail, wanted in (("error", "tail=\"drop\""), ("nonsense", "tail is")):
            with self.assertRaisesRegex(ValueError, wanted):
                self.through("fixed", lambda session: session.run(x, tail=tail))

    def test_what_does_not_fit_is_refused(self):
        for error, x in ((ValueError, np.zeros((4, 3), np.int16)), (ValueError, np.int16(4)),
                         (ValueError, np.zeros((2, 2, 4, 2), np.int16)), (ValueError, np.zeros((2, 3, 2), np.int16)), (ValueError, np.zeros(4, np.int16)),
                         (TypeError, np.zeros((4, 2), np.int32)), (TypeError, np.ma.zeros((4, 2), np.int16))):
            with self.subTest(x=x), self.assertRaises(error):
                self.through("fixed", lambda session: session.run(x))

    def test_a_stream_yields_what_run_gives_whatever_the_blocks(self):
        x = np.arange(100, dtype=np.float32)
        for cuts in ((), (50,), (1, 2, 3, 30, 30, 99), range(1, 100, 7)):
            results = self.through("halved", lambda session: list(session.stream(np.split(x, cuts))))
            np.testing.assert_array_equal(np.concatenate([each["half"] for each in results]), x[::2])
        y = np.arange(88, dtype=np.int16).reshape(44, 2)
        results = self.through("fixed", lambda session: list(session.stream(np.split(y, (1, 2, 3, 20, 27)))))
        np.testing.assert_array_equal(np.concatenate([each.array for each in results]).reshape(-1, 2), y * 2)

    def test_a_live_stream_yields_before_the_next_block_comes(self):
        came = []
        pace = threading.Event()

        def live():
            for block in range(3):
                pace.wait(0.7)  # long beside what a result takes
                came.append(("block", block))
                yield np.full(8, block, np.float32)

        def run(session):
            for number, _ in enumerate(session.stream(live())):
                came.append(("result", number))
        self.through("halved", run)
        self.assertEqual(came, [(kind, number) for number in range(3) for kind in ("block", "result")])

    def test_the_error_of_a_request_is_raised_and_the_others_are_given_up(self):
        opening = self.aside(self.client.session, "fixed", timeout=PATIENCE_S)
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION))
        running = self.aside(self.wait(opening).run, np.zeros((48, 2), np.int16))
        messages = [self.router.expect(MessageType.SUBMIT) for _ in range(3)]
        self.router.result(messages[0], messages[0].array())
        self.router.error(messages[1], Status.FAILED, "no", stage="out")
        error = self.error_of(running)
        self.assertIsInstance(error, penstock.Failed)

    def test_leaving_a_stream_early_gives_up_what_is_in_flight(self):
        def leave(session):
            results = session.stream(np.zeros((64, 4, 2), np.int16).reshape(-1, 4, 2))
            first = next(results)
            results.close()
            return first
        given = self.through("fixed", leave)
        self.assertEqual(given.array.shape[1:], (4, 2))


if __name__ == "__main__":
    unittest.main()
