"""Shared memory: which frames use it, how long it stays reserved, and how it grows."""
import gc
import unittest
import weakref
from unittest import mock

from scripted_router import FLOATS, IMPATIENT_S, PATIENCE_S, ROOM, SharedMemoryTest, frame, place_of

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
                lent = self.arenas.lend()
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
        self.arenas.accept().close()


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


class Reservation(SharedMemoryTest):
    """The arena has room for one request of one frame."""

    def setUp(self):
        super().setUp()
        self.client, self.lent = self.connect_shared(nbytes=ROOM)

    def submit(self, x=None):
        """The future, and the message that came."""
        return self.client.submit("wide", frame() if x is None else x), self.router.receive()

    def assert_full(self):
        """A large request goes through the socket."""
        future, message = self.submit()
        self.assertEqual(message.type, MessageType.SUBMIT)
        self.router.result(message, np.zeros((1, 3), np.float32), np.zeros((1, FLOATS), np.float32))
        self.wait(future)

    def assert_free(self):
        """A request is shared, and leaves nothing behind."""
        future, message = self.submit()
        self.assertEqual(message.type, MessageType.SUBMIT_SHARED)
        self.run_shared(self.lent, message)
        self.wait(future)

    def settled(self):
        """The connection's thread has let go of what it had."""
        self.expect_nothing_before_a_ping(self.client)
        gc.collect()

    def test_a_request_without_room_goes_through_the_socket_and_is_counted(self):
        self.submit()
        self.assertEqual(self.client.large_requests, {"shm": 1, "zmq": 0})
        self.assert_full()
        self.assertEqual(self.client.large_requests, {"shm": 1, "zmq": 1})

    def test_room_comes_back_with_the_last_view_of_a_result(self):
        future, message = self.submit()
        self.run_shared(self.lent, message, 4)
        view = self.wait(future)["out"][::3][5:]
        del future
        self.settled()
        self.assert_full()
        self.assertEqual(view[0], 5)
        del view
        self.settled()
        self.assert_free()

    def test_the_arena_is_unmapped_with_the_client_whether_or_not_garbage_is_collected(self):
        self.addCleanup(gc.enable)
        gc.disable()
        self.assert_free()
        arena = weakref.ref(self.client._connection.shared.arena)
        self.assertIsNotNone(arena())
        self.client.close()
        self.assertIsNone(arena())

    def test_many_requests_after_one_another_use_the_same_room(self):
        for _ in range(50):
            self.assert_free()
            self.settled()

    def test_an_input_stays_until_the_reply_although_the_caller_drops_it(self):
        x = self.client.frames("wide")
        x[:] = 8
        future, message = self.submit(x)
        del x
        gc.collect()
        self.assert_full()
        np.testing.assert_array_equal(self.lent.input(message), [frame(8)])
        self.router.error(message, penstock.Status.FAILED)
        self.error_of(future)
        self.settled()
        self.assert_free()

    def test_a_future_that_is_dropped_keeps_its_room_until_the_reply(self):
        future, message = self.submit()
        del future
        gc.collect()
        self.assert_full()
        self.run_shared(self.lent, message)
        self.settled()
        self.assert_free()

    def test_an_error_that_holds_keeps_it_until_released(self):
        future, message = self.submit()
        self.router.error(message, penstock.Status.EXPIRED, step="executing", holds=True)
        self.assertIsInstance(self.error_of(future), penstock.Expired)
        self.settled()
        self.assert_full()
        self.router.send_header(message, MessageType.RELEASED)
        self.settled()
        self.assert_free()

    def test_a_refusal_gives_it_back(self):
        future, message = self.submit()
        self.router.error(message, penstock.Status.WRONG_SHAPE)
        self.error_of(future)
        self.settled()
        self.assert_free()

    def test_a_request_that_the_client_gave_up_keeps_it_until_the_daemons_word(self):
        for give_up in ("cancel", "timeout"):
            future = self.client.submit("wide", frame(), timeout=0.05 if give_up == "timeout" else None)
            message = self.router.expect(MessageType.SUBMIT_SHARED)
            if give_up == "cancel":
                future.cancel()
            else:
                self.assertIsInstance(self.error_of(future), penstock.Expired)
            cancel = self.router.expect(MessageType.CANCEL)
            self.assertEqual(cancel.id, message.id)
            self.settled()
            self.assert_full()
            self.router.error(cancel, penstock.Status.CANCELLED)
            self.settled()
            self.assert_free()

    def test_credits_that_do_not_come_leave_no_room_taken(self):
        self.client.close()
        with self.assertRaises(penstock.Cancelled):
            self.client.submit("wide", frame())


class LostWords(SharedMemoryTest):
    """The arena has room for one request, and what the daemon says of that gets lost."""

    def setUp(self):
        super().setUp()
        self.client, self.lent = self.connect_shared(nbytes=ROOM, retry_after=IMPATIENT_S)
        self.newest = 0

    def submit(self, **options):
        """The future, and the first message of it that came."""
        future = self.client.submit("wide", frame(), **options)
        return future, self.next_new(MessageType.SUBMIT, MessageType.SUBMIT_SHARED)

    def next_new(self, *kinds):
        """The next message of those types that repeats none before it."""
        message = self.next_of(*kinds)
        while message.id <= self.newest:
            message = self.next_of(*kinds)
        self.newest = message.id
        return message

    def next_cancel(self, of):
        """The CANCEL of that request."""
        cancel = self.next_of(MessageType.CANCEL)
        self.assertEqual(cancel.id, of.id)
        return cancel

    def settle(self):
        """What was sent to the client has been received."""
        ping = self.aside(self.client.ping, PATIENCE_S)
        self.router.send_header(self.next_new(MessageType.PING), MessageType.PONG)
        self.wait(ping)
        gc.collect()

    def test_released_is_asked_for_until_nothing_is_held(self):
        future, message = self.submit()
        self.router.error(message, penstock.Status.EXPIRED, step="executing", holds=True)
        self.error_of(future)
        for _ in range(2):
            self.router.error(self.next_cancel(message), penstock.Status.EXPIRED, step="executing", holds=True)
        cancel = self.next_cancel(message)
        self.assertEqual(self.submit()[1].type, MessageType.SUBMIT, "it was held until now")
        self.router.error(cancel, penstock.Status.REJECTED)
        self.settle()
        self.assertEqual(self.submit()[1].type, MessageType.SUBMIT_SHARED)

    def test_a_reply_that_nobody_waits_for_is_asked_for(self):
        with mock.patch("penstock.protocol_engine._LINGER_S", 0):
            future, message = self.submit(timeout=0.1)
            self.assertIsInstance(self.error_of(future), penstock.Expired)
            for _ in range(3):  # of the request's own, and of the questions after it
                cancel = self.next_cancel(message)
        self.router.error(cancel, penstock.Status.REJECTED)
        self.settle()
        self.assertEqual(self.submit()[1].type, MessageType.SUBMIT_SHARED)

    def test_one_answer_is_enough_for_a_request_that_was_sent_often(self):
        future, message = self.submit()
        for _ in range(2):
            message = self.next_of(MessageType.SUBMIT_SHARED)
        self.router.error(message, penstock.Status.WRONG_SHAPE)  # the answer to one of them
        self.error_of(future)
        self.router.error(self.next_cancel(message), penstock.Status.REJECTED)
        self.settle()
        self.assertEqual(self.submit()[1].type, MessageType.SUBMIT_SHARED)

    def test_nothing_is_asked_for_once_the_arena_has_gone(self):
        future, message = self.submit()
        self.router.error(message, penstock.Status.EXPIRED, step="executing", holds=True)
        self.error_of(future)
        self.next_cancel(message)
        self.lent.end()
        while self.client.transport == "shm":
            self.settle()
        self.settle()
        self.assertEqual(self.client._connection._engine._pending, {})


class Growth(SharedMemoryTest):
    """The first arena has room for one request."""

    def setUp(self):
        super().setUp()
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S, transport="shm", retry_after=60)
        self.router.welcome(self.router.expect(MessageType.HELLO), **self.greeting)
        self.small = self.attach(3, ROOM)
        self.client = self.wait(connecting)
        self.addCleanup(self.client.close)

    def test_what_finds_no_room_asks_for_more_which_those_after_it_use(self):
        (first,), (before,) = self.submit_shared(self.client, 1)
        second = self.client.submit("wide", frame(2))
        messages = {each.type: each for each in (self.router.receive(), self.router.receive())}
        self.assertEqual(set(messages), {MessageType.ATTACH, MessageType.SUBMIT})
        self.tell_where(messages[MessageType.ATTACH])
        large = self.arenas.lend(4)
        self.answer(messages[MessageType.SUBMIT], 1)
        self.wait(second)
        self.expect_nothing_before_a_ping(self.client)
        while self.client._connection.shared.arena.number != 4:
            self.expect_nothing_before_a_ping(self.client)
        (third,), (message,) = self.submit_shared(self.client, 3)
        self.assertEqual(place_of(message).arena, 4)
        self.run_shared(large, message, 1)
        np.testing.assert_array_equal(self.wait(third)["out"], frame(4))
        self.run_shared(self.small, before, 1)
        result = self.wait(first)
        np.testing.assert_array_equal(result["out"], frame(2), "it ended where it lay")
        del first, result
        with mock.patch("penstock.shared_memory._BETWEEN_LOOKS_S", 0):
            self.expect_nothing_before_a_ping(self.client)
            gc.collect()
            self.expect_nothing_before_a_ping(self.client)
            self.small.wait_for_the_end()

    def test_an_array_waits_for_more(self):
        kept = self.client.empty(ROOM, np.uint8)
        arriving = self.aside(self.client.empty, ROOM, np.uint8)
        self.attach(4)
        array = self.wait(arriving)
        self.assertIsNotNone(self.client._connection.shared.arena.offset_of(array))
        del kept

    def test_where_there_is_no_more_it_keeps_what_it_has(self):
        kept = self.client.empty(ROOM - 4096, np.uint8)
        arriving = self.aside(self.client.empty, 8192, np.uint8)
        self.tell_where(self.router.expect(MessageType.ATTACH), "/nowhere/penstock")
        self.wait(arriving)
        self.assertIsNotNone(self.client._connection.shared.arena.offset_of(self.client.empty(1024, np.uint8)))
        del kept


class End(SharedMemoryTest):
    def test_results_and_arrays_outlive_the_client(self):
        client, lent = self.connect_shared()
        x = client.frames("wide")
        x[:] = 6
        future = client.submit("wide", x)
        self.run_shared(lent, self.router.expect(MessageType.SUBMIT_SHARED), 1)
        result = self.wait(future)
        client.close()
        lent.wait_for_the_end()
        del client, future
        gc.collect()
        np.testing.assert_array_equal(result["out"], frame(7))
        np.testing.assert_array_equal(x, frame(6))

    def test_close_cancels_what_is_in_flight_and_ends_the_lease(self):
        client, lent = self.connect_shared()
        future = client.submit("wide", frame())
        self.router.expect(MessageType.SUBMIT_SHARED)
        client.close()
        self.assertIsInstance(self.error_of(future), penstock.Cancelled)
        self.router.expect(MessageType.GOODBYE)
        lent.wait_for_the_end()
        self.assertEqual(client.empty(3, np.uint8).shape, (3,))
        self.assertEqual(client.transport, "zmq")

    def test_close_while_an_arena_is_fetched_ends_that(self):
        client = self.connect(self.greeting)
        arriving = self.aside(client.empty, 4, np.float32)
        self.tell_where(self.router.expect(MessageType.ATTACH))
        connection = self.arenas.accept()
        self.expect_nothing_before_a_ping(client)
        client.close()
        self.assertEqual(self.wait(arriving).shape, (4,))
        self.assertEqual(connection.recv(1), b"")

    def test_a_callback_waits_for_no_arena(self):
        client = self.connect(self.greeting)
        future = client.submit("peak", frame(length=8))
        shapes = []
        future.add_done_callback(lambda _: shapes.append(client.empty(5, np.uint8).shape))
        self.router.result(self.router.expect(MessageType.SUBMIT), np.zeros((1, 3), np.float32))
        self.wait(future)
        self.router.expect(MessageType.ATTACH)
        self.assertEqual(shapes, [(5,)])


if __name__ == "__main__":
    unittest.main()
