#!/usr/bin/env python3
"""Measures products whose weights stay in host memory, in turns with cublasXtSgemm called in a loop.

Usage: massive.py [--bin build/release/bin] [--part compare,beyond] [--rounds 5] [--seconds 2] [--folder /dev/shm]

  compare  products a second of a stage with engine = "xt" and of one with weights_in = "host", over those of
           cublasXtSgemm with the same matrices in pinned memory: of few rows, where the link holds it, and of many,
           where the GPU does
  beyond   one product whose weights are larger than the GPU's memory, checked in float64 on some rows and columns.
           Where the machine has too little memory for such weights, another process holds most of the GPU's: its output
           says so

Weights lie in a file in --folder, which the daemon pins where they are. It takes about 4 GiB there for `compare`, and 6 %
more than the GPU has for `beyond`. It needs Python with numpy and pyzmq, cuBLAS (PENSTOCK_CUBLAS may name it) and the
CUDA runtime (PENSTOCK_CUDART may name it). --tiny shows on any GPU that the script works.
"""

import argparse
import concurrent.futures
import ctypes
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "client/python/src"))

PATTERN_ROWS = 1021  # a prime: no tile is like another
ITEM = 4
SUCCESS = 0
PORTABLE = 1
WANTED_OF_BARE, WANTED_OF_XT = 0.95, 1.0


def open_library(variable, *names):
    folders = ["", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/"]
    for name in [os.environ[variable]] if variable in os.environ else [f + n for f in folders for n in names]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    sys.exit(f"{names[0]} was not found: set {variable} to its path")


class Cuda:
    """Memory of the GPU, and memory that is pinned."""

    def __init__(self):
        self._runtime = open_library("PENSTOCK_CUDART", "libcudart.so.13", "libcudart.so.12", "libcudart.so")

    def call(self, name, *arguments):
        result = getattr(self._runtime, name)(*arguments)
        if result != SUCCESS:
            raise RuntimeError(f"{name}: error {result}")

    def memory(self):
        """Free bytes and all bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def hold(self, size):
        self.call("cudaMalloc", ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size))

    def pinned(self, shape):
        count = int(np.prod(shape))
        place = ctypes.c_void_p()
        self.call("cudaHostAlloc", ctypes.byref(place), ctypes.c_size_t(count * ITEM), ctypes.c_uint(PORTABLE))
        return np.ctypeslib.as_array(ctypes.cast(place, ctypes.POINTER(ctypes.c_float)), (count,)).reshape(shape)

    def pin(self, array):
        self.call("cudaHostRegister", ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes),
                  ctypes.c_uint(PORTABLE))


class Weights:
    """A matrix [inner, columns] in a .npy file. Row k is row k % PATTERN_ROWS of a random pattern."""

    def __init__(self, folder, inner, columns):
        self.inner, self.columns, self.path = inner, columns, pathlib.Path(folder) / "w.npy"
        self.pattern = np.random.default_rng(1).standard_normal((PATTERN_ROWS, columns), dtype=np.float32)
        with open(self.path, "wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False,
                                                        "shape": (inner, columns)})
            self._begin = file.tell()
            os.ftruncate(file.fileno(), self._begin + inner * columns * ITEM)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:  # pwrite lets go of the interpreter
                list(threads.map(lambda first: self._write(file.fileno(), first), range(0, inner, PATTERN_ROWS)))

    def _write(self, file, first):
        rows = min(PATTERN_ROWS, self.inner - first)
        left = memoryview(self.pattern[:rows]).cast("B")
        at = self._begin + first * self.columns * ITEM
        while left:
            written = os.pwrite(file, left[:1 << 30], at)
            left, at = left[written:], at + written

    @property
    def bytes(self):
        return self.inner * self.columns * ITEM

    def mapped(self):
        with open(self.path, "r+b") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0), np.float32, offset=self._begin).reshape(
                self.inner, self.columns)

    def column(self, index):
        return self.pattern[np.arange(self.inner) % PATTERN_ROWS, index].astype(np.float64)

    def check(self, x, out):
        """The largest error of some rows and columns, as a part of what an f32 product may have."""
        random, worst = np.random.default_rng(2), 0.0
        for column in random.integers(0, self.columns, 8):
            weights = self.column(column)
            for row in random.integers(0, len(x), 8):
                terms = x[row].astype(np.float64) * weights
                allowed = 1e-6 * np.sqrt(self.inner) * np.sqrt(np.sum(terms**2))
                worst = max(worst, abs(float(out[row, column]) - terms.sum()) / allowed)
        return worst


def bare(path, rows, inner, columns):
    """The process that calls cublasXtSgemm: for each number n on its input it says how long n calls took."""
    cuda, library = Cuda(), open_library("PENSTOCK_CUBLAS", "libcublas.so.13", "libcublas.so.12", "libcublas.so")
    handle, device = ctypes.c_void_p(), (ctypes.c_int * 1)(0)
    with open(path, "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    begin = len(mapped) - inner * columns * ITEM
    weights = np.frombuffer(mapped, np.float32, offset=begin)
    cuda.pin(weights)
    x, out = cuda.pinned((rows, inner)), cuda.pinned((rows, columns))
    x[:] = np.random.default_rng(3).standard_normal(inner, dtype=np.float32)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    if library.cublasXtCreate(ctypes.byref(handle)) or library.cublasXtDeviceSelect(handle, 1, device):
        sys.exit("cuBLAS-Xt can't be initialised")
    arguments = (handle, 0, 0, ctypes.c_size_t(columns), ctypes.c_size_t(rows), ctypes.c_size_t(inner),
                 ctypes.byref(one), ctypes.c_void_p(weights.ctypes.data), ctypes.c_size_t(columns),
                 ctypes.c_void_p(x.ctypes.data), ctypes.c_size_t(inner), ctypes.byref(zero),
                 ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(columns))
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        for _ in range(int(line)):
            result = library.cublasXtSgemm(*arguments)
            if result:
                sys.exit(f"cublasXtSgemm: error {result}")
        print(time.perf_counter() - begin, flush=True)


class Bare:
    """cublasXtSgemm in a loop."""
    name = "cublasXtSgemm"

    def __init__(self, weights, rows):
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--bare", weights.path, str(rows), str(weights.inner), str(weights.columns)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._process.stdout.readline() != "ready\n":
            sys.exit("the process that calls cuBLAS-Xt does not start")

    def run(self, count):
        """Seconds of so many products."""
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def stop(self):
        self._process.stdin.close()
        self._process.wait()


class Daemon:
    """A penstockd with a stage of one kind, and a client on shared memory that keeps two requests in flight."""

    def __init__(self, options, weights, rows, kind):
        from penstock import Client
        self.name = {"xt": 'engine = "xt"', "host": 'weights_in = "host"'}[kind]
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-")
        folder = pathlib.Path(self._folder.name)
        frame = rows * (weights.inner + weights.columns) * ITEM
        room = 3 * frame + (64 << 20)
        (folder / "w.npy").symlink_to(weights.path)
        (folder / "penstock.toml").write_text(f"""config_version = 1
[device]
slots = 3
streams = 2
hang_timeout = "5m"
[clients]
max_request_bytes = "{max(frame >> 20, 64) + 1} MiB"
credit_bytes = "{(4 * frame >> 20) + 64} MiB"
reply_queue_bytes = "{(4 * frame >> 20) + 64} MiB"
[shared_memory]
max_bytes = "{room >> 20} MiB"
max_client_bytes = "{room >> 20} MiB"
[[pipeline]]
name = "product"
input = {{ dtype = "f32", shape = [{rows}, {weights.inner}] }}
batch = {{ max_frames = 1, max_bytes = "{(frame >> 20) + 1} MiB" }}
[[pipeline.stage]]
name = "layer"
op = "matmul"
weights = "w.npy"
{self.name}
""")
        self._log = folder / "log"
        begin = time.monotonic()
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                [options.bin / "penstockd", "--config", folder / "penstock.toml", "--listen", f"ipc://{folder}/data",
                 "--admin", "none", "--backend", options.backend, "--completion", "callback"], stdout=log, stderr=log)
        while "ready: " not in self._log.read_text():
            if self._process.poll() is not None:
                sys.exit(f"the daemon does not start:\n{self._log.read_text()}")
            time.sleep(0.05)
        print(f"  {self.name}: ready after {time.monotonic() - begin:.1f} s; " + " ".join(
            line.split("stage 'layer': ")[1] for line in self._log.read_text().splitlines() if "stage 'layer': " in line))
        self._client = Client(f"ipc://{folder}/data", transport="shm", timeout=600, shared_bytes=room,
                              shared_at_first=room)
        self.inputs = [self._client.frames("product") for _ in range(2)]
        random = np.random.default_rng(3)
        for each in self.inputs:
            for row in each:
                row[:] = random.standard_normal(weights.inner, dtype=np.float32)

    def result(self):
        return self._client.submit("product", self.inputs[0]).result()["layer"]

    def run(self, count):
        """Seconds of so many products."""
        begin, waiting = time.perf_counter(), []
        for each in range(count):
            if len(waiting) == 2:
                waiting.pop(0).result()
            waiting.append(self._client.submit("product", self.inputs[each % 2]))
        for future in waiting:
            future.result()
        return time.perf_counter() - begin

    def stop(self):
        if self._client.large_requests["zmq"]:
            print(f"  {self.name}: NOT COMPARABLE, these requests went through the socket: "
                  f"{self._client.large_requests}")
        self._client.close()
        self._process.terminate()
        self._process.wait()
        print("".join(f"  daemon: {line}\n" for line in self._log.read_text().splitlines() if "warn" in line), end="")
        self._folder.cleanup()


def verdict(value, wanted):
    return f"{value:.3f} (at least {wanted:g} wanted: {'yes' if value >= wanted else 'NO'})"


def compare(options, rows, inner, columns):
    print(f"compare: [{rows}, {inner}] x [{inner}, {columns}], weights of {inner * columns * ITEM / 1e9:.2f} GB")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="penstock-") as folder:
        weights = Weights(folder, inner, columns)
        contenders = [Bare(weights, rows), Daemon(options, weights, rows, "xt"), Daemon(options, weights, rows, "host")]
        try:
            for each in contenders[1:]:
                print(f"  {each.name}: error {weights.check(each.inputs[0], each.result()):.3f} of what is allowed")
            counts = [max(2, int(options.seconds / each.run(1))) for each in contenders]
            rounds = [[each.run(count) / count for each, count in zip(contenders, counts)]
                      for _ in range(options.rounds)]
            seconds = [statistics.median(column) for column in zip(*rounds)]
            for each, took in zip(contenders, seconds):
                flops = 2 * rows * inner * columns / took
                print(f"  {each.name}: {1e3 * took:.1f} ms a product, {flops / 1e12:.1f} TFLOP/s, weights at "
                      f"{weights.bytes / took / 1e9:.1f} GB/s")
            ratios = [[round_[0] / each for each in round_[1:]] + [round_[1] / round_[2]] for round_ in rounds]
            xt, _, over_xt = (statistics.median(column) for column in zip(*ratios))
            print(f"  engine = \"xt\" over cublasXtSgemm: {verdict(xt, WANTED_OF_BARE)}")
            print(f"  weights_in = \"host\" over engine = \"xt\": {verdict(over_xt, WANTED_OF_XT)}", flush=True)
        finally:
            for each in contenders:
                each.stop()


def hold(size):
    """The process that holds memory of the GPU until its input ends."""
    Cuda().hold(int(size))
    print("ready", flush=True)
    sys.stdin.read()


def beyond(options):
    free, total = (int(each) for each in subprocess.run([sys.executable, __file__, "--memory"], text=True, check=True,
                                                        capture_output=True).stdout.split())
    available = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemAvailable"))) << 10
    place = os.statvfs(options.folder)
    room = min(available - (12 << 30), place.f_bavail * place.f_frsize)
    columns, rows = (65536, 256) if not options.tiny else (4096, 64)
    wanted = int(1.06 * total) if not options.tiny else 1 << 30
    held = 0
    if options.tiny or wanted > room:
        wanted = min(wanted, room // 3)
        held = max(free - int(0.8 * wanted), 0)
        print(f"beyond: this machine has room for {room / 1e9:.0f} GB of weights and the GPU has {total / 1e9:.0f} GB, so "
              f"ANOTHER PROCESS HOLDS {held / 1e9:.1f} GB OF THE GPU; {(free - held) / 1e9:.1f} GB are free")
    inner = wanted // (columns * ITEM)
    print(f"beyond: [{rows}, {inner}] x [{inner}, {columns}], weights of {inner * columns * ITEM / 1e9:.2f} GB, a GPU of "
          f"{total / 1e9:.2f} GB, {(free - held) / 1e9:.2f} GB of it free", flush=True)
    begin = time.monotonic()
    hog = subprocess.Popen([sys.executable, __file__, "--hold", str(held)], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True) if held else None
    if hog is not None and hog.stdout.readline() != "ready\n":
        sys.exit("the GPU's memory can't be held")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="penstock-") as folder:
        weights = Weights(folder, inner, columns)
        print(f"  weights written after {time.monotonic() - begin:.1f} s", flush=True)
        seconds = {}
        for kind in ("host", "xt"):
            daemon = Daemon(options, weights, rows, kind)
            try:
                error = weights.check(daemon.inputs[0], daemon.result())
                seconds[kind] = daemon.run(3) / 3
                print(f"  {daemon.name}: {seconds[kind]:.2f} s a product, weights at "
                      f"{weights.bytes / seconds[kind] / 1e9:.1f} GB/s, error {error:.3f} of what is allowed"
                      f" ({'right' if error <= 1 else 'WRONG'})", flush=True)
            finally:
                daemon.stop()
        loop = Bare(weights, rows)
        loop.run(1)
        alone = loop.run(2) / 2
        loop.stop()
        print(f"  cublasXtSgemm: {alone:.2f} s a product")
        print(f"  engine = \"xt\" over cublasXtSgemm: {verdict(alone / seconds['xt'], WANTED_OF_BARE)}")
        print(f"  weights_in = \"host\" over engine = \"xt\": {verdict(seconds['xt'] / seconds['host'], WANTED_OF_XT)}")
    if hog is not None:
        hog.stdin.close()
        hog.wait()
    print(f"  all of it took {time.monotonic() - begin:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--part", default="compare,beyond")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--bare", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    if options.bare:
        bare(options.bare[0], *map(int, options.bare[1:]))
    elif options.hold:
        hold(options.hold)
    elif options.memory:
        print(*Cuda().memory())
    else:
        if "compare" in options.part:
            for rows in (64, 256) if options.tiny else (512, 4096):
                compare(options, rows, *((512, 1024) if options.tiny else (16384, 65536)))
        if "beyond" in options.part:
            beyond(options)


if __name__ == "__main__":
    main()
