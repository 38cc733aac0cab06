"""Files of keys: which the daemon and its clients take, and how `penstock keygen` makes them."""

import os
import pathlib
import stat
import subprocess
import tempfile
import unittest

from daemon_process import BIN
from guarded_daemon import KEYS, check, configuration, folder_of_keys, keygen

try:
    import zmq
except ImportError:
    zmq = None


class KeyFiles(unittest.TestCase):
    """What is refused before anything listens, with exit code 78, the file and its mode."""

    def setUp(self):
        self.path = folder_of_keys(self)

    def check(self, code, *texts, security=KEYS):
        done = check(configuration(security), folder=self.path)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        return done

    def test_good_ones_pass(self):
        for mode in (0o600, 0o400):
            os.chmod(self.path / "server.key", mode)
            self.check(0)

    def test_secret_key_that_others_can_touch_is_refused(self):
        for bits in (0o040, 0o020, 0o010, 0o004, 0o002, 0o001, 0o044, 0o066, 0o060):
            with self.subTest(mode=oct(0o600 | bits)):
                os.chmod(self.path / "server.key", 0o600 | bits)
                self.check(78, "server.key", f"mode {0o600 | bits:04o}")

    def test_daemon_itself_does_not_start_with_it(self):
        os.chmod(self.path / "server.key", 0o640)
        (self.path / "penstock.toml").write_text(configuration(KEYS))
        done = subprocess.run([BIN / "penstockd", "--config", self.path / "penstock.toml", "--backend", "host",
                               "--listen", f"ipc://{self.path}/data"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn("mode 0640", done.stderr)
        self.assertFalse((self.path / "data").exists())

    def test_link_to_a_key_that_others_can_read_is_refused(self):
        (self.path / "server.key").rename(self.path / "elsewhere")
        os.chmod(self.path / "elsewhere", 0o644)
        os.symlink("elsewhere", self.path / "server.key")
        self.check(78, "mode 0644")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_files_of_somebody_else_are_refused(self):
        for name in ("server.key", "authorized_keys"):
            with self.subTest(name=name):
                os.chown(self.path / name, 12345, -1)
                self.check(78, name, "belongs to user 12345")
                os.chown(self.path / name, 0, -1)

    def test_what_is_no_key_is_refused(self):
        secret = (self.path / "server.key").read_text().split()[-1]
        for text in ("", "# nothing\n", secret[:-1], secret + "x", secret[:-1] + "~", secret + "\n" + secret):
            with self.subTest(text=text):
                (self.path / "server.key").write_text(text)
                done = self.check(78, "server.key", "no secret key")
                self.assertNotIn(secret[:-1], done.stderr)

    def test_what_is_no_file_is_refused_without_waiting(self):
        (self.path / "server.key").unlink()
        self.check(78, "server.key", "No such file")
        os.mkfifo(self.path / "server.key", 0o600)
        self.check(78, "no regular file")
        (self.path / "server.key").unlink()
        (self.path / "server.key").mkdir(0o700)
        self.check(78, "Is a directory")

    def test_key_in_a_folder_that_others_can_write_is_refused(self):
        folder = self.path / "keys"
        folder.mkdir(0o700)
        (self.path / "server.key").rename(folder / "server.key")
        elsewhere = KEYS.replace('"server.key"', '"keys/server.key"')
        for mode, code in ((0o700, 0), (0o755, 0), (0o770, 78), (0o707, 78), (0o1777, 0), (0o755, 0)):
            with self.subTest(mode=oct(mode)):
                os.chmod(folder, mode)
                self.check(code, *(["keys", f"mode {mode:04o}"] if code else []), security=elsewhere)
        os.chmod(self.path, 0o777)  # further up
        self.check(78, "server.key", "mode 0777", security=elsewhere)
        os.chmod(self.path, 0o700)
        # By a link: the folder where it lies counts, and the one that it leads to.
        (self.path / "links").mkdir(0o700)
        os.symlink(folder / "server.key", self.path / "links" / "server.key")
        linked = KEYS.replace('"server.key"', '"links/server.key"')
        self.check(0, security=linked)
        for which in ("links", "keys"):
            os.chmod(self.path / which, 0o777)
            self.check(78, which, "mode 0777", security=linked)
            os.chmod(self.path / which, 0o700)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give folders away")
    def test_key_in_a_folder_of_somebody_else_is_refused(self):
        folder = self.path / "keys"
        folder.mkdir(0o755)
        (self.path / "server.key").rename(folder / "server.key")
        os.chown(folder, 12345, -1)
        self.check(78, "keys", "belongs to user 12345", security=KEYS.replace('"server.key"', '"keys/server.key"'))

    def test_list_that_others_can_write_is_refused(self):
        for bits in (0o020, 0o002, 0o022):
            os.chmod(self.path / "authorized_keys", 0o644 | bits)
            self.check(78, "authorized_keys", f"mode {0o644 | bits:04o}")

    def test_list_with_a_mistake_is_refused_with_its_line(self):
        good = (self.path / "authorized_keys").read_text()
        for text, line in (("# x\nnonsense\n", 2), (good + "\n" + good, 3), (good.strip()[:39] + " name\n", 1)):
            with self.subTest(text=text):
                (self.path / "authorized_keys").write_text(text)
                self.check(78, f"authorized_keys:{line}:")
        (self.path / "authorized_keys").write_text("# nobody\n")
        self.check(78, "holds no key")

    def test_one_without_the_other_is_refused(self):
        self.check(78, "security.secret_key_file", security='secret_key_file = "server.key"')
        self.check(78, "security.authorized_keys_file", security='authorized_keys_file = "authorized_keys"')


class Keygen(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "a.key"

    def test_file_is_the_owners_alone_whatever_the_umask(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        keygen(self.file)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)

    def test_nothing_is_overwritten_without_force(self):
        keygen(self.file)
        text = self.file.read_text()
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            keygen(self.file)
        self.assertIn("--force", refused.exception.stderr)
        self.assertEqual(self.file.read_text(), text)
        keygen(self.file, "--force")
        self.assertNotEqual(self.file.read_text(), text)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)

    def test_public_key_is_that_of_the_file(self):
        line = keygen(self.file)
        shown = subprocess.run([BIN / "penstock", "keygen", "--show", self.file], capture_output=True, text=True)
        self.assertEqual(shown.stdout.strip(), line.split()[0])
        self.assertEqual(line.split()[1], "a")

    def test_client_refuses_a_key_that_others_can_read(self):
        public = keygen(self.file).split()[0]
        os.chmod(self.file, 0o640)
        done = subprocess.run([BIN / "penstock", "--server-key", public, "--key-file", self.file, "ping"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("mode 0640", done.stderr)
        if zmq:
            from penstock import Client
            with self.assertRaisesRegex(ValueError, "mode 0640"):
                Client("tcp://127.0.0.1:1", server_key=public, key_file=str(self.file))

    def test_client_does_not_wait_for_a_pipe(self):
        public = keygen(self.file).split()[0]
        self.file.unlink()
        os.mkfifo(self.file, 0o600)
        done = subprocess.run([BIN / "penstock", "--server-key", public, "--key-file", self.file, "ping"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no regular file", done.stderr)
        if zmq:
            from penstock import Client
            with self.assertRaisesRegex(ValueError, "no regular file"):
                Client("tcp://127.0.0.1:1", server_key=public, key_file=str(self.file))

    def test_client_wants_both_keys(self):
        public = keygen(self.file).split()[0]
        for words in (["--server-key", public], ["--key-file", self.file], ["--server-key", "x", "--key-file", self.file]):
            done = subprocess.run([BIN / "penstock", *words, "ping"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("key", done.stderr)


if __name__ == "__main__":
    unittest.main()
