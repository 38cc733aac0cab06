"""Kernels change under load: no request fails, no result is of another kernel than those that are there, and what the
daemon holds stays the same.

On the fake CUDA runtime, or with PENSTOCK_TEST_BACKENDS=cuda on a GPU, where NVRTC compiles each kernel.
PENSTOCK_RELOADS says how many reloads (default 200). A GPU takes some tenths of a second to prove a new kernel, so there
the same 40 come again and again, out of the cache.
"""

import collections
import json
import os
import pathlib
import tempfile
import threading
import time
import unittest

import numpy as np
from penstock import Client

from daemon_process import Daemon, backends
from fake_cuda import FAKE_CUDA, FakeCuda, cubin

RELOADS = int(os.environ.get("PENSTOCK_RELOADS", "200"))
ON_GPU = "cuda" in backends()
FILE = "gain.cu" if ON_GPU else "gain.cubin"
KERNELS = 40 if ON_GPU else RELOADS + 2
IN_FLIGHT, LENGTH = 16, 256
TEXT = f"""config_version = 1
[device]
slots = 8
streams = 4
[code]
allow = ["."]
cache = "{"auto" if ON_GPU else ""}"
[[pipeline]]
name = "changes"
input = {{ dtype = "f32", shape = [{LENGTH}] }}
batch = {{ max_frames = 16 }}
[[pipeline.stage]]
name = "gain"
op = "kernel"
file = "{FILE}"
grid = ["ceil(frames * n0 / 256)"]
block = [256]
args = ["in", "out", "frames", "n0"]
[[pipeline]]
name = "stays"
input = {{ dtype = "f32", shape = [{LENGTH}] }}
batch = {{ max_frames = 16 }}
[[pipeline.stage]]
name = "twice"
op = "affine"
a = 2.0
"""


def kernel(factor):
    if not ON_GPU:
        return cubin({"gain": f"scale {factor}"})
    return f"""extern "C" __global__ void gain(const float* in, float* out, long long frames, long long n0) {{
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < frames * n0) {{
    out[i] = {factor}.0f * in[i];
  }}
}}
""".encode()


class Load:
    """A client that keeps requests of a pipeline in flight."""

    def __init__(self, url, pipeline, output):
        self.pipeline, self.output = pipeline, output
        self.factors, self.wrong = collections.Counter(), []
        self._client, self._stopping = Client(url), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        waiting = collections.deque()
        frame = np.arange(1, LENGTH + 1, dtype=np.float32)
        while not self._stopping.is_set() or waiting:
            while len(waiting) < IN_FLIGHT and not self._stopping.is_set():
                waiting.append(self._client.submit(self.pipeline, frame))
            try:
                result = waiting.popleft().result(60)[self.output]
            except Exception as error:  # each is one too many
                self.wrong.append(repr(error))
                continue
            factor = float(result[0])
            self.factors[factor] += 1
            if not np.array_equal(result, factor * frame):
                self.wrong.append(f"a result of no one kernel: {result}")

    def stop(self):
        self._stopping.set()
        self._thread.join()
        self._client.close()


def resident_bytes(process):
    return int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@unittest.skipUnless(ON_GPU or FAKE_CUDA.exists(), f"{FAKE_CUDA.name} is built where CUDA's headers are")
class KernelReload(unittest.TestCase):

    def setUp(self):
        self.cuda = None if ON_GPU else FakeCuda()
        cache = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(cache.cleanup)
        self.daemon = Daemon("cuda", "callback", TEXT, {FILE: kernel(1)},
                             environment={"XDG_CACHE_HOME": cache.name} if ON_GPU else self.cuda.environment)
        self.addCleanup(self.end)

    def end(self):
        if self.daemon.process.poll() is None:
            self.daemon.process.kill()
            self.daemon.process.wait()
        self.daemon.folder.cleanup()

    def reload(self, factor):
        part = self.daemon.path / "part"
        part.write_bytes(kernel((factor - 1) % KERNELS + 1))
        part.rename(self.daemon.path / FILE)
        status, said = self.daemon.ask_for_reload()
        self.assertEqual((status, said.get("changed")), (200, True), said)

    def held(self):
        """What the daemon holds: of the host, and of the device by its own count."""
        shard = json.loads(self.daemon.ask("/api/v1/status")[1])["shards"][0]
        return resident_bytes(self.daemon.process.pid), shard["device"]["memory_bytes"], shard["device"]["pinned_bytes"]

    def settle(self, libraries):
        """Waits until replaced kernels are gone."""
        until = time.monotonic() + 60
        while self.cuda is not None and self.cuda.libraries > libraries and time.monotonic() < until:
            time.sleep(0.1)
        if self.cuda is not None:
            self.assertEqual(self.cuda.libraries, libraries)

    def test_kernels_that_change_under_load_fail_no_request(self):
        loads = [Load(self.daemon.url, "changes", "gain"), Load(self.daemon.url, "stays", "twice")]
        try:
            warm = max(RELOADS // 5, 10)
            for factor in range(2, warm):
                self.reload(factor)
            before = self.held()
            most_libraries = 0
            for factor in range(warm, RELOADS + 2):
                self.reload(factor)
                most_libraries = max(most_libraries, self.cuda.libraries if self.cuda else 0)
        finally:
            for load in loads:
                load.stop()
        self.settle(1)
        changes, stays = loads
        self.assertEqual(changes.wrong + stays.wrong, [])
        self.assertLessEqual(set(changes.factors), set(map(float, range(1, RELOADS + 2))))
        self.assertGreater(len(changes.factors), min(RELOADS // 4, 20))
        self.assertEqual(set(stays.factors), {2.0})
        after = self.held()
        self.assertEqual(after[1:], before[1:])
        # A heap that many threads share has its ups and downs.
        self.assertLess(after[0] - before[0], 16 << 20, f"{before} → {after}")
        self.assertLess(most_libraries, 100)  # what half a second of reloads leaves, on a fast machine
        print(f"{RELOADS} reloads, {sum(changes.factors.values())} requests of changing kernels, at most "
              f"{most_libraries} libraries at once, resident {before[0] >> 20} → {after[0] >> 20} MiB")


if __name__ == "__main__":
    unittest.main()
