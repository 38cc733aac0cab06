"""A model in a Debian 12 without Python and PyTorch: silero-vad, compiled outside, gives there what its own runtime does.

Into a bare root go Penstock's package, what it depends on, and the libraries that it suggests. `./dev package` makes the
package; debian_root says which variables name other folders. Outside are needed torch, silero-vad and a C++ compiler.
"""

import contextlib
import importlib.util
import io
import pathlib
import shutil
import subprocess
import sys
import unittest

import debian_root
from recordings import RECORDINGS

EXAMPLES = debian_root.TREE / "deploy/examples/models"
SPEECH = RECORDINGS / "speech_jfk.i16"
NEEDED = ("torch", "silero_vad", "numpy", "zmq")
TOLERANCE = 1e-5


def missing():
    """Why this can't be tested here, or None."""
    if lacked := [each for each in NEEDED if importlib.util.find_spec(each) is None]:
        return f"not installed: {', '.join(lacked)} (PENSTOCK_TORCH_PYTHON names a Python that has them)"
    if shutil.which("g++") is None:
        return "g++ is not installed"
    if not SPEECH.exists():
        return f"no recordings in {RECORDINGS}"
    return debian_root.missing() or debian_root.missing_packages()


def suggested(package):
    """The packages of Debian that a package suggests."""
    listed = subprocess.run(["dpkg-deb", "--field", package, "Suggests"], capture_output=True, text=True,
                            check=True).stdout
    return [name for name in listed.strip().split(", ") if "penstock" not in name]


def load_example():
    """deploy/examples/models/silero_vad.py, which has the name of the package that it takes the weights from."""
    spec = importlib.util.spec_from_file_location("silero_vad_example", EXAMPLES / "silero_vad.py")
    example = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = example  # torch.export looks for it
    spec.loader.exec_module(example)
    return example


def speech(samples):
    """The recording in whole frames, as the operator convert makes them of 16-bit samples."""
    import numpy
    recorded = numpy.fromfile(SPEECH, "<i2").astype(numpy.float32) / numpy.float32(32768)
    return recorded[:len(recorded) // samples * samples].reshape(-1, samples)


def own_runtime(example):
    """The probabilities of the recording by silero-vad's own runtime."""
    import torch
    runtime = example.packaged()
    runtime.reset_states()
    with torch.no_grad():
        return [runtime(frame[None], 16000).item() for frame in torch.from_numpy(speech(example.SAMPLES))]


class ModelsBareTest(unittest.TestCase):

    def setUp(self):
        if why := missing():
            self.skipTest(why)
        self.root = debian_root.fresh_root()
        self.addCleanup(self.root.remove)

    def found(self, *names):
        """The files in the root that have one of these names."""
        words = [word for name in names for word in ("-o", "-name", name)][1:]
        return self.root.run("find", "/", "-xdev", "(", *words, ")").stdout.split()

    def test_silero_is_its_own_runtime_without_python_and_pytorch(self):
        example = load_example()
        package, = debian_root.package_files("penstock")
        self.root.install(package, *suggested(package), "systemd-standalone-sysusers")  # or all of systemd would come
        self.assertEqual(self.found("python[23]*", "libpython*", "libtorch*", "libc10*"), [])

        folder = self.root.path / "etc/penstock"
        with contextlib.redirect_stdout(io.StringIO()) as configuration:
            example.main(str(folder / "vad.pt2"), "cpu")
        (folder / "penstock.toml").write_text(configuration.getvalue())
        shutil.copy(SPEECH, self.root.path / "srv")
        self.assertIn("good", self.root.run("penstockd", "--check-config").stdout)
        printed = self.root.serve(f"penstock send --pipeline vad --session microphone --out - /srv/{SPEECH.name}")

        wanted, got = own_runtime(example), [float(line) for line in printed.split()]
        self.assertEqual(len(got), len(wanted))
        apart = max(abs(one - other) for one, other in zip(got, wanted))
        print(f"{len(got)} frames: at most {apart:.2g} off silero-vad's own runtime", flush=True)
        self.assertLess(apart, TOLERANCE)
        self.assertGreater(max(got), 0.9)
        self.assertLess(min(got), 0.1)


if __name__ == "__main__":
    unittest.main()
