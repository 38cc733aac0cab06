#!/usr/bin/env python3
"""The server that one writes by hand in Python: a ROUTER that batches what has arrived and runs torch.

Usage: pyzmq_torch.py ENDPOINT [--device cuda] [--max-batch 256]

It speaks enough of Penstock's protocol (proto/PROTOCOL.md) that `penstock bench` can load it: one Hann power spectrum
for frames of 1,024 samples (pipeline spectrum_1024) and of 65,536 (spectrum_65536).
"""

import argparse
import collections
import json
import struct

import numpy as np
import torch
import zmq

HEADER = struct.Struct("<4sBBHQQIIQHHI16s")
TENSOR = struct.Struct("<BBHB3xQ8q")
HELLO, WELCOME, PING, PONG, SUBMIT, RESULT = 1, 2, 4, 5, 16, 32
LENGTHS = (1024, 65536)


def header(kind, request_id, pipeline=0, frames=0, tensors=0):
    return HEADER.pack(b"PNSK", 1, kind, HEADER.size, request_id, 0, pipeline, 0, 0, tensors, 0, frames, bytes(16))


def tensor(name, op, length):
    return {"name": name, "dtype": "f32", "element": "f32", "shape": [length], "variable": False, "op": op}


def welcome():
    pipelines = [{"id": at, "name": f"spectrum_{length}", "max_frames": 1, "input": tensor("input", "", length),
                  "outputs": [tensor("spectrum", "power_spectrum", length // 2 + 1)]}
                 for at, length in enumerate(LENGTHS)]
    return json.dumps({"server": "pyzmq and torch", "instance": "1", "credit_requests": 1024,
                       "credit_bytes": 1 << 30, "max_request_bytes": 1 << 27, "pipelines": pipelines}).encode()


class Spectrum:
    """One length: a pinned buffer for a batch, and the window on the device."""

    def __init__(self, length, max_batch, device):
        self.device = device
        self.batch = torch.empty((max_batch, length), dtype=torch.float32, pin_memory=device == "cuda")
        self.rows = self.batch.numpy()
        self.window = torch.hann_window(length, device=device)
        bins = length // 2 + 1
        self.tensor = TENSOR.pack(2, 32, 1, 2, bins * 4, 1, bins, 0, 0, 0, 0, 0, 0)

    def run(self, payloads):
        for row, payload in zip(self.rows, payloads):
            row[:] = np.frombuffer(payload, np.float32)
        x = self.batch[:len(payloads)].to(self.device, non_blocking=True)
        return torch.fft.rfft(x * self.window).abs().square().cpu().numpy()


def serve(endpoint, device, max_batch):
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.set_hwm(0)
    socket.bind(endpoint)
    spectra = [Spectrum(length, max_batch, device) for length in LENGTHS]
    poller = zmq.Poller()
    poller.register(socket, zmq.POLLIN)
    waiting = collections.defaultdict(list)  # by pipeline: (client, request id, payload)
    while True:
        poller.poll()
        for _ in range(max_batch):
            try:
                parts = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            _, _, kind, _, request_id, _, pipeline, *_ = HEADER.unpack_from(parts[1])
            if kind == SUBMIT:
                waiting[pipeline].append((parts[0], request_id, parts[2]))
            elif kind == HELLO:
                socket.send_multipart([parts[0], header(WELCOME, request_id), welcome()])
            elif kind == PING:
                socket.send_multipart([parts[0], header(PONG, request_id)])
        for pipeline, requests in waiting.items():
            results = spectra[pipeline].run([payload for _, _, payload in requests])
            for (client, request_id, _), row in zip(requests, results):
                head = header(RESULT, request_id, pipeline, 1, 1) + spectra[pipeline].tensor
                socket.send_multipart([client, head, row], copy=False)
        waiting.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--max-batch", type=int, default=256)
    options = parser.parse_args()
    serve(options.endpoint, options.device, options.max_batch)


if __name__ == "__main__":
    main()
