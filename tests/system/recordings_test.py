"""Recordings through a real daemon and the real clients, compared with the float64 reference."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

from daemon_process import VERSION, Daemons, pipeline
from recordings import RECORDINGS, REFERENCE, load_reference, missing, np

N = 1024
MODES_SHA = "dfcfd99d2f1e7b4002af7a8fc0b9211d1cf1aa01e11b78289a7e3b14d2ee0abb"


def analysis(name, dtype, shape, planar=False, histogram=""):
    """convert → power spectrum (plain and in dB), moments, histogram."""
    return pipeline(name, dtype, shape, [
        ("converted", "convert", "planar = true\n" if planar else ""),
        ("psd", "power_spectrum", 'from = "converted"\n'),
        ("db", "power_spectrum", 'from = "converted"\nscale = "db"\n'),
        ("stats", "moments", 'from = "converted"\n'),
        ("hist", "histogram", histogram or 'from = "input"\n'),
    ], ["psd", "db", "stats", "hist"])


def configuration(temperature_range):
    low, high = temperature_range
    return VERSION + "".join([
        analysis("modes1", "cu8", [N]),
        analysis("speech_jfk", "i16", [N]),
        analysis("ecg100", "i16", [N, 2], planar=True, histogram='from = "converted"\n'),
        analysis("machine_temp", "f32", [N], histogram=f'from = "converted"\nrange = [{low!r}, {high!r}]\n'),
        # 828 samples a frame divide the recording: every sample reaches the decoder.
        pipeline("magnitude", "cu8", [828], [("z", "convert", ""), ("power", "magnitude", "squared = true\n")], ["power"]),
        pipeline("stream", "cu8", ["max 4096"],
                 [("z", "convert", ""), ("power", "magnitude", "squared = true\n")], ["power"]),
    ])


@unittest.skipIf(missing(), missing())
class RecordingsTest(unittest.TestCase):
    """Each recording, whole, on each backend and in each completion mode."""

    @classmethod
    def setUpClass(cls):
        cls.reference = load_reference()
        temperature = np.fromfile(RECORDINGS / "machine_temp.f32", "<f4").astype(float)
        cls.daemons = Daemons(configuration((float(temperature.min()), float(temperature.max()))))

    @classmethod
    def tearDownClass(cls):
        cls.daemons.stop()

    def each_daemon(self, check):
        self.daemons.each(self, check)

    def send(self, daemon, name, file, frames_per_request):
        with tempfile.TemporaryDirectory() as out:
            daemon.cli("send", "--pipeline", name, file, "--frames-per-request", frames_per_request, "--out", out)
            return {path.stem: np.load(path) for path in pathlib.Path(out).glob("*.npy")}

    def compare(self, name, got):
        reference = self.reference
        sidecar, raw = reference.load(str(next(RECORDINGS.glob(name + ".*.json"))))
        values = reference.convert(sidecar, raw)
        power, decibel = reference.power_spectrum(values, N)
        squeeze = (lambda a: a.swapaxes(0, 1)[:, 0]) if len(values) == 1 else (lambda a: a.swapaxes(0, 1))
        power, decibel = squeeze(power), squeeze(decibel)
        self.assertEqual(got["psd"].shape, power.shape)
        peak = power.max(-1, keepdims=True)
        self.assertLessEqual((np.abs(got["psd"] - power) / peak).max(), 1e-5, f"{name}: power")
        # In dB where the bin carries more than float32 can lose against the frame's peak.
        loud = power > 1e-6 * peak
        self.assertLessEqual(np.abs(got["db"] - decibel)[loud].max(), 0.01, f"{name}: dB")
        statistics = reference.statistics(values, N)
        statistics = statistics[0] if len(statistics) == 1 else statistics.swapaxes(0, 1)
        self.assertEqual(got["stats"].shape, statistics.shape)
        scale = np.maximum(np.abs(statistics[..., 2:4]).max(-1), 1e-30)[..., None]
        self.assertLessEqual((np.abs(got["stats"] - statistics) / scale).max(), 1e-5, f"{name}: moments")
        _, histogram = reference.histogram(sidecar, values, N)
        histogram = histogram[0] if len(histogram) == 1 else histogram.swapaxes(0, 1)
        np.testing.assert_array_equal(got["hist"], histogram, f"{name}: histogram")

    def test_every_recording_equals_the_reference_for_any_cutting_into_requests(self):
        def check(daemon):
            for name, file in (("modes1", "modes1.cu8"), ("speech_jfk", "speech_jfk.i16"), ("ecg100", "ecg100.i16"),
                               ("machine_temp", "machine_temp.f32")):
                for frames_per_request in (1, 7, 64):
                    self.compare(name, self.send(daemon, name, RECORDINGS / file, frames_per_request))
        self.each_daemon(check)

    def decode(self, power):
        with tempfile.TemporaryDirectory() as folder:
            np.save(pathlib.Path(folder) / "power.npy", power)
            done = subprocess.run([sys.executable, REFERENCE / "modes_decode.py", RECORDINGS / "modes1.cu8.json", "--npy",
                                   pathlib.Path(folder) / "power.npy"], capture_output=True, text=True, check=True)
        return done.stdout

    def test_power_decodes_to_exactly_the_known_aircraft_messages(self):
        def check(daemon):
            got = self.send(daemon, "magnitude", RECORDINGS / "modes1.cu8", 31)["power"]
            self.assertEqual(got.shape, (431, 828))
            text = self.decode(got)
            self.assertIn("messages 198 ", text)
            self.assertIn(MODES_SHA, text)
        self.each_daemon(check)

    def test_python_client_streams_the_recording_with_its_short_tail(self):
        if importlib.util.find_spec("zmq") is None:
            self.skipTest("pyzmq is not installed")
        from penstock import Client
        samples = np.fromfile(RECORDINGS / "modes1.cu8", np.uint8).reshape(-1, 2)

        def check(daemon):
            with Client(daemon.url) as client:
                futures = [client.submit("stream", samples[at:at + 4096]) for at in range(0, len(samples), 4096)]
                power = np.concatenate([np.asarray(future.result()["power"]).ravel() for future in futures])
            self.assertEqual(power.shape, (356868,))
            self.assertIn(MODES_SHA, self.decode(power))
        self.each_daemon(check)


if __name__ == "__main__":
    unittest.main()
