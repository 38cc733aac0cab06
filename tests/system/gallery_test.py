"""The jobs of deploy/examples/gallery, from antenna to answer, on each backend.

Each ends with what is known of its signal, and with float64 of scipy where a result is a number.
"""

import csv
import importlib.util
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from daemon_process import BIN, Daemon, backends
from pipelines_document_test import TREE, Walkthrough, missing as without_client, parts_of
from recordings import RECORDINGS, missing, np

EXAMPLES = TREE / "deploy/examples/gallery"
PAGE = TREE / "docs/gallery.md"


def cut(samples, seed, longest):
    """The samples in parts of 1 to `longest`."""
    lengths = np.random.default_rng(seed).integers(1, longest + 1, len(samples))
    ends = np.cumsum(lengths)
    return np.split(samples, ends[ends < len(samples)])


def events_of(blocks):
    """What `detect` along a session told of one channel in its blocks: start, end, peak, value."""
    return np.concatenate([block[1:1 + int(block[0, 1])] for block in blocks.reshape(-1, *blocks.shape[-2:])])


def without_scipy():
    """Why no job can be compared here; empty when they can."""
    return without_client() or ("" if importlib.util.find_spec("scipy") else "scipy is not installed")


@unittest.skipIf(without_scipy(), without_scipy())
class GalleryTest(unittest.TestCase):
    """A test for each job."""

    def make(self, name, *words):
        """Has the job's script write its signal, and what the pipeline needs, into a folder. Gives that."""
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        done = subprocess.run([sys.executable, EXAMPLES / name / "make.py", *words], cwd=folder.name,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.printed = done.stdout
        return pathlib.Path(folder.name)

    def answers(self, name, samples, folder=None, longest=None, pipeline=None):
        """What the pipeline gives, by output, on each backend: of the whole recording, and of parts of at most so many
        samples."""
        from penstock import Client
        files = {path.name: path.read_bytes() for path in folder.glob("*.npy")} if folder else {}
        given = []
        for backend in backends():
            daemon = Daemon(backend, "callback", (EXAMPLES / name / f"{name}.toml").read_text(), files)
            try:
                with Client(daemon.url) as client:
                    for seed in (None, 1) if longest else (None,):
                        with client.session(pipeline or name) as session:
                            if seed is None:
                                given.append(dict(session.run(samples)))
                            else:
                                results = [dict(each) for each in session.stream(cut(samples, seed, longest))]
                                given.append({output: np.concatenate([each[output] for each in results])
                                              for output in results[0]})
            finally:
                code, log = daemon.stop()
            self.assertEqual(code, 0, log)
        return given

    def test_each_configuration_is_good(self):
        for file in sorted(EXAMPLES.glob("*/*.toml")):
            with self.subTest(file.name):
                folder = file.parent
                if (folder / "make.py").exists():
                    folder = self.make(folder.name)
                    (folder / file.name).write_text(file.read_text())
                done = subprocess.run([BIN / "penstockd", "--check-config", "--config", folder / file.name],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("field '", done.stderr)  # a doubt

    @unittest.skipIf(missing(), missing())
    def test_heart_finds_the_beats_that_a_doctor_marked_and_their_rate(self):
        samples = np.fromfile(RECORDINGS / "ecg100.i16", "<i2").reshape(-1, 2)
        with open(RECORDINGS / "ecg100.beats.csv", encoding="ascii") as file:
            marked = np.array([int(row[0]) for row in csv.reader(file) if not row[0].startswith("#")])
        for result in self.answers("heart", samples, longest=720):
            beats = events_of(result["beats"])
            np.testing.assert_allclose(beats[:, 3], self.energy_of(samples[:, 0])[beats[:, 2].astype(int)], rtol=1e-4)
            peaks = beats[:, 2] - 45  # the filters' delay
            self.assertGreater(len(peaks), 2260)
            near = np.abs(marked[np.searchsorted((marked[1:] + marked[:-1]) / 2, peaks)] - peaks) <= 36  # 100 ms
            self.assertGreaterEqual(near.sum(), 2270)                # of 2273 beats
            self.assertLessEqual(len(peaks) - near.sum(), 2)         # what is none
            rates = np.asarray(result["rate"]).ravel()
            self.assertEqual(len(rates), (len(samples) // 3 - 960) // 240 + 1)
            ends = np.arange(len(rates)) * 720 + 2880
            intervals = [np.diff(marked[(marked >= end - 2880 - 45) & (marked < end - 45)]) for end in ends]
            off = np.abs(rates - [60 * 360 / np.median(each) for each in intervals])
            self.assertLess(np.median(off), 0.6)
            self.assertLess(off.max(), 5, np.percentile(off, [50, 90, 95, 98, 100]))

    @staticmethod
    def energy_of(counts, rate=360):
        """The mean square of the slope, in (mV/s)²."""
        from scipy import signal
        qrs = signal.sosfilt(signal.butter(2, [5, 15], "bandpass", fs=rate, output="sos"), (counts - 1024.) / 200)
        slope = signal.lfilter(signal.savgol_coeffs(5, 1, deriv=1, delta=1 / rate), 1, qrs)
        return signal.lfilter(np.full(54, 1 / 54), 1, slope ** 2)

    def test_seismic_picks_each_arrival_and_nothing_else(self):
        folder = self.make("seismic")
        arrivals = [int(line.split()[4].rstrip(",")) for line in self.printed.splitlines()]
        packed = np.fromfile(folder / "station.i24", np.uint8).reshape(-1, 3)
        counts = (packed[:, 0].astype(np.int8).astype(float) * 65536 + packed[:, 1] * 256. + packed[:, 2])
        for result in self.answers("seismic", packed, longest=1000, pipeline="station"):
            picks = events_of(result["picks"])
            self.assertEqual(len(picks), len(arrivals), picks)
            for pick, arrival in zip(picks[:, 0], arrivals):
                self.assertTrue(0 <= pick - arrival <= 30, (pick, arrival))  # 0.3 s
            ratio = np.asarray(result["ratio"]).ravel()
            expected = self.ratio_of(counts)
            self.assertLess(np.abs(ratio - expected).max(), 1e-5 * expected.max())

    @staticmethod
    def ratio_of(counts):
        from scipy import signal
        band = signal.sosfilt(signal.butter(2, [2, 15], "bandpass", fs=100, output="sos"), counts)
        sums = np.concatenate([[0], np.cumsum(band ** 2)])
        ends = np.arange(1, len(counts) + 1)
        mean = [(sums[ends] - sums[np.maximum(ends - steps, 0)]) / np.minimum(ends, steps) for steps in (50, 2000)]
        return mean[0] / np.maximum(mean[1], 1)

    def test_bearing_tells_which_part_has_the_fault(self):
        for number, fault in enumerate(("outer", "inner", "ball")):
            folder = self.make("bearing", fault)
            samples = np.fromfile(folder / "bearing.f32", "<f4")
            for result in self.answers("bearing", samples, folder, longest=5000 if number == 0 else None):
                faults = np.asarray(result["faults"])
                self.assertEqual(faults.shape, (2, 4))
                for row in faults:
                    self.assertEqual(np.argmax(row), number, row)
                    self.assertGreater(row[number], np.delete(row, number).max() + 3, row)
                self.compare_envelope(np.asarray(result["envelope_spectrum"]), samples, folder)

    def compare_envelope(self, got, samples, folder):
        """With scipy's, whose envelope is that of the same filters in float64."""
        from scipy import signal
        ringing = signal.sosfilt(signal.butter(4, [2000, 4000], "bandpass", fs=12000, output="sos"),
                                 samples.astype(float))
        moved = ringing * np.exp(-2j * np.pi * 3000 / 12000 * np.arange(len(ringing)))
        slow = np.abs(signal.lfilter(np.load(folder / "low_pass.npy"), 1, moved)[::8])
        rows = np.lib.stride_tricks.sliding_window_view(slow, 3000)[::1500][:16]
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(3000) / 3000)
        power = np.abs(np.fft.rfft((rows - rows.mean(1, keepdims=True)) * window)) ** 2
        expected = power.reshape(2, 8, 1501).mean(1)
        self.assertLess(np.abs(got - expected).max(), 3e-5 * expected.max())  # filter, transform, square

    def test_radar_finds_each_target_with_its_range_speed_and_level(self):
        folder = self.make("radar")
        echoes = np.fromfile(folder / "echoes.ci16", "<i2").reshape(8, 64, 575, 2)
        for result in self.answers("radar", echoes, folder):
            for map_, targets, speeds in zip(result["map"], result["targets"], result["speeds"]):
                self.assertEqual(map_.shape, (64, 512))
                found = [(int(index), value) for index, value in targets[1:1 + int(targets[0, 1])]]
                self.assertEqual(len(found), 3, found)
                known = ((97, 9, -34), (240, -13, -40), (402, 0.5, -37))
                for (index, value), (place, turns, level) in zip(found, known):
                    self.assertEqual(index, place)
                    self.assertLessEqual(abs(speeds[index, 0, 0] - 32 - turns), 0.5)
                    self.assertLess(abs(value - level), 2.5)  # half a bin off costs 1.8 dB
                    self.assertEqual(speeds[index, 0, 1], value)
            samples = (echoes[0, ..., 0] + 1j * echoes[0, ..., 1]) / 32768
            pulse = np.load(folder / "pulse.npy")
            ranges = np.stack([np.correlate(row, pulse, "valid") for row in samples])
            shape = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(64) / 64)
            expected = np.abs(np.fft.fftshift(np.fft.fft(ranges * shape[:, None], axis=0), axes=0))
            self.assertLess(np.abs(10 ** (result["map"][0] / 20) - expected).max(), 1e-5 * expected.max())

    def test_pager_gives_address_function_and_message_of_each_call_through_bit_errors(self):
        folder = self.make("pager")
        make = self.script("pager")
        sent = [word for batch in make.batches() for word in batch]
        samples = np.fromfile(folder / "pager.cu8", np.uint8).reshape(-1, 2)
        for number, heard in enumerate((samples, self.turned_over(samples))):  # as some receivers' mixers do
            for result in self.answers("pager", heard, folder, longest=12000 if number == 0 else None):
                found = result["found"].reshape(-1, 3)
                here = found[:, 0] >= 0
                self.assertEqual(np.diff(found[here, 0]).tolist(), [544] * (len(sent) // 16 - 1))
                self.assertEqual(set(found[here, 2]), {float(number)})
                words = result["codewords"].reshape(-1, 16, 33)[here].reshape(-1, 33)
                self.assertEqual([int("".join(str(int(bit)) for bit in word[:32]), 2) for word in words], sent)
                self.assertEqual([int(word[32]) for word in words], [(at % 16 + 1) % 3 for at in range(len(sent))])
                fields = result["fields"].reshape(-1, 16, 4)[here].reshape(-1, 4)
                self.assertEqual(self.calls_of(fields, words), list(make.CALLS))

    def test_fm_gives_the_sound_that_was_sent(self):
        folder = self.make("fm")
        samples = np.fromfile(folder / "fm.cu8", np.uint8).reshape(-1, 2)
        sent = np.fromfile(folder / "sound.i16", "<i2") / 32768
        expected = self.received(samples, folder)
        for result in self.answers("fm", samples, folder, longest=24000):
            sound = np.asarray(result["sound"]) / 32768
            self.assertEqual(len(sound), len(sent))
            self.assertLess(np.abs(sound - expected).max(), 1e-5 * np.abs(expected).max() + 0.5 / 32768)
            levels = np.sqrt(np.mean(expected.reshape(-1, 4800) ** 2, axis=1))
            self.assertLess(np.abs(np.asarray(result["level"]) - levels).max(), 1e-5 * levels.max())
            # Delays: 47 steps of 480 kHz, half a step and 120 of 240 kHz, which are 28.8 of 48 kHz.
            places = np.arange(4800, len(sent) - 4800)
            delayed = np.interp(places - 28.75, np.arange(len(sent)), sent)
            error = sound[places] - delayed
            self.assertLess(np.sqrt(np.mean(error ** 2)), 0.01 * np.sqrt(np.mean(delayed ** 2)))  # 40 dB

    @staticmethod
    def received(samples, folder):
        """The same by scipy, in float64."""
        from scipy import signal
        iq = (samples.astype(float) - 127.5) @ [1, 1j] / 127.5
        station = signal.lfilter(np.load(folder / "station.npy"), 1,
                                 iq * np.exp(-2j * np.pi * 100e3 / 480e3 * np.arange(len(iq))))[::2]
        turns = np.angle(station * np.concatenate([[0], station[:-1]]).conj())
        turns[0] = 0
        mono = signal.lfilter(np.load(folder / "mono.npy"), 1, turns * 240e3 / (2 * np.pi * 75e3))[::5]
        return signal.lfilter(*signal.bilinear([1], [50e-6, 1], 48e3), mono)

    @staticmethod
    def script(name):
        spec = importlib.util.spec_from_file_location(f"make_{name}", EXAMPLES / name / "make.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    @staticmethod
    def turned_over(samples):
        """With the carrier where it was, and a 1 above it."""
        t = np.arange(len(samples)) / 240e3
        wave = (samples.astype(float) - 127.5) @ [1, -1j] * np.exp(2j * np.pi * 40e3 * t)
        return np.clip(np.round(np.stack([wave.real, wave.imag], -1) + 127.5), 0, 255).astype(np.uint8)

    @staticmethod
    def calls_of(fields, words):
        calls = []
        for (is_message, number, function, _), word in zip(fields, words):
            if is_message == 1:
                calls[-1][2].extend(word[1:21])
            elif number < 2_000_000:  # an idle codeword is an address beyond
                calls.append((int(number), int(function), []))
        return [(number, function, bytes(int(np.dot(bits[at:at + 7], 1 << np.arange(7)))
                                         for at in range(0, len(bits) - 6, 7)).decode().rstrip("\0"))
                for number, function, bits in calls]


class PageTest(unittest.TestCase):
    """The commands of docs/gallery.md, each part in a folder with its job's files. What has no language is a picture."""


def add_test(title, blocks):
    names = [file.parent.name for file in sorted(EXAMPLES.glob("*/*.toml"))
             if any(f"penstockd --config {file.name} &" in block.text for block in blocks)]

    def test(self):
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            for file in (EXAMPLES / names[0]).iterdir():
                if file.is_file():
                    (pathlib.Path(folder) / file.name).write_bytes(file.read_bytes())
            walkthrough = Walkthrough(self, pathlib.Path(folder), PAGE)
            python = walkthrough.folder / "programs" / "python3"  # no link: it would have the packages of another
            python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
            python.chmod(0o755)
            try:
                walkthrough.go([block for block in blocks if block.language])
            finally:
                walkthrough.stop()

    if names:
        name = "test_" + re.sub(r"\W+", "_", title.lower()).strip("_")
        setattr(PageTest, name, unittest.skipIf(without_client(), without_client())(test))


for part, its_blocks in parts_of(PAGE.read_text()) if PAGE.exists() else []:
    add_test(part, its_blocks)


if __name__ == "__main__":
    unittest.main()
