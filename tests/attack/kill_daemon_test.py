"""The daemon is killed and started again, at any moment, under clients of every kind: nothing is lost, nothing comes
twice, no value is wrong, and a session goes on or is said to be lost. The same while processes are stopped."""

import contextlib
import os
import random
import signal
import time
import unittest

from attack import LONG, descriptors, wait_until
from daemon_process import Daemon
from workers import CONFIGURATION, KINDS, Worker

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))
KILLS = 100 if LONG else 4
STOPS = max(3, int(LONG / 10))
STOPPED_SECONDS = 10.0 if LONG else 0.5


class Chaos(unittest.TestCase):
    def setUp(self):
        print(f"PENSTOCK_TEST_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)
        self.daemon = Daemon("host", "callback", CONFIGURATION)
        self.workers = []

    def tearDown(self):
        for each in self.workers:
            each.close()
        self.daemon.stop()

    def begin(self):
        self.workers = [Worker(kind, self.daemon.url) for kind in KINDS]
        self.wait_for_all()

    def wait_for_all(self):
        """Each worker has had more right results since now."""
        before = [each.right for each in self.workers]
        wait_until(lambda: all(each.right > was for each, was in zip(self.workers, before)),
                   f"each client goes on; before {before}", 180)

    def finish(self):
        accounts = {each.kind: each.finish() for each in self.workers}
        print(accounts, flush=True)
        for kind, account in accounts.items():
            self.assertEqual(account["wrong"], [], kind)
            self.assertEqual(account["sent"], account["right"] + account["told"], kind)
            if kind != "sessions":
                self.assertEqual(account["told"], 0, kind)
        status = self.daemon.counters()["status"]
        self.assertTrue(status["balanced"], status)
        self.assertEqual(status["requests"]["in_flight"], 0)

    def test_kill_of_the_daemon_loses_nothing(self):
        self.begin()
        for _ in range(KILLS):
            time.sleep(self.random.uniform(0, 0.1))  # any moment
            self.daemon.end(signal.SIGKILL)
            self.daemon.start()
            self.wait_for_all()
        self.finish()

    def test_stopped_processes_leave_nothing_behind(self):
        self.begin()
        for _ in range(STOPS):
            victim = self.random.choice([each.process for each in self.workers] + [self.daemon.process])
            with contextlib.ExitStack() as stopped:
                victim.send_signal(signal.SIGSTOP)
                stopped.callback(victim.send_signal, signal.SIGCONT)
                time.sleep(STOPPED_SECONDS)
            self.wait_for_all()
        self.finish()
        base = self.daemon.process.pid
        wait_until(lambda: self.daemon.counters()["status"]["clients"] <= 1, "the clients have left")
        # A daemon that has served the same clients, none of them ever stopped.
        other = Daemon("host", "callback", CONFIGURATION)
        try:
            for each in [Worker(kind, other.url) for kind in KINDS]:
                with contextlib.closing(each):
                    wait_until(lambda each=each: each.right > 0, "a right result", 60)
                    each.finish()
            most = descriptors(other.process.pid)
        finally:
            other.stop()
        wait_until(lambda: descriptors(base) <= most, f"no more descriptors than {most}", 30)


if __name__ == "__main__":
    unittest.main()
