"""Credits: what a client may have in flight."""
import unittest

from scripted_router import RouterTest, iq, spectra

import penstock
from penstock import Status
from penstock.wire import MessageType


class Credits(RouterTest):
    def test_submit_waits_for_a_credit(self):
        client = self.connect({"credit_requests": 2})
        futures = [client.submit("spectrum", iq()) for _ in range(2)]
        third = self.aside(client.submit, "spectrum", iq())
        messages = [self.router.expect(MessageType.SUBMIT) for _ in futures]
        self.expect_nothing_before_a_ping(client)
        self.assertFalse(third.done())
        self.router.result(messages[0], *spectra())
        self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
        self.wait(self.wait(third))

    def test_submit_waits_for_bytes(self):
        client = self.connect({"credit_bytes": 16})
        client.submit("spectrum", iq())
        second = self.aside(client.submit, "spectrum", iq(2))
        message = self.router.expect(MessageType.SUBMIT)
        self.expect_nothing_before_a_ping(client)
        self.router.result(message, *spectra())
        self.assertEqual(self.router.expect(MessageType.SUBMIT).header.frames, 2)
        self.wait(second)

    def test_every_terminal_reply_gives_its_credit_back(self):
        client = self.connect({"credit_requests": 1})
        for status in (Status.WRONG_SHAPE, Status.EXPIRED, Status.CANCELLED, Status.FAILED, Status.SHUTDOWN):
            future = client.submit("spectrum", iq(), block=False)
            self.router.error(self.router.expect(MessageType.SUBMIT), status)
            self.error_of(future)

    def test_without_blocking_it_raises(self):
        client = self.connect({"credit_requests": 1})
        client.submit("spectrum", iq(), block=False)
        with self.assertRaises(penstock.NoCredit) as caught:
            client.submit("spectrum", iq(), block=False)
        self.assertIsInstance(caught.exception, penstock.Rejected)
        self.assertEqual(caught.exception.status_name, "NO_CREDIT")

    def test_waiting_counts_against_the_timeout(self):
        client = self.connect({"credit_requests": 1})
        client.submit("spectrum", iq())
        with self.assertRaisesRegex(penstock.Expired, "no credit"):
            client.submit("spectrum", iq(), timeout=0.05)

    def test_a_second_welcome_does_not_add_credits(self):
        client = self.connect({"credit_requests": 1})
        first = client.submit("spectrum", iq())
        message = self.router.expect(MessageType.SUBMIT)
        self.router.error(message, Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO), credit_requests=1)
        self.router.expect(MessageType.SUBMIT)
        with self.assertRaises(penstock.NoCredit):
            client.submit("spectrum", iq(), block=False)
        self.assertFalse(first.done())

    def test_close_ends_the_wait(self):
        client = self.connect({"credit_requests": 1})
        client.submit("spectrum", iq())
        waiting = self.aside(client.submit, "spectrum", iq(), timeout=None)
        self.router.expect(MessageType.SUBMIT)
        client.close()
        self.assertIsInstance(self.error_of(waiting), penstock.Cancelled)

    def test_a_callback_never_waits(self):
        client = self.connect({"credit_requests": 1})
        seen = []

        def submit_twice(_):
            for _ in range(2):
                try:
                    client.submit("spectrum", iq())
                except penstock.NoCredit as error:
                    seen.append(error)

        client.submit("spectrum", iq()).add_done_callback(submit_twice)
        self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
        self.router.expect(MessageType.SUBMIT)
        self.expect_nothing_before_a_ping(client)
        self.assertEqual(len(seen), 1)


if __name__ == "__main__":
    unittest.main()
