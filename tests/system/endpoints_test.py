"""Where the daemon listens: never in plain text beyond loopback unasked, and on sockets that are as open as they shall be."""

import os
import signal
import stat
import subprocess
import tempfile
import threading
import unittest

from daemon_process import BIN
from guarded_daemon import KEYS, GuardedDaemon, check, configuration, folder_of_keys


class Exposure(unittest.TestCase):
    """Plain text beyond loopback is refused at start-up, unless the configuration says it."""

    def setUp(self):
        self.path = folder_of_keys(self)

    def test_tcp_beyond_loopback_is_refused(self):
        for host in ("*", "0.0.0.0", "[::]", "192.0.2.7", "eth0", "gpu.lab", "127.evil.example"):
            with self.subTest(host=host):
                listen = f'listen = ["tcp://127.0.0.1:7600", "tcp://{host}:7600"]'
                done = check(configuration("", daemon=listen), folder=self.path)
                self.assertEqual(done.returncode, 78, done.stdout)
                self.assertIn(f"tcp://{host}:7600", done.stderr)
                self.assertIn("insecure_plaintext_beyond_loopback", done.stderr)

    def test_it_is_refused_on_the_command_line_too(self):
        done = check(configuration(""), "--listen", "tcp://*:7600", folder=self.path)
        self.assertEqual(done.returncode, 78, done.stdout)
        self.assertIn("insecure_plaintext_beyond_loopback", done.stderr)

    def test_it_is_allowed_in_plain_words_or_with_keys(self):
        listen = 'listen = "tcp://*:7600"'
        for security in ("insecure_plaintext_beyond_loopback = true", KEYS):
            done = check(configuration(security, daemon=listen), folder=self.path)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_loopback_and_files_need_nothing(self):
        listen = 'listen = ["tcp://127.0.0.1:7600", "tcp://127.1.2.3:7600", "tcp://[::1]:7600", "ipc:///tmp/x"]'
        done = check(configuration("", daemon=listen), folder=self.path)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_most_memory_is_printed(self):
        done = check(configuration("", limits='memory = "1 GiB"'), folder=self.path)
        self.assertIn("peers can make it hold at most 1.0", done.stdout)
        self.assertIn("1 GiB of requests", done.stdout)


class Sockets(unittest.TestCase):
    """ipc endpoints as files."""

    def daemon(self, security="", **more):
        made = GuardedDaemon(security=security, url=lambda path: f"ipc://{path}/data", **more)
        self.addCleanup(made.close)
        return made

    def test_mode_is_the_configured_one_and_never_more_open(self):
        for mode in (0o660, 0o600, 0o666):
            with self.subTest(mode=oct(mode)):
                daemon = self.daemon(f'ipc_mode = "{mode:04o}"', start=False, preexec=lambda: os.umask(0))
                seen, ready = set(), threading.Event()

                def look():
                    while not ready.is_set():
                        try:
                            seen.add(stat.S_IMODE((daemon.path / "data").stat().st_mode))
                        except FileNotFoundError:
                            pass

                watcher = threading.Thread(target=look)
                watcher.start()
                try:
                    daemon.start()
                finally:
                    ready.set()
                    watcher.join()
                self.assertEqual(stat.S_IMODE((daemon.path / "data").stat().st_mode), mode)
                self.assertEqual([oct(each) for each in seen if each & ~mode], [])

    @unittest.skipUnless(os.geteuid() == 0, "only root can give the socket to any group")
    def test_group_is_the_configured_one(self):
        import grp
        daemon = self.daemon('ipc_group = "daemon"')
        self.assertEqual((daemon.path / "data").stat().st_gid, grp.getgrnam("daemon").gr_gid)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_another_user_cannot_connect(self):
        daemon = self.daemon()
        os.chmod(daemon.path, 0o755)

        def knock(user):
            code = f"import socket; socket.socket(socket.AF_UNIX).connect('{daemon.path}/data')"
            return subprocess.run(["/usr/bin/python3", "-c", code], user=user, group=user, extra_groups=[],
                                  capture_output=True, text=True)
        self.assertIn("PermissionError", knock(65534).stderr)
        self.assertEqual(knock(0).returncode, 0)

    def test_unknown_group_is_a_configuration_error(self):
        with tempfile.TemporaryDirectory() as folder:
            done = check(configuration('ipc_group = "no-such-group"'), folder=folder)
        self.assertEqual(done.returncode, 78)
        self.assertIn("no-such-group", done.stderr)

    def test_socket_that_a_killed_daemon_left_is_replaced(self):
        daemon = self.daemon()
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        self.assertTrue((daemon.path / "data").exists())
        daemon.start()
        self.assertEqual(daemon.stop(), 0)
        self.assertFalse((daemon.path / "data").exists())

    def test_socket_of_a_running_daemon_is_left_alone(self):
        daemon = self.daemon()
        second = subprocess.run([BIN / "penstockd", "--config", daemon.path / "penstock.toml", "--listen", daemon.url,
                                 "--backend", "host"], capture_output=True, text=True, timeout=60)
        self.assertEqual(second.returncode, 69, second.stderr)
        self.assertIn("another process listens there", second.stderr)
        self.assertEqual(daemon.ping().returncode, 0)

    def test_file_that_is_no_socket_is_left_alone(self):
        daemon = self.daemon(start=False)
        (daemon.path / "data").write_text("precious")
        daemon.start(wait=False)
        self.assertEqual(daemon.process.wait(60), 69)
        self.assertEqual((daemon.path / "data").read_text(), "precious")


if __name__ == "__main__":
    unittest.main()
