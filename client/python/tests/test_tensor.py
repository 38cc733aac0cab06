"""Arrays that other libraries take, and theirs: DLPack."""
import gc
import subprocess
import sys
import threading
import unittest
import weakref
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

try:
    import numpy as np
    import zmq  # noqa: F401
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is missing")

from penstock.result import Result  # noqa: E402
from penstock.tensor import CUDA, Tensor, is_tensor  # noqa: E402

DTYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?")


class Memory(np.ndarray):
    """An array that can be watched."""


def watched(*shape):
    made = np.arange(float(np.prod(shape))).reshape(shape).view(Memory)
    return made, weakref.ref(made)


class DLPack(unittest.TestCase):
    def test_every_dtype_and_shape_comes_back_without_a_copy(self):
        for dtype in DTYPES:
            for array in (np.arange(24).astype(dtype).reshape(2, 3, 4), np.ones((), dtype), np.ones((0, 3), dtype),
                          np.arange(24).astype(dtype).reshape(4, 6).T, np.arange(24).astype(dtype)[::-2]):
                with self.subTest(dtype=dtype, shape=array.shape, strides=array.strides):
                    back = Tensor.of_other(Tensor.of_array(array))
                    np.testing.assert_array_equal(back.numpy(), array)
                    self.assertEqual((back.dtype, back.shape, back.device), (array.dtype, array.shape, "cpu"))
                    self.assertEqual(back.contiguous, array.flags.c_contiguous)
                    if array.size:
                        self.assertTrue(np.shares_memory(back.numpy(), array))

    def test_numpy_takes_it(self):
        array = np.arange(6.0).reshape(2, 3)
        taken = np.from_dlpack(Tensor.of_array(array))
        self.assertTrue(np.shares_memory(taken, array))
        np.testing.assert_array_equal(np.asarray(Tensor.of_array(array)), array)

    def test_the_memory_lives_as_long_as_what_was_made_of_it_and_no_longer(self):
        array, alive = watched(4, 5)
        taken = np.from_dlpack(Tensor.of_array(array))
        del array
        gc.collect()
        self.assertIsNotNone(alive())
        self.assertEqual(taken[3, 4], 19)
        del taken
        gc.collect()
        self.assertIsNone(alive())

    def test_a_capsule_that_nobody_takes_keeps_nothing(self):
        array, alive = watched(3)
        capsule = Tensor.of_array(array).__dlpack__()
        del array
        self.assertIsNotNone(alive())
        del capsule
        self.assertIsNone(alive())

    def test_an_exception_on_its_way_is_not_lost_when_it_goes(self):
        array, alive = watched(3)

        def fail():
            taken, unused = np.from_dlpack(Tensor.of_array(array)), Tensor.of_array(array).__dlpack__()
            raise KeyError(len(taken), unused is None)
        with self.assertRaisesRegex(KeyError, "3, False"):
            fail()
        with self.assertRaisesRegex(Exception, "dtype|bf|4"):
            np.from_dlpack(Tensor.of_array(np.ones(3, np.uint16), is_bfloat16=True))
        del array
        gc.collect()
        self.assertIsNone(alive())

    def test_a_capsule_is_taken_once(self):
        class Twice:
            capsule = Tensor.of_array(np.arange(3)).__dlpack__()

            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self):
                return self.capsule
        kept = Tensor.of_other(Twice())
        with self.assertRaisesRegex(TypeError, "Twice can't be taken"):
            Tensor.of_other(Twice())
        del kept, Twice.capsule

    def test_another_thread_may_let_go_of_it(self):
        array, alive = watched(3)
        taken = [np.from_dlpack(Tensor.of_array(array))]
        del array
        thread = threading.Thread(target=taken.clear)
        thread.start()
        thread.join()
        self.assertIsNone(alive())

    def test_what_outlives_the_interpreter_ends_quietly(self):
        code = ("import numpy as np, sys\nfrom penstock.tensor import Tensor\n"
                "sys.kept = np.from_dlpack(Tensor.of_array(np.arange(9)))\n"
                "import atexit; kept = sys.kept; cycle = [kept]; cycle.append(cycle); print(int(kept[8]))")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={"PYTHONPATH": str(Path(__file__).resolve().parents[1] / "src")})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "8\n", ""))

    def test_bf16_is_known_as_such(self):
        tensor = Tensor.of_other(Tensor.of_array(np.array([0x3F80, 0x4000], np.uint16), is_bfloat16=True))
        self.assertTrue(tensor.is_bfloat16)
        self.assertEqual(tensor.numpy().view(np.uint16).tolist(), [0x3F80, 0x4000])
        self.assertIn("bf16[2] on cpu", repr(tensor))
        bits = np.array([1], np.uint16)
        self.assertTrue(Result({"y": bits}, 1, b"", ["y"]).tensor().is_bfloat16)
        self.assertFalse(Result({"y": bits}, 1, b"").tensor().is_bfloat16)

    def test_what_is_no_array_of_another_library(self):
        for other in (np.ones(3), np.float32(1), [1, 2], b"ab", memoryview(b"ab")):
            self.assertFalse(is_tensor(other))
        self.assertTrue(is_tensor(Tensor.of_array(np.ones(3))))

    def test_other_devices_are_not_read_and_nothing_is_copied_to_them(self):
        far = Tensor(None, 4096, (2, 3), 2, 32, device_type=CUDA, device_id=1)
        self.assertEqual((far.device, far.__dlpack_device__(), far.nbytes), ("cuda:1", (2, 1), 24))
        self.assertEqual((far[1].address, far[1].shape, far[1:].shape), (4096 + 12, (3,), (1, 3)))
        self.assertEqual((Tensor.of_other(far).address, Tensor.of_other(far).device), (4096, "cuda:1"))
        with self.assertRaisesRegex(TypeError, "cuda:1"):
            far.numpy()
        with self.assertRaisesRegex(TypeError, "lies on cuda:1"):
            np.asarray(far)
        with self.assertRaisesRegex(BufferError, "not copied to another device"):
            far.__dlpack__(dl_device=(1, 0))
        with self.assertRaises(IndexError):
            far[2]


if __name__ == "__main__":
    unittest.main()
