"""Frames and results in memory that is shared with the daemon."""
import unittest

from scripted_keeper import FLOATS, SharedMemoryTest, frame, place_of
from scripted_router import PATIENCE_S

import numpy as np

import penstock
from penstock import Client, control
from penstock.wire import MessageType


class Choice(SharedMemoryTest):
    def test_the_first_large_request_asks_and_those_after_it_are_shared(self):
        client = self.connect(self.greeting)
        client.submit("wide", frame())
        lent = None
        kinds = set()
        for _ in range(2):  # in whichever order the two were sent
            message = self.router.receive()
            kinds.add(message.type)
            if message.type == MessageType.ATTACH:
                self.tell_where(message)
                lent = self.keeper.lend()
        self.assertEqual(kinds, {MessageType.SUBMIT, MessageType.ATTACH})
        client.empty(1, np.uint8)  # waits for it
        self.assertEqual(client.transport, "shm")
        future = client.submit("wide", frame(2))
        message = self.router.expect(MessageType.SUBMIT_SHARED)
        np.testing.assert_array_equal(lent.input(message), [frame(2)])
        self.run_shared(lent, message, 0.5)
        result = self.wait(future)
        np.testing.assert_array_equal(result["out"], frame(2.5))
        np.testing.assert_array_equal(result["top"], [0.5, 0.5, 0.5])

    def test_small_requests_ask_for_nothing_and_are_not_shared(self):
        client = self.connect(self.greeting)
        client.submit("peak", frame(length=100))
        self.router.expect(MessageType.SUBMIT)
        self.expect_nothing_before_a_ping(client)
        client, _ = self.connect_shared()
        client.submit("peak", frame(length=100))
        self.router.expect(MessageType.SUBMIT)

    def test_requests_are_shared_when_their_frames_or_their_outputs_are_large(self):
        client, lent = self.connect_shared()
        for pipeline, x in (("peak", frame()), ("tall", frame(length=100))):
            client.submit(pipeline, x)
            message = self.router.expect(MessageType.SUBMIT_SHARED)
            np.testing.assert_array_equal(lent.input(message), [x])

    def test_short_frames_are_not_large_for_what_their_outputs_could_be_at_most(self):
        client, _ = self.connect_shared()
        client.submit("wide", frame(length=100))
        self.router.expect(MessageType.SUBMIT)

    def test_zmq_never_asks(self):
        client = self.connect(self.greeting, transport="zmq")
        client.submit("wide", frame())
        self.router.expect(MessageType.SUBMIT)
        client.empty(4, np.float32)
        self.expect_nothing_before_a_ping(client)
        self.assertEqual(client.transport, "zmq")

    def test_a_daemon_that_shares_nothing_is_not_asked(self):
        client = self.connect({**self.greeting, "shared_bytes": 0})
        client.submit("wide", frame())
        self.router.expect(MessageType.SUBMIT)
        self.expect_nothing_before_a_ping(client)

    def test_shm_raises_where_no_memory_can_be_had(self):
        for answer, raised in ((lambda attach: self.tell_where(attach, "/nowhere/penstock"), penstock.Rejected),
                               (self.refuse_all, penstock.Rejected),
                               (lambda attach: self.close_at_once(attach), penstock.Rejected)):
            connecting = self.aside(Client, self.router.url, transport="shm", connect_timeout=PATIENCE_S)
            self.router.welcome(self.router.expect(MessageType.HELLO), **self.greeting)
            answer(self.router.expect(MessageType.ATTACH))
            self.assertIsInstance(self.error_of(connecting), raised)
            self.router.expect(MessageType.GOODBYE)

    def test_shm_raises_where_the_daemon_shares_nothing_or_stays_silent(self):
        connecting = self.aside(Client, self.router.url, transport="shm", connect_timeout=PATIENCE_S)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        self.assertIsInstance(self.error_of(connecting), penstock.Rejected)
        self.router.expect(MessageType.GOODBYE)
        connecting = self.aside(Client, self.router.url, transport="shm", connect_timeout=0.3, grace=0)
        self.router.welcome(self.router.expect(MessageType.HELLO), **self.greeting)
        self.tell_where(self.router.expect(MessageType.ATTACH))  # and nobody answers there
        self.assertIsInstance(self.error_of(connecting), penstock.Expired)

    def test_a_program_says_how_much_to_begin_with(self):
        connecting = self.aside(Client, self.router.url, transport="shm", connect_timeout=PATIENCE_S,
                                shared_at_first=20 << 20)
        self.router.welcome(self.router.expect(MessageType.HELLO), **self.greeting)
        attach = self.router.expect(MessageType.ATTACH)
        self.assertEqual(control.decode(control.Attach, attach.parts[1]).bytes, 20 << 20)
        self.tell_where(attach, "/nowhere/penstock")
        self.error_of(connecting)

    def test_a_client_of_another_machine_goes_on_through_the_socket(self):
        client = self.connect(self.greeting)
        arriving = self.aside(client.empty, 4, np.float32)
        self.tell_where(self.router.expect(MessageType.ATTACH), "/nowhere/penstock")
        self.assertEqual(self.wait(arriving).shape, (4,))
        self.assertEqual(client.transport, "zmq")
        future = client.submit("wide", frame())
        while True:
            message = self.router.receive()
            if message.type == MessageType.SUBMIT:
                break
            self.router.error(message, penstock.Status.REJECTED)
        self.router.result(message, np.zeros((1, 3), np.float32), frame()[np.newaxis])
        self.wait(future)

    def test_bad_options_are_refused(self):
        for options in ({"transport": "tcp"}, {"shared_bytes": 0}, {"shared_at_first": 0}):
            with self.assertRaises(ValueError):
                Client(self.router.url, **options)

    def refuse_all(self, attach):
        """Refuses it, and what less is asked for in its place."""
        sizes = [control.decode(control.Attach, attach.parts[1]).bytes]
        self.router.error(attach, penstock.Status.REJECTED)
        while sizes[-1] > 64 << 10:
            attach = self.router.expect(MessageType.ATTACH)
            sizes.append(control.decode(control.Attach, attach.parts[1]).bytes)
            self.router.error(attach, penstock.Status.REJECTED)
        self.assertEqual(sizes, [(64 << 10) << each for each in reversed(range(7))])

    def close_at_once(self, attach):
        self.tell_where(attach)
        self.keeper.accept().close()


class Arrays(SharedMemoryTest):
    def test_an_array_of_empty_is_sent_from_where_it_lies(self):
        client, lent = self.connect_shared()
        x = client.empty((2, FLOATS // 2), np.float32)
        x[:] = 3
        client.submit("wide", x, frames=2)
        message = self.router.expect(MessageType.SUBMIT_SHARED)
        np.testing.assert_array_equal(lent.input(message), x)
        x[1, 5] = 77
        self.assertEqual(lent.input(message)[1, 5], 77)

    def test_small_arrays_of_empty_are_shared_too(self):
        client, lent = self.connect_shared()
        x = client.frames("wide", 2, length=8)
        x[:] = np.arange(16).reshape(2, 8)
        client.submit("wide", x, frames=2)
        np.testing.assert_array_equal(lent.input(self.router.expect(MessageType.SUBMIT_SHARED)), x)

    def test_frames_has_the_pipelines_shape_and_dtype(self):
        client, _ = self.connect_shared()
        for given, shape in (((), (FLOATS,)), ((2,), (2, FLOATS))):
            made = client.frames("wide", *given)
            self.assertEqual((made.shape, made.dtype), (shape, np.float32))
        self.assertEqual(client.frames("wide", 4, length=9).shape, (4, 9))
        for wrong in ({"count": 0}, {"count": 5}, {"length": 0}, {"length": FLOATS + 1}):
            with self.assertRaises(ValueError):
                client.frames("wide", **wrong)
        with self.assertRaises(LookupError):
            client.frames("nothing")

    def test_a_part_of_it_is_sent_in_place_if_a_place_can_name_it(self):
        client, lent = self.connect_shared()
        whole = client.empty(4 * FLOATS, np.float32)
        whole[:] = np.arange(4 * FLOATS)
        for part, in_place in ((whole[FLOATS:2 * FLOATS], True), (whole[1:FLOATS + 1], False),
                               (whole[:2 * FLOATS:2], False)):
            client.submit("wide", part)
            message = self.router.expect(MessageType.SUBMIT_SHARED)
            frames = lent.input(message)
            np.testing.assert_array_equal(frames[0], part)
            part[3] += 1
            self.assertEqual(frames[0, 3] == part[3], in_place)
            self.run_shared(lent, message)

    def test_an_array_of_another_byte_order_is_converted_into_the_arena(self):
        client, lent = self.connect_shared()
        client.submit("wide", np.arange(FLOATS, dtype=">f4"))
        np.testing.assert_array_equal(lent.input(self.router.expect(MessageType.SUBMIT_SHARED))[0], np.arange(FLOATS))

    def test_without_an_arena_empty_gives_an_ordinary_array(self):
        client = self.connect(self.greeting, transport="zmq")
        x = client.frames("wide", 2)
        x[:] = 1
        client.submit("wide", x)
        np.testing.assert_array_equal(self.router.expect(MessageType.SUBMIT).array(), x)

    def test_results_are_views_of_the_arena(self):
        client, lent = self.connect_shared()
        future = client.submit("wide", np.stack([frame(1), frame(2)]))
        message = self.router.expect(MessageType.SUBMIT_SHARED)
        self.run_shared(lent, message)
        result = self.wait(future)
        self.assertEqual([array.shape for array in result.values()], [(2, 3), (2, FLOATS)])
        lent.output(message, (2, 3), (2, FLOATS))[1][1, 7] = 99
        self.assertEqual(result["out"][1, 7], 99)

    def test_a_result_can_be_submitted_again_without_a_copy(self):
        client, lent = self.connect_shared()
        future = client.submit("wide", frame(1))
        first = self.router.expect(MessageType.SUBMIT_SHARED)
        self.run_shared(lent, first, 1)
        client.submit("wide", self.wait(future)["out"])
        second = self.router.expect(MessageType.SUBMIT_SHARED)
        self.assertEqual(place_of(second).input, place_of(first).output + 64)
        np.testing.assert_array_equal(lent.input(second), [frame(2)])

    def test_a_result_that_does_not_fit_its_room_is_an_error(self):
        client, _ = self.connect_shared()
        for shapes in (((1, 3), (1, 2 * FLOATS)), ((1, 3),), ((1, FLOATS), (1, 3))):
            future = client.submit("wide", frame())
            self.result_shared(self.router.expect(MessageType.SUBMIT_SHARED), *shapes)
            self.assertEqual(self.error_of(future).status_name, "MALFORMED")

    def test_a_result_in_shared_memory_of_a_request_that_was_not_is_an_error(self):
        client, _ = self.connect_shared()
        future = client.submit("peak", frame(length=8))
        self.result_shared(self.router.expect(MessageType.SUBMIT), (1, 3))
        self.assertEqual(self.error_of(future).status_name, "MALFORMED")


if __name__ == "__main__":
    unittest.main()
