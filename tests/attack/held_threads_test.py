"""A thread that hangs: /readyz names it within seconds, and recovers when it runs again."""

import contextlib
import os
import re
import subprocess
import unittest
from unittest import mock

from attack import LONG
from daemon_process import BIN, VERSION, Daemon, HeldThread, free_port, pipeline, wait_until
from guarded_daemon import folder_of_keys

PIPELINE = pipeline("scale", "f32", [16], [("y", "affine", "a = 2.0\n")], ["y"])
# What /readyz calls them, by the thread's name.
REASONS = {"ZMQbg/IO/0": "an I/O thread of shard 0", "ZMQbg/IO/1": "an I/O thread of shard 0",
           "arenas": "the thread of shared memory", "reloads": "the thread of reloads",
           "zap-handler": "the ZAP handler of shard 0"}


class TcpDaemon(Daemon):
    def start(self):
        self.url = f"tcp://127.0.0.1:{free_port()}"
        super().start()


class HeldThreadsTest(unittest.TestCase):
    def kept(self, daemon, pings=4):
        def stop():
            self.assertEqual(daemon.end(), 0)
            daemon.folder.cleanup()
        self.addCleanup(stop)
        wait_until(lambda: daemon.failing_checks() == {}, "ready")
        received = re.compile(r"^penstock_messages_received_total(?:{.*})? (\d+)", re.M)
        # The daemon's connections to itself have had their answers by then.
        wait_until(lambda: int(received.search(daemon.ask("/metrics")[1])[1]) > pings, "pings of its own", 60)
        return daemon

    def assert_missed(self, daemon, *names):
        """Holds them all at once."""
        with contextlib.ExitStack() as held:
            for name in names:
                held.callback(HeldThread(daemon.process.pid, name).let_go)
            for name in names:
                wait_until(lambda: REASONS[name] in daemon.failing_checks().get("threads", ""), f"{name} is missed", 60)
            self.assertEqual({*daemon.failing_checks()}, {"threads"})
            if LONG:
                wait_until(lambda: daemon.ask("/livez")[0] == 503, "not alive", 60)
        wait_until(lambda: daemon.failing_checks() == {}, "ready again", 60)
        self.assertEqual(daemon.ask("/livez")[0], 200)

    def test_each_is_missed_where_connections_are_plain(self):
        daemon = self.kept(Daemon("host", "callback", VERSION + "[daemon]\nio_threads = 2\n"
                                  + '[shared_memory]\nmax_bytes = "16 MiB"\n' + PIPELINE), pings=10)
        if not LONG:
            return self.assert_missed(daemon, "ZMQbg/IO/1", "arenas", "reloads", "zap-handler")
        for name in REASONS:
            self.assert_missed(daemon, name)

    def test_those_of_a_socket_with_keys_are_missed(self):
        keys = folder_of_keys(self)
        server = subprocess.run([BIN / "penstock", "keygen", "--show", keys / "server.key"], capture_output=True,
                                text=True, check=True).stdout.split()[0]
        with mock.patch.dict(os.environ, PENSTOCK_KEY_FILE=str(keys / "client.key"), PENSTOCK_SERVER_KEY=server):
            daemon = self.kept(TcpDaemon("host", "callback", VERSION + "[security]\n"
                                         + f'secret_key_file = "{keys / "server.key"}"\n'
                                         + f'authorized_keys_file = "{keys / "authorized_keys"}"\n' + PIPELINE))
            self.assert_missed(daemon, "ZMQbg/IO/0")
            # It takes no client's place: who asks is the only one.
            self.assertEqual(daemon.counters()["status"]["clients"], 1)


if __name__ == "__main__":
    unittest.main()
