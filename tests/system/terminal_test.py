"""`penstock top` and `penstock send --view` in a terminal that pyte emulates."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
import unittest

from daemon_process import BIN, VERSION, Daemon, pipeline

try:
    import pyte
except ImportError:
    pyte = None

LIMIT = 30.0
CONFIGURATION = VERSION + pipeline("levels", "f32", [256], [("stats", "moments", "")], ["stats"]) + pipeline(
    "spectrum", "cu8", [1024], [("iq", "convert", ""), ("psd", "power_spectrum", "")], ["psd"]) + pipeline(
    "seconds", "f32", ["max 1280"], [("blocks", "reframe", "length = 256\n"), ("psd", "power_spectrum", "")], ["psd"])


class Terminal:
    """A program in a terminal, its screen, and the keys. pyte is a Linux console: it can not scroll as xterm does."""

    def __init__(self, words, rows=24, columns=80, **environment):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "linux", "LC_ALL": "C.UTF-8", **environment})
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execv(words[0], [str(word) for word in words])

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def key(self, key):
        os.write(self.fd, key.encode())

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """What came within that time; False once the program has closed the terminal."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            got = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += got
        self.stream.feed(got)
        return bool(got)

    def wait_for(self, test, condition):
        """Until `condition(text)` holds; gives the text."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and self.read(0.1):
            if condition(self.text()):
                return self.text()
        test.fail(f"the screen never came to that:\n{self.text()}")

    def end(self):
        """The exit code, once all output is read."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and self.read(0.1):
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.lines = termios.tcgetattr(self.fd)[3]
        os.close(self.fd)
        return code


@contextlib.contextmanager
def load(daemon):
    """Two closed loops of clients, for as long as it is open."""
    words = [BIN / "penstock", "--url", daemon.url, "bench", "--duration", "120s"]
    running = [subprocess.Popen([*words, "--pipeline", name, "--clients", "2", "--in-flight", "4"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for name in ("levels", "spectrum")]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def row_of(text, name):
    return next((line.split() for line in text.splitlines() if line.split()[:1] == [name]), [])


class WithDaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("host", "callback", CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        code, log = cls.daemon.stop()
        if code != 0:
            raise AssertionError(f"the daemon ended with {code}:\n{log}")


@unittest.skipIf(pyte is None, "python3-pyte is not installed")
class TopTest(WithDaemon):
    def top(self, *words, **more):
        return Terminal([BIN / "penstock", "top", "--admin", self.daemon.admin, "--interval", "200ms", *words], **more)

    def quit(self, terminal):
        terminal.key("q")
        self.assertEqual(terminal.end(), 0)

    def test_under_load_it_shows_what_each_pipeline_does_and_leaves_the_terminal_as_it_was(self):
        with load(self.daemon):
            top = self.top()
            shown = top.wait_for(self, lambda text: "over the last" in text and row_of(text, "spectrum")[1:2] > ["0"]
                                 and row_of(text, "levels")[1:2] > ["0"] and row_of(text, "penstock-bench"))
            self.assertRegex(shown, r"penstockd \S+ at unix:\S+  ready")
            for part in ("1 SHARDS", "2 STREAMS", "3 PIPELINES", "4 CLIENTS", "q quit"):
                self.assertIn(part, shown)
            self.assertRegex(" ".join(row_of(shown, "spectrum")), r"\d (us|ms) .*\d (us|ms) 0$")
            self.quit(top)
            self.assertEqual(top.lines & (termios.ECHO | termios.ICANON), termios.ECHO | termios.ICANON,
                             "the terminal is left without echo")
            self.assertIn(b"\x1b[?25h", top.raw[-120:], "the cursor is left hidden")

    def test_it_follows_the_size_of_the_terminal(self):
        top = self.top()
        top.wait_for(self, lambda text: "4 CLIENTS" in text)
        top.resize(40, 120)
        top.wait_for(self, lambda text: "in flight" in text.split("3 PIPELINES")[-1].splitlines()[0]
                     and any(line.startswith("q quit") for line in text.splitlines()[39:39 + 1]))
        top.resize(12, 50)
        shown = top.wait_for(self, lambda text: any(line.startswith("q quit") for line in text.splitlines()[11:11 + 1]))
        self.assertIn("3 PIPELINES", shown)
        self.quit(top)

    def test_keys_choose_sort_pause_and_help(self):
        top = self.top()
        top.wait_for(self, lambda text: "s sort: busy" in text)
        top.key("s")
        top.wait_for(self, lambda text: "s sort: name" in text)
        top.key("h")
        top.wait_for(self, lambda text: "the section that gets the room" in text)
        top.key("h")
        top.wait_for(self, lambda text: "2 STREAMS" in text)
        top.key("p")
        top.wait_for(self, lambda text: "p PAUSED" in text)
        self.quit(top)

    def test_a_daemon_that_goes_and_comes_back_is_waited_for(self):
        daemon = Daemon("host", "callback", CONFIGURATION)
        top = Terminal([BIN / "penstock", "top", "--admin", daemon.admin, "--interval", "200ms"])
        top.wait_for(self, lambda text: "  ready  " in text)
        daemon.end()
        shown = top.wait_for(self, lambda text: "NO ANSWER" in text)
        self.assertIn("3 PIPELINES", shown)
        daemon.start()
        shown = top.wait_for(self, lambda text: "NO ANSWER" not in text and "over the last" in text)
        self.assertNotRegex(shown, r" -\d")
        self.quit(top)
        self.assertEqual(daemon.stop()[0], 0)

    def test_terminals_of_every_kind_get_what_they_can_show(self):
        for term, locale in (("linux", "C.UTF-8"), ("xterm", "C"), ("vt100", "C.UTF-8"), ("screen", "C.UTF-8")):
            with self.subTest(term=term, locale=locale):
                top = self.top(TERM=term, LC_ALL=locale)
                shown = top.wait_for(self, lambda text: "4 CLIENTS" in text and "q quit" in text)
                if locale == "C":
                    self.assertTrue(shown.isascii(), shown)
                self.quit(top)
        plain = self.top("--once", TERM="dumb")
        self.assertEqual(plain.end(), 0)
        self.assertNotIn(b"\x1b", plain.raw)

    def test_no_color_means_none(self):
        for environment, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
            top = self.top(**environment)
            top.wait_for(self, lambda text: "4 CLIENTS" in text)
            self.quit(top)
            self.assertEqual(b"\x1b[32m" in top.raw, colored, environment)


@unittest.skipIf(pyte is None, "python3-pyte is not installed")
class ViewTest(WithDaemon):
    def test_a_live_pipe_is_drawn_as_it_comes_with_the_plans_steps_on_the_axis(self):
        fifo = self.daemon.path / "samples"
        os.mkfifo(fifo)
        terminal = Terminal(["/bin/sh", "-c", f"exec {BIN}/penstock --url {self.daemon.url} send --pipeline seconds "
                                              f"--rate 256 --view --raw - < {fifo}"])
        with open(fifo, "wb", buffering=0) as live:
            for rows, label in ((8, " 6 s"), (20, "15 s")):
                live.write(struct.pack("<256f", *range(256)) * (rows if rows == 8 else rows - 8))
                shown = terminal.wait_for(self, lambda text: f"{rows} rows of 129 bins" in text and label in text)
                self.assertNotIn("channels", shown)
                self.assertEqual(shown.count("psd (power_spectrum)"), 1, "it is drawn in its place")
        shown = terminal.wait_for(self, lambda text: "through \"seconds\"" in text)
        self.assertIn("20 rows of 129 bins", shown)
        self.assertEqual(terminal.end(), 0)


class TableTest(WithDaemon):
    """What `penstock top` prints where there is no terminal."""

    def top(self, *words):
        return subprocess.run([BIN / "penstock", "top", "--admin", self.daemon.admin, "--interval", "200ms", *words],
                              capture_output=True, text=True, timeout=LIMIT)

    def test_once_and_batch_print_tables_of_80_columns(self):
        with load(self.daemon):
            for words, tables in ((["--once"], 1), (["--batch", "3"], 3), ([], 1)):
                done = self.top(*words)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout.count("3 PIPELINES"), tables)
                self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
                self.assertNotIn("\x1b", done.stdout)

    def test_without_a_daemon_it_says_so_and_fails(self):
        done = subprocess.run([BIN / "penstock", "top", "--once", "--admin", f"unix:{self.daemon.path}/nobody"],
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not answer", done.stderr)


if __name__ == "__main__":
    unittest.main()
