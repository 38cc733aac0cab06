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
        self.session = SessionRequests(self.outlet, 5)

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


if __name__ == "__main__":
    unittest.main()
