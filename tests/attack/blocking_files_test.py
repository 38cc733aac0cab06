"""Files that block: pipes, devices and sockets are refused at once, and a file system that hangs delays neither a
reload nor a stop for ever."""

import os
import signal
import socket
import subprocess
import time
import unittest

from attack import LONG
from daemon_process import BIN, VERSION, Daemon, pipeline, wait_until
from guarded_daemon import folder_of_keys
from faults import HANG, Call, InjectedDaemon, npy

TAPS = "taps.npy"
TEXT = VERSION + pipeline("fir", "f32", [16], [("y", "fir", f'taps = "{TAPS}"\n')], ["y"])
PLAIN = VERSION + pipeline("fir", "f32", [16], [("y", "fir", "taps = [2.0, 1.0]\n")], ["y"])
KEYS = '[security]\nsecret_key_file = "server.key"\nauthorized_keys_file = "authorized_keys"\n'


def no_files(path):
    """Makes, one after the other, what is no regular file under that name."""
    os.mkfifo(path, 0o600)
    yield "a pipe"
    path.unlink()
    path.mkdir(0o700)
    yield "a folder"
    path.rmdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    yield "a socket"
    listener.close()
    path.unlink()
    for device in ("/dev/zero", "/dev/tty"):
        path.symlink_to(device)
        yield device
        path.unlink()


class BlockingFilesTest(unittest.TestCase):
    def test_what_is_no_file_is_refused_by_start_and_check(self):
        folder = folder_of_keys(self)
        text = VERSION + KEYS + TEXT.removeprefix(VERSION)
        contents = {"penstock.toml": text.encode(), TAPS: npy(1, 1),
                    **{name: (folder / name).read_bytes() for name in ("server.key", "authorized_keys")}}
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        for name, content in contents.items():
            (folder / name).unlink()
            for what in no_files(folder / name):
                for words in (["--check-config"], ["--listen", f"ipc://{folder}/data", "--backend", "host"]):
                    with self.subTest(file=name, what=what, words=words):
                        done = subprocess.run([BIN / "penstockd", "--config", folder / "penstock.toml", *words],
                                              capture_output=True, text=True, timeout=30)
                        self.assertEqual(done.returncode, 78, done.stderr)
                        self.assertIn(name, done.stderr)
            (folder / name).write_bytes(content)
            os.chmod(folder / name, 0o600)

    def test_a_reload_refuses_them_and_the_version_is_served_on(self):
        daemon = Daemon("host", "callback", TEXT, {TAPS: npy(1, 1)})
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.stop())
        served = daemon.counters()["status"]["configuration"]
        for name in ("penstock.toml", TAPS):
            content = (daemon.path / name).read_bytes()
            (daemon.path / name).unlink()
            for what in no_files(daemon.path / name):
                with self.subTest(file=name, what=what):
                    status, answer = daemon.ask_for_reload()
                    self.assertEqual(status, 422, answer)
                    self.assertIn(name, answer["error"])
                    self.assertEqual(daemon.counters()["status"]["configuration"], served)
            (daemon.path / name).write_bytes(content)
        (daemon.path / "penstock.toml").write_text(PLAIN)
        status, answer = daemon.ask_for_reload()
        self.assertEqual((status, answer["version"]), (200, 2), answer)
        self.assertEqual(daemon.stop()[0], 0)

    def test_a_file_system_that_hangs_holds_up_neither_the_reload_nor_the_end(self):
        daemon = InjectedDaemon(TEXT, {TAPS: npy(1, 1)})
        self.addCleanup(daemon.let_go)
        for name in ("penstock.toml", TAPS):
            with self.subTest(file=name):
                daemon.inject.arm(Call("read", f"/{name}", 1), HANG)
                began = time.monotonic()
                status, answer = daemon.ask_for_reload()
                self.assertEqual(status, 422, answer)
                self.assertIn("not read within 10 s", answer["error"])
                self.assertLess(time.monotonic() - began, 60)
                status, answer = daemon.ask_for_reload()  # the thread is still held
                self.assertEqual(status, 422, answer)
                self.assertIn("still being read", answer["error"])
                daemon.cli("ping")
                daemon.inject.disarm()
                wait_until(lambda: daemon.ask_for_reload()[0] == 200, "reloads work again")
            if not LONG:
                break
        daemon.inject.arm(Call("read", "/penstock.toml", 1), HANG)
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: daemon.inject.hits() == 1, "the reload is held")
        self.assertEqual(daemon.end(), 0)  # waits for it, generously
        self.assertIn("stopped with exit code 0", daemon.log.read_text())


if __name__ == "__main__":
    unittest.main()
