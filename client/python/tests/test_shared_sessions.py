"""Sessions whose frames lie in shared memory, and a daemon that loses what it can."""
import unittest

from scripted_keeper import FLOATS, ROOM, SharedMemoryTest, frame, place_of
from scripted_router import IMPATIENT_S

import numpy as np

import penstock
from penstock import Status
from penstock.wire import MessageType


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
                    lent = self.keeper.lend(number, 4 * ROOM)
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
