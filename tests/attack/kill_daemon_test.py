"""A daemon that is killed and restarted under clients of every kind: no result is lost, repeated or wrong, and a
session continues or is reported lost. The same with stopped processes."""

import contextlib
import os
import random
import signal
import socket
import time
import unittest

from attack import LONG, descriptors, share
from daemon_process import Daemon, wait_until
from workers import CONFIGURATION, KINDS, Worker

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))
KILLS = share(100) if LONG else 4
STOPS = share(int(LONG / 10)) if LONG else 3
STOPPED_SECONDS = 10.0 if LONG else 0.5


def free_port():
    """Of TCP, below those that the kernel gives to whoever connects: a client that tries to come back while the daemon is
    away would get its own."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Chaos(unittest.TestCase):
    def setUp(self):
        print(f"PENSTOCK_TEST_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)
        self.daemon = self.made()
        self.workers = []

    def made(self):
        return Daemon("host", "callback", CONFIGURATION, more_urls=[f"tcp://127.0.0.1:{free_port()}"])

    def tearDown(self):
        for each in self.workers:
            each.close()
        self.daemon.stop()

    def begin(self):
        """Each kind of client comes over ipc or over TCP, by turns."""
        urls = [self.daemon.url, *self.daemon.more_urls]
        self.random.shuffle(urls)
        self.workers = [Worker(kind, urls[number % 2]) for number, kind in enumerate(KINDS)]
        self.wait_for_all()

    def wait_for_all(self):
        """Each worker has had more right results since now."""
        before = [each.right for each in self.workers]
        wait_until(lambda: all(each.right > was for each, was in zip(self.workers, before)),
                   f"each client goes on; before {before}", 180)

    def finish(self):
        accounts = {each.kind: each.finish() for each in self.workers}
        print({each.kind: each.url.partition(":")[0] for each in self.workers}, accounts, flush=True)
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
        other = self.made()
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
