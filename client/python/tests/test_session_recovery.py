"""Sessions: gaps, repeats, loss, restarts, and requests that nobody waits for any more."""
import unittest

from scripted_router import IMPATIENT_S, TOKEN, RouterTest

import numpy as np

import penstock
from penstock import Status
from penstock.wire import MessageType


class Gaps(RouterTest):
    def expect_again(self, *messages):
        """Those requests once more, in that order."""
        again = [self.router.expect(MessageType.SUBMIT) for _ in messages]
        self.assertEqual([(each.id, each.header.sequence, each.array().tolist()) for each in again],
                         [(each.id, each.header.sequence, each.array().tolist()) for each in messages])
        return again

    def answer_all(self, futures, messages):
        for message in messages:
            self.router.result(message, message.array())
        for future in futures:
            self.wait(future)

    def test_a_gap_is_filled_once_in_order_from_the_expected_frame(self):
        client = self.connect()
        session = self.open_session(client)
        futures, messages = self.submit(session, np.ones((2, 4)), [2], [3], [4])
        for message in messages[1:]:  # the first one was lost: each that follows says so
            self.router.error(message, Status.SEQUENCE_GAP, sequence=0)
        self.answer_all(futures, self.expect_again(*messages))
        self.expect_nothing_before_a_ping(client)

    def test_what_the_daemon_has_is_not_sent_again(self):
        client = self.connect()
        futures, messages = self.submit(self.open_session(client), [1], [2], [3])
        self.router.error(messages[2], Status.SEQUENCE_GAP, sequence=1)
        again = self.expect_again(*messages[1:])
        self.answer_all(futures, [messages[0], *again])

    def test_a_second_gap_is_filled_too(self):
        client = self.connect()
        futures, messages = self.submit(self.open_session(client), [1], [2], [3])
        self.router.error(messages[1], Status.SEQUENCE_GAP, sequence=0)
        self.expect_again(*messages)
        self.router.error(messages[2], Status.SEQUENCE_GAP, sequence=1)
        self.expect_again(*messages[1:])
        self.answer_all(futures, messages)

    def test_a_gap_that_was_filled_meanwhile_says_nothing(self):
        client = self.connect()
        futures, messages = self.submit(self.open_session(client), [1], [2])
        self.router.result(messages[0], messages[0].array())
        self.router.error(messages[1], Status.SEQUENCE_GAP, sequence=0)
        self.expect_nothing_before_a_ping(client)
        self.answer_all(futures, messages[1:])

    def test_a_gap_that_nothing_fills_loses_the_session(self):
        client = self.connect()
        futures, messages = self.submit(self.open_session(client), np.ones((2, 4)), [3])
        self.router.error(messages[1], Status.SEQUENCE_GAP, sequence=1)
        for future in futures:
            self.assertIsInstance(self.error_of(future), penstock.SessionLost)
        self.router.skip_to(MessageType.CLOSE_SESSION)

    def test_what_waits_for_a_welcome_is_sent_in_order(self):
        client = self.connect()
        session = self.open_session(client)
        _, messages = self.submit(session, [1], [2])
        self.router.error(messages[0], Status.HELLO_REQUIRED)
        hello = self.router.expect(MessageType.HELLO)
        session.submit(np.array([3], np.float32))
        self.router.error(messages[1], Status.HELLO_REQUIRED)
        self.router.welcome(hello)
        again = [self.router.expect(MessageType.SUBMIT).header.sequence for _ in range(3)]
        self.assertEqual(again, [0, 1, 2])

    def test_requests_are_repeated_in_order_after_silence(self):
        client = self.connect(retry_after=IMPATIENT_S)
        futures, messages = self.submit(self.open_session(client), [1], [2], [3])
        again = self.router.skip_to(MessageType.SUBMIT)
        self.assertEqual(again.header.sequence, 0)
        for sequence in (1, 2):
            while again.header.sequence < sequence:
                again = self.router.skip_to(MessageType.SUBMIT)
            self.assertEqual((again.id, again.header.sequence), (messages[sequence].id, sequence))
        self.answer_all(futures, messages)


class Loss(RouterTest):
    def expect_lost(self, session, reason):
        """Later submits raise it, and take no credit."""
        with self.assertRaisesRegex(penstock.SessionLost, reason) as caught:
            session.submit(np.ones(3, np.float32))
        self.assertEqual(caught.exception.status_name, "SESSION_LOST")

    def test_a_refused_request_ends_with_its_error_and_takes_the_session_with_it(self):
        for status, kind in ((Status.WRONG_SHAPE, penstock.Rejected), (Status.SESSION_REQUIRED, penstock.Rejected),
                             (Status.OVERFLOW, penstock.Rejected), (Status.REJECTED, penstock.Rejected),
                             (Status.FAILED, penstock.Failed), (Status.SHUTDOWN, penstock.Shutdown)):
            with self.subTest(status=status.name):
                client = self.connect()
                session = self.open_session(client)
                futures, messages = self.submit(session, [1], [2], [3])
                self.router.error(messages[1], status)
                self.assertIsInstance(self.error_of(futures[1]), kind)
                for future in (futures[0], futures[2]):
                    self.assertIsInstance(self.error_of(future), penstock.SessionLost)
                self.expect_lost(session, f"request {messages[1].id} was refused: {status.name}")
                # The daemon may have taken those before it.
                self.assertEqual([self.router.expect(MessageType.CANCEL).id for _ in range(2)],
                                 [messages[0].id, messages[2].id])
                self.assertEqual(self.router.expect(MessageType.CLOSE_SESSION).header.session, 5)
                client.close()
                self.router.expect(MessageType.GOODBYE)

    def test_requests_of_a_lost_session_keep_their_credits_until_the_daemon_has_let_go_of_them(self):
        client = self.connect({"credit_requests": 2})
        _, messages = self.submit(self.open_session(client), [1], [2])
        self.router.error(messages[1], Status.WRONG_SHAPE)
        cancel = self.router.expect(MessageType.CANCEL)
        self.router.expect(MessageType.CLOSE_SESSION)
        client.submit("scaled", np.ones(3, np.float32), block=False)
        with self.assertRaises(penstock.NoCredit):
            client.submit("scaled", np.ones(3, np.float32), block=False)
        second = self.aside(client.submit, "scaled", np.ones(3, np.float32))
        self.router.error(cancel, Status.CANCELLED)
        self.wait(second)

    def test_frames_of_a_lost_session_are_never_sent_again(self):
        client = self.connect(retry_after=IMPATIENT_S)
        futures, messages = self.submit(self.open_session(client), [1], [2], [3])
        self.assertTrue(futures[0].cancel())
        self.router.skip_to(MessageType.CANCEL)
        self.router.error(messages[1], Status.WRONG_SHAPE)
        self.router.skip_to(MessageType.CLOSE_SESSION)
        missing = {messages[0].id, messages[2].id}
        while missing:
            missing.discard(self.router.until(MessageType.CANCEL)[0].id)

    def test_session_lost_ends_everything_of_it(self):
        client = self.connect()
        session, other = self.open_session(client, 5), self.open_session(client, 6)
        futures, messages = self.submit(session, [1], [2])
        (kept,), (message,) = self.submit(other, [3])
        self.router.error(messages[0], Status.SESSION_LOST, "it was idle for too long")
        for future in futures:
            error = self.error_of(future)
            self.assertIsInstance(error, penstock.SessionLost)
            self.assertEqual((error.reason, error.request_id), ("it was idle for too long", future.request_id))
        self.expect_lost(session, "it was idle for too long")
        session.close()
        self.expect_nothing_before_a_ping(client)  # no CLOSE: the daemon does not have it
        self.router.result(message, message.array())
        self.wait(kept)

    def test_a_restart_loses_sessions_and_nothing_else(self):
        client = self.connect()
        session = self.open_session(client)
        futures, messages = self.submit(session, [1], [2])
        plain = client.submit("scaled", np.ones(3, np.float32))
        message = self.router.expect(MessageType.SUBMIT)
        self.router.error(messages[0], Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO), instance="second")
        for future in futures:
            self.assertIsInstance(self.error_of(future), penstock.SessionLost)
        self.expect_lost(session, "restarted")
        again = self.router.expect(MessageType.SUBMIT)
        self.assertEqual(again.id, message.id)
        self.router.result(again, again.array())
        self.wait(plain)
        fresh = self.open_session(client, 5)  # the new daemon may give the same number
        self.assertEqual(self.submit(fresh, [1])[1][0].header.sequence, 0)

    def test_it_goes_on_in_order_over_another_connection(self):
        client = self.connect()
        session = self.open_session(client)
        futures, messages = self.submit(session, [1], [2])
        self.router.restart()
        hello = self.router.expect(MessageType.HELLO)
        self.assertEqual(hello.token(), TOKEN)
        self.router.welcome(hello, resumed=True)
        for message in messages:
            again = self.router.expect(MessageType.SUBMIT)
            self.assertEqual((again.id, again.header.sequence), (message.id, message.header.sequence))
            self.router.result(again, again.array())
        for future in futures:
            self.wait(future)

    def test_a_place_that_was_given_away_loses_sessions_and_nothing_else(self):
        client = self.connect()
        session = self.open_session(client)
        futures, _ = self.submit(session, [1], [2])
        plain = client.submit("scaled", np.ones(3, np.float32))
        message = self.router.expect(MessageType.SUBMIT)
        self.router.restart()
        self.router.welcome(self.router.expect(MessageType.HELLO), resume="f" * 32)
        for future in futures:
            self.assertIsInstance(self.error_of(future), penstock.SessionLost)
        self.expect_lost(session, "given this client's place away")
        again = self.router.expect(MessageType.SUBMIT)
        self.assertEqual(again.id, message.id)
        self.router.result(again, again.array())
        self.wait(plain)

    def test_a_daemon_that_forgot_the_client_says_what_became_of_its_session(self):
        client = self.connect()
        session = self.open_session(client)
        futures, messages = self.submit(session, [1], [2])
        for message in messages:
            self.router.error(message, Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        again = [self.router.expect(MessageType.SUBMIT) for _ in messages]
        self.assertEqual([message.header.sequence for message in again], [0, 1])
        self.router.error(again[0], Status.SESSION_LOST)
        for future in futures:
            self.assertIsInstance(self.error_of(future), penstock.SessionLost)


class Abandoned(RouterTest):
    def test_expired_and_cancelled_keep_the_session(self):
        client = self.connect()
        session = self.open_session(client)
        futures, messages = self.submit(session, [1], [2], [3])
        self.router.error(messages[1], Status.CANCELLED, step="queued")
        self.router.error(messages[0], Status.EXPIRED, step="queued")
        self.assertIsInstance(self.error_of(futures[0]), penstock.Expired)
        self.assertIsInstance(self.error_of(futures[1]), penstock.Cancelled)
        self.router.result(messages[2], messages[2].array())
        self.wait(futures[2])
        self.assertEqual(self.submit(session, [4])[1][0].header.sequence, 3)

    def test_an_expired_request_still_fills_its_gap_with_what_was_given(self):
        client = self.connect(grace=0)
        session = self.open_session(client, pipeline="large")
        x = np.full(1 << 20, 7, np.float32)
        (lost,), (message,) = self.submit(session, x, timeout=0.05)
        self.assertIsInstance(self.error_of(lost), penstock.Expired)
        x[:] = 0  # it is the caller's again
        cancel = self.router.expect(MessageType.CANCEL)
        self.router.error(cancel, Status.REJECTED)  # the daemon never got it
        (future,), (following,) = self.submit(session, x)
        self.router.error(following, Status.SEQUENCE_GAP, sequence=0)
        again = self.router.expect(MessageType.SUBMIT)
        self.assertEqual((again.id, again.header.sequence), (message.id, 0))
        np.testing.assert_array_equal(again.array()[0], np.full(1 << 20, 7))
        self.assertEqual(self.router.expect(MessageType.CANCEL).id, message.id)
        self.assertEqual(self.router.expect(MessageType.SUBMIT).id, following.id)
        self.router.error(again, Status.CANCELLED)
        self.router.result(following, np.ones((1, 1), np.float32))
        self.wait(future)
        self.assertEqual(self.submit(session, x)[1][0].header.sequence, 2)

    def test_a_request_whose_reply_is_gone_keeps_the_session(self):
        client = self.connect({"credit_requests": 1})
        session = self.open_session(client)
        (lost,), (message,) = self.submit(session, [1])
        self.router.error(message, Status.REPLY_GONE)
        self.assertEqual(self.error_of(lost).status_name, "REPLY_GONE")
        self.assertEqual(self.submit(session, [2])[1][0].header.sequence, 1)

    def test_frames_that_were_cancelled_before_they_were_sent_are_sent(self):
        client = self.connect()
        session = self.open_session(client)
        futures, messages = self.submit(session, [1])
        self.router.error(messages[0], Status.HELLO_REQUIRED)
        hello = self.router.expect(MessageType.HELLO)
        futures += [session.submit(np.array([value], np.float32)) for value in (2, 3)]
        client.cancel(futures[1])
        self.assertTrue(futures[2].cancel())
        self.assertIsInstance(self.error_of(futures[1]), penstock.Cancelled)
        self.router.welcome(hello)
        seen = [self.router.receive() for _ in range(5)]
        self.assertEqual([(each.type, each.id) for each in seen],
                         [(MessageType.SUBMIT, messages[0].id)] + [
                             (kind, future.request_id) for future in futures[1:]
                             for kind in (MessageType.SUBMIT, MessageType.CANCEL)])
        self.assertEqual([each.header.sequence for each in seen if each.type == MessageType.SUBMIT], [0, 1, 2])

    def test_a_futures_cancel_ends_it_at_once_and_keeps_the_session(self):
        client = self.connect({"credit_requests": 1})
        session = self.open_session(client)
        (future,), _ = self.submit(session, [1])
        self.assertTrue(future.cancel())
        self.router.error(self.router.expect(MessageType.CANCEL), Status.CANCELLED)
        self.assertEqual(self.submit(session, [2])[1][0].header.sequence, 1)

    def test_a_cancel_that_finds_nothing_ends_the_request_and_keeps_its_frames(self):
        client = self.connect()
        session = self.open_session(client)
        (future,), (message,) = self.submit(session, [1])
        client.cancel(future)
        self.router.error(self.router.expect(MessageType.CANCEL), Status.REJECTED)
        self.assertIsInstance(self.error_of(future), penstock.Cancelled)
        _, (following,) = self.submit(session, [2])
        self.router.error(following, Status.SEQUENCE_GAP, sequence=0)
        self.assertEqual(self.router.expect(MessageType.SUBMIT).id, message.id)


if __name__ == "__main__":
    unittest.main()
