"""Sessions: opening, numbering, results and closing."""
import gc
import unittest

from scripted_router import DECIMATED, IMPATIENT_S, PATIENCE_S, RouterTest

import numpy as np

import penstock
from penstock import Status, control
from penstock.wire import MessageType


def asked(message):
    """What an OPEN says."""
    return control.decode(control.OpenSession, message.parts[1])


class Opening(RouterTest):
    def test_open_names_the_pipeline_and_the_session(self):
        client = self.connect()
        opening = self.aside(client.session, "decimated", name="antenna – 1")
        message = self.router.expect(MessageType.OPEN_SESSION)
        self.assertEqual(asked(message), control.OpenSession(3, "antenna – 1"))
        self.router.opened(message)
        session = self.wait(opening)
        self.assertEqual((session.name, session.pipeline, session.frames), ("antenna – 1", DECIMATED, 0))

    def test_a_session_without_a_name_gets_one_of_its_own(self):
        client = self.connect()
        sessions = [self.open_session(client, number) for number in range(1, 4)]
        self.assertEqual(len({session.name for session in sessions}), 3)
        for session in sessions:
            self.assertRegex(session.name, "^[0-9a-f]{16}$")

    def test_open_is_repeated_after_silence_under_its_name(self):
        client = self.connect(retry_after=IMPATIENT_S)
        opening = self.aside(client.session, "decimated", timeout=PATIENCE_S)
        first = self.router.expect(MessageType.OPEN_SESSION)
        again, hellos = self.router.until(MessageType.OPEN_SESSION)
        self.assertGreaterEqual(hellos, 1)
        self.assertEqual((again.id, asked(again)), (first.id, asked(first)))
        self.router.opened(again)
        self.wait(opening)

    def test_a_repeated_opened_is_ignored(self):
        client = self.connect()
        opening = self.aside(client.session, "decimated")
        message = self.router.expect(MessageType.OPEN_SESSION)
        self.router.opened(message)
        self.router.opened(message)
        session = self.wait(opening)
        self.expect_nothing_before_a_ping(client)  # PONG comes after the second OPENED
        self.expect_nothing_before_a_ping(client)
        self.assertEqual(self.submit(session, [1])[1][0].header.session, 5)

    def test_a_refused_open_is_raised(self):
        client = self.connect()
        opening = self.aside(client.session, "decimated")
        self.router.error(self.router.expect(MessageType.OPEN_SESSION), Status.TOO_MANY_SESSIONS, "all 64 are taken")
        error = self.error_of(opening)
        self.assertIsInstance(error, penstock.Rejected)
        self.assertEqual((error.status_name, error.reason), ("TOO_MANY_SESSIONS", "all 64 are taken"))

    def test_a_session_that_opens_too_late_is_closed_again(self):
        client = self.connect(grace=0)
        opening = self.aside(client.session, "decimated", timeout=0.05)
        message = self.router.expect(MessageType.OPEN_SESSION)
        self.assertIsInstance(self.error_of(opening), penstock.Expired)
        self.router.opened(message, 7)
        self.assertEqual(self.router.expect(MessageType.CLOSE_SESSION).header.session, 7)

    def test_a_name_that_is_open_is_refused(self):
        client = self.connect()
        first = self.open_session(client, name="antenna")
        opening = self.aside(client.session, "decimated", name="antenna")
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION))  # the daemon gives the one that there is
        self.assertIsInstance(self.error_of(opening), penstock.Rejected)
        self.assertEqual(self.submit(first, [1])[1][0].header.sequence, 0)

    def test_a_session_whose_close_was_lost_is_never_taken_up_again(self):
        client = self.connect(retry_after=IMPATIENT_S)
        opening = self.aside(client.session, "decimated", name="antenna", timeout=PATIENCE_S)
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION), 5, next_sequence=7)
        self.assertEqual(self.router.expect(MessageType.CLOSE_SESSION).header.session, 5)
        self.router.opened(self.router.until(MessageType.OPEN_SESSION)[0], 6)
        self.assertEqual(self.submit(self.wait(opening), [1])[1][0].header.session, 6)

    def test_an_unknown_client_greets_and_opens_again(self):
        client = self.connect()
        opening = self.aside(client.session, "decimated", timeout=PATIENCE_S)
        self.router.error(self.router.expect(MessageType.OPEN_SESSION), Status.HELLO_REQUIRED)
        moved = DECIMATED.__class__(**{**DECIMATED.__dict__, "id": 9})
        self.router.welcome(self.router.expect(MessageType.HELLO), instance="second", pipelines=(moved,))
        again = self.router.expect(MessageType.OPEN_SESSION)
        self.assertEqual(asked(again).pipeline, 9)
        self.router.opened(again)
        self.wait(opening)

    def test_what_cannot_be_opened_is_refused_before_it_is_sent(self):
        client = self.connect()
        for error, pipeline, name in ((LookupError, "nothing", None), (ValueError, "decimated", ""),
                                      (ValueError, "decimated", "x" * 65), (ValueError, "decimated", "a\nb")):
            with self.subTest(pipeline=pipeline, name=name), self.assertRaises(error):
                client.session(pipeline, name=name)
        self.expect_nothing_before_a_ping(client)


class Submitting(RouterTest):
    def test_frames_are_numbered(self):
        session = self.open_session(self.connect())
        _, messages = self.submit(session, np.ones(3), np.ones((2, 4)), np.ones((1, 8)), np.ones(1))
        self.assertEqual([(message.header.session, message.header.sequence) for message in messages],
                         [(5, 0), (5, 1), (5, 3), (5, 4)])
        self.assertEqual(session.frames, 5)

    def test_requests_of_many_threads_are_sent_in_the_order_of_their_numbers(self):
        session = self.open_session(self.connect({"credit_requests": 5}))

        def submit_all():
            for _ in range(50):
                session.submit(np.ones((2, 4), np.float32), frames=2).result(PATIENCE_S)

        running = [self.aside(submit_all) for _ in range(4)]
        for index in range(200):
            message = self.router.expect(MessageType.SUBMIT)
            self.assertEqual(message.header.sequence, 2 * index)
            self.router.result(message, message.array())
        for each in running:
            self.wait(each)

    def test_sessions_count_apart(self):
        client = self.connect()
        sessions = [self.open_session(client, number) for number in (5, 6)]
        for index in range(2):
            for number, session in zip((5, 6), sessions):
                message = self.submit(session, [1])[1][0]
                self.assertEqual((message.header.session, message.header.sequence), (number, index))

    def test_results_may_have_any_length_also_none(self):
        session = self.open_session(self.connect())
        for given, length in ((3, 0), (3, 1), (5, 8)):
            (future,), (message,) = self.submit(session, np.ones(given))
            self.router.result(message, np.full((1, length), 7, np.float32))
            np.testing.assert_array_equal(self.wait(future).array, np.full(length, 7))
        (future,), (message,) = self.submit(session, np.ones((2, 4)))
        self.router.result(message, np.empty((2, 0), np.float32))
        self.assertEqual(self.wait(future)["out"].shape, (2, 0))

    def test_a_result_longer_than_the_pipelines_is_malformed(self):
        (future,), (message,) = self.submit(self.open_session(self.connect()), np.ones(3))
        self.router.result(message, np.ones((1, 9), np.float32))
        self.assertEqual(self.error_of(future).status_name, "MALFORMED")

    def test_a_session_on_a_pipeline_without_state_gives_order(self):
        session = self.open_session(self.connect(), pipeline="scaled")
        _, messages = self.submit(session, np.ones((2, 3)), np.ones(3))
        self.assertEqual([message.header.sequence for message in messages], [0, 2])

    def test_a_pipeline_with_state_sends_its_caller_to_sessions(self):
        client = self.connect()
        with self.assertRaisesRegex(ValueError, r"keeps state.*c\.session\('decimated'\)"):
            client.submit("decimated", np.ones(4, np.float32))
        self.expect_nothing_before_a_ping(client)

    def test_what_is_refused_before_it_is_sent_has_no_number(self):
        client = self.connect({"credit_requests": 1})
        session = self.open_session(client)
        for error, x in ((TypeError, np.ones(3)), (ValueError, np.ones(9, np.float32)),
                         (ValueError, np.ones(0, np.float32)), (ValueError, np.ones((17, 4), np.float32))):
            with self.subTest(x=x), self.assertRaises(error):
                session.submit(x)
        with self.assertRaisesRegex(ValueError, "multiple of 4, not 6"):
            session.submit(np.ones((2, 6), np.float32), frames=2)
        (first,), (message,) = self.submit(session, np.ones(3))
        with self.assertRaises(penstock.NoCredit):
            session.submit(np.ones(3, np.float32), block=False)
        self.assertEqual((message.header.sequence, session.frames), (0, 1))
        self.router.result(message, message.array())
        self.wait(first)
        self.assertEqual(self.submit(session, np.ones(3))[1][0].header.sequence, 1)


class Closing(RouterTest):
    def test_leaving_the_block_closes_once(self):
        client = self.connect()
        with self.open_session(client) as session:
            pass
        self.assertEqual(self.router.expect(MessageType.CLOSE_SESSION).header.session, 5)
        session.close()
        self.expect_nothing_before_a_ping(client)

    def test_a_closed_session_takes_no_more(self):
        session = self.open_session(self.connect({"credit_requests": 1}))
        session.close()
        for _ in range(2):  # its credit is back
            with self.assertRaisesRegex(penstock.SessionLost, "closed"):
                session.submit(np.ones(3, np.float32), block=False)

    def test_close_is_sent_when_the_last_request_has_ended(self):
        client = self.connect()
        with self.open_session(client) as session:
            futures, messages = self.submit(session, [1], [2])
        self.router.error(messages[0], Status.EXPIRED)
        self.error_of(futures[0])
        self.expect_nothing_before_a_ping(client)
        self.router.result(messages[1], messages[1].array())
        self.wait(futures[1])
        self.assertEqual(self.router.expect(MessageType.CLOSE_SESSION).header.session, 5)

    def test_a_session_that_is_dropped_is_closed(self):
        client = self.connect()
        session = self.open_session(client)
        del session
        gc.collect()
        self.assertEqual(self.router.expect(MessageType.CLOSE_SESSION).header.session, 5)

    def test_a_closed_name_may_be_used_again(self):
        client = self.connect()
        self.open_session(client, 5, name="antenna").close()
        self.router.expect(MessageType.CLOSE_SESSION)
        again = self.open_session(client, 6, name="antenna")
        self.assertEqual(self.submit(again, [1])[1][0].header.sequence, 0)

    def test_a_name_that_is_still_closing_is_waited_for(self):
        client = self.connect()
        session = self.open_session(client, 5, name="antenna")
        (future,), (message,) = self.submit(session, [1])
        session.close()
        opening = self.aside(client.session, "decimated", name="antenna", timeout=PATIENCE_S)
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION), 5, next_sequence=1)  # it has not been told yet
        self.router.result(message, message.array())
        self.wait(future)
        self.assertEqual(self.router.expect(MessageType.CLOSE_SESSION).header.session, 5)
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION), 6)
        self.wait(opening)


if __name__ == "__main__":
    unittest.main()
