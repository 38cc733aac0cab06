"""Real recordings through the real daemon and the real clients, compared with the float64 reference.

PENSTOCK_RECORDINGS and PENSTOCK_REFERENCE name the folders of the recordings and of reference.py; PENSTOCK_BIN the
folder of the programs; PENSTOCK_TEST_BACKENDS the backends (a comma list, "host" by default).
"""

import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    np = None

BIN = pathlib.Path(os.environ.get("PENSTOCK_BIN", "build/release/bin"))
RECORDINGS = pathlib.Path(os.environ.get("PENSTOCK_RECORDINGS", "../shared/recordings"))
REFERENCE = pathlib.Path(os.environ.get("PENSTOCK_REFERENCE", "../shared/reference"))
BACKENDS = os.environ.get("PENSTOCK_TEST_BACKENDS", "host").split(",")
N = 1024
MODES_SHA = "dfcfd99d2f1e7b4002af7a8fc0b9211d1cf1aa01e11b78289a7e3b14d2ee0abb"


def pipeline(name, dtype, shape, stages, outputs):
    """One [[pipeline]] as TOML; a stage is (name, op, extra lines)."""
    text = f'[[pipeline]]\nname = "{name}"\ninput = {{ dtype = "{dtype}", shape = {shape} }}\noutputs = {json.dumps(outputs)}\n'
    for stage, op, extra in stages:
        text += f'[[pipeline.stage]]\nname = "{stage}"\nop = "{op}"\n{extra}'
    return text


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
    return "config_version = 1\n" + "".join([
        analysis("modes1", "cu8", [N]),
        analysis("speech_jfk", "i16", [N]),
        analysis("ecg100", "i16", [N, 2], planar=True, histogram='from = "converted"\n'),
        analysis("machine_temp", "f32", [N], histogram=f'from = "converted"\nrange = [{low!r}, {high!r}]\n'),
        # 828 samples a frame divide the recording: every sample reaches the decoder.
        pipeline("magnitude", "cu8", [828], [("z", "convert", ""), ("power", "magnitude", "squared = true\n")], ["power"]),
        pipeline("stream", "cu8", ["max 4096"],
                 [("z", "convert", ""), ("power", "magnitude", "squared = true\n")], ["power"]),
    ])


class Daemon:
    """A penstockd on an ipc socket in a folder of its own."""

    def __init__(self, backend, completion, text):
        self.folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.path = pathlib.Path(self.folder.name)
        (self.path / "penstock.toml").write_text(text)
        self.url = f"ipc://{self.path}/data"
        self.log = open(self.path / "log", "w+")
        self.process = subprocess.Popen(
            [BIN / "penstockd", "--config", self.path / "penstock.toml", "--listen", self.url, "--backend", backend,
             "--completion", completion], stdout=self.log, stderr=self.log)
        ready = self.cli("--timeout", "60s", "ping", check=False)
        if ready.returncode != 0:
            self.process.kill()
            self.process.wait()
            raise RuntimeError("the daemon is not ready:\n" + (self.path / "log").read_text() + ready.stderr)

    def cli(self, *words, check=True):
        done = subprocess.run([BIN / "penstock", "--url", self.url, *map(str, words)], capture_output=True, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"penstock {words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def counters(self):
        return json.loads(self.cli("info", "--json").stdout)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.log.close()
        text = (self.path / "log").read_text()
        self.folder.cleanup()
        return code, text


def load_reference():
    spec = importlib.util.spec_from_file_location("reference", REFERENCE / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing():
    """Why these tests can't run here; empty when they can."""
    if np is None:
        return "numpy is not installed"
    if not (RECORDINGS / "modes1.cu8").exists():
        return f"no recordings in {RECORDINGS}"
    if not (REFERENCE / "reference.py").exists():
        return f"no reference.py in {REFERENCE}"
    if importlib.util.find_spec("scipy") is None:
        return "scipy, which the reference needs, is not installed"
    return ""



@unittest.skipIf(missing(), missing())
class RecordingsTest(unittest.TestCase):
    """Each recording, whole, on each backend and in each completion mode."""

    @classmethod
    def setUpClass(cls):
        cls.reference = load_reference()
        temperature = np.fromfile(RECORDINGS / "machine_temp.f32", "<f4").astype(float)
        cls.text = configuration((float(temperature.min()), float(temperature.max())))

    @contextlib.contextmanager
    def daemon(self, backend, completion):
        daemon = Daemon(backend, completion, self.text)
        try:
            yield daemon
            status = daemon.counters()["status"]
            self.assertTrue(status["balanced"], status)
            self.assertEqual(status["requests"]["in_flight"], 0)
        finally:
            code, log = daemon.stop()
        self.assertEqual(code, 0, log)

    def each_daemon(self, what):
        """Calls `what` with a daemon of each backend and completion mode."""
        for backend, completion in itertools.product(BACKENDS, ("callback", "poll")):
            with self.subTest(backend=backend, completion=completion), self.daemon(backend, completion) as daemon:
                what(daemon)

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
