"""Frames in memory that a client shares with a real daemon: results and errors."""

import fcntl
import os
import signal
import unittest

import numpy as np

from daemon_process import VERSION, Daemons, pipeline
from shared_client import (
    BAD_PLACE, LENGTH, MIB, PLACE, REPEAT, RESULT_SHARED, UNKNOWN_ARENA, UNKNOWN_REPEAT, SharedClient, SharingTest,
    noise)


class SharedMemoryTest(SharingTest):
    def test_results_are_those_of_frames_that_travel(self):
        iq = np.random.default_rng(2).integers(0, 256, (3, LENGTH, 2), dtype=np.uint8)

        def same(daemon):
            from penstock import Client
            with Client(daemon.url, transport="zmq") as plain, self.client(daemon) as (client, arena):
                for name, frames in (("scale", noise(1, LENGTH)), ("scale", noise(5, LENGTH)), ("two", iq),
                                     ("any", noise(2, 1000)), ("any", noise(1, 1))):
                    expected = plain.submit(name, frames, frames=len(frames)).result()
                    for at in (0, 64, MIB):
                        found = client.submit_shared(name, arena, frames, at)
                        self.assertEqual(len(found), len(expected))
                        for one, other in zip(found, expected.values()):
                            np.testing.assert_array_equal(one, other.reshape(one.shape))
        self.daemons.each(self, same)

    def test_sessions_keep_their_state_whatever_way_frames_come(self):
        signal_ = noise(1, 3000, seed=3)
        expected = np.convolve(signal_[0].astype(float), [1, 2, 3, 4, 5])[:3000][::3]

        def same(daemon):
            with self.client(daemon) as (client, arena):
                session, found, at = client.open("fir"), [], 0
                for count in (1, 777, 64, 1000, 1158):
                    part = signal_[:, at:at + count]
                    outputs = client.submit_shared("fir", arena, part, session=session, sequence=len(found))
                    found.append(outputs[0].ravel())
                    at += count
                np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-4)
        self.daemons.each(self, same)

    def test_shared_and_sent_frames_go_in_one_batch(self):
        def mixed(daemon):
            from penstock import Client
            before = daemon.counters()["status"]
            with Client(daemon.url, transport="zmq", timeout=60) as plain, self.client(daemon) as (client, arena):
                wire, frames = client.wire, [noise(1, LENGTH, seed=each) for each in range(64)]
                waiting = []
                daemon.process.send_signal(signal.SIGSTOP)  # it finds them all there, however quick it is
                for number, each in enumerate(frames):
                    if number % 3 == 0:
                        waiting.append(plain.submit("scale", each))
                    else:
                        at = number * 64 * 1024
                        arena.memory[at:at + each.nbytes] = each.tobytes()
                        client.send_place("scale", wire.tensor_header(each),
                                          PLACE.pack(arena.number, 0, at, at + each.nbytes, each.nbytes))
                daemon.process.send_signal(signal.SIGCONT)
                for number, each in enumerate(frames):
                    if number % 3 == 0:
                        found = waiting.pop(0).result()["y"]
                    else:
                        self.assertEqual(client.receive()[0].type, RESULT_SHARED)
                for number, each in enumerate(frames):
                    if number % 3 != 0:
                        at = number * 64 * 1024 + each.nbytes
                        found = np.frombuffer(arena.memory, np.float32, LENGTH, at)
                        np.testing.assert_array_equal(found, (2 * each + 1)[0])
                        del found
            after = daemon.counters()["status"]
            made = [status["pipelines"][0]["batches"] for status in (before, after)]
            self.assertLess(made[1] - made[0], 64, "some were batched together")
        self.daemons.each(self, mixed)

    def test_a_place_outside_of_the_memory_is_an_error(self):
        def refused(daemon):
            frames = noise(1, LENGTH)
            size = frames.nbytes
            with self.client(daemon, MIB) as (client, arena):
                number, end = arena.number, arena.bytes
                for place in ((end, 0, size), (end - size + 64, 0, size), (0, end, size), (0, end - size + 64, size),
                              (1, size, size), (0, size + 8, size), (0, size, size - 1), (1 << 63, 0, size),
                              ((1 << 64) - 64, 0, size), (0, (1 << 64) - 64, size), (0, 64, (1 << 64) - 1)):
                    with self.subTest(place=place):
                        wrong = PLACE.pack(number, 0, *place)
                        self.assertEqual(self.refusal(client, "scale", frames, wrong), BAD_PLACE)
                for number in (arena.number + 1, arena.number - 1, 0, (1 << 32) - 1):
                    wrong = PLACE.pack(number % (1 << 32), 0, 0, size, size)
                    self.assertEqual(self.refusal(client, "scale", frames, wrong), UNKNOWN_ARENA)
                for place in (b"", b"x" * 31, b"x" * 33):
                    self.assertEqual(self.refusal(client, "scale", frames, place), 0x0101)
                np.testing.assert_array_equal(client.submit_shared("scale", arena, frames)[0], 2 * frames + 1)
        self.daemons.each(self, refused)

    def test_nobody_may_name_the_memory_of_another(self):
        def refused(daemon):
            frames = noise(1, LENGTH)
            with self.client(daemon) as (_, arena), SharedClient(daemon.url) as other:
                place = PLACE.pack(arena.number, 0, 0, frames.nbytes, frames.nbytes)
                self.assertEqual(self.refusal(other, "scale", frames, place), UNKNOWN_ARENA)
        self.daemons.each(self, refused)

    def test_the_size_is_sealed(self):
        def sealed(daemon):
            with self.client(daemon, MIB) as (_, arena):
                self.assertEqual(arena.seals() & 7, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
                for size in (0, 2 * MIB):
                    with self.assertRaises(PermissionError):
                        os.ftruncate(arena.descriptor, size)
        self.daemons.each(self, sealed)

    def test_however_many_lie_there_their_copies_fit_the_device(self):
        outputs = [f"y{each}" for each in range(7)]
        text = (VERSION + "[device]\nstreams = 1\n[clients]\ncredit_requests = 4096\n"
                + pipeline("many", "f32", [16], [(each, "affine", 'from = "input"\na = 2\n') for each in outputs],
                           outputs))

        def served(daemon):
            frame, count = noise(1, 16), 3000
            with self.client(daemon, MIB) as (client, arena):
                arena.memory[:64] = frame.tobytes()
                for _ in range(count):
                    client.send_place("many", client.wire.tensor_header(frame),
                                      PLACE.pack(arena.number, 0, 0, 64, 7 * 64))
                self.assertEqual([client.receive()[0].type for _ in range(count)], [RESULT_SHARED] * count)
                np.testing.assert_array_equal(np.frombuffer(bytes(arena.memory[64:512]), np.float32),
                                              np.tile(2 * frame[0], 7))
        daemons = Daemons(text)
        self.addCleanup(daemons.stop)
        daemons.each(self, served)

    def test_a_repeat_is_answered_or_ignored_but_never_run_again(self):
        def repeated(daemon):
            frames = noise(1, LENGTH)
            size = frames.nbytes
            with self.client(daemon) as (client, arena):
                arena.memory[:size] = frames.tobytes()
                tensor = client.wire.tensor_header(frames)
                first = client.send_place("scale", tensor, PLACE.pack(arena.number, 0, 0, size, size))
                answer = client.receive()
                arena.memory[size:2 * size] = bytes(size)
                client.send_place("scale", tensor, PLACE.pack(arena.number, REPEAT, 0, size, size), request=first)
                self.assertEqual(client.receive(), answer)
                self.assertEqual(bytes(arena.memory[size:2 * size]), bytes(size), "nothing wrote there again")
                unknown = PLACE.pack(arena.number, REPEAT, 0, size, size)
                self.assertEqual(self.refusal(client, "scale", frames, unknown, request=999999), UNKNOWN_REPEAT)
        self.daemons.each(self, repeated)


if __name__ == "__main__":
    unittest.main()
