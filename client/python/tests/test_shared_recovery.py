"""Silence, restarts and the end of a lease, for frames in shared memory."""
import unittest

from scripted_keeper import FLOATS, GROW, ROOM, SHRINK, LentArena, SharedMemoryTest, frame, place_of
from scripted_router import IMPATIENT_S

import numpy as np

import penstock
from penstock import Client, Status
from penstock.wire import MessageType


class Repeats(SharedMemoryTest):
    def test_a_request_is_sent_again_as_a_repeat(self):
        client, lent = self.connect_shared(retry_after=IMPATIENT_S)
        (future,), (first,) = self.submit_shared(client, 1)
        self.assertFalse(place_of(first).repeat)
        again, _ = self.router.until(MessageType.SUBMIT_SHARED)
        self.assertEqual((again.id, place_of(again)), (first.id, place_of(first)._replace(repeat=True)))
        self.run_shared(lent, again)
        np.testing.assert_array_equal(self.wait(future)["out"], frame(1))

    def test_an_unknown_repeat_is_sent_as_no_repeat_once_for_all_repeats_before_it(self):
        client, lent = self.connect_shared(retry_after=IMPATIENT_S)
        (future,), (first,) = self.submit_shared(client, 1)
        repeats = [self.router.until(MessageType.SUBMIT_SHARED)[0] for _ in range(2)]
        self.assertEqual([place_of(each).repeat for each in repeats], [True, True])
        for each in repeats:
            self.router.error(each, Status.UNKNOWN_REPEAT)
        anew = self.router.skip_to(MessageType.SUBMIT_SHARED)
        while place_of(anew).repeat:  # one that was on its way
            anew = self.router.skip_to(MessageType.SUBMIT_SHARED)
        following, _ = self.router.until(MessageType.SUBMIT_SHARED)
        self.assertTrue(place_of(following).repeat)
        self.run_shared(lent, anew)
        np.testing.assert_array_equal(self.wait(future)["out"], frame(1))

    def test_a_reply_that_is_repeated_touches_no_memory_of_another(self):
        client, lent = self.connect_shared(nbytes=ROOM)
        (future,), (first,) = self.submit_shared(client, 1)
        self.run_shared(lent, first)
        self.wait(future)
        del future
        self.expect_nothing_before_a_ping(client)
        (future,), (second,) = self.submit_shared(client, 2)
        self.result_shared(first, (1, 3), (1, FLOATS))
        self.router.error(first, Status.CANCELLED)
        self.expect_nothing_before_a_ping(client)
        self.assertFalse(future.done())
        self.run_shared(lent, second)
        np.testing.assert_array_equal(self.wait(future)["out"], frame(2))


class Leases(SharedMemoryTest):
    def test_an_unknown_arena_sends_what_is_in_flight_through_the_socket(self):
        client, lent = self.connect_shared()
        futures, messages = self.submit_shared(client, 1, 2)
        for message in messages:
            self.router.error(message, Status.UNKNOWN_ARENA)
        for future, message, value in zip(futures, messages, (1, 2)):
            again = self.router.expect(MessageType.SUBMIT)
            self.assertEqual(again.id, message.id)
            np.testing.assert_array_equal(again.array(), [frame(value)])
            self.answer(again, 0)
            np.testing.assert_array_equal(self.wait(future)["out"], frame(value))
        lent.wait_for_the_end()
        self.attach_again(client, 4)

    def test_a_bad_place_sends_that_one_through_the_socket(self):
        client, lent = self.connect_shared()
        (future,), (message,) = self.submit_shared(client, 1)
        self.router.error(message, Status.BAD_PLACE)
        self.answer(self.router.expect(MessageType.SUBMIT), 0)
        self.wait(future)
        _, (message,) = self.submit_shared(client, 2)
        self.run_shared(lent, message)

    def test_the_end_of_a_lease_leaves_what_was_accepted_and_attaches_anew(self):
        client, lent = self.connect_shared()
        (future,), (message,) = self.submit_shared(client, 1)
        kept, (other,) = self.submit_shared(client, 5)
        self.run_shared(lent, other)
        kept = self.wait(kept[0])["out"]
        lent.end()
        fresh = self.attach_again(client, 4)
        (second,), (message_of_second,) = self.submit_shared(client, 2)
        self.assertEqual(place_of(message_of_second).arena, 4)
        self.run_shared(fresh, message_of_second, 1)
        self.run_shared(lent, message, 1)
        np.testing.assert_array_equal(self.wait(future)["out"], frame(2))
        np.testing.assert_array_equal(self.wait(second)["out"], frame(3))
        np.testing.assert_array_equal(kept, frame(5))

    def test_what_is_not_answered_after_the_end_of_a_lease_is_sent_through_the_socket(self):
        client, lent = self.connect_shared(retry_after=IMPATIENT_S)
        (future,), (message,) = self.submit_shared(client, 1)
        lent.end()
        again = self.next_of(MessageType.SUBMIT)
        self.assertEqual(again.id, message.id)
        np.testing.assert_array_equal(again.array(), [frame(1)])
        self.answer(again, 1)
        np.testing.assert_array_equal(self.wait(future)["out"], frame(2))

    def test_arrays_of_an_arena_that_is_gone_can_still_be_submitted(self):
        client, lent = self.connect_shared()
        x = client.frames("wide")
        x[:] = 9
        lent.end()
        fresh = self.attach_again(client, 4)
        client.submit("wide", x)
        message = self.router.expect(MessageType.SUBMIT_SHARED)
        self.assertEqual(place_of(message).arena, 4)
        np.testing.assert_array_equal(fresh.input(message), [frame(9)])

    def test_an_arena_whose_lease_has_ended_gives_no_room(self):
        client, lent = self.connect_shared()
        arena = client._connection.shared.arena  # as a caller may still have it
        lent.end()
        self.attach_again(client, 4)
        self.assertIsNone(arena.empty(1, np.uint8))

    def test_an_answer_that_is_no_arena_leaves_the_socket(self):
        client = self.connect(self.greeting)
        arriving = self.aside(client.empty, 3, np.uint8)
        self.tell_where(self.router.expect(MessageType.ATTACH))
        connection = self.keeper.accept()
        connection.send(b"PNSM" + bytes(12))  # without a descriptor
        self.assertEqual(self.wait(arriving).shape, (3,))
        self.assertEqual(connection.recv(1), b"")
        self.assertEqual(client.transport, "zmq")

    def test_memory_that_could_become_another_size_is_not_used(self):
        for seals in (0, SHRINK, GROW):
            with self.subTest(seals=seals):
                client = self.connect(self.greeting)
                arriving = self.aside(client.empty, 3, np.uint8)
                self.tell_where(self.router.expect(MessageType.ATTACH))
                lent = LentArena(3, 4096, self.keeper.accept(), seals)
                self.wait(arriving)
                lent.wait_for_the_end()
                self.assertEqual(client.transport, "zmq")

    def test_a_socket_where_too_many_wait_is_tried_again(self):
        client = self.connect(self.greeting)
        self.keeper.fill()
        arriving = self.aside(client.empty, 3, np.uint8)
        self.tell_where(self.router.expect(MessageType.ATTACH))
        self.expect_nothing_before_a_ping(client)
        self.keeper.turn_the_others_away()
        lent = self.keeper.lend()
        self.wait(arriving)
        self.assertEqual(client.transport, "shm")
        client.close()
        lent.wait_for_the_end()

    def test_a_socket_that_stays_full_is_left_in_time(self):
        self.keeper.fill()
        connecting = self.aside(Client, self.router.url, transport="shm", connect_timeout=0.3, grace=0)
        self.router.welcome(self.router.expect(MessageType.HELLO), **self.greeting)
        self.tell_where(self.router.expect(MessageType.ATTACH))
        self.assertIsInstance(self.error_of(connecting), penstock.Expired)


class Restart(SharedMemoryTest):
    def test_a_new_daemon_gets_everything_in_flight_from_the_old_mapping(self):
        client, lent = self.connect_shared()
        kept, (message,) = self.submit_shared(client, 7)
        self.run_shared(lent, message)
        kept = self.wait(kept[0])["out"]
        x = client.frames("wide")
        x[:] = 3
        futures, messages = self.submit_shared(client, 1, 2)
        futures.append(client.submit("wide", x))
        messages.append(self.router.expect(MessageType.SUBMIT_SHARED))
        del x
        lent.end()
        self.router.error(messages[0], Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO), **{**self.greeting, "instance": "second"})
        again = {each.id: each for each in (self.router.expect(MessageType.SUBMIT) for _ in messages)}
        for future, message, value in zip(futures, messages, (1, 2, 3)):
            self.answer(again[message.id], 1)
            np.testing.assert_array_equal(self.wait(future)["out"], frame(value + 1))
        np.testing.assert_array_equal(kept, frame(7))
        self.attach_again(client, 1)

    def test_a_daemon_that_forgot_the_client_gets_its_frames_through_the_socket(self):
        client, lent = self.connect_shared()
        (future,), (message,) = self.submit_shared(client, 1)
        self.router.error(message, Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO), **{**self.greeting, "resume": "f" * 32})
        lent.wait_for_the_end()
        self.answer(self.router.expect(MessageType.SUBMIT), 0)
        self.wait(future)

    def test_frames_that_nobody_waits_for_are_not_kept_after_a_restart(self):
        client, lent = self.connect_shared()
        (future,), (message,) = self.submit_shared(client, 1)
        client.cancel(future)
        self.router.expect(MessageType.CANCEL)
        self.router.error(message, Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO), **{**self.greeting, "instance": "second"})
        self.assertIsInstance(self.error_of(future), penstock.Cancelled)
        self.expect_nothing_before_a_ping(client)


if __name__ == "__main__":
    unittest.main()
