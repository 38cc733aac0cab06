"""A daemon that stops under load delivers every reply first."""

import signal
import threading
import unittest
from concurrent import futures

import numpy

from daemon_process import COMPLETIONS, VERSION, Daemon, backends, pipeline
from penstock import Client, Shutdown
from raw_client import RawClient

ROUNDS = 4
# A reply far larger than what a socket takes at once, made when nothing has come in for long, so that the daemon ends
# with it: for the host this is half a second of work.
LONG_FRAME, FRAMES, FRAME = 1 << 16, 6, 64
STAGE = ("y", "correlate", f'mode = "same"\nmethod = "direct"\ntemplate = {[1] * LONG_FRAME}\n')
CONFIGURATION = (VERSION + "[device]\nstreams = 1\nslots = 2\n"
                 + pipeline("long", "f32", [LONG_FRAME], [STAGE], ["y"], f"batch = {{ max_frames = {FRAMES} }}\n")
                 + pipeline("short", "f32", [FRAME], [("y", "affine", "a = 3\n")], ["y"]))


class StopTest(unittest.TestCase):
    def daemon(self, backend, completion):
        made = Daemon(backend, completion, CONFIGURATION)
        self.addCleanup(lambda: made.stop() if made.process.poll() is None else made.folder.cleanup())
        return made

    def test_no_reply_is_lost_on_its_way(self):
        for backend in backends():
            for completion in COMPLETIONS:
                daemon = self.daemon(backend, completion)
                for number in range(ROUNDS):
                    with self.subTest(backend=backend, completion=completion, round=number):
                        self.stop_under_load(daemon)
                        daemon.start()

    def stop_under_load(self, daemon):
        # A client sends nothing again in this time: it has each reply once, or never.
        with Client(daemon.url, retry_after=60) as client:
            sent = [client.submit("long", numpy.ones((FRAMES, LONG_FRAME), numpy.float32))]
            sent += [client.submit("short", numpy.ones((1, FRAME), numpy.float32)) for _ in range(20)]
            client.status()  # the daemon has taken them all in
            self.assertEqual(daemon.end(), 0)
            done, lost = futures.wait(sent, 10)
            self.assertEqual(len(lost), 0, daemon.log.read_text())
            for each in done:
                self.assertIsInstance(each.exception(), (type(None), Shutdown))

    def test_who_does_not_answer_the_farewell_holds_it_up_for_two_seconds(self):
        daemon = self.daemon("host", "callback")
        with RawClient(daemon.url) as silent:
            daemon.process.send_signal(signal.SIGTERM)
            header = silent.wire.decode_header(silent.socket.recv_multipart()[0])
            self.assertEqual((header.type, header.request_id), (silent.wire.MessageType.GOODBYE, 0))
            with self.assertRaises(Exception):  # it waits for this client
                daemon.process.wait(1)
            self.assertEqual(daemon.process.wait(10), 0)

    def test_a_client_serves_itself_with_the_next_daemon(self):
        daemon = self.daemon("host", "callback")
        with Client(daemon.url, retry_after=0.2, retry_limit=0.5, timeout=60) as client:
            frames = numpy.ones((1, FRAME), numpy.float32)
            client.submit("short", frames).result()
            self.assertEqual(daemon.end(), 0)
            waiting = threading.Thread(target=daemon.start)
            waiting.start()
            self.assertEqual(client.submit("short", frames).result()["y"][0, 0], 3)
            waiting.join()


if __name__ == "__main__":
    unittest.main()
