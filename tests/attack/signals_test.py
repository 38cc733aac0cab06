"""Signals that clients, readers of the log and file limits can cause do not end the daemon."""

import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from attack import LONG
from daemon_process import BIN, VERSION, Daemon, pipeline, wait_until

try:
    from shared_client import SharedClient
    import zmq  # noqa: F401
except ImportError:
    SharedClient = None

TEXT = (VERSION + '[shared_memory]\nmax_bytes = "64 MiB"\nmax_client_bytes = "32 MiB"\n'
        + pipeline("scale", "f32", [16], [("y", "affine", "a = 2.0\n")], ["y"]))
# Sent by the kernel, by timers, by terminals, or by mistake.
NOT_MEANT = [signal.SIGPIPE, signal.SIGIO, signal.SIGXFSZ, signal.SIGURG, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
             signal.SIGVTALRM, signal.SIGPROF, signal.SIGTTIN, signal.SIGTTOU, signal.SIGXCPU, signal.SIGPWR,
             signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT, signal.SIGRTMIN, signal.SIGRTMAX]


class LoggingDaemon(Daemon):
    """Its standard error goes where the test says."""

    def __init__(self, stderr, preexec=None):
        self.stderr, self.preexec = stderr, preexec
        super().__init__("host", "callback", TEXT)

    def start(self):
        self.process = subprocess.Popen(
            [BIN / "penstockd", "--config", self.path / "penstock.toml", "--listen", self.url, "--admin", self.admin,
             "--backend", "host"], stdout=subprocess.DEVNULL, stderr=self.stderr, cwd=self.path, preexec_fn=self.preexec)
        self.cli("--timeout", "60s", "ping")


class SignalsTest(unittest.TestCase):
    def kept(self, daemon):
        def stop():
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()
            daemon.folder.cleanup()
        self.addCleanup(stop)
        return daemon

    def assert_well(self, daemon):
        self.assertIsNone(daemon.process.poll(), "the daemon has ended")
        daemon.cli("--timeout", "60s", "ping")

    def test_no_signal_that_is_not_meant_ends_it(self):
        daemon = self.kept(Daemon("host", "callback", TEXT))
        for each in NOT_MEANT:
            with self.subTest(signal=each):
                daemon.process.send_signal(each)
                for thread in os.listdir(f"/proc/{daemon.process.pid}/task"):
                    try:
                        signal_thread(daemon.process.pid, int(thread), each)
                    except ProcessLookupError:
                        pass  # one that has just ended
                self.assert_well(daemon)
        self.assertEqual(daemon.end(), 0)

    def test_those_that_are_meant_keep_their_meaning(self):
        for each, code in ((signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGQUIT, -signal.SIGQUIT)):
            with self.subTest(signal=each):
                daemon = self.kept(LoggingDaemon(subprocess.DEVNULL, without_core))
                self.assertEqual(daemon.end(each), code)

    def test_it_outlives_the_reader_of_its_log(self):
        read, write = os.pipe()
        daemon = self.kept(LoggingDaemon(write))
        os.close(write)
        os.close(read)
        for _ in range(5):
            daemon.ask_for_reload()  # which the log tells
        self.assert_well(daemon)
        self.assertEqual(daemon.end(), 0)

    def test_it_outlives_a_log_at_its_limit(self):
        limit = 2048
        with tempfile.TemporaryFile() as log:
            daemon = self.kept(LoggingDaemon(
                log, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))
            for _ in range(2 * limit // 64):
                daemon.ask_for_reload()
                if os.fstat(log.fileno()).st_size >= limit:
                    break
            self.assertGreaterEqual(os.fstat(log.fileno()).st_size, limit - 256, "the log has come to its limit")
            for _ in range(5):
                daemon.ask_for_reload()
            self.assert_well(daemon)
            self.assertEqual(daemon.end(), 0)

    def test_a_refused_start_has_its_exit_code_though_nobody_reads_why(self):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([BIN / "penstockd", "--config", "/nowhere/penstock.toml"], stderr=write, timeout=60)
        os.close(write)
        self.assertEqual(done.returncode, 78)

    @unittest.skipUnless(SharedClient, "needs pyzmq")
    def test_memory_that_its_client_opens_again_and_again_ends_nobody(self):
        daemon = self.kept(Daemon("host", "callback", TEXT))
        until = time.monotonic() + max(LONG, 3)
        handles, over = [], threading.Event()
        threads = [threading.Thread(target=open_again, args=(handles, over)) for _ in range(2)]
        with SharedClient(daemon.url) as client:
            for each in threads:
                each.start()
            try:
                while time.monotonic() < until and daemon.process.poll() is None:
                    try:
                        arena = client.attach(1 << 12)
                    except (ConnectionError, TypeError):  # the daemon still counts too many that seem to be kept
                        time.sleep(0.01)
                        continue
                    handles.append(os.open(f"/proc/self/fd/{arena.descriptor}", os.O_PATH))
                    arena.end()
                    if len(handles) > 4:
                        os.close(handles.pop(0))
            finally:
                over.set()
                for each in threads:
                    each.join()
            for each in handles:
                os.close(each)
            self.assert_well(daemon)
            wait_until(lambda: daemon.counters()["status"]["shared_memory"] == {"arenas": 0, "bytes": 0, "device_bytes": 0},
                       "all memory comes back")
        self.assertEqual(daemon.end(), 0)


def open_again(handles, over):
    while not over.is_set():
        for each in list(handles):
            try:
                os.close(os.open(f"/proc/self/fd/{each}", os.O_RDWR | os.O_CLOEXEC))
            except OSError:
                pass  # it is closed just now, and the number may be a socket's


def signal_thread(process, thread, number):
    import ctypes
    tgkill = 234 if os.uname().machine == "x86_64" else 131
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(tgkill, process, thread, int(number)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def without_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    unittest.main()
