"""Sessions: requests that the daemon has no room for, and has some later."""
import time
import unittest

from scripted_router import RouterTest

import numpy as np

import penstock
from penstock import Status
from penstock.wire import MessageType


class Room(RouterTest):
    def refuse(self, refused, *behind):
        """Answers as the daemon does: no room for one, so that those behind it have a gap. What comes next, and how
        many seconds later."""
        began = time.monotonic()
        self.router.error(refused, Status.NO_CREDIT)
        for message in behind:
            self.router.error(message, Status.SEQUENCE_GAP, sequence=refused.header.sequence)
        again, seconds = self.router.expect(MessageType.SUBMIT), time.monotonic() - began
        return [again, *(self.router.expect(MessageType.SUBMIT) for _ in behind)], seconds

    def test_a_request_without_room_is_sent_again_in_order_after_a_pause_that_grows(self):
        client = self.connect()
        session = self.open_session(client)
        ended = []
        futures, (first, *rest) = self.submit(session, [1], [2], [3])
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: ended.append(number))
        for pause in (0.1, 0.2):
            again, seconds = self.refuse(*rest)
            self.assertGreaterEqual(seconds, pause)
            self.assertEqual([(each.id, each.header.sequence, each.array().tolist()) for each in again],
                             [(each.id, each.header.sequence, each.array().tolist()) for each in rest])
            rest = again
        for message in (first, *rest):  # each of which the daemon has taken once
            self.router.result(message, message.array())
        for value, future in enumerate(futures, 1):
            np.testing.assert_array_equal(self.wait(future)["out"], [value])
        self.expect_nothing_before_a_ping(client)  # the gaps asked for nothing of their own
        self.assertEqual(ended, [0, 1, 2])
        self.assertEqual(self.submit(session, [4])[1][0].header.sequence, 3)

    def take(self, count):
        """Plays a daemon that has no room for the first request once, until it has taken that many. What it took; those
        that were cancelled have been answered so."""
        taken, refused = [], False
        while len(taken) < count or taken[-1].cancelled is None:
            message = self.router.receive()
            known = [each for each in taken if each.id == message.id]
            if message.type == MessageType.CANCEL:
                self.router.error(message, Status.CANCELLED if known else Status.REJECTED)
                for each in known:
                    each.cancelled = True
            elif message.header.sequence > len(taken):
                self.router.error(message, Status.SEQUENCE_GAP, sequence=len(taken))
            elif not refused:
                refused = True
                self.router.error(message, Status.NO_CREDIT)
            elif not known:
                message.cancelled = None
                taken.append(message)
        return taken

    def test_a_request_that_is_cancelled_during_the_pause_is_sent_and_cancelled_after_it(self):
        client = self.connect()
        session = self.open_session(client)
        futures = [session.submit(np.array([value], np.float32)) for value in (1, 2)]
        self.assertTrue(futures[1].cancel())
        first, second = self.take(2)
        self.assertEqual([first.id, second.id], [each.request_id for each in futures])
        self.router.result(first, first.array())
        self.wait(futures[0])
        self.assertEqual(self.submit(session, [3])[1][0].header.sequence, 2)

    def test_a_request_that_finds_no_room_in_time_expires_and_keeps_the_session(self):
        client = self.connect(grace=0)
        session = self.open_session(client)
        future = session.submit(np.array([1], np.float32), timeout=0.05)
        (message,) = self.take(1)  # for what follows it
        self.assertIsInstance(self.error_of(future), penstock.Expired)
        self.assertEqual(message.id, future.request_id)
        self.assertEqual(self.submit(session, [2])[1][0].header.sequence, 1)


if __name__ == "__main__":
    unittest.main()
