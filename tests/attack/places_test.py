"""Clients that have gone free their places for clients and sessions."""

import json
import signal
import subprocess
import sys
import time
import unittest

from daemon_process import VERSION, Daemon, pipeline, wait_until
from raw_client import RawDealer

try:
    import numpy as np
    import zmq
    from penstock import Client, wire
except ImportError:
    zmq = None

CLIENTS, SESSIONS = 256, 64
GRACE_S = 1
HELLO = b'{"client":"late","version":"1"}'
PIPELINE = pipeline("sums", "f32", ["max 16"], [("out", "fir", "taps = [1.0, 1.0]\n")], ["out"])
TEXT = VERSION + (f'[clients]\nmax_clients = {CLIENTS}\ncredit_requests = 16\ncredit_bytes = "1 MiB"\n'
                  f'reply_queue_bytes = "1 MiB"\nmax_request_bytes = "1 MiB"\nresume_grace = "{GRACE_S}s"\n') + PIPELINE
#: Says HELLO and opens a session, and waits to be killed.
CRASHING = """
import sys, time
from penstock import Client
client = Client(sys.argv[1], transport="zmq")
sessions = [client.session("sums") for _ in range(int(sys.argv[2]))]
print("open", flush=True)
time.sleep(600)
"""


@unittest.skipUnless(zmq, "numpy or pyzmq is missing")
class Places(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", TEXT)
        self.addCleanup(self.stop)
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, 0)

    def stop(self):
        code, log = self.daemon.stop()
        self.assertEqual(code, 0, log)

    def ready(self):
        """Whether /readyz says so, and what it says of places."""
        status, text = self.daemon.ask("/readyz")
        return status, {each["name"]: each["reason"] for each in json.loads(text)["checks"]}["places"]

    def crash(self, clients, sessions):
        """Processes that open so many sessions each, and are then killed."""
        started = [subprocess.Popen([sys.executable, "-c", CRASHING, self.daemon.url, str(sessions)],
                                    stdout=subprocess.PIPE) for _ in range(clients)]
        for each in started:
            self.assertEqual(each.stdout.readline(), b"open\n")
        for each in started:
            each.send_signal(signal.SIGKILL)
            each.wait()
            each.stdout.close()

    def test_clients_that_are_gone_shut_nobody_out(self):
        for _ in range(2):
            for _ in range(CLIENTS):
                dealer = RawDealer(self.context, self.daemon.url)
                dealer.hello()
                dealer.close()
            begin = time.monotonic()
            with Client(self.daemon.url, transport="zmq") as client, client.session("sums") as session:
                self.assertEqual(session.submit(np.ones(1, np.float32)).result(60)["out"].ravel().tolist(), [1])
            self.assertLess(time.monotonic() - begin, 30)
        wait_until(lambda: self.daemon.counters()["status"]["clients"] == 1, "the places of those that are gone are free")
        self.assertEqual(self.ready(), (200, "nobody is turned away"))

    def test_clients_that_are_connected_keep_their_places_and_readyz_says_why_there_are_none(self):
        dealers = [RawDealer(self.context, self.daemon.url) for _ in range(CLIENTS)]
        for each in dealers:
            each.hello()
        late = RawDealer(self.context, self.daemon.url)
        for _ in range(3):
            header, _ = late.ask(wire.MessageType.HELLO, HELLO)
            self.assertEqual(header.status, wire.Status.TOO_MANY_CLIENTS)
            header, _ = late.ask(wire.MessageType.PING)
            self.assertEqual(header.type, wire.MessageType.PONG)
        status, reason = self.ready()
        self.assertEqual(status, 503)
        self.assertIn("no room for another client", reason)
        for each in [*dealers[1:], late]:
            each.close()
        wait_until(lambda: self.ready()[0] == 200, "there are places again")
        self.assertTrue(dealers[0].hello().resumed)
        dealers[0].close()
        log = self.daemon.log.read_text()
        self.assertEqual(log.count("no room for more clients"), 1)
        self.assertEqual(log.count("there is room for clients again"), 1)

    def test_sessions_of_crashed_clients_shut_nobody_out(self):
        self.crash(clients=4, sessions=SESSIONS // 4)
        begin = time.monotonic()
        with Client(self.daemon.url, transport="zmq") as client, client.session("sums") as session:
            self.assertEqual(session.submit(np.ones(1, np.float32)).result(60)["out"].ravel().tolist(), [1])
        self.assertLess(time.monotonic() - begin, 30)

    def test_memory_of_clients_that_are_gone_goes_to_who_comes(self):
        daemon = Daemon("host", "callback", VERSION + '[limits]\nmemory = "1 GiB"\n' + PIPELINE)
        self.addCleanup(daemon.stop)
        first = RawDealer(self.context, daemon.url)
        granted = first.hello().credit_bytes
        first.close()
        for _ in range(64):
            dealer = RawDealer(self.context, daemon.url)
            # libzmq may not have seen yet that the one before has gone.
            wait_until(lambda: dealer.ask(wire.MessageType.HELLO, HELLO)[0].type == wire.MessageType.WELCOME, "room")
            dealer.close()

        def credits_of_another():
            dealer = RawDealer(self.context, daemon.url)
            welcome = dealer.hello()
            dealer.close()
            return welcome.credit_bytes

        wait_until(lambda: credits_of_another() > granted // 2, "credits as for the first, but for what replies take")

    def test_a_client_has_no_more_than_its_share_of_the_sessions(self):
        with Client(self.daemon.url, transport="zmq") as client:
            sessions = [client.session("sums") for _ in range(SESSIONS // 2)]
            with self.assertRaisesRegex(Exception, "max_per_client"):
                client.session("sums")
            self.assertEqual(len(sessions), SESSIONS // 2)

    def test_a_session_outlives_its_connection_for_the_grace_alone(self):
        dealer = RawDealer(self.context, self.daemon.url)
        token = dealer.hello().resume
        session = json.loads(dealer.ask(wire.MessageType.OPEN_SESSION, b'{"pipeline":0,"name":"a"}')[1][1])
        dealer.close()
        other = RawDealer(self.context, self.daemon.url)
        self.assertTrue(other.hello(token).resumed)
        again = json.loads(other.ask(wire.MessageType.OPEN_SESSION, b'{"pipeline":0,"name":"a"}')[1][1])
        self.assertEqual(again, session)
        other.close()
        wait_until(lambda: self.daemon.counters()["status"]["places"]["lost"] == 1, "the grace is over")
        self.assertEqual(self.daemon.counters()["status"]["sessions"], 0)
        late = RawDealer(self.context, self.daemon.url)
        self.assertFalse(late.hello(token).resumed)
        late.close()


if __name__ == "__main__":
    unittest.main()
