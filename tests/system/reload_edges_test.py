"""Reloads at bad times: a shard that does not answer, a stop right after one, fewer credits while requests are under way."""

import signal
import threading
import time
import unittest
from concurrent import futures

import numpy

from held_thread import HeldThread
from penstock import Client, PenstockError
from pipeline_text import pipeline
from reload_test import FRAME, GOOD, Reloaded, configuration, steady, sums


class ReloadEdgesTest(unittest.TestCase):
    def daemon(self, text):
        made = Reloaded("host", text)

        def stop():
            made.http.close()
            if made.process.poll() is None:
                code, log = made.stop()
                self.assertEqual(code, 0, log)
            else:
                made.folder.cleanup()
        self.addCleanup(stop)
        return made

    def test_a_shard_that_does_not_answer_keeps_what_it_serves_and_takes_the_next(self):
        daemon = self.daemon(GOOD[0])
        held = HeldThread(daemon.process.pid, "shard-0")
        status, said = daemon.reload(GOOD[1])
        self.assertEqual(status, 422)
        self.assertIn("shard 0 did not answer", said["error"])
        held.let_go()
        self.assertEqual(daemon.served(), {"version": 1, "hash": daemon.hash_of(GOOD[0])})
        self.assertEqual(daemon.reload(GOOD[2])[0], 200)
        with Client(daemon.url) as client:
            self.assertIn("extra", client.pipelines)
            frames = numpy.ones((1, FRAME), numpy.float32)
            self.assertEqual(client.submit("scaled", frames).result(60)["y"][0, 0], 5)

    def test_a_stop_right_after_one_ends_well_however_long_a_shard_drains(self):
        length = 1 << 16
        slow = pipeline("slow", "f32", [length], [
            ("y", "correlate", f'mode = "same"\nmethod = "direct"\ntemplate = {[1.0] * 4096}\n')], ["y"],
            "batch = { max_frames = 1 }\n")
        two = '[device]\nshards = 2\n[daemon]\ndrain_timeout = "60s"\n'
        daemon = self.daemon(configuration(steady(), sums(), slow, before=two))
        with Client(daemon.url) as client:
            client.submit("slow", numpy.ones((1, length), numpy.float32)).result(60)
            self.assertEqual(daemon.reload(configuration(steady(), sums("[1.0, 2.0]"), slow, before=two))[0], 200)
            waiting = [client.submit("slow", numpy.ones((1, length), numpy.float32)) for _ in range(4)]
            while daemon.counters()["status"]["requests"]["in_flight"] == 0 and not all(each.done() for each in waiting):
                pass
            daemon.process.send_signal(signal.SIGTERM)
            # One shard has ended long since; what the other says next keeps it up while leftovers are asked for.
            until = time.monotonic() + 1.5
            while time.monotonic() < until and daemon.process.poll() is None:
                try:
                    client.submit("steady", numpy.ones((1, FRAME), numpy.float32)).result(5)
                except (PenstockError, futures.TimeoutError):
                    pass
            self.assertEqual(daemon.process.wait(60), 0, daemon.log.read_text())

    def test_timing_is_switched_off_and_on_unless_it_was_off_at_the_start(self):
        def at_rate(rate):
            return configuration(steady(), before=f"[timing]\nbatches_per_second = {rate}\n")

        def timed_batches(client):
            for _ in range(20):
                client.submit("steady", numpy.ones((1, FRAME), numpy.float32)).result(60)
            steady_one, = daemon.counters()["status"]["pipelines"]
            return steady_one["timing_us"].get("compute", {"count": 0})["count"]
        daemon = self.daemon(at_rate(1_000_000))
        with Client(daemon.url) as client:
            at_first = timed_batches(client)
            self.assertGreater(at_first, 0)
            self.assertEqual(daemon.reload(at_rate(0))[0], 200)
            self.assertEqual(timed_batches(client), at_first)
            self.assertEqual(daemon.reload(at_rate(1_000_000))[0], 200)
            self.assertGreater(timed_batches(client), at_first)
        daemon = self.daemon(at_rate(0))
        status, said = daemon.reload(at_rate(200))
        self.assertEqual(status, 422)
        self.assertIn("only a restart can change [timing] batches_per_second from 0", said["error"])

    def test_fewer_credits_refuse_nothing_that_was_under_way(self):
        daemon = self.daemon(configuration(steady(), credits=128))
        faults, over = [], threading.Event()
        frames = numpy.ones((1, FRAME), numpy.float32)

        def submit(client):
            while not over.is_set():
                for each in [client.submit("steady", frames) for _ in range(100)]:
                    try:
                        each.result(60)
                    except PenstockError as error:
                        faults.append(error)
        with Client(daemon.url) as client:
            load = threading.Thread(target=submit, args=(client,))
            load.start()
            try:
                for turn in range(60):
                    status, said = daemon.reload(configuration(steady(), credits=8 if turn % 2 == 0 else 128))
                    self.assertEqual(status, 200, said)
                    time.sleep(0.02)  # so that bursts fall before, between and after
            finally:
                over.set()
                load.join()
        self.assertEqual(faults, [])
        self.assertEqual(daemon.counters()["status"]["refused"], {})


if __name__ == "__main__":
    unittest.main()
