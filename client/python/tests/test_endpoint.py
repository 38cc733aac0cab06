"""Where no daemon answers: which address, what happened, what to try; at once where it can be known."""
import os
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

from scripted_router import PATIENCE_S, RouterTest, welcome

import penstock
from penstock import Client, control
from penstock.endpoint import look, parse
from penstock.wire import MessageType

#: How long the tests have a client wait, and what "at once" is beside that on a machine that does much else.
PATIENT_S, AT_ONCE_S = 60, 30


class Addresses(unittest.TestCase):
    def test_what_can_be_no_address_is_refused_with_what_is_wrong(self):
        for url, wanted in (
                ("tcp://127.0.0.1:99999", "port '99999'; a port is a number from 1 to 65535"),
                ("tcp://127.0.0.1:0", "port '0'"), ("tcp://127.0.0.1:-1", "port '-1'"),
                ("tcp://127.0.0.1:7600/", "port '7600/'"), ("tcp://127.0.0.1", "no port"), ("tcp://:7600", "no host"),
                ("tcp://*:7600", "where a daemon listens"), ("http://127.0.0.1:7680", "no transport 'http'"),
                ("127.0.0.1:7600", r"no address.*did you mean tcp://127\.0\.0\.1:7600\?"), ("nonsense", "no address"),
                ("", "no address"), ("ipc://", "no socket"), ("ipc://" + 200 * "x", "at most 107")):
            with self.subTest(url=url), self.assertRaisesRegex(ValueError, wanted):
                Client(url)
        with self.assertRaisesRegex(TypeError, "a url is a str"):
            Client(b"tcp://127.0.0.1:7600")

    def test_addresses_are_read_as_ZeroMQ_does(self):
        self.assertEqual(parse("tcp://gpu.lab:7600"), ("tcp", "gpu.lab", 7600, ""))
        self.assertEqual(parse("tcp://[::1]:7600"), ("tcp", "::1", 7600, ""))
        self.assertEqual(parse("tcp://eth0:0;gpu.lab:7600"), ("tcp", "gpu.lab", 7600, ""))
        self.assertEqual(parse("ipc:///run/penstock/data"), ("ipc", "", 0, "/run/penstock/data"))
        self.assertEqual(parse("ipc://@penstock").path, "@penstock")


class NobodyThere(unittest.TestCase):
    def setUp(self):
        patience = mock.patch("penstock.client._CONNECT_S", PATIENT_S)
        patience.start()
        self.addCleanup(patience.stop)

    def refusal_of(self, url, **options):
        """What the constructor raises, which comes at once."""
        began = time.monotonic()
        with self.assertRaises(penstock.PenstockError) as caught:
            Client(url, **options)
        self.assertLess(time.monotonic() - began, AT_ONCE_S)
        return caught.exception

    def listener(self):
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        return listening, f"tcp://127.0.0.1:{listening.getsockname()[1]}"

    def test_a_refused_connection_is_said_with_its_address(self):
        listening, url = self.listener()
        listening.close()
        error = self.refusal_of(url)
        self.assertIsInstance(error, penstock.Unreachable)
        self.assertIsInstance(error, penstock.Expired)
        self.assertIn(url, str(error))
        self.assertRegex(str(error), "the connection is refused.*is penstockd running")

    def test_a_name_that_does_not_exist_is_said_whatever_the_time_to_wait(self):
        with self.name_server(socket.gaierror(socket.EAI_NONAME, "Name or service not known")):
            for options in ({}, {"connect_timeout": PATIENT_S}):
                error = self.refusal_of("tcp://no-such-machine.invalid:7600", **options)
                self.assertRegex(str(error), "no-such-machine.invalid.*can't be resolved")

    def test_a_name_server_that_is_away_is_said_as_soon_as_that_nobody_listens(self):
        with self.name_server(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")):
            self.assertRegex(str(self.refusal_of("tcp://gpu.invalid:7600")), "can't be resolved.*Temporary failure")
            began = time.monotonic()
            self.refusal_of("tcp://gpu.invalid:7600", connect_timeout=1.5)
            self.assertGreaterEqual(time.monotonic() - began, 1.5)

    def name_server(self, error):
        return mock.patch("penstock.endpoint.socket.getaddrinfo", side_effect=error)

    def test_a_socket_that_does_not_exist_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRegex(str(self.refusal_of(f"ipc://{folder}/data")), "there is no such socket")
            gone = socket.socket(socket.AF_UNIX)
            gone.bind(f"{folder}/gone")
            gone.close()
            self.assertRegex(str(self.refusal_of(f"ipc://{folder}/gone")), "the daemon that made the socket is gone")
            if os.geteuid() != 0:
                os.chmod(folder, 0)
                self.assertRegex(str(self.refusal_of(f"ipc://{folder}/data")), "permission denied")
                os.chmod(folder, 0o700)

    def test_what_is_no_ZeroMQ_is_said(self):
        listening, url = self.listener()

        def talk():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                connection.close()
        talking = threading.Thread(target=talk)
        talking.start()
        try:
            self.assertRegex(str(self.refusal_of(url)), "is no ZeroMQ.*7680")
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            talking.join()

    def test_one_that_says_nothing_is_said_at_the_end_of_the_time(self):
        _, url = self.listener()
        self.assertRegex(str(self.refusal_of(url, connect_timeout=0.6)), "within 0.6.*nothing is said over it")

    def test_who_says_how_long_waits_for_a_daemon_that_is_starting(self):
        listening, url = self.listener()
        listening.close()
        began = time.monotonic()
        with self.assertRaisesRegex(penstock.Unreachable, "refused"):
            Client(url, connect_timeout=2)
        self.assertGreaterEqual(time.monotonic() - began, 2)


class SomebodyThere(RouterTest):
    def test_a_peer_that_sends_no_welcome_is_said(self):
        with self.assertRaisesRegex(penstock.Unreachable, "no daemon answered at .* sends no welcome"):
            Client(self.router.url, connect_timeout=0.5)

    def test_a_daemon_that_is_slow_to_welcome_is_waited_for(self):
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S)
        hello = self.router.expect(MessageType.HELLO)
        time.sleep(0.8)  # it has looked by then
        self.router.send_header(hello, MessageType.WELCOME, control.encode(welcome()))
        self.wait(connecting).close()

    def test_a_look_at_a_daemon_finds_nothing_wrong(self):
        self.assertEqual(look(self.router.url, False, time.monotonic() + PATIENCE_S), ("", False, False, False))
        self.assertIn("asks for no keys", look(self.router.url, True, time.monotonic() + PATIENCE_S).text)


if __name__ == "__main__":
    unittest.main()
