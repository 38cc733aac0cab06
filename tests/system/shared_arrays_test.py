"""numpy arrays in memory that the Python client shares with a real daemon."""

import collections
import contextlib
import gc
import signal
import unittest

import numpy as np

from daemon_process import VERSION, Daemon, Daemons, pipeline, wait_until
from penstock import Client, Expired

LENGTH, SLOW_LENGTH = 1 << 15, 1 << 16
TWO = [("v", "convert", ""), ("psd", "power_spectrum", 'from = "v"\n'), ("size", "magnitude", 'from = "v"\n')]
SLOW = ("y", "correlate", f'mode = "same"\nmethod = "direct"\ntemplate = {[1] * SLOW_LENGTH}\n')
CONFIGURATION = (
    VERSION + '[device]\nslots = 4\n[shared_memory]\nmax_bytes = "256 MiB"\nmax_client_bytes = "64 MiB"\n'
    + pipeline("scale", "f32", [LENGTH], [("y", "affine", "a = 2\nb = 1\n")], ["y"])
    + pipeline("two", "cu8", [LENGTH], TWO, ["psd", "size"])
    + pipeline("fir", "f32", [f"max {LENGTH}"], [("y", "fir", "taps = [1, 2, 3, 4, 5]\ndecimation = 3\n")], ["y"])
    # For the host a second of work.
    + pipeline("slow", "f32", [SLOW_LENGTH], [SLOW], ["y"], "batch = { max_frames = 2 }\n"))


def noise(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class SharedArraysTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(CONFIGURATION)
        cls.addClassCleanup(cls.daemons.stop)

    def own_daemon(self):
        """One on the host that a test may kill or hold up."""
        daemon = Daemon("host", "callback", CONFIGURATION)
        self.addCleanup(daemon.stop)
        return daemon

    def arenas(self, daemon):
        return daemon.counters()["status"]["shared_memory"]["arenas"]

    def test_memory_that_some_clients_do_not_need_is_there_for_others(self):
        daemon, x = self.own_daemon(), noise(4, LENGTH)
        with contextlib.ExitStack() as all_:
            clients = [all_.enter_context(Client(daemon.url, transport="shm")) for _ in range(40)]
            for each in clients:
                np.testing.assert_array_equal(each.submit("scale", x).result()["y"], 2 * x + 1)
            first = clients[0]
            kept = collections.deque(maxlen=20)  # 10 MiB of results

            def grown():
                kept.append(first.submit("scale", x).result())
                return len(kept) == 20 and first._connection.shared.arena.nbytes >= 8 << 20
            wait_until(grown, "what it keeps needs more than it began with")
            self.assertEqual({each.transport for each in clients}, {"shm"})

    def test_arrays_give_the_same_results_whatever_they_travel_through(self):
        iq = np.random.default_rng(2).integers(0, 256, (3, LENGTH, 2), dtype=np.uint8)

        def same(daemon):
            with Client(daemon.url, transport="zmq") as plain, Client(daemon.url, transport="shm") as shared:
                for name, count, x in (("scale", None, noise(LENGTH)), ("scale", 5, noise(5, LENGTH)), ("two", 3, iq),
                                       ("two", None, iq[1])):
                    placed = shared.frames(name, count)
                    placed[:] = x
                    expected = plain.submit(name, x).result()
                    for each in (x, placed):
                        found = shared.submit(name, each).result()
                        self.assertEqual(list(found), list(expected))
                        for output in expected:
                            np.testing.assert_array_equal(found[output], expected[output])
                self.assertEqual((plain.transport, shared.transport), ("zmq", "shm"))
            wait_until(lambda: self.arenas(daemon) == 0, "the memory comes back")
        self.daemons.each(self, same)

    def test_only_clients_with_large_frames_take_memory(self):
        def taken(daemon):
            with Client(daemon.url) as client:
                client.session("fir").submit(noise(100)).result()
                self.assertEqual(self.arenas(daemon), 0)
                client.submit("scale", noise(LENGTH)).result()
                wait_until(lambda: client.transport == "shm", "the first large request asks for memory")
                self.assertEqual(self.arenas(daemon), 1)
            wait_until(lambda: self.arenas(daemon) == 0, "the memory comes back")
        self.daemons.each(self, taken)

    def test_a_session_keeps_its_state_over_arrays_of_any_kind(self):
        samples = noise(4 * LENGTH, seed=3)
        expected = np.convolve(samples.astype(float), [1, 2, 3, 4, 5])[:len(samples)][::3]

        def same(daemon):
            with Client(daemon.url, transport="shm") as client, client.session("fir") as session:
                futures, at = [], 0
                for index, count in enumerate((LENGTH, 1, 777, LENGTH, 64, LENGTH - 842, LENGTH)):
                    block = samples[at:at + count]
                    if index % 2 == 0:
                        block = client.frames("fir", length=count)
                        block[:] = samples[at:at + count]
                    futures.append(session.submit(block))
                    at += count
                self.assertEqual(at, len(samples))
                found = np.concatenate([each.result()["y"] for each in futures])
            np.testing.assert_allclose(found, expected, atol=1e-4)
        self.daemons.each(self, same)

    def test_what_has_no_room_travels_and_nothing_is_lost(self):
        def many_clients(daemon):
            with Client(daemon.url, transport="shm", shared_bytes=4 * LENGTH * 5) as client:
                inputs = [noise(LENGTH, seed=each) for each in range(30)]
                kept = [each.result()["y"] for each in [client.submit("scale", x) for x in inputs]]
            for x, y in zip(inputs, kept):
                np.testing.assert_array_equal(y, 2 * x + 1)
        self.daemons.each(self, many_clients)

    def test_room_is_used_again_and_again(self):
        def again(daemon):
            with Client(daemon.url, transport="shm", shared_bytes=4 * LENGTH * 6) as client:
                for value in range(200):
                    x = client.frames("scale")
                    x[:] = value
                    self.assertEqual(client.submit("scale", x).result()["y"][-1], 2 * value + 1)
        self.daemons.each(self, again)

    def test_memory_of_a_request_that_expired_is_used_again_once_the_device_has_let_go(self):
        daemon = self.own_daemon()
        with Client(daemon.url, transport="shm", shared_bytes=2 * 2 * 4 * SLOW_LENGTH + 4096) as client:
            future = client.submit("slow", np.ones((2, SLOW_LENGTH), np.float32), timeout=0.05)
            with self.assertRaises(Expired):
                future.result()
            arena = client._connection.shared.arena
            self.assertIsNone(arena.empty(4 * SLOW_LENGTH, np.uint8), "the device still has it")
            wait_until(lambda: arena.empty(2 * 2 * 4 * SLOW_LENGTH, np.uint8) is not None, "RELEASED gives it back")

    def test_a_daemon_that_is_killed_costs_no_request_and_no_result(self):
        daemon = self.own_daemon()
        with Client(daemon.url, transport="shm", retry_after=0.2, timeout=60) as client:
            kept = client.submit("scale", np.full(LENGTH, 3, np.float32)).result()["y"]
            x = client.frames("scale")
            x[:] = 4
            working = client.submit("slow", np.ones(SLOW_LENGTH, np.float32))
            waiting = client.submit("scale", x)
            daemon.end(signal.SIGKILL)
            daemon.start()
            np.testing.assert_array_equal(waiting.result()["y"], np.full(LENGTH, 9))
            self.assertEqual(working.result()["y"].shape, (SLOW_LENGTH,))
            np.testing.assert_array_equal(kept, np.full(LENGTH, 7))

            def attached():
                return client.empty(1, np.uint8) is not None and client.transport == "shm"
            wait_until(attached, "another arena")
            np.testing.assert_array_equal(client.submit("scale", x).result()["y"], np.full(LENGTH, 9))
            del x
        gc.collect()
        np.testing.assert_array_equal(kept, np.full(LENGTH, 7))


if __name__ == "__main__":
    unittest.main()
