"""Silence, restarts, timeouts, cancellation and the end."""
import gc
import unittest
import weakref
from concurrent.futures import CancelledError

from scripted_router import IMPATIENT_S, PATIENCE_S, SCALED, SPECTRUM, TOKEN, RouterTest, iq, spectra

import numpy as np

import penstock
from penstock import Status
from penstock.wire import MessageType


class Silence(RouterTest):
    def test_a_request_is_sent_again_under_its_id(self):
        client = self.connect(retry_after=IMPATIENT_S)
        future = client.submit("spectrum", iq())
        first = self.router.expect(MessageType.SUBMIT)
        again, hellos = self.router.until(MessageType.SUBMIT)
        self.assertGreaterEqual(hellos, 1)  # nothing was heard: it greets before it repeats
        self.assertEqual(again.id, first.id)
        self.assertEqual(again.parts[1], first.parts[1])
        self.assertLess(again.header.timeout_ns, first.header.timeout_ns)
        self.router.result(again, *spectra())
        self.assertEqual(len(self.wait(future)), 2)

    def test_hello_is_repeated_until_it_is_answered(self):
        connecting = self.aside(penstock.Client, self.router.url, connect_timeout=PATIENCE_S, retry_after=IMPATIENT_S)
        self.router.expect(MessageType.HELLO)
        self.router.expect(MessageType.HELLO)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        self.wait(connecting).close()

    def test_a_repeated_reply_is_ignored(self):
        client = self.connect()
        ends = []
        future = client.submit("spectrum", iq())
        future.add_done_callback(ends.append)
        message = self.router.expect(MessageType.SUBMIT)
        self.router.result(message, *spectra())
        self.router.error(message, Status.FAILED)
        self.router.result(message, spectra()[0] + 1, spectra()[1])
        second = client.submit("spectrum", iq())
        self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
        self.wait(second)
        self.assertEqual(self.wait(future)["psd"][0, 0], 0)
        self.assertEqual(len(ends), 1)

    def test_one_client_stays_the_same_over_connections(self):
        client = self.connect()
        futures = [client.submit("spectrum", iq()) for _ in range(3)]
        messages = [self.router.expect(MessageType.SUBMIT) for _ in futures]
        self.router.restart()
        hello = self.router.expect(MessageType.HELLO)  # at once, whatever its patience
        self.assertEqual(hello.token(), TOKEN)
        self.router.welcome(hello, resumed=True)
        again = [self.router.expect(MessageType.SUBMIT) for _ in futures]
        self.assertEqual([each.id for each in again], [each.id for each in messages])
        for message in again:
            self.router.result(message, *spectra())
        for future in futures:
            self.wait(future)

    def test_a_refusal_of_whatever_it_sent_makes_it_greet(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        message = self.router.expect(MessageType.SUBMIT)
        client.cancel(future)
        self.router.error(self.router.expect(MessageType.CANCEL), Status.HELLO_REQUIRED)
        hello = self.router.expect(MessageType.HELLO)
        self.assertEqual(hello.token(), TOKEN)
        self.router.welcome(hello)
        cancel = self.router.expect(MessageType.CANCEL)
        self.assertEqual(cancel.id, message.id)
        self.router.error(cancel, Status.CANCELLED)
        self.assertIsInstance(self.error_of(future), penstock.Cancelled)


class Restart(RouterTest):
    def forget(self, message, **given):
        """What a daemon that restarted does with a SUBMIT, up to the client's next HELLO."""
        self.router.error(message, Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO), **given)

    def test_what_went_in_one_part_goes_in_two_to_an_older_daemon(self):
        client = self.connect({"inline_bytes": 4096})
        future = client.submit("spectrum", iq())
        first = self.router.expect(MessageType.SUBMIT)
        self.assertEqual(len(first.parts), 1)
        self.forget(first, instance="older")  # and says nothing of inline_bytes
        again = self.router.expect(MessageType.SUBMIT)
        self.assertEqual((len(again.parts), again.id), (2, first.id))
        np.testing.assert_array_equal(again.array(), iq())
        self.router.result(again, *spectra())
        self.wait(future)

    def test_an_unknown_client_greets_and_sends_again(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        first = self.router.expect(MessageType.SUBMIT)
        self.forget(first)
        again = self.router.expect(MessageType.SUBMIT)
        self.assertEqual(again.id, first.id)
        self.router.result(again, *spectra())
        self.wait(future)

    def test_many_refusals_make_one_greeting(self):
        client = self.connect()
        futures = [client.submit("spectrum", iq()) for _ in range(5)]
        messages = [self.router.expect(MessageType.SUBMIT) for _ in futures]
        for message in messages:
            self.router.error(message, Status.HELLO_REQUIRED)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        again = [self.router.expect(MessageType.SUBMIT) for _ in futures]
        self.assertEqual([message.id for message in again], [message.id for message in messages])
        for message in again:
            self.router.result(message, *spectra())
        for future in futures:
            self.wait(future)

    def test_a_new_daemon_gets_everything_in_flight(self):
        client = self.connect()
        futures = [client.submit("spectrum", iq()) for _ in range(3)]
        messages = [self.router.expect(MessageType.SUBMIT) for _ in futures]
        self.forget(messages[0], instance="second")  # the other two were lost with the old one
        again = {self.router.expect(MessageType.SUBMIT).id for _ in futures}
        self.assertEqual(again, {message.id for message in messages})
        self.expect_nothing_before_a_ping(client)

    def test_pipelines_are_found_again_by_name(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        message = self.router.expect(MessageType.SUBMIT)
        moved = SPECTRUM.__class__(**{**SPECTRUM.__dict__, "id": 9})
        self.forget(message, instance="second", pipelines=(SCALED, moved))
        again = self.router.expect(MessageType.SUBMIT)
        self.assertEqual(again.header.pipeline, 9)
        self.router.result(again, *spectra())
        self.wait(future)

    def test_a_pipeline_that_is_gone_rejects_its_requests(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        self.forget(self.router.expect(MessageType.SUBMIT), instance="second", pipelines=(SCALED,))
        error = self.error_of(future)
        self.assertIsInstance(error, penstock.Rejected)
        self.assertEqual(error.status_name, "UNKNOWN_PIPELINE")


class Timeouts(RouterTest):
    def test_a_silent_daemon_is_expired_by_the_client_and_told(self):
        client = self.connect({"credit_requests": 1})
        future = client.submit("spectrum", iq(), timeout=0.05)
        message = self.router.expect(MessageType.SUBMIT)
        error = self.error_of(future)
        self.assertIsInstance(error, penstock.Expired)
        self.assertEqual((error.step, error.request_id), ("client", message.id))
        cancel = self.router.expect(MessageType.CANCEL)
        self.assertEqual(cancel.id, message.id)
        # Its credit comes back with the daemon's word, not before.
        with self.assertRaises(penstock.NoCredit):
            client.submit("spectrum", iq(), block=False)
        second = self.aside(client.submit, "spectrum", iq())
        self.router.error(cancel, Status.CANCELLED)
        self.router.expect(MessageType.SUBMIT)
        self.wait(second)

    def test_the_daemons_word_within_the_grace_counts(self):
        client = self.connect(grace=60)
        future = client.submit("spectrum", iq(), timeout=0.001)
        message = self.router.expect(MessageType.SUBMIT)
        self.router.error(message, Status.EXPIRED, step="queued")
        self.assertEqual(self.error_of(future).step, "queued")

    def test_a_ping_that_is_not_answered_expires(self):
        with self.assertRaises(penstock.Expired):
            self.connect(grace=0).ping(timeout=0.05)


class Cancellation(RouterTest):
    def test_cancel_waits_for_the_daemons_word(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        message = self.router.expect(MessageType.SUBMIT)
        client.cancel(future)
        cancel = self.router.expect(MessageType.CANCEL)
        self.assertEqual(cancel.id, message.id)
        self.assertFalse(future.done())
        self.router.error(cancel, Status.CANCELLED, step="queued")
        error = self.error_of(future)
        self.assertIsInstance(error, penstock.Cancelled)
        self.assertEqual(error.step, "queued")

    def test_cancel_that_is_too_late_leaves_the_result(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        message = self.router.expect(MessageType.SUBMIT)
        client.cancel(future.request_id)
        self.assertEqual(self.router.expect(MessageType.CANCEL).id, message.id)
        self.router.result(message, *spectra())
        self.assertEqual(len(self.wait(future)), 2)

    def test_cancel_of_what_the_daemon_does_not_know_is_cancelled(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        self.router.expect(MessageType.SUBMIT)
        client.cancel(future)
        self.router.error(self.router.expect(MessageType.CANCEL), Status.REJECTED)
        self.assertIsInstance(self.error_of(future), penstock.Cancelled)

    def test_a_futures_cancel_ends_it_at_once_and_tells_the_daemon(self):
        client = self.connect({"credit_requests": 1})
        future = client.submit("spectrum", iq())
        self.router.expect(MessageType.SUBMIT)
        self.assertTrue(future.cancel())
        with self.assertRaises(CancelledError):
            self.wait(future)
        self.router.error(self.router.expect(MessageType.CANCEL), Status.CANCELLED)
        client.submit("spectrum", iq())  # its credit is back
        self.router.expect(MessageType.SUBMIT)


class End(RouterTest):
    def test_close_ends_what_is_in_flight_and_says_goodbye(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        self.router.expect(MessageType.SUBMIT)
        client.close()
        client.close()
        self.assertIsInstance(self.error_of(future), penstock.Cancelled)
        self.router.expect(MessageType.GOODBYE)
        with self.assertRaises(penstock.Cancelled):
            client.submit("spectrum", iq())
        with self.assertRaises(penstock.Cancelled):
            client.ping()

    def test_a_daemon_that_stops_is_answered_once_its_replies_have_arrived(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        sent = self.router.expect(MessageType.SUBMIT)
        self.router.result(sent, *spectra())
        self.router.send_header(sent, MessageType.GOODBYE)
        self.router.expect(MessageType.GOODBYE)
        self.assertEqual(self.wait(future).request_id, sent.header.request_id)

    def test_a_client_that_is_dropped_says_goodbye(self):
        connecting = self.aside(penstock.Client, self.router.url, connect_timeout=PATIENCE_S)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        client = self.wait(connecting)
        del connecting, client
        gc.collect()
        self.router.expect(MessageType.GOODBYE)

    def test_an_ended_request_is_not_kept_alive(self):
        client = self.connect()
        future = client.submit("spectrum", iq())
        self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
        kept = weakref.ref(self.wait(future)["psd"].base)
        self.expect_nothing_before_a_ping(client)
        del future
        gc.collect()
        self.assertIsNone(kept())

    def test_a_result_outlives_its_client(self):
        client = self.connect()
        future = client.submit("large", np.ones(1 << 20, np.float32))
        self.router.result(self.router.expect(MessageType.SUBMIT), np.full((1, 1), 3, np.float32))
        result = self.wait(future)
        client.close()
        self.assertEqual(result.array[0], 3)


if __name__ == "__main__":
    unittest.main()
