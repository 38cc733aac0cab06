#!/usr/bin/env python3
"""The server that one writes by hand around a CUDA kernel: a ROUTER of pyzmq and a RawModule of CuPy.

Usage: pyzmq_cupy.py ENDPOINT KERNEL.cu [--max-batch 256] [--device cuda]

KERNEL.cu has `kernel(const float* in, float* out, long long count, float a, float b)`. The pipeline "kernel" takes
frames of 1,024 floats. With --max-batch 1 each request is copied, computed and answered before the next is read.
--device cpu computes a x + b with numpy.
"""

import argparse
import pathlib

import numpy as np

from router_server import Work, serve

LENGTH = 1024
A, B = np.float32(0.5), np.float32(0.25)


class OnDevice(Work):
    """Pinned buffers and device memory are there before the first request, and reused."""

    def __init__(self, source, max_batch):
        import cupy
        import cupyx
        super().__init__("kernel", "kernel", "kernel", LENGTH, LENGTH)
        self.kernel = cupy.RawModule(code=source).get_function("kernel")
        self.taken, self.given = (cupyx.empty_pinned((max_batch, LENGTH), np.float32) for _ in range(2))
        self.x, self.y = (cupy.empty((max_batch, LENGTH), np.float32) for _ in range(2))
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def run(self, payloads):
        frames = len(payloads)
        for row, payload in zip(self.taken, payloads):
            row[:] = np.frombuffer(payload, np.float32)
        count = frames * LENGTH
        with self.stream:
            self.x[:frames].set(self.taken[:frames])
            self.kernel(((count // 4 + 255) // 256,), (256,), (self.x, self.y, np.int64(count), A, B))
            self.y[:frames].get(out=self.given[:frames], blocking=False)
        self.stream.synchronize()
        return self.given[:frames].copy()  # ZeroMQ sends it later


class OnHost(Work):
    """Shows that the server works where there is no GPU."""

    def __init__(self):
        super().__init__("kernel", "kernel", "kernel", LENGTH, LENGTH)

    def run(self, payloads):
        return np.stack([np.frombuffer(each, np.float32) for each in payloads]) * A + B


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("kernel", type=pathlib.Path)
    parser.add_argument("--max-batch", type=int, default=256)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args()
    work = OnDevice(options.kernel.read_text(), options.max_batch) if options.device == "cuda" else OnHost()
    serve(options.endpoint, "pyzmq and cupy", [work], options.max_batch)


if __name__ == "__main__":
    main()
