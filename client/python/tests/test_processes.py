"""A client and the process that it lives in: forks, the end of the program, and the client's own end."""
import gc
import os
import signal
import subprocess
import sys
import unittest
import unittest.mock
import weakref

from scripted_router import PATIENCE_S, RouterTest, iq, spectra

import numpy as np

import penstock
from penstock import Client
from penstock.wire import MessageType


class Forks(RouterTest):
    def in_child(self, what):
        """What `what` returns, or the exception that it raises, as text, in a forked child; "hangs" if it does."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE_S)
            try:
                said = repr(what())
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writer, said.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as end:
            said = end.read()
        os.waitpid(child, 0)
        return said or "hangs"

    def test_every_call_in_a_forked_child_is_refused_at_once(self):
        client = self.connect()
        session = self.open_session(client)
        pending = client.submit("spectrum", iq())
        sent = self.router.expect(MessageType.SUBMIT)
        calls = (lambda: client.submit("spectrum", iq(), timeout=2), lambda: session.submit(np.ones(4, np.float32)),
                 lambda: session.run(np.ones(4, np.float32)), client.ping, client.status, client.trace,
                 lambda: client.session("decimated"), lambda: client.cancel(pending), lambda: client.empty(3, np.uint8),
                 pending.result)
        for call in calls:
            self.assertRegex(self.in_child(call), "^RuntimeError: .*belongs to process .*Make a Client")
        for call in (client.close, session.close, lambda: client.__exit__(None, None, None)):
            self.assertEqual(self.in_child(call), "None")
        self.expect_nothing_before_a_ping(client)
        self.router.result(sent, *spectra())
        self.wait(pending)

    def test_a_child_has_a_client_of_its_own(self):
        client = self.connect()
        url = self.router.url

        def ping():
            with Client(url, connect_timeout=PATIENCE_S) as own:
                return own.ping(PATIENCE_S) > 0
        said = self.aside(self.in_child, ping)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        self.router.send_header(self.router.expect(MessageType.PING), MessageType.PONG)
        self.assertEqual(self.wait(said), "True")
        self.router.expect(MessageType.GOODBYE)
        self.expect_nothing_before_a_ping(client)


class Endings(RouterTest):
    def run_script(self, text):
        """A program with a client `c` of this router, and what it printed at its end."""
        program = f"import numpy as np\nimport penstock\nc = penstock.Client({self.router.url!r})\n{text}\n"
        running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, text=True)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.kill)
        return running

    def end_of(self, running):
        printed = running.communicate(timeout=PATIENCE_S)[0]
        return running.returncode, printed

    def test_a_script_that_just_ends_has_its_requests_sent_and_says_goodbye(self):
        count = 20  # of 4 MiB each: from where they lie
        running = self.run_script("for i in range(20): c.submit('large', np.full(1 << 20, i, np.float32))")
        self.router.welcome(self.router.expect(MessageType.HELLO))
        for each in range(count):
            message = self.router.expect(MessageType.SUBMIT)
            self.assertEqual(message.array()[0, -1], each)
            self.router.result(message, np.ones((1, 1), np.float32))
        self.router.expect(MessageType.GOODBYE)
        self.assertEqual(self.end_of(running), (0, ""))

    def test_a_script_ends_although_the_daemon_is_gone(self):
        running = self.run_script("import penstock.connection as each\neach._EXIT_SILENCE_S = 0.3\n"
                                  "c.submit('large', np.zeros(1 << 20, np.float32))")
        self.router.welcome(self.router.expect(MessageType.HELLO))
        self.router.expect(MessageType.SUBMIT)
        self.router.expect(MessageType.GOODBYE)
        self.assertEqual(self.end_of(running), (0, ""))

    def test_a_callback_submits_nothing_more_at_the_end(self):
        running = self.run_script(
            "from penstock import wire\n"
            "from penstock.connection import Connection\n"
            "begin = Connection._begin_to_finish\n"
            "def tell(connection):\n"
            "    begin(connection)\n"
            "    connection._engine.dealer.send([wire.encode_header(wire.Header(wire.MessageType.PING))])\n"
            "Connection._begin_to_finish = tell\n"
            "x = np.zeros((1, 4, 2), np.uint8)\n"
            "def again(_): c.submit('spectrum', x, block=False).add_done_callback(lambda f: print(f.exception()))\n"
            "c.submit('spectrum', x).add_done_callback(again)")
        self.router.welcome(self.router.expect(MessageType.HELLO))
        first = self.router.expect(MessageType.SUBMIT)
        self.router.expect(MessageType.PING)  # it has begun to end
        self.router.result(first, *spectra())
        self.router.expect(MessageType.GOODBYE)
        self.assertEqual(self.end_of(running), (0, "CANCELLED: the client was closed (step client)\n"))

    def test_a_client_lives_as_long_as_its_futures(self):
        def submit():
            return Client(self.router.url, connect_timeout=PATIENCE_S).submit("spectrum", iq())
        submitting = self.aside(submit)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        message = self.router.expect(MessageType.SUBMIT)
        future = self.wait(submitting)
        del submitting
        gc.collect()
        self.router.result(message, *spectra())
        self.wait(future)
        gc.collect()
        client = weakref.ref(future.client)
        self.assertIsNotNone(client())
        del future
        gc.collect()
        self.router.expect(MessageType.GOODBYE)
        self.assertIsNone(client())

    def test_a_client_lives_as_long_as_its_sessions(self):
        def open_session():
            return Client(self.router.url, connect_timeout=PATIENCE_S).session("decimated", timeout=PATIENCE_S)
        opening = self.aside(open_session)
        self.router.welcome(self.router.expect(MessageType.HELLO))
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION))
        session = self.wait(opening)
        del opening
        gc.collect()
        (future,), (message,) = self.submit(session, [1, 2, 3, 4])
        del session
        gc.collect()
        self.router.result(message, np.ones((1, 1), np.float32))
        self.assertEqual(self.wait(future).array.shape, (1,))


class Threads(RouterTest):
    def test_no_callback_ends_the_clients_thread(self):
        client = self.connect()
        seen = []

        def leave(_):
            raise SystemExit(3)
        for leaver in (leave, lambda _: 1 / 0, lambda _: client.submit("spectrum", None)):
            future = client.submit("spectrum", iq())
            future.add_done_callback(leaver)
            future.add_done_callback(lambda _: seen.append(True))
            with self.assertLogs():
                self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
                self.expect_nothing_before_a_ping(client)
        self.assertEqual(len(seen), 3)

    def test_what_goes_wrong_with_one_request_ends_that_one_alone(self):
        client = self.connect()
        with self.assertLogs("penstock", "ERROR"):
            with unittest.mock.patch("penstock.pending_request.SubmitRequest.messages", side_effect=OverflowError("too large")):
                error = self.error_of(client.submit("spectrum", iq()))
        self.assertIsInstance(error.__cause__, OverflowError)
        self.assertRegex(str(error), "too large")
        future = client.submit("spectrum", iq())
        with self.assertLogs("penstock", "ERROR"):
            with unittest.mock.patch("penstock.frames.unpack", side_effect=MemoryError("none left")):
                self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
                self.assertIsInstance(self.error_of(future).__cause__, MemoryError)
        for _ in range(70):  # more than there are credits
            future = client.submit("spectrum", iq())
            self.router.result(self.router.expect(MessageType.SUBMIT), *spectra())
            self.wait(future)

    def test_what_goes_wrong_with_a_request_of_a_session_loses_the_session(self):
        client = self.connect()
        session = self.open_session(client)
        with self.assertLogs("penstock", "ERROR"):
            with unittest.mock.patch("penstock.pending_request.SubmitRequest.messages", side_effect=OverflowError("too large")):
                future = session.submit(np.ones(4, np.float32))
                self.assertIsInstance(self.error_of(future).__cause__, OverflowError)
        self.router.expect(MessageType.CLOSE_SESSION)
        with self.assertRaises(penstock.SessionLost):
            session.submit(np.ones(4, np.float32))

    def test_the_end_of_the_thread_is_what_waiting_calls_raise(self):
        client = self.connect({"credit_requests": 1})
        future = client.submit("spectrum", iq())
        self.router.expect(MessageType.SUBMIT)
        waiting = self.aside(client.submit, "spectrum", iq(), timeout=None)
        with self.assertLogs("penstock", "ERROR"):
            with unittest.mock.patch("penstock.protocol_engine.ProtocolEngine.run_timers", side_effect=ValueError("broken")):
                client._connection.cancel(0)  # wakes it
                for error in (self.error_of(future), self.error_of(waiting)):
                    self.assertRegex(str(error), "thread has ended.*broken")
        self.assertRegex(str(self.error_of(self.aside(client.ping))), "thread has ended.*broken")


if __name__ == "__main__":
    unittest.main()
