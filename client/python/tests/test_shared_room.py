"""Who has which part of shared memory, and until when."""
import gc
import unittest
from unittest import mock

from scripted_keeper import FLOATS, ROOM, SharedMemoryTest, frame, place_of
from scripted_router import IMPATIENT_S, PATIENCE_S

import numpy as np

import penstock
from penstock import Client
from penstock.wire import MessageType


class Room(SharedMemoryTest):
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
        with mock.patch("penstock.conversation._LINGER_S", 0):
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
        self.assertEqual(self.client._connection._conversation._exchanges, {})


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
        large = self.keeper.lend(4)
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
        with mock.patch("penstock.tenancy._BETWEEN_LOOKS_S", 0):
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
        connection = self.keeper.accept()
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
