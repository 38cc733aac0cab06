"""A daemon that shares memory, and what the tests of that need."""

import contextlib
import time
import unittest

import numpy as np

from daemon_process import Daemons
from pipeline_text import VERSION, pipeline
from shared_client import ERROR, SharedClient

LENGTH, SLOW_LENGTH = 4096, 1 << 16
TWO = [("v", "convert", ""), ("psd", "power_spectrum", 'from = "v"\n'), ("size", "magnitude", 'from = "v"\n')]
SLOW = ("y", "correlate", f'mode = "same"\nmethod = "direct"\ntemplate = {[1] * SLOW_LENGTH}\n')
CONFIGURATION = (
    VERSION + '[device]\nslots = 4\nstreams = 2\n[shared_memory]\nmax_bytes = "64 MiB"\nmax_client_bytes = "32 MiB"\n'
    + pipeline("scale", "f32", [LENGTH], [("y", "affine", "a = 2\nb = 1\n")], ["y"])
    + pipeline("two", "cu8", [LENGTH], TWO, ["psd", "size"])
    + pipeline("any", "f32", [f"max {LENGTH}"], [("y", "affine", "a = 3\n")], ["y"])
    + pipeline("fir", "f32", [f"max {LENGTH}"], [("y", "fir", "taps = [1, 2, 3, 4, 5]\ndecimation = 3\n")], ["y"]))
# With a pipeline whose frames take the host some tenths of a second.
SLOW_CONFIGURATION = CONFIGURATION + pipeline("slow", "f32", [SLOW_LENGTH], [SLOW], ["y"],
                                              "batch = { max_frames = 2 }\n")
MIB = 1 << 20
UNKNOWN_ARENA, BAD_PLACE, UNKNOWN_REPEAT, TOO_LARGE, EXPIRED = 0x0110, 0x0111, 0x0112, 0x0108, 0x0200


def noise(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class SharingTest(unittest.TestCase):
    text = CONFIGURATION  #: what its daemons serve

    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(cls.text)
        cls.addClassCleanup(cls.daemons.stop)

    @contextlib.contextmanager
    def client(self, daemon, size=8 * MIB):
        """A client, and an arena that is gone again at the end."""
        with SharedClient(daemon.url) as client:
            arena = client.attach(size)
            try:
                yield client, arena
            finally:
                arena.end()
        self.until(lambda: self.shared(daemon)["arenas"] == 0, "the memory comes back")

    def shared(self, daemon):
        return daemon.counters()["status"]["shared_memory"]

    def until(self, condition, what):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)

    def refusal(self, client, pipeline, frames, place, **more):
        """The status of the ERROR that a place gets."""
        client.send_place(pipeline, client.wire.tensor_header(frames), place, frames.shape[0], **more)
        header, _, body = client.receive()
        self.assertEqual(header.type, ERROR, header)
        self.assertFalse(body.get("holds"), "what was refused holds nothing")
        return header.status
