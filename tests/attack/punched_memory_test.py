"""A client that removes pages of its shared memory harms only itself."""

import contextlib
import ctypes
import mmap
import threading
import time
import unittest

import numpy as np

from attack import LONG, resident_bytes
from daemon_process import VERSION, Daemon, backends, pipeline, wait_until

try:
    import zmq  # noqa: F401
    from shared_client import PLACE, SharedClient
except ImportError:
    SharedClient = None

LENGTH, FRAMES, SIZE = 4096, 16, 1 << 20
TEXT = (VERSION + '[shared_memory]\nmax_bytes = "64 MiB"\nmax_client_bytes = "32 MiB"\n'
        + pipeline("scale", "f32", [LENGTH], [("y", "affine", "a = 2.0\nb = 1.0\n")], ["y"]))
KEEP_SIZE, PUNCH_HOLE = 1, 2


class PunchedMemoryTest(unittest.TestCase):
    def setUp(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]

    def punch(self, arena):
        """Takes out all of its pages, by its descriptor and by its mapping. Whether it was let."""
        if self.libc.fallocate(arena.descriptor, PUNCH_HOLE | KEEP_SIZE, 0, arena.bytes) != 0:
            return False
        arena.memory.madvise(mmap.MADV_REMOVE)
        return True

    @unittest.skipUnless(SharedClient, "needs pyzmq")
    def test_nobody_else_notices(self):
        for backend in backends():
            with self.subTest(backend=backend):
                self.run_beside(Daemon(backend, "callback", TEXT))

    def run_beside(self, daemon):
        self.addCleanup(lambda: daemon.stop() if daemon.process.poll() is None else daemon.folder.cleanup())
        over, faults, punched = threading.Event(), [], [0]
        with contextlib.ExitStack() as clients:
            wrong, right, plain = (clients.enter_context(SharedClient(daemon.url)) for _ in range(3))
            lent = wrong.attach(SIZE)
            own = right.attach(SIZE)
            before = resident_bytes(daemon.process.pid)

            def punch_on():
                while not over.is_set():
                    punched[0] += self.punch(lent)

            thread = threading.Thread(target=punch_on)
            thread.start()
            try:
                until, rounds = time.monotonic() + max(LONG, 3), 0
                while time.monotonic() < until:
                    frames = np.random.default_rng(rounds).standard_normal((FRAMES, LENGTH)).astype(np.float32)
                    frames_bytes = frames.nbytes
                    lent.memory[:frames_bytes] = frames.tobytes()
                    wrong.send_place("scale", wrong.wire.tensor_header(frames),
                                     PLACE.pack(lent.number, 0, 0, frames_bytes, frames_bytes), FRAMES)
                    expected = 2 * frames + 1
                    np.testing.assert_array_equal(right.submit_shared("scale", own, frames)[0], expected)
                    self.assertEqual(plain.submit("scale", frames[0])[0].type, plain.wire.MessageType.RESULT)
                    header, _, body = wrong.receive()  # an answer, whatever stands in it
                    self.assertEqual(header.request_id, wrong.requests, body)
                    rounds += 1
            except Exception as error:
                faults.append(error)
            over.set()
            thread.join()
            self.assertEqual(faults, [])
            self.assertIsNone(daemon.process.poll())
            self.assertGreater(min(rounds, punched[0]), 10)
            # Its pages are there once more at most, which a device holds.
            self.assertLess(resident_bytes(daemon.process.pid) - before, 2 * SIZE + (64 << 20))
            lent.end()
            own.end()
        status = wait_until(lambda: self.rested(daemon), "all memory comes back")
        self.assertTrue(status["balanced"], status)
        code, log = daemon.stop()
        self.assertEqual(code, 0, log)

    def rested(self, daemon):
        status = daemon.counters()["status"]
        return status if status["shared_memory"] == {"arenas": 0, "bytes": 0, "device_bytes": 0} else None


if __name__ == "__main__":
    unittest.main()
