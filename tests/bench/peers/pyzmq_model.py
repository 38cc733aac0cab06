#!/usr/bin/env python3
"""The server that one writes by hand for a model of PyTorch: a ROUTER that batches what has arrived, and torch in eager
mode. Its models are those of ../models.py.

Usage: pyzmq_model.py ENDPOINT [--device cuda] [--max-batch 256] [--only convnet,vad]
"""

import argparse
import pathlib
import sys

import numpy as np
import torch

from router_server import Work, serve

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from models import MODELS  # noqa: E402

MAX_SESSIONS = 16384


class Model(Work):
    """A pinned buffer for a batch, and the states of all sessions on the device."""

    def __init__(self, name, max_batch, device):
        model = MODELS[name]
        super().__init__(name, name, "model", model.length, model.results, model.element, bool(model.state))
        self.model, self.device, self.module = model, device, model.module().to(device)
        kind = torch.int16 if model.element == "i16" else torch.float32
        self.batch = torch.empty((max_batch, model.length), dtype=kind, pin_memory=device == "cuda")
        self.rows = self.batch.numpy()
        self.states = [torch.zeros((MAX_SESSIONS, size), device=device) for size in model.state.values()]

    @torch.inference_mode()
    def run(self, payloads, sessions=()):
        for row, payload in zip(self.rows, payloads):
            row[:] = np.frombuffer(payload, self.rows.dtype)
        x = self.batch[:len(payloads)].to(self.device, non_blocking=True)
        if self.model.element == "i16":
            x = x.float() / 32768
        if not self.states:
            return self.module(x).cpu().numpy()
        at = torch.tensor(sessions).to(self.device, non_blocking=True)
        y, *states = self.module(x, *(each[at] for each in self.states))
        for each, new in zip(self.states, states):
            each[at] = new
        return y.cpu().numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--max-batch", type=int, default=256)
    parser.add_argument("--only", default=",".join(MODELS))
    options = parser.parse_args()
    works = [Model(name, options.max_batch, options.device) for name in options.only.split(",")]
    serve(options.endpoint, "pyzmq and torch", works, options.max_batch)


if __name__ == "__main__":
    main()
