"""Examples in docs/stages.md, and the kernel in the README, are compiled, and with a GPU served and compared.

Each part ("## …") is a test with a folder of its own, through which its blocks go one after the other:

  cuda     CUDA C++; its first line, "// NAME", says the file that it is written to
  c        C; its first line, "// NAME", says the file
  toml     a configuration; its first line, "# NAME", says the file. It is checked, with its kernels compiled; a daemon
           serves it on the backends of REFERENCES that are here, and each pipeline's results are compared as it says
  python   a program with a Client runs where a daemon serves. One that exports a kernel needs the package that the
           kernel is written for; the stage that it prints is compiled, and served, behind an input of INPUTS
  text     what the program before it prints
  console  commands ("$ …"), each with what it prints
  sh       commands that plugin_test runs

What this machine has no compiler or package for is skipped with the reason.
"""

import importlib.util
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import compilers
from daemon_process import BIN, VERSION, Daemon, backends
from pipelines_document_test import README, TREE, Block, Walkthrough, missing, parts_of

PAGE = TREE / "docs" / "stages.md"
README_PART = "A kernel of your own"
INCLUDE = TREE / "kernels" / "include"
MANY_SESSIONS = "\n[sessions]\nmax_sessions = 1200\nmax_per_client = 1200\n"
# Where an exported stage stands: the input of its pipeline, by the file of its kernel.
INPUTS = {"gain.ptx": '{ dtype = "f32", shape = [1024] }', "pole.ptx": '{ dtype = "f32", shape = ["max 64"] }',
          "level.ptx": '{ dtype = "f32", shape = [1024] }', "average.ptx": '{ dtype = "f32", shape = [256] }'}
LINKED = re.compile(r"stage .*: kernel .+ for sm_90a?: \d+ registers")

if not missing():
    import numpy
    import penstock
    from session_signals import through_sessions, worst_error


def random_frames(*shape):
    return numpy.random.default_rng(1).standard_normal((50, *shape), dtype=numpy.float32)


def results_of(client, pipeline, frames):
    """Each frame is a request of its own; all are in flight together."""
    futures = [client.submit(pipeline, each) for each in frames]
    return [future.result(60) for future in futures]


def outputs_of(client, pipeline, frames):
    return numpy.stack([each.array for each in results_of(client, pipeline, frames)])


def check_louder(test, client, pipeline):
    x = random_frames(1024)
    test.assertTrue(numpy.array_equal(outputs_of(client, pipeline, x), 2 * x))


def check_squares(test, client, pipeline):
    x = random_frames(2048)
    test.assertTrue(numpy.array_equal(outputs_of(client, pipeline, x), x * x))


def check_reversed(test, client, pipeline):
    x = random_frames(512)
    test.assertTrue(numpy.array_equal(outputs_of(client, pipeline, x), 2 * x[:, ::-1]))


def check_clipping(test, client, pipeline):
    x = random_frames(1000)
    results = results_of(client, pipeline, x)
    half = numpy.abs(x) / 2
    test.assertTrue(numpy.array_equal([float(each["difference.most"][0]) for each in results], half.max(axis=1)))
    mean = numpy.array([float(each["difference.mean"][0]) for each in results])
    test.assertLess(numpy.abs(mean / half.astype(numpy.float64).mean(axis=1) - 1).max(), 1e-6)


def check_pole(test, client, pipeline, *channels):
    try:
        from scipy.signal import lfilter
    except ImportError as error:
        test.skipTest(str(error))
    signals = numpy.random.default_rng(2).standard_normal((1000, 300, *channels), dtype=numpy.float32)
    wanted = lfilter([1], [1, -numpy.float64(numpy.float32(0.9))], signals.astype(numpy.float64), axis=1)
    test.assertLess(worst_error(through_sessions(client, pipeline, signals, 64), wanted), 2e-6)


def check_smooth(test, client, pipeline):
    check_pole(test, client, pipeline, 2)


def check_average(test, client, pipeline):
    signals = numpy.random.default_rng(3).standard_normal((200, 30, 256), dtype=numpy.float32)
    wanted = numpy.empty(signals.shape)
    last = numpy.zeros((200, 256))
    for step in range(signals.shape[1]):
        last = last + 0.25 * (signals[:, step] - last)
        wanted[:, step] = last
    test.assertLess(worst_error(through_sessions(client, pipeline, signals, 4), wanted), 2e-6)


def check_limited(test, client, pipeline):
    x = numpy.random.default_rng(1).integers(-1000, 1000, (50, 100, 3), dtype=numpy.int32)
    test.assertTrue(numpy.array_equal(outputs_of(client, pipeline, x), numpy.clip(3 * x, -1000, 1000)))


def check_level(test, client, pipeline):
    x = random_frames(1024)
    wanted = numpy.sqrt(numpy.mean(x.astype(numpy.float64) ** 2, axis=1))
    test.assertLess(numpy.abs(outputs_of(client, pipeline, x)[:, 0] / wanted - 1).max(), 1e-6)


def check_decibels(test, client, pipeline):
    rng = numpy.random.default_rng(4)
    x = (rng.standard_normal((3, 1024)) + 1j * rng.standard_normal((3, 1024))).astype(numpy.complex64)
    wanted = 10 * numpy.log10(numpy.abs(x.astype(complex)) ** 2)
    test.assertLess(numpy.abs(outputs_of(client, pipeline, x) - wanted).max(), 1e-4)


def check_clipped(test, client, pipeline):
    x = random_frames(200)
    test.assertTrue(numpy.array_equal(outputs_of(client, pipeline, x), numpy.clip(x, -0.5, 0.5)))


# By the name of the pipeline, which for an exported stage is the kernel's file: what to compare, and where.
REFERENCES = {
    "louder": (check_louder, ("cuda",)),
    "squares": (check_squares, ("cuda",)),
    "reversed": (check_reversed, ("cuda",)),
    "clipping": (check_clipping, ("cuda",)),
    "smooth": (check_smooth, ("cuda",)),
    "average": (check_average, ("cuda",)),
    "limited": (check_limited, ("cuda",)),
    "gain.ptx": (check_louder, ("cuda",)),
    "pole.ptx": (check_pole, ("cuda",)),
    "level.ptx": (check_level, ("cuda",)),
    "average.ptx": (check_average, ("cuda",)),
    "decibels": (check_decibels, ("host", "cuda")),
    "clipped": (check_clipped, ("host",)),
}


class StagesWalkthrough(Walkthrough):
    """Runs the blocks of one part in order. What needs a GPU is left out where there is none."""

    def __init__(self, test, folder):
        super().__init__(test, folder, PAGE)
        (folder / "programs" / "penstockd").write_text(f'#!/bin/sh\nexec "{BIN}/penstockd" --admin none "$@"\n')
        self.environment["C_INCLUDE_PATH"] = str(INCLUDE)
        self.environment["PYTHONWARNINGS"] = "ignore"  # of the packages that kernels are written for

    def go(self, blocks):
        for block, following in zip(blocks, [*blocks[1:], Block("", 0, "")]):
            if block.language in ("c", "cuda", "toml"):
                self.write(block)
                if block.language == "toml":
                    self.check_and_serve(block.text.split()[1])
            elif block.language == "python":
                self.run_python(block, following.text if following.language == "text" else "")
            elif block.language == "console":
                self.run_commands(block)
            elif block.language not in ("text", "sh"):  # plugin_test runs the commands that build an example
                self.test.fail(f"line {block.line}: nothing tests a block of {block.language or 'no language'!r}")

    def run_python(self, block, expected):
        if "Client(" in block.text:
            if self.daemon is not None:
                self.run_program(block, expected)
            return
        (self.folder / "program.py").write_text(block.text)  # Triton reads the source of a kernel
        done = self.run([sys.executable, "program.py"])
        self.compare(block.line, expected, done.stdout)
        kernel = re.search(r'^file +=\s*"(.*)"', expected, re.MULTILINE)[1]
        (self.folder / "exported.toml").write_text(
            f'{VERSION}[code]\nallow = ["."]\n[[pipeline]]\nname = "{kernel}"\ninput = {INPUTS[kernel]}\n{expected}')
        self.check_and_serve("exported.toml")

    def check_and_serve(self, configuration):
        text = (self.folder / configuration).read_text()
        kernels = len(re.findall(r'^op +=\s*"kernel"', text, re.MULTILINE))
        compiles = kernels > 0 or not compilers.missing(".cu")
        code, said = compilers.check(self.folder, configuration, "sm_90" if compiles else "")
        self.test.assertEqual(code, 0, said)
        self.test.assertGreaterEqual(len(LINKED.findall(said)), kernels, said)
        for name in re.findall(r'^\[\[pipeline\]\]\nname +=\s*"(.*)"', text, re.MULTILINE):
            self.test.assertIn(name, REFERENCES, "nothing compares this pipeline")
            compare, served_by = REFERENCES[name]
            for backend in (each for each in served_by if each in backends()):
                self.serve(configuration, backend)
                with penstock.Client(self.daemon.url) as client:
                    compare(self.test, client, name)

    def serve(self, configuration, backend):
        self.stop()
        files = {each.name: each.read_bytes() for each in self.folder.iterdir() if each.is_file()}
        text = (self.folder / configuration).read_text()
        self.daemon = Daemon(backend, "callback", text if "[sessions]" in text else text + MANY_SESSIONS, files)
        self.environment["PENSTOCK_URL"] = self.daemon.url


class StagesDocumentTest(unittest.TestCase):
    """A test for each part of the page that has blocks, and one for the README's."""


def missing_for(blocks):
    """Why this part can't be tested here; empty when it can."""
    reason = missing()
    if any(block.language == "cuda" for block in blocks):
        reason = reason or compilers.missing(".cu")
    if any(block.language == "c" for block in blocks):
        reason = reason or ("" if INCLUDE.exists() else f"there is no {INCLUDE}")
        reason = reason or ("" if shutil.which("cc") else "cc is not installed")
    exports = [block.text for block in blocks if "penstock.kernels" in block.text and block.language == "python"]
    for package, name in (("numba.cuda", "numba-cuda"), ("triton", "triton")):
        if any(re.search(rf"^(from|import) {package.split('.')[0]}\b", text, re.MULTILINE) for text in exports):
            found = importlib.util.find_spec(package.split(".")[0]) and importlib.util.find_spec(package)
            reason = reason or ("" if found else f"{name} is not installed") or compilers.missing(".ptx")
    return reason


def add_test(page, title, blocks):
    def test(self):
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            walkthrough = StagesWalkthrough(self, pathlib.Path(folder))
            try:
                walkthrough.go(blocks)
            finally:
                walkthrough.stop()
    name = "test_" + re.sub(r"\W+", "_", f"{page.stem} {title}".lower()).strip("_")
    reason = missing_for(blocks)
    setattr(StagesDocumentTest, name, unittest.skipIf(reason, reason)(test))


if "cuda" not in backends():
    print("without a GPU the kernels are compiled and not served", flush=True)
for part, its_blocks in parts_of(PAGE.read_text()) if PAGE.exists() else []:
    add_test(PAGE, part, its_blocks)
for part, its_blocks in parts_of(README.read_text()) if README.exists() else []:
    if part == README_PART:
        add_test(README, part, its_blocks)


if __name__ == "__main__":
    unittest.main()
