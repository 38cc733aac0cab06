"""Users' code that takes the device with it is named, counted over restarts, and not served any more after three deaths
in a row.

On a CUDA runtime that needs no GPU and runs machine code of its own; with PENSTOCK_TEST_BACKENDS=cuda on a GPU, with
kernels that NVRTC compiles."""

import json
import os
import signal
import subprocess
import unittest

import numpy as np
from penstock import Client, PenstockError

from daemon_process import BIN, Daemon
from fake_cuda import FAKE_CUDA, FakeCuda, Kind, cubin

ON_GPU = os.environ.get("PENSTOCK_TEST_BACKENDS") == "cuda"
FILE = "bad.cu" if ON_GPU else "bad.cubin"
LOST, CONFIGURATION, UNAVAILABLE = 75, 78, 69
FAULTS, NEVER_ENDS = 666.0, 777.0  # values at which the fake kernel does
SUSPECT = "suspect: stage 'gain' of pipeline 'bad'"
HEAD = """config_version = 1
[device]
slots = 4
streams = 2
hang_timeout = "2s"
[shared_memory]
max_bytes = 0
[code]
allow = ["."]
cache = ""
"""
# Faults that the proof before a start would find.
UNPROVEN = HEAD + "proof = false\n"
GOOD = """
[[pipeline]]
name = "good"
input = { dtype = "f32", shape = [8] }
[[pipeline.stage]]
name = "twice"
op = "affine"
a = 2.0
"""


def kernel(name, file, more=""):
    return f"""
[[pipeline]]
name = "{name}"
input = {{ dtype = "f32", shape = [8] }}
batch = {{ max_frames = 4 }}
[[pipeline.stage]]
name = "gain"
op = "kernel"
file = "{file}"
grid = ["frames"]
block = [8]
args = ["in", "out", "frames", "n0"]
{more}
"""


SOURCE = """extern "C" __global__ void gain(const float* in, float* out, long long frames, long long n0) {{
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= frames * n0) {{
    return;
  }}
  if ({faults}) {{
    *reinterpret_cast<volatile int*>(8) = 1;
  }}
  while ({never}) {{
    __nanosleep(1000);
  }}
  out[i] = {factor} * in[i];
}}
"""


def code(text):
    """A file of a kernel: "scale 3", "fault" or "never", as in fake_machine.hpp."""
    if not ON_GPU:
        return cubin({"gain": text})
    volatile = "*static_cast<const volatile float*>(in + i) == {}.0f"
    return SOURCE.format(factor=text.removeprefix("scale ") if text.startswith("scale") else 1,
                         faults="true" if text == "fault" else volatile.format(int(FAULTS)),
                         never="clock64() != 0" if text == "never" else volatile.format(int(NEVER_ENDS))).encode()


class KernelDaemon(Daemon):
    """A daemon on the fake device, which is started again by the test, as systemd would."""

    def __init__(self, text, files, completion="callback"):
        self.cuda = None if ON_GPU else FakeCuda()
        super().__init__("cuda", completion, text, files, environment={} if ON_GPU else self.cuda.environment)

    def start(self):
        self.environment = {**self.environment, "STATE_DIRECTORY": str(self.path)}
        super().start()

    def attempt(self):
        """The exit code of a start that fails."""
        before = self.log.stat().st_size
        with open(self.log, "a") as log:
            done = subprocess.run([BIN / "penstockd", "--config", self.path / "penstock.toml", "--listen", self.url,
                                   "--admin", self.admin, "--backend", "cuda"], stdout=log, stderr=log, timeout=60,
                                  env={**os.environ, **self.environment})
        self.said = self.log.read_text()[before:]
        return done.returncode

    def code(self):
        """Its exit code, which comes by itself."""
        return self.process.wait(60)

    def write(self, name, content):
        (self.path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def suspects(self):
        file = self.path / "suspects.json"
        return {each["pipeline"]: each["deaths"] for each in json.loads(file.read_text())["suspects"]}


def frame(value=1.0):
    return np.full(8, value, dtype=np.float32)


@unittest.skipUnless(ON_GPU or FAKE_CUDA.exists(), f"{FAKE_CUDA.name} is built where CUDA's headers are")
class Quarantine(unittest.TestCase):

    def setUp(self):
        self.daemon = None

    def tearDown(self):
        if self.daemon is not None:
            if self.daemon.process.poll() is None:
                self.daemon.process.kill()
                self.daemon.process.wait()
            self.daemon.folder.cleanup()

    def begin(self, text=HEAD + GOOD + kernel("bad", FILE), completion="callback", **files):
        files = {"bad": "scale 3", **files}
        self.daemon = KernelDaemon(text, {FILE.replace("bad", name): code(each) for name, each in files.items()},
                                   completion)
        return self.daemon

    def kill(self, value=FAULTS):
        """A request that takes the device with it."""
        with Client(self.daemon.url) as client:
            with self.assertRaises(PenstockError):
                client.submit("bad", frame(value), timeout=5).result(20)
        self.assertEqual(self.daemon.code(), LOST, self.daemon.log.read_text())

    def expect_quarantine(self):
        with Client(self.daemon.url) as client:
            np.testing.assert_array_equal(client.submit("good", frame()).result(20)["twice"], frame(2))
            with self.assertRaisesRegex(LookupError, "pipeline 'bad' is in quarantine: the device was lost 3 times"):
                client.submit("bad", frame())
            self.assertEqual(list(client.pipelines), ["good"])

    def test_a_kernel_works_as_an_operator_does(self):
        self.begin(completion="poll")
        with Client(self.daemon.url) as client:
            futures = [client.submit("bad", frame(each)) for each in range(50)]
            for each, future in enumerate(futures):
                np.testing.assert_array_equal(future.result(20)["gain"], frame(3 * each))
        if not ON_GPU:
            self.assertEqual(self.daemon.cuda.libraries, 1)

    def test_three_deaths_in_a_row_end_in_quarantine(self):
        self.begin()
        for deaths in (1, 2, 3):
            self.kill()
            self.assertEqual(self.daemon.suspects(), {"bad": deaths})
            self.daemon.start()
        log = self.daemon.log.read_text()
        self.assertIn("device lost: cudaErrorIllegalAddress; " + SUSPECT, log)
        self.assertIn("death 2 in a row", log)
        self.assertIn("not served: pipeline 'bad' is in quarantine", log)
        self.expect_quarantine()
        status = self.daemon.counters()["status"]
        self.assertEqual([(each["pipeline"], each["stages"], each["deaths"]) for each in status["quarantine"]],
                         [("bad", "stage 'gain'", 3)])
        self.assertIn("not served: pipeline 'bad' is in quarantine", self.daemon.cli("info").stdout)
        refused = self.daemon.cli("bench", "-p", "bad", "--duration", "1s", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("pipeline 'bad' is in quarantine", refused.stderr)
        self.assertIn("penstock_quarantined_pipelines 1", self.daemon.ask("/metrics")[1])

    def test_another_file_ends_the_quarantine(self):
        self.begin()
        for _ in range(3):
            self.kill()
            self.daemon.start()
        self.daemon.write(FILE, code("scale 5"))
        status, said = self.daemon.ask_for_reload()
        self.assertEqual(status, 200, said)
        with Client(self.daemon.url) as client:
            np.testing.assert_array_equal(client.submit("bad", frame()).result(20)["gain"], frame(5))

    def test_removing_the_file_of_suspects_ends_the_quarantine(self):
        self.begin()
        for _ in range(3):
            self.kill()
            self.daemon.start()
        (self.daemon.path / "suspects.json").unlink()
        self.assertEqual(self.daemon.ask_for_reload()[0], 200)
        with Client(self.daemon.url) as client:
            np.testing.assert_array_equal(client.submit("bad", frame()).result(20)["gain"], frame(3))

    def test_a_kernel_that_never_ends_is_named(self):
        self.begin()
        for _ in range(3):
            self.kill(NEVER_ENDS)
            self.daemon.start()
        self.assertIn("device lost: a batch hangs of pipeline 'bad'; " + SUSPECT, self.daemon.log.read_text())
        self.expect_quarantine()

    def test_a_kernel_that_faults_at_once_is_counted_at_the_start(self):
        self.begin(UNPROVEN + GOOD + kernel("bad", FILE))
        self.assertEqual(self.daemon.end(), 0)
        self.daemon.write(FILE, code("fault"))
        for deaths in (1, 2, 3):
            self.assertEqual(self.daemon.attempt(), UNAVAILABLE, self.daemon.said)
            self.assertIn("pipeline 'bad': the first launch failed", self.daemon.said)
            self.assertEqual(self.daemon.suspects(), {"bad": deaths})
        self.daemon.start()
        self.expect_quarantine()

    def test_a_kernel_that_never_ends_at_once_is_counted_at_the_start(self):
        self.begin(UNPROVEN + GOOD + kernel("bad", FILE))
        self.assertEqual(self.daemon.end(), 0)
        self.daemon.write(FILE, code("never"))
        self.assertEqual(self.daemon.attempt(), LOST, self.daemon.said)
        self.assertIn("pipeline 'bad' is run for the first time and does not end: stage 'gain'", self.daemon.said)
        self.assertEqual(self.daemon.suspects(), {"bad": 1})

    def test_a_reload_whose_kernel_never_ends_drains_the_daemon(self):
        self.begin(UNPROVEN + GOOD + kernel("bad", FILE))
        self.daemon.write(FILE, code("never"))
        self.daemon.process.send_signal(signal.SIGHUP)
        with Client(self.daemon.url) as client:
            np.testing.assert_array_equal(client.submit("good", frame()).result(20)["twice"], frame(2))
        self.assertEqual(self.daemon.code(), LOST, self.daemon.log.read_text())
        self.assertEqual(self.daemon.suspects(), {"bad": 1})

    def test_a_reload_that_kills_the_device_is_counted(self):
        self.begin(UNPROVEN + GOOD + kernel("bad", FILE))
        self.daemon.write(FILE, code("fault"))
        self.daemon.process.send_signal(signal.SIGHUP)
        self.assertEqual(self.daemon.code(), LOST, self.daemon.log.read_text())
        self.assertEqual(self.daemon.suspects(), {"bad": 1})

    def test_the_proof_finds_a_kernel_that_faults_or_never_ends_at_once(self):
        self.begin()
        self.daemon.write(FILE, code("fault"))
        self.assertEqual(self.daemon.ask_for_reload()[0], 422)
        with Client(self.daemon.url) as client:
            np.testing.assert_array_equal(client.submit("bad", frame()).result(20)["gain"], frame(3))
        self.assertEqual(self.daemon.end(), 0)
        self.assertEqual(self.daemon.attempt(), CONFIGURATION, self.daemon.said)
        self.assertIn("stage 'gain', field 'file': on made-up frames: fails: cuda", self.daemon.said)
        self.assertFalse((self.daemon.path / "suspects.json").exists())

    def test_pipelines_that_were_not_with_the_device_are_no_suspects(self):
        self.begin(HEAD + GOOD + kernel("bad", FILE) + kernel("idle", FILE.replace("bad", "idle")), idle="scale 1")
        self.kill()
        self.assertEqual(self.daemon.suspects(), {"bad": 1})

    @unittest.skipIf(ON_GPU, "the fake runtime fails on request")
    def test_a_loss_without_users_code_names_nobody(self):
        self.begin()
        self.daemon.cuda.arm(1, Kind.STICKY)
        with Client(self.daemon.url) as client:
            with self.assertRaises(PenstockError):
                client.submit("good", frame(), timeout=5).result(20)
        self.assertEqual(self.daemon.code(), LOST)
        self.assertNotIn("suspect", self.daemon.log.read_text())

    def test_the_daemon_does_not_start_without_any_pipeline(self):
        self.begin(HEAD + kernel("bad", FILE))
        for _ in range(2):
            self.kill()
            self.daemon.start()
        self.kill()
        self.assertEqual(self.daemon.attempt(), CONFIGURATION)
        self.assertIn("no pipeline is left to serve: pipeline 'bad' is in quarantine", self.daemon.said)

    def test_a_file_of_suspects_that_is_none_is_left_out(self):
        self.begin()
        self.assertEqual(self.daemon.end(), 0)
        for text in ("", "{", '{"suspects": [{}]}', "[]"):
            self.daemon.write("suspects.json", text)
            self.daemon.start()
            self.assertEqual(self.daemon.end(), 0)
        self.assertIn("so no pipeline is in quarantine", self.daemon.log.read_text())
        self.daemon.start()


if __name__ == "__main__":
    unittest.main()
