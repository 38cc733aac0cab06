#!/usr/bin/env python3
"""The server that one writes by hand in Python: a ROUTER that batches what has arrived and runs torch.

Usage: pyzmq_torch.py ENDPOINT [--device cuda] [--max-batch 256]

It computes one Hann power spectrum for frames of 1,024 samples (pipeline spectrum_1024) and of 65,536 (spectrum_65536).
"""

import argparse

import numpy as np
import torch

from router_server import Work, serve

LENGTHS = (1024, 65536)


class Spectrum(Work):
    """One length: a pinned buffer for a batch, and the window on the device."""

    def __init__(self, length, max_batch, device):
        super().__init__(f"spectrum_{length}", "spectrum", "power_spectrum", length, length // 2 + 1)
        self.device = device
        self.batch = torch.empty((max_batch, length), dtype=torch.float32, pin_memory=device == "cuda")
        self.rows = self.batch.numpy()
        self.window = torch.hann_window(length, device=device)

    def run(self, payloads):
        for row, payload in zip(self.rows, payloads):
            row[:] = np.frombuffer(payload, np.float32)
        x = self.batch[:len(payloads)].to(self.device, non_blocking=True)
        return torch.fft.rfft(x * self.window).abs().square().cpu().numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--max-batch", type=int, default=256)
    options = parser.parse_args()
    works = [Spectrum(length, options.max_batch, options.device) for length in LENGTHS]
    serve(options.endpoint, "pyzmq and torch", works, options.max_batch)


if __name__ == "__main__":
    main()
