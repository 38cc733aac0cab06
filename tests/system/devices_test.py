"""Clients and sessions spread over every device of the machine, with two shards each.

PENSTOCK_TEST_SEED repeats a run.
"""

import itertools
import json
import os
import random
import unittest

import numpy
import scipy.signal

from daemon_process import VERSION, Daemon, backends, pipeline
from penstock import Client

SHARDS_A_DEVICE = 2
CLIENTS = 8
SAMPLES = 200_000
LONGEST = 4096
DECIMATION = 8
TAPS = scipy.signal.firwin(101, 0.1)
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))


def configuration():
    fir = f"taps = {TAPS.tolist()}\ndecimation = {DECIMATION}\n"
    return (VERSION + f'[device]\nids = "all"\nshards = {SHARDS_A_DEVICE}\n' +
            pipeline("band", "cf32", [f"max {LONGEST}"], [("fir", "fir", fir)], ["fir"], "batch = { max_frames = 16 }\n"))


def cuts(chance):
    """Where requests begin and end."""
    at = 0
    while at < SAMPLES:
        length = min(chance.randint(1, LONGEST), SAMPLES - at)
        yield at, at + length
        at += length


def shards_of(daemon):
    """What the daemon's shards say of themselves."""
    return json.loads(daemon.ask("/api/v1/status")[1])["shards"]


class Devices(unittest.TestCase):
    def test_sessions_of_clients_on_all_shards_equal_scipy(self):
        print("seed", SEED)
        for backend in backends():
            with self.subTest(backend=backend):
                daemon = Daemon(backend, "callback", configuration())
                try:
                    self.check(daemon, random.Random(SEED))
                finally:
                    code, log = daemon.stop()
                self.assertEqual(code, 0, log)

    def check(self, daemon, chance):
        shards = len(shards_of(daemon))
        self.assertEqual(shards % SHARDS_A_DEVICE, 0)
        print(f"{daemon.backend}: {shards // SHARDS_A_DEVICE} device(s), {shards} shards")
        made = numpy.random.default_rng(chance.randrange(2**32))
        signals = [(made.standard_normal(SAMPLES) + 1j * made.standard_normal(SAMPLES)).astype(numpy.complex64)
                   for _ in range(CLIENTS)]
        clients = [Client(daemon.url, name=f"antenna-{index}") for index in range(CLIENTS)]
        try:
            sessions = [client.session("band") for client in clients]
            futures = [[] for _ in range(CLIENTS)]
            for turn in itertools.zip_longest(*(list(cuts(chance)) for _ in range(CLIENTS))):
                for index, span in enumerate(turn):
                    if span is not None:
                        futures[index].append(sessions[index].submit(signals[index][slice(*span)]))
            for index, signal in enumerate(signals):
                got = numpy.concatenate([future.result()["fir"].reshape(-1) for future in futures[index]])
                wanted = scipy.signal.lfilter(TAPS, 1, signal.astype(numpy.complex128))[::DECIMATION]
                self.assertEqual(got.shape, wanted.shape)
                self.assertLess(numpy.abs(got - wanted).max(), 1e-5 * numpy.abs(wanted).max(), f"client {index}")
            told = shards_of(daemon)
            self.assertEqual(sum(shard["requests"]["accepted"] for shard in told), sum(map(len, futures)))
            opened = [shard["sessions"]["open"] for shard in told]
            most, least = -(-CLIENTS // shards), CLIENTS // shards
            self.assertTrue(all(least <= count <= most for count in opened), opened)
        finally:
            for client in clients:
                client.close()


if __name__ == "__main__":
    unittest.main()
