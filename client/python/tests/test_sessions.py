"""Sessions: frames in order that share the state of a pipeline, and requests without room."""
import gc
import time
import unittest
from unittest import mock

from scripted_router import DECIMATED, IMPATIENT_S, PATIENCE_S, RouterTest

import numpy as np

import penstock
from penstock import Status, control, wire
from penstock.control import ErrorBody
from penstock.pending_request import Patience, SubmitRequest
from penstock.session_requests import SessionRequests
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


class Repeats(unittest.TestCase):
    """When one has not been answered, by when each was last sent."""

    def setUp(self):
        self.outlet = mock.Mock()
        self.session = SessionRequests(self.outlet, 5, Patience(retry_after=0.04, retry_limit=0.1))

    def request(self, number, sent_at):
        packed = mock.Mock(count=1, single=True)
        request = SubmitRequest(None, packed, bytes(16), None, Patience())
        request.request_id, request.sequence, request.session = number, number, self.session
        request.sent_at = sent_at
        self.session.begin(request)
        return request

    def test_those_before_it_that_were_sent_before_it_go_first(self):
        first, second, third = (self.request(number, at) for number, at in enumerate((2.0, 3.0, 3.5)))
        self.assertEqual(self.session.to_repeat(second), [first, second])
        self.assertEqual(self.session.to_repeat(third), [first, second, third])

    def test_those_that_were_repeated_since_stay(self):
        self.request(0, 5.0)
        second = self.request(1, 3.0)
        self.request(2, 3.0)
        self.assertEqual(self.session.to_repeat(second), [second])

    def test_a_gap_counts_anew_after_a_repeat(self):
        first, second = self.request(0, 1.0), self.request(1, 2.0)
        gap = wire.Header(MessageType.ERROR, 1, status=Status.SEQUENCE_GAP, sequence=0)
        for sent in (2, 2):  # the second time it is known already
            self.session.refused(second, gap, ErrorBody("", "", "", ""))
            self.assertEqual(self.outlet.send.call_count, sent)
        self.session.to_repeat(first)
        self.session.refused(second, gap, ErrorBody("", "", "", ""))
        self.assertEqual([call.args[0] for call in self.outlet.send.call_args_list], [first, second, first, second])

    def test_pauses_of_one_request_grow_to_the_limit_and_gaps_ask_for_nothing_meanwhile(self):
        first, second, third = (self.request(number, 1.0) for number in range(3))
        no_room = wire.Header(MessageType.ERROR, 1, status=Status.NO_CREDIT, sequence=1)
        gap = wire.Header(MessageType.ERROR, 2, status=Status.SEQUENCE_GAP, sequence=1)
        for pause in (0.04, 0.08, 0.1, 0.1):
            self.session.refused(second, no_room, ErrorBody("", "", "", ""))
            self.outlet.resume_in.assert_called_once_with(self.session, pause)
            self.assertEqual([self.session.holds_back(each) for each in (first, second, third)], [False, True, True])
            self.outlet.reset_mock()
            self.session.refused(third, gap, ErrorBody("", "", "", ""))
            self.outlet.send.assert_not_called()
            self.session.resume()
            self.assertEqual([call.args[0] for call in self.outlet.send.call_args_list], [second, third])
            self.outlet.reset_mock()
        self.session.refused(third, no_room, ErrorBody("", "", "", ""))
        self.outlet.resume_in.assert_called_once_with(self.session, 0.04)


class NoCredit(RouterTest):
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
