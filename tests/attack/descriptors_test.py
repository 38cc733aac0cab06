"""Connections that use up all descriptors, on every endpoint, while clients are served."""

import contextlib
import resource
import socket
import time
import unittest

import numpy

from attack import LONG, descriptors, processor_seconds
from daemon_process import BIN, VERSION, Daemon, free_port, pipeline, wait_until

from faults import FULL, INJECT, Call, InjectedDaemon
from penstock import Client
import subprocess

LIMIT = 256
TEXT = (VERSION + '[security]\nhandshake_timeout = "60s"\n[shared_memory]\nmax_bytes = "16 MiB"\n'
        'socket = "@{name}"\n' + pipeline("scale", "f32", [16], [("y", "affine", "a = 2.0\n")], ["y"]))


class ShortDaemon(Daemon):
    """Listens on TCP and on ipc, and may have few descriptors."""

    def __init__(self):
        self.port = free_port()
        self.shared = f"penstock-test-{self.port}"
        super().__init__("host", "callback", TEXT.replace("{name}", self.shared))

    def start(self):
        def limits():
            resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT // 2, LIMIT))
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [BIN / "penstockd", "--config", self.path / "penstock.toml", "--listen", self.url, "--listen",
                 f"tcp://127.0.0.1:{self.port}", "--admin", self.admin, "--backend", "host"], stdout=log, stderr=log,
                cwd=self.path, preexec_fn=limits)
        self.cli("--timeout", "60s", "ping")


class Strangers(contextlib.ExitStack):
    """Connections that say nothing; one that the daemon closes is made again."""

    def __init__(self, family, address):
        super().__init__()
        self.family, self.address, self.open = family, address, []
        self.callback(lambda: [each.close() for each in self.open])

    def keep_open(self, most):
        for each in list(self.open):
            try:
                if each.recv(4096) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                each.close()
                self.open.remove(each)
        for _ in range(most - len(self.open)):
            fresh = socket.socket(self.family)
            fresh.setblocking(False)
            try:
                fresh.connect(self.address)
            except BlockingIOError:
                pass
            except OSError:
                fresh.close()
                return
            self.open.append(fresh)


class DescriptorsTest(unittest.TestCase):
    def setUp(self):
        self.daemon = ShortDaemon()

        def stop():
            if self.daemon.process.poll() is None:
                self.assertEqual(self.daemon.end(), 0)
            self.daemon.folder.cleanup()
        self.addCleanup(stop)
        wait_until(lambda: self.daemon.ask("/readyz")[0] == 200, "ready")

    def test_the_soft_limit_is_raised_to_the_hard_one(self):
        self.assertEqual(resource.prlimit(self.daemon.process.pid, resource.RLIMIT_NOFILE), (LIMIT, LIMIT))

    def test_strangers_who_take_all_neither_hold_up_a_client_nor_keep_the_daemon_busy(self):
        daemon, pid = self.daemon, self.daemon.process.pid
        frames = numpy.ones((1, 16), numpy.float32)
        endpoints = {"tcp": (socket.AF_INET, ("127.0.0.1", daemon.port)),
                 "ipc": (socket.AF_UNIX, daemon.url.removeprefix("ipc://")),
                 "shared memory": (socket.AF_UNIX, "\0" + daemon.shared),
                 "admin": (socket.AF_UNIX, daemon.admin.removeprefix("unix:"))}
        # Its soft limit before the attack: how many we may have ourselves.
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        with Client(daemon.url) as good, Client(f"tcp://127.0.0.1:{daemon.port}") as other:
            for each in (good, other):
                each.submit("scale", frames).result(60)
            base = descriptors(pid)
            with contextlib.ExitStack() as ends:
                strangers = [ends.enter_context(Strangers(*each)) for each in endpoints.values()]
                until = time.monotonic() + max(2.0, LONG)
                for each in strangers[:2]:
                    each.keep_open(LIMIT)
                wait_until(lambda: "descriptors" in daemon.failing_checks(), "the reason in /readyz")
                began, busy = time.monotonic(), processor_seconds(pid)
                rounds = 0
                while time.monotonic() < until or rounds < 10:
                    for each in strangers:
                        each.keep_open(LIMIT)
                    for each in (good, other):
                        self.assertEqual(each.submit("scale", frames).result(60)["y"][0, 0], 2)
                    rounds += 1
                    time.sleep(0.05)
                share = (processor_seconds(pid) - busy) / (time.monotonic() - began)
                print(f"short of descriptors: {share:.2f} processors, {rounds} rounds", flush=True)
                self.assertLess(share, 1.0)
                # The admin's places are taken as well, by who says nothing; who asks gets one.
                self.assertIn("descriptors", daemon.failing_checks())
                self.assertLessEqual(descriptors(pid), LIMIT)
            wait_until(lambda: descriptors(pid) <= base, "descriptors are back", 10)
            wait_until(lambda: daemon.failing_checks() == {}, "ready again")
            with Client(f"tcp://127.0.0.1:{daemon.port}") as late:
                self.assertEqual(late.submit("scale", frames).result(60)["y"][0, 0], 2)
        log = daemon.log.read_text()
        self.assertEqual(log.count("descriptors are short: of"), 1, log)
        self.assertEqual(log.count("descriptors are free again"), 1, log)
        self.assertLessEqual(len(log.splitlines()), 40, log)


@unittest.skipUnless(INJECT.exists(), f"there is no {INJECT}")
class FullTableTest(unittest.TestCase):
    def test_a_full_table_of_files_of_the_system_is_as_a_full_one_of_the_process(self):
        daemon = InjectedDaemon(TEXT.replace("{name}", f"penstock-test-{free_port()}"))
        self.addCleanup(daemon.let_go)
        frames = numpy.ones((1, 16), numpy.float32)
        with Client(daemon.url, transport="zmq") as good:
            good.submit("scale", frames).result(60)
            daemon.inject.arm(Call("open", "penstock.toml", 1), FULL)
            daemon.ask_for_reload()
            self.assertEqual(daemon.inject.hits(), 1)
            if daemon.inject.error() != 0:
                self.skipTest("this kernel lets no filter of calls be set")
            daemon.inject.disarm()
            with Strangers(socket.AF_UNIX, daemon.url.removeprefix("ipc://")) as strangers:
                strangers.keep_open(10)
                wait_until(lambda: "descriptors" in daemon.failing_checks(), "the reason in /readyz")
                began, busy = time.monotonic(), processor_seconds(daemon.process.pid)
                while time.monotonic() < began + max(1.0, LONG / 10):
                    self.assertEqual(good.submit("scale", frames).result(60)["y"][0, 0], 2)
                    time.sleep(0.05)
                share = (processor_seconds(daemon.process.pid) - busy) / (time.monotonic() - began)
                print(f"the system's table of files is full: {share:.2f} processors", flush=True)
                self.assertLess(share, 1.0)
        self.assertEqual(daemon.end(), 0)
        self.assertEqual(daemon.log.read_text().count("descriptors are short: of"), 1)


if __name__ == "__main__":
    unittest.main()
