"""Endpoints: no plain text beyond loopback unless it is allowed, IPv6, modes of sockets, and errors at start-up."""

import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

from daemon_process import BIN, free_port
from guarded_daemon import KEYS, GuardedDaemon, check, configuration, folder_of_keys

# For a copy of the program, which is no longer beside its libraries where it is of a bundle.
COPIED = {**os.environ, "LD_LIBRARY_PATH": str(BIN.parent / "lib")}


class Exposure(unittest.TestCase):
    """Plain text beyond loopback is refused at start-up, unless the configuration says it."""

    def setUp(self):
        self.path = folder_of_keys(self)

    def test_tcp_beyond_loopback_is_refused(self):
        for host in ("*", "0.0.0.0", "[::]", "192.0.2.7", "eth0", "gpu.lab", "127.evil"):
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
        listen = ('listen = ["tcp://127.0.0.1:7600", "tcp://127.1.2.3:7600", "tcp://[::1]:7600", '
                  '"tcp://localhost:7601", "ipc:///tmp/x"]')
        done = check(configuration("", daemon=listen), folder=self.path)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_most_memory_is_printed(self):
        done = check(configuration("", limits='memory = "1 GiB"'), folder=self.path)
        self.assertIn("peers can make it hold at most 1.0", done.stdout)
        self.assertIn("1 GiB of requests", done.stdout)


    def test_what_is_no_address_is_refused_in_the_file_and_on_the_command_line(self):
        for host, why in (("127.0.0.999", "no IPv4 address"), ("[::1", "no IPv6 address"), ("::1", "in brackets: [::1]"),
                          ("gpu.example.org.", "neither an address nor the name of an interface")):
            with self.subTest(host=host):
                in_file = check(configuration("", daemon=f'listen = "tcp://{host}:7600"'), folder=self.path)
                by_option = check(configuration(""), "--listen", f"tcp://{host}:7600", folder=self.path)
                for done in (in_file, by_option):
                    self.assertEqual(done.returncode, 78, done.stdout)
                    self.assertIn(why, done.stderr)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return True
    except OSError:
        return False


def neighbouring_ports():
    """The first of two free ports, below those that the kernel gives to whoever asks for any."""
    for first in random.sample(range(20000, 30000), 100):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("", first))
                other.bind(("", first + 1))
                return first
            except OSError:
                pass
    raise RuntimeError("there are no two free ports")


class Networks(unittest.TestCase):
    """TCP by IPv6, by name, and on every address."""

    def daemon(self, host, shards=1):
        security = "insecure_plaintext_beyond_loopback = true" if host == "*" else ""
        made = GuardedDaemon(security=security, url=lambda _: f"tcp://{host}:{neighbouring_ports()}", start=False,
                             device=f'shards = {shards}\nhost_threads = 1\n')
        self.addCleanup(made.close)
        return made

    def start(self, daemon, admin):
        (daemon.path / "penstock.toml").write_text(configuration(daemon.security, **daemon.tables))
        with open(daemon.path / "log", "a") as log:
            daemon.process = subprocess.Popen(
                [BIN / "penstockd", "--config", daemon.path / "penstock.toml", "--listen", daemon.url, "--admin", admin,
                 "--backend", "host"], stdout=log, stderr=log)
        daemon.callback(daemon.stop)
        self.log = daemon.path / "log"

    def serves(self, url):
        """Both clients get an answer there."""
        done = subprocess.run([BIN / "penstock", "--url", url, "--timeout", "20s", "ping"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr + self.log.read_text())
        code = ("import numpy, sys; from penstock import Client\n"
                "with Client(sys.argv[1]) as client:\n"
                "    print(client.submit('double', numpy.ones((1, 16), 'f4')).result(20)['out'][0, 0])\n")
        done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "2.0\n", done.stderr)

    @unittest.skipUnless(has_ipv6(), "this machine has no ::1")
    def test_ipv6_serves_both_clients_admin_and_its_own_probe(self):
        daemon = self.daemon("[::1]", shards=2)
        port = int(daemon.url.rpartition(":")[2])
        admin = f"[::1]:{free_port()}"
        self.start(daemon, admin)
        self.serves(daemon.url)
        self.serves(f"tcp://[::1]:{port + 1}")
        for words in (("top", "--once", "--interval", "10ms"), ("reload",)):
            for more in ((), ("--admin", admin)):
                done = subprocess.run([BIN / "penstock", "--url", daemon.url, *words, *more], capture_output=True, text=True,
                                      timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
        with urllib.request.urlopen(f"http://{admin}/livez", timeout=20) as answer:
            self.assertEqual(answer.status, 200)
        doctor = subprocess.run([BIN / "penstockd", "--doctor", "--config", daemon.path / "penstock.toml", "--listen",
                                 daemon.url, "--backend", "host", "--format", "json"], capture_output=True, text=True,
                                timeout=60)
        self.assertIn(f"{daemon.url} is taken, by what looks like a daemon", doctor.stdout)
        self.assertEqual(daemon.stop(), 0, (daemon.path / "log").read_text())
        self.assertNotIn("connect to itself", (daemon.path / "log").read_text())
        self.assertNotIn("no answer from itself", (daemon.path / "log").read_text())

    @unittest.skipUnless(has_ipv6(), "this machine has no ::1")
    def test_keys_are_asked_for_by_ipv6_too(self):
        daemon = GuardedDaemon(url=lambda _: f"tcp://[::1]:{free_port()}")
        self.addCleanup(daemon.close)
        self.assertEqual(daemon.ping().returncode, 0)
        refused = daemon.ping(key="unlisted", timeout="2s")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("not among the authorised ones", refused.stderr)

    def test_localhost_is_loopback_and_can_be_listened_on(self):
        daemon = self.daemon("localhost")
        self.start(daemon, "none")
        self.serves(daemon.url)
        self.serves(daemon.url.replace("localhost", "127.0.0.1"))

    def test_every_address_is_of_both_kinds(self):
        daemon = self.daemon("*", shards=2)
        self.start(daemon, "none")
        for host in ("127.0.0.1", "localhost", *(["[::1]"] if has_ipv6() else [])):
            with self.subTest(host=host):
                self.serves(daemon.url.replace("*", host))
        self.assertEqual(daemon.stop(), 0)
        self.assertNotIn("itself", (daemon.path / "log").read_text())

    def test_interface_is_taken_by_its_name_and_a_missing_one_is_said(self):
        daemon = self.daemon("lo")
        self.start(daemon, "none")
        self.serves(daemon.url.replace("//lo:", "//127.0.0.1:"))
        words = [BIN / "penstockd", "--config", daemon.path / "penstock.toml", "--listen", "tcp://nosuch0:7600",
                 "--backend", "host", "--admin", "none"]
        (daemon.path / "penstock.toml").write_text(configuration("insecure_plaintext_beyond_loopback = true"))
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("no such interface or address", done.stderr)
        done = subprocess.run([*words, "--doctor"], capture_output=True, text=True, timeout=60)
        self.assertIn("no interface 'nosuch0'", " ".join(done.stdout.split()))


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

        def connect_as(user):
            code = f"import socket; socket.socket(socket.AF_UNIX).connect('{daemon.path}/data')"
            return subprocess.run(["/usr/bin/python3", "-c", code], user=user, group=user, extra_groups=[],
                                  capture_output=True, text=True)
        self.assertIn("PermissionError", connect_as(65534).stderr)
        self.assertEqual(connect_as(0).returncode, 0)

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


# A prime length: its plan, or its first run, takes seconds.
SLOW = """
[[pipeline]]
name = "slow"
input = { dtype = "f32", shape = [4194301] }
batch = { max_frames = 1, max_bytes = "32 MiB" }
[[pipeline.stage]]
name = "out"
op = "power_spectrum"
"""


class Starts(unittest.TestCase):
    """What a start says while it lasts, and why it can't be."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.path.chmod(0o755)

    def start(self, text, *more, **options):
        (self.path / "penstock.toml").write_text(text)
        words = [BIN / "penstockd", "--config", self.path / "penstock.toml", "--backend", "host", "--listen",
                 f"ipc://{self.path}/data", "--admin", "none", *more]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, **options)

    def test_slow_start_says_which_pipeline_it_is_about(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notify.close)
        notify.bind(str(self.path / "notify"))
        notify.settimeout(30)
        (self.path / "penstock.toml").write_text(configuration("", device="slots = 2\nstreams = 1\n") + SLOW)
        with open(self.path / "log", "w") as log:
            daemon = subprocess.Popen([BIN / "penstockd", "--config", self.path / "penstock.toml", "--backend", "host",
                                       "--listen", f"ipc://{self.path}/data"], stdout=log, stderr=log,
                                      env={**os.environ, "NOTIFY_SOCKET": str(self.path / "notify")})
        self.addCleanup(daemon.wait, 60)
        self.addCleanup(daemon.terminate)
        told = []
        while not told or not told[-1].startswith("READY=1"):
            self.assertIsNone(daemon.poll(), (self.path / "log").read_text())
            told.append(notify.recv(4096).decode())
        self.assertTrue([each for each in told if each.startswith("EXTEND_TIMEOUT_USEC=30000000")], told)
        self.assertRegex("\n".join(told), r"STATUS=starting: shard 0: pipeline 'slow' is .*, for \d+ s")
        self.assertRegex((self.path / "log").read_text(), r"shard 0: pipeline 'slow' is .*: that took \d+\.\d s")

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_file_in_a_folder_that_may_not_be_read_is_a_configuration_error(self):
        closed = self.path / "closed"
        closed.mkdir(mode=0o700)
        (closed / "penstock.toml").write_text(configuration(""))
        program = self.path / "penstockd"
        shutil.copy(BIN / "penstockd", program)
        for more in ((), ("--check-config",), ("--print-config",)):
            done = subprocess.run([program, "--config", closed / "penstock.toml", *more], user=65534, group=65534,
                                  extra_groups=[], env=COPIED, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 78, done.stderr)
            self.assertIn(f"{closed}/penstock.toml: can't be read: Permission denied", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_admin_socket_that_cannot_be_replaced_is_said_in_words(self):
        left = self.path / "admin"
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(str(left))
        left.chmod(0o777)
        program = self.path / "penstockd"
        shutil.copy(BIN / "penstockd", program)
        (self.path / "penstock.toml").write_text(configuration(""))
        done = subprocess.run([program, "--config", self.path / "penstock.toml", "--backend", "host", "--listen",
                               f"tcp://127.0.0.1:{free_port()}", "--admin", f"unix:{left}"], user=65534, group=65534,
                              extra_groups=[], env=COPIED, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn(f"can't listen on unix:{left}: Permission denied", done.stderr)

    def test_want_of_descriptors_is_no_fault_of_its_own(self):
        done = self.start(configuration(""), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("Too many open files", done.stderr)

    def test_file_of_two_bytes_a_character_is_named_as_such(self):
        (self.path / "penstock.toml").write_bytes(configuration("").encode("utf-16"))
        done = subprocess.run([BIN / "penstockd", "--config", self.path / "penstock.toml", "--check-config"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 78)
        self.assertIn("the file is UTF-16 or UTF-32: save it as UTF-8", done.stderr)


if __name__ == "__main__":
    unittest.main()
