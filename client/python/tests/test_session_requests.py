"""Which requests of a session are sent again, and when."""
import unittest
from unittest import mock

import scripted_router  # noqa: F401  finds the package, or skips

from penstock import Status, wire
from penstock.control import ErrorBody
from penstock.exchange import Patience, Request
from penstock.session_requests import SessionRequests
from penstock.wire import MessageType


class Repeats(unittest.TestCase):
    """When one has not been answered, by when each was last sent."""

    def setUp(self):
        self.outlet = mock.Mock()
        self.session = SessionRequests(self.outlet, 5, Patience(retry_after=0.04, retry_limit=0.1))

    def request(self, number, sent_at):
        packed = mock.Mock(count=1, single=True)
        request = Request(None, packed, bytes(16), None, Patience())
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


if __name__ == "__main__":
    unittest.main()
