"""`penstock send`: its files are complete and its exit status is right however it ends."""

import array
import fcntl
import io
import json
import os
import pathlib
import resource
import select
import signal
import subprocess
import tempfile
import termios
import time
import unittest
import wave

import numpy as np

from daemon_process import BIN, VERSION, Daemon, pipeline

LIMIT = 60  # seconds that a loaded machine may take for what takes a moment


DOUBLE = [("y", "affine", "a = 2.0\n")]
CONFIGURATION = VERSION + "".join(
    [pipeline(name, "f32", shape, DOUBLE, ["y"]) for name, shape in (
        ("whole", [4]), ("live", ["max 4096", 2]), ("signal", ["max 64"]), ("stereo", [4, 2]))]
    + [pipeline("sound", "i16", [4], [("x", "convert", "")], ["x"])])


def wait_for(condition, message):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found = condition()
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {LIMIT} s: {message}")


class SendTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("host", "callback", CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        code, log = cls.daemon.stop()
        if code != 0:
            raise AssertionError(f"the daemon ended with {code}:\n{log}")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    def start(self, *words, url=None, **options):
        """`penstock send` as a process that ends with the test."""
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen([BIN / "penstock", "--url", url or self.daemon.url, "send", *map(str, words)],
                                   bufsize=0, **options)

        def end():
            process.kill()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            process.wait(LIMIT)

        self.addCleanup(end)
        return process

    def send(self, *words, input=None, **options):
        """Runs it to its end."""
        return subprocess.run([BIN / "penstock", "--url", self.daemon.url, "send", *map(str, words)], input=input,
                              capture_output=True, timeout=LIMIT, **options)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.tobytes())
        return path

    def frames_in(self, path, count):
        """The array, once it has so many frames; each look must find a file that numpy can load."""
        def look():
            if not path.exists() or path.stat().st_size < 128:
                return None
            loaded = np.load(path)
            return loaded if len(loaded) >= count else None
        return wait_for(look, f"{count} frames in {path}")

    def test_each_signal_leaves_a_whole_file_and_its_exit_status(self):
        given = np.arange(12, dtype="<f4").reshape(3, 4)
        for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL):
            with self.subTest(ending.name):
                out = self.folder / ending.name
                process = self.start("-p", "whole", "--out", out, "-")
                process.stdin.write(given.tobytes())
                self.frames_in(out / "y.npy", 3)
                begin = time.monotonic()
                process.send_signal(ending)
                code = process.wait(LIMIT)
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(code, -ending if ending == signal.SIGKILL else 128 + ending, process.stderr.read())
                np.testing.assert_array_equal(np.load(out / "y.npy"), 2 * given)

    def test_a_second_signal_ends_it_although_the_daemon_does_not_answer(self):
        daemon = Daemon("host", "callback", CONFIGURATION)
        self.addCleanup(daemon.stop)
        process = self.start("--timeout", "600s", "-p", "whole", "--out", self.out, "-", url=daemon.url)
        process.stdin.write(np.ones(4, "<f4").tobytes())
        self.frames_in(self.out / "y.npy", 1)
        daemon.process.send_signal(signal.SIGSTOP)
        self.addCleanup(daemon.process.send_signal, signal.SIGCONT)
        wait_for(lambda: self.is_stopped(daemon.process.pid) or None, "no thread of the daemon runs")
        process.stdin.write(np.ones(4, "<f4").tobytes())
        wait_for(lambda: self.unread(process.stdin) == 0 or None, "the second frame is read")
        process.send_signal(signal.SIGINT)
        wait_for(lambda: self.pending(process.pid) == 0 or None, "the first signal")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 128 + signal.SIGINT, process.stderr.read())
        np.testing.assert_array_equal(np.load(self.out / "y.npy"), np.full((1, 4), 2))

    @staticmethod
    def unread(pipe):
        count = array.array("i", [0])
        fcntl.ioctl(pipe, termios.FIONREAD, count)
        return count[0]

    @staticmethod
    def is_stopped(pid):
        threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
        return all((each / "stat").read_text().rpartition(")")[2].split()[0] == "T" for each in threads)

    @staticmethod
    def pending(pid):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:")))

    def test_the_interrupt_ends_an_idle_fifo(self):
        for written in (False, True):
            with self.subTest(written=written):
                fifo, out = self.folder / f"fifo-{written}", self.folder / f"out-{written}"
                os.mkfifo(fifo)
                # Opened for both, it has a writer for as long as the test likes.
                writer = os.open(fifo, os.O_RDWR) if written else None
                process = self.start("-p", "whole", "--out", out, fifo)
                if written:
                    self.addCleanup(os.close, writer)
                    os.write(writer, np.ones(4, "<f4").tobytes())
                    self.frames_in(out / "y.npy", 1)
                else:
                    # The handlers are set before the pipeline's input is looked at, which comes after the connection.
                    wait_for(lambda: self.catches(process.pid, signal.SIGINT) or None, "the handler of SIGINT")
                begin = time.monotonic()
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(LIMIT), 128 + signal.SIGINT)
                self.assertLess(time.monotonic() - begin, 10)
                if written:
                    np.testing.assert_array_equal(np.load(out / "y.npy"), np.full((1, 4), 2))

    @staticmethod
    def catches(pid, number):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1]
        return int(caught, 16) >> (number - 1) & 1

    def test_samples_of_a_live_input_are_sent_before_they_fill_a_frame(self):
        process = self.start("-p", "live", "--out", "-", "--flush", "20ms", "-")
        process.stdout = reader = io.BufferedReader(process.stdout)
        for at in range(3):
            process.stdin.write(np.array([[at, 1], [at, 2]], "<f4").tobytes())
            self.assertTrue(select.select([reader], [], [], LIMIT)[0], "no result came")
            self.assertEqual([reader.readline(), reader.readline()], [b"%d,2\n" % (2 * at), b"%d,4\n" % (2 * at)])
        process.stdin.close()
        self.assertEqual(process.wait(LIMIT), 0)
        process.stdin = None

    def test_results_have_the_numbers_and_times_of_their_samples(self):
        given = self.file("given", np.arange(12, dtype="<f4").reshape(3, 4))
        out = self.folder / "arrays"
        done = self.send("-p", "whole", "--out", out, "--index", "-4", "--time", "1970-01-01T00:00:01Z", "--rate", "8",
                         "-k", "2", given)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(np.load(out / "y.index.npy"), [-4, 0, 4])
        np.testing.assert_array_equal(np.load(out / "y.time.npy"), [10**9, 15 * 10**8, 2 * 10**9])
        np.testing.assert_array_equal(np.load(out / "y.npy"), 2 * np.arange(12, dtype="<f4").reshape(3, 4))
        again = self.send("-p", "whole", "--out", out, "--index", "0", "--format", "raw", given)
        self.assertIn(b"y.index.npy is there already", again.stderr)
        lines = self.send("-p", "signal", "--session", "s", "--out", "-", "--index", "10", given).stdout.split()
        self.assertEqual(lines, [b"%d,%d" % (10 + at, 2 * at) for at in range(12)])
        line = json.loads(self.send("-p", "whole", "--out", "-", "--format", "jsonl", "--time", "0.5", "--rate", "4",
                                    given).stdout.splitlines()[1])
        self.assertEqual((line["sample"], line["time"]), (4, "1970-01-01T00:00:01.500000000Z"))
        for wrong in (["--time", "1"], ["--time", "tomorrow"], ["--index", "1.5"]):
            done = self.send("-p", "whole", "--out", "-", *wrong, given)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, b"")

    def test_live_rows_are_one_array_however_they_were_cut(self):
        process = self.start("-p", "live", "--out", self.out, "--flush", "1ms", "-")
        for at in range(1, 4):
            process.stdin.write(np.full((at, 2), at, "<f4").tobytes())
            self.frames_in(self.out / "y.npy", at * (at + 1) // 2)
        process.stdin.close()
        self.assertEqual(process.wait(LIMIT), 0)
        process.stdin = None
        got = np.load(self.out / "y.npy")
        np.testing.assert_array_equal(got[:, 0], [2, 4, 4, 6, 6, 6])
        self.assertEqual([path.name for path in self.out.iterdir()], ["y.npy"])

    def test_a_full_disk_is_an_error_and_leaves_a_whole_file(self):
        given = np.arange(4000, dtype="<f4").reshape(1000, 4)
        room = 128 + 40 * 16 + 8  # the last frame that is begun does not fit
        done = self.send("-p", "whole", "--out", self.out, self.file("given", given),
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"can't write", done.stderr)
        self.assertIn(b"y.npy: File too large", done.stderr)
        np.testing.assert_array_equal(np.load(self.out / "y.npy"), 2 * given[:40])
        self.assertEqual((self.out / "y.npy").stat().st_size, 128 + 40 * 16)

    def test_a_full_disk_ends_a_live_stream(self):
        process = self.start("-p", "whole", "--out", self.out, "-",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (140, 140)))
        process.stdin.write(np.ones(4, "<f4").tobytes())
        self.assertEqual(process.wait(LIMIT), 1)
        self.assertIn(b"File too large", process.stderr.read())
        self.assertEqual(np.load(self.out / "y.npy").shape, (0, 4))

    def test_a_standard_output_that_takes_nothing_is_an_error(self):
        given = self.file("given", np.ones((4, 4), "<f4"))
        with open("/dev/full", "wb") as full:
            for words in (("--out", "-"), ("--out", "-", "--format", "raw"), ("--out", self.out)):
                done = subprocess.run([BIN / "penstock", "--url", self.daemon.url, "send", "-p", "whole", *words,
                                       given], stdout=full, stderr=subprocess.PIPE, timeout=LIMIT)
                self.assertEqual(done.returncode, 1, words)
                self.assertIn(b"can't write to the standard output" if self.out in words else
                              b"can't write the standard output", done.stderr)
        np.testing.assert_array_equal(np.load(self.out / "y.npy"), np.full((4, 4), 2))
        for words in (("--out", "-"), ("--out", self.folder / "closed")):
            done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", BIN / "penstock", "--url", self.daemon.url,
                                   "send", "-p", "whole", *words, given], stderr=subprocess.PIPE, timeout=LIMIT)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(b"Bad file descriptor", done.stderr)
        np.testing.assert_array_equal(np.load(self.folder / "closed/y.npy"), np.full((4, 4), 2))

    def test_a_reader_that_goes_is_an_error(self):
        process = self.start("-p", "whole", "--out", "-", "-")
        process.stdin.write(np.ones(4, "<f4").tobytes())
        self.assertEqual(process.stdout.read(8), b"2,2,2,2\n")
        process.stdout.close()
        process.stdin.write(np.ones(4, "<f4").tobytes())
        self.assertEqual(process.wait(LIMIT), 1)
        self.assertIn(b"Broken pipe", process.stderr.read())

    def test_formats(self):
        given = np.arange(8, dtype="<f4").reshape(2, 4)
        path = self.file("given", given)
        self.assertEqual(self.send("-p", "whole", "--out", "-", "--format", "raw", path, check=True).stdout,
                         (2 * given).tobytes())
        self.assertEqual(self.send("-p", "whole", "--out", "-", path, check=True).stdout, b"0,2,4,6\n8,10,12,14\n")
        lines = self.send("-p", "whole", "--out", "-", "--format", "jsonl", path, check=True).stdout.splitlines()
        self.assertEqual([json.loads(line) for line in lines],
                         [{"output": "y", "index": 0, "values": [0, 2, 4, 6]},
                          {"output": "y", "index": 1, "values": [8, 10, 12, 14]}])
        self.send("-p", "whole", "--out", self.out, "--format", "csv", path, check=True)
        np.testing.assert_array_equal(np.loadtxt(self.out / "y.csv", delimiter=","), 2 * given)
        refused = self.send("-p", "whole", "--out", "-", "--format", "npy", path)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"standard output", refused.stderr)

    def test_results_stand_unless_forced(self):
        old, new = self.file("old", np.zeros(4, "<f4")), self.file("new", np.ones(4, "<f4"))
        self.send("-p", "whole", "--out", self.out, old, check=True)
        refused = self.send("-p", "whole", "--out", self.out, new)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"--force", refused.stderr)
        np.testing.assert_array_equal(np.load(self.out / "y.npy"), np.zeros((1, 4)))
        self.send("-p", "whole", "--out", self.out, "--force", new, check=True)
        np.testing.assert_array_equal(np.load(self.out / "y.npy"), np.full((1, 4), 2))

    def test_arrays_of_numpy_go_in_and_what_came_out_goes_in_again(self):
        given = np.arange(40, dtype="<f4").reshape(10, 4)
        kinds = {"plain": given, "signal": given.ravel(), "big": given.astype(">f4"),
                 "fortran": np.asfortranarray(given)}
        for name, kind in kinds.items():
            with self.subTest(name):
                path, out = self.folder / f"{name}.npy", self.folder / name
                np.save(path, kind)
                self.send("-p", "whole", "--out", out, path, check=True)
                np.testing.assert_array_equal(np.load(out / "y.npy"), 2 * given)
        self.send("-p", "whole", "--out", self.out, self.folder / "plain/y.npy", check=True)
        np.testing.assert_array_equal(np.load(self.out / "y.npy"), 4 * given)
        for other in (given.astype(float), given[:, :3]):
            path = self.folder / "other.npy"
            np.save(path, other)
            refused = self.send("-p", "whole", path)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(b"in numpy" if other.dtype == "<f4" else b"astype", refused.stderr)

    def sound(self, name, samples, says=None):
        """A mono WAV file whose header may say another number of bytes."""
        whole = io.BytesIO()
        with wave.open(whole, "wb") as to:
            to.setparams((1, 2, 8000, 0, "NONE", ""))
            to.writeframes(samples.tobytes())
        content = bytearray(whole.getvalue())
        if says is not None:
            content[40:44] = says.to_bytes(4, "little")
        return self.file(name, bytes(content))

    def test_a_wav_file_by_name_and_through_a_pipe(self):
        samples = np.arange(-8, 8, dtype="<i2")
        expected = samples.astype("<f4").reshape(4, 4) / 32768
        for says in (None, 0, 0x7FFFF000, 0x80000000, 0xFFFFFFFF):
            path = self.sound("given.wav", samples, says)
            for name, source, given in (("file", path, None), ("pipe", "-", path.read_bytes())):
                with self.subTest(name, says=says):
                    done = self.send("-p", "sound", "--out", self.out, "--force", source, input=given, check=True)
                    np.testing.assert_array_equal(np.load(self.out / "x.npy"), expected, done.stderr)
        done = self.send("-p", "sound", self.sound("cut.wav", samples, 400), check=True)
        self.assertIn(b"the header says 400 bytes of samples, the file has 32", done.stderr)

    def test_a_container_is_not_taken_for_samples(self):
        path = self.file("given.h5", b"\x89HDF\r\n\x1a\n" + bytes(100))
        refused = self.send("-p", "whole", path)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"--raw", refused.stderr)
        self.send("-p", "whole", "--raw", path, check=True)


if __name__ == "__main__":
    unittest.main()
