"""Arenas: their allocator, and the arrays in them."""
import gc
import os
import random
import subprocess
import sys
import threading
import unittest

from scripted_router import PATIENCE_S

import numpy as np

from penstock.arena import Arena, ArenaAllocator


class Allocator(unittest.TestCase):
    def test_ranges_never_overlap_and_come_back_as_one_gap(self):
        seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
        choose, allocator, taken = random.Random(seed), ArenaAllocator(1 << 16), {}
        for _ in range(5000):
            if taken and choose.random() < 0.5:
                start = choose.choice(list(taken))
                allocator.give_back(start, taken.pop(start))
            else:
                nbytes = choose.randrange(1, 1 << choose.randrange(1, 15))
                start = allocator.take(nbytes)
                if start is not None:
                    taken[start] = nbytes
            ranges = sorted([(start, start + (size + 63) // 64 * 64) for start, size in taken.items()] + allocator.gaps)
            with self.subTest(PENSTOCK_SEED=seed):
                self.assertEqual(ranges[0][0], 0)
                self.assertEqual([end for _, end in ranges], [start for start, _ in ranges[1:]] + [1 << 16])
                self.assertTrue(all(start % 64 == 0 for start in taken))
        for start, nbytes in taken.items():
            allocator.give_back(start, nbytes)
        self.assertEqual(allocator.gaps, [(0, 1 << 16)])

    def test_what_does_not_fit_is_not_given(self):
        allocator = ArenaAllocator(256)
        self.assertIsNone(allocator.take(257))
        self.assertEqual([allocator.take(65), allocator.take(128), allocator.take(1)], [0, 128, None])

    def test_equal_sizes_fill_it_in_whatever_order_they_come_back(self):
        choose, allocator = random.Random(7), ArenaAllocator(640)
        taken = [allocator.take(60) for _ in range(10)]
        for _ in range(1000):
            allocator.give_back(taken.pop(choose.randrange(10)), 60)
            taken.append(allocator.take(60))
        self.assertNotIn(None, taken)
        self.assertEqual(len(set(taken)), 10)

    def test_many_threads_share_it(self):
        allocator, written, trouble = ArenaAllocator(1 << 14), bytearray(1 << 14), []

        def take_and_give_back(thread):
            choose, taken = random.Random(thread), []
            for _ in range(2000):
                nbytes = choose.randrange(1, 2000)
                start = allocator.take(nbytes)
                if start is not None:
                    written[start:start + nbytes] = bytes([thread]) * nbytes
                    taken.append((start, nbytes))
                while taken and (start is None or len(taken) > 3):
                    start, nbytes = taken.pop(choose.randrange(len(taken)))
                    if set(written[start:start + nbytes]) != {thread}:
                        trouble.append((start, nbytes))
                    allocator.give_back(start, nbytes)
            for start, nbytes in taken:
                allocator.give_back(start, nbytes)

        threads = [threading.Thread(target=take_and_give_back, args=(each,)) for each in (1, 2, 3, 4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE_S)
        self.assertEqual((trouble, allocator.gaps), ([], [(0, 1 << 14)]))

    def test_what_comes_back_to_a_closed_one_is_not_given_again(self):
        allocator = ArenaAllocator(128)
        start = allocator.take(64)
        allocator.close()
        allocator.give_back(start, 64)
        self.assertIsNone(allocator.take(64))

    def test_giving_back_waits_for_nobody(self):
        allocator = ArenaAllocator(64)
        start = allocator.take(64)
        with allocator._lock:  # as in a garbage collection that begins within `take`
            allocator.give_back(start, 64)
        self.assertEqual(allocator.take(64), 0)


class Arenas(unittest.TestCase):
    def setUp(self):
        self.descriptor = os.memfd_create("arena")
        self.addCleanup(os.close, self.descriptor)
        os.ftruncate(self.descriptor, 4096)
        self.arena = Arena(3, self.descriptor, 4096)

    def test_an_array_lies_where_another_mapping_of_it_sees_it(self):
        before = self.arena.empty(64, np.uint8)
        array = self.arena.empty((2, 3), np.float32)
        self.assertEqual(self.arena.offset_of(before), 0)
        array[:] = [[1, 2, 3], [4, 5, 6]]
        offset = self.arena.offset_of(array)
        self.assertEqual(offset, 64)
        self.assertEqual(np.frombuffer(os.pread(self.descriptor, 24, offset), np.float32).tolist(), [1, 2, 3, 4, 5, 6])

    def test_room_goes_back_with_the_last_view(self):
        array = self.arena.empty(4096, np.uint8)
        view = array.reshape(64, 64).view(np.float32)[3:, ::2].T
        self.assertIsNone(self.arena.empty(1, np.uint8))
        del array
        gc.collect()
        self.assertIsNone(self.arena.empty(1, np.uint8))
        del view
        self.assertIsNotNone(self.arena.empty(4096, np.uint8))

    def test_room_goes_back_from_another_thread_and_from_a_garbage_collection(self):
        kept = [self.arena.empty(2048, np.uint8)]
        cycle = [self.arena.empty(2048, np.uint8)]
        cycle.append(cycle)
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join(PATIENCE_S)
        del cycle
        gc.collect()
        self.assertIsNotNone(self.arena.empty(4096, np.uint8))

    def test_one_that_has_ended_gives_no_room(self):
        kept = self.arena.empty(64, np.uint8)
        self.arena.end()
        self.assertIsNone(self.arena.empty(64, np.uint8))
        self.assertEqual(self.arena.offset_of(kept), 0)

    def test_it_stays_mapped_as_long_as_a_view_does(self):
        view = self.arena.empty(16, np.uint8)[4:]
        view[:] = 7
        del self.arena
        gc.collect()
        self.assertEqual(view.tolist(), [7] * 12)

    def test_only_what_a_place_can_name_lies_in_it(self):
        array = self.arena.empty((4, 64), np.uint8)
        for inside, offset in ((array, 0), (array[1:3], 64), (array[:, ::2], None), (array[0, 1:], None),
                               (np.zeros((4, 64), np.uint8), None)):
            self.assertEqual(self.arena.offset_of(inside), offset)

    def test_objects_and_nothing_are_not_put_there(self):
        self.assertIsNone(self.arena.empty(3, object))
        self.assertIsNone(self.arena.empty((3, 0), np.float32))
        for shape, error in ((-1, ValueError), ((2, -1), ValueError), (1.5, TypeError)):
            with self.assertRaises(error):
                self.arena.empty(shape, np.float32)

    def test_views_that_live_until_the_interpreter_ends_do_no_harm(self):
        program = ("import os, numpy as np\nfrom penstock.arena import Arena\nd = os.memfd_create('arena')\n"
                   "os.ftruncate(d, 4096)\narena = Arena(3, d, 4096)\nkept = arena.empty(64, np.uint8)\n"
                   "class Late:\n  def __init__(self): self.view = arena.empty(64, np.uint8)\n"
                   "  def __del__(self): self.view[:] = 1\nlate = Late()\nlate.self = late\nprint('end')\n")
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "end\n", ""))


if __name__ == "__main__":
    unittest.main()
