"""Shared memory that is lost: repeats, ends of leases, restarts, and sessions meanwhile."""
import unittest

from scripted_router import FLOATS, GROW, IMPATIENT_S, LentArena, ROOM, SHRINK, SharedMemoryTest, frame, place_of

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
        connection = self.arenas.accept()
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
                lent = LentArena(3, 4096, self.arenas.accept(), seals)
                self.wait(arriving)
                lent.wait_for_the_end()
                self.assertEqual(client.transport, "zmq")

    def test_a_socket_where_too_many_wait_is_tried_again(self):
        client = self.connect(self.greeting)
        self.arenas.fill_backlog()
        arriving = self.aside(client.empty, 3, np.uint8)
        self.tell_where(self.router.expect(MessageType.ATTACH))
        self.expect_nothing_before_a_ping(client)
        self.arenas.clear_backlog()
        lent = self.arenas.lend()
        self.wait(arriving)
        self.assertEqual(client.transport, "shm")
        client.close()
        lent.wait_for_the_end()

    def test_a_socket_that_stays_full_is_left_in_time(self):
        self.arenas.fill_backlog()
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


class Sessions(SharedMemoryTest):
    def setUp(self):
        super().setUp()
        self.client, self.lent = self.connect_shared()
        self.session = self.open_session(self.client, pipeline="tracked")

    def test_their_frames_are_shared_in_their_order(self):
        futures, messages = self.submit_shared(self.client, 1, 2, 3, to=self.session)
        self.assertEqual([(each.header.session, each.header.sequence) for each in messages], [(5, 0), (5, 1), (5, 2)])
        for message in messages:
            self.run_shared(self.lent, message, 1)
        self.assertEqual([self.wait(each)["out"][0] for each in futures], [2, 3, 4])

    def test_large_and_small_ones_keep_their_order(self):
        session = self.open_session(self.client, 6, pipeline="peak")
        session.submit(frame(1))
        session.submit(frame(2, length=4))
        session.submit(frame(3))
        messages = [self.router.receive() for _ in range(3)]
        self.assertEqual([each.type for each in messages],
                         [MessageType.SUBMIT_SHARED, MessageType.SUBMIT, MessageType.SUBMIT_SHARED])
        self.assertEqual([each.header.sequence for each in messages], [0, 1, 2])

    def test_an_arena_that_is_gone_sends_them_in_order_through_the_socket(self):
        futures, messages = self.submit_shared(self.client, 1, 2, 3, to=self.session)
        self.run_shared(self.lent, messages[0])
        for message in messages[1:]:
            self.router.error(message, Status.UNKNOWN_ARENA)
        again = [self.router.expect(MessageType.SUBMIT) for _ in messages[1:]]
        self.assertEqual([(each.id, each.header.sequence) for each in again],
                         [(each.id, each.header.sequence) for each in messages[1:]])
        self.expect_nothing_before_a_ping(self.client)
        for each in again:
            self.answer(each, 0)
        self.assertEqual([self.wait(each)["out"][0] for each in futures], [1, 2, 3])

    def test_what_others_say_of_an_arena_that_is_gone_sends_nothing_twice(self):
        futures, messages = self.submit_shared(self.client, 1, 2, 3, to=self.session)
        self.router.error(messages[0], Status.UNKNOWN_ARENA)
        again = [self.router.expect(MessageType.SUBMIT) for _ in messages]
        self.router.error(messages[1], Status.UNKNOWN_ARENA)
        self.router.error(messages[2], Status.SEQUENCE_GAP, sequence=0)
        self.expect_nothing_before_a_ping(self.client)  # whose answer comes behind those
        self.expect_nothing_before_a_ping(self.client)
        for each in again:
            self.answer(each, 0)
        self.assertEqual([self.wait(each)["out"][0] for each in futures], [1, 2, 3])

    def test_a_gap_is_filled_with_repeats(self):
        futures, messages = self.submit_shared(self.client, 1, 2, to=self.session)
        self.router.error(messages[1], Status.SEQUENCE_GAP, sequence=0)
        again = [self.router.expect(MessageType.SUBMIT_SHARED) for _ in messages]
        self.assertEqual([(each.id, place_of(each).repeat) for each in again], [(each.id, True) for each in messages])
        for each in again:
            self.run_shared(self.lent, each)
        self.assertEqual([self.wait(each)["out"][0] for each in futures], [1, 2])

    def test_one_that_expired_is_sent_from_a_copy_and_may_be_overwritten(self):
        x = self.client.frames("tracked")
        x[:] = 4
        future = self.session.submit(x)
        message = self.router.expect(MessageType.SUBMIT_SHARED)
        self.client.cancel(future)
        cancel = self.router.expect(MessageType.CANCEL)
        self.router.error(cancel, Status.REJECTED)  # it never came
        self.assertIsInstance(self.error_of(future), penstock.Cancelled)
        x[:] = 5
        self.session.submit(frame(6))
        following = self.router.expect(MessageType.SUBMIT_SHARED)
        self.router.error(following, Status.SEQUENCE_GAP, sequence=0)
        again = self.router.expect(MessageType.SUBMIT)
        self.assertEqual(again.id, message.id)
        np.testing.assert_array_equal(again.array(), [frame(4)])


class Traffic(SharedMemoryTest):
    """A daemon on a thread of its own that loses arenas, repeats and replies at random."""

    def test_every_request_has_its_own_result_whatever_happens_to_the_arena(self):
        client, lent = self.connect_shared(nbytes=4 * ROOM, retry_after=IMPATIENT_S)
        choose = np.random.default_rng(11)
        done = self.aside(self.serve_all, lent, choose)
        futures = []
        for value in range(200):
            x = client.frames("wide") if value % 2 else np.empty(FLOATS, np.float32)
            x[:] = value
            futures.append(client.submit("wide", x))
            del x
            if len(futures) > 8:
                self.check(futures.pop(0), value - 8)
        for index, future in enumerate(futures):
            self.check(future, 200 - len(futures) + index)
        client.close()
        self.wait(done)

    def check(self, future, value):
        result = self.wait(future)["out"]
        self.assertEqual((result[0], result[-1]), (value + 1, value + 1))
        self.assertEqual(set(np.unique(result)), {value + 1})

    def serve_all(self, lent, choose):
        number, known, attaching = 3, {}, None
        while True:
            message = self.router.receive()
            if message.type == MessageType.GOODBYE:
                return
            if message.type == MessageType.HELLO:
                self.router.welcome(message, **self.greeting)
            elif message.type == MessageType.ATTACH:
                self.tell_where(message)
                if message.id != attaching:  # else a repeat, with which nobody comes for another
                    attaching, number = message.id, number + 1
                    lent = self.arenas.lend(number, 4 * ROOM)
            elif message.type == MessageType.SUBMIT:
                self.answer(message, 1)
            elif message.type == MessageType.SUBMIT_SHARED:
                self.serve_shared(lent, message, known, choose)

    def serve_shared(self, lent, message, known, choose):
        place = place_of(message)
        fate = choose.random()
        if message.id in known:
            self.result_shared(message, (1, 3), (1, FLOATS))  # from the cache
        elif place.arena != lent.number:
            self.router.error(message, Status.UNKNOWN_ARENA)
        elif place.repeat:
            self.router.error(message, Status.UNKNOWN_REPEAT)
        elif fate < 0.1:
            pass  # lost on its way
        elif fate < 0.2:
            lent.end()
            lent.number = 0
            self.router.error(message, Status.UNKNOWN_ARENA)
        else:
            known[message.id] = True
            top, out = lent.output(message, (1, 3), (1, FLOATS))
            out[:] = lent.input(message) + np.float32(1)
            if fate < 0.9:  # else its reply is lost
                self.result_shared(message, (1, 3), (1, FLOATS))


if __name__ == "__main__":
    unittest.main()
