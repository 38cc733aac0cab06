"""Every dtype through the real daemon and both clients, and each conversion compared with numpy."""

import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

from daemon_process import BIN, VERSION, Daemons, pipeline

N = 300
NUMPY = {"u8": np.uint8, "u16": np.uint16, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_}
FLOATS = ("f16", "bf16", "f32", "f64")
#: offset, divisor of the samples, from docs/operators.md
SAMPLES = {"u8": (127.5, 127.5), "u16": (32767.5, 32767.5), "i8": (0, 128), "i16": (0, 32768), "i32": (0, 2**31)}
TYPES = (*NUMPY, "bf16")


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16(x):
    """Of float64, by its bits: to 8 significant bits, ties to even. No denormal numbers."""
    bits = np.asarray(x, np.float64).view(np.uint64)
    rounded = bits + np.uint64((1 << 44) - 1) + (bits >> np.uint64(45) & np.uint64(1))
    rounded &= ~np.uint64((1 << 45) - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.where(np.isnan(x), np.float64(np.nan), rounded.view(np.float64)).astype(np.float32)
    return (wide.view(np.uint32) >> 16).astype(np.uint16)


def numbers_of(dtype, x):
    """In float64, or int64 of integers."""
    if dtype == "bf16":
        return from_bf16(x).astype(np.float64)
    return x.astype(np.float64 if dtype in FLOATS else np.int64)


def saturated(dtype, x):
    """Numbers as an integer type: rounded to nearest, ties to even, within its limits; NaN is 0."""
    limits = np.iinfo(NUMPY[dtype])
    if x.dtype == np.int64:
        return np.clip(x, limits.min, limits.max).astype(NUMPY[dtype])
    rounded = np.rint(np.where(np.isnan(x), 0.0, x))
    with np.errstate(invalid="ignore"):
        inside = np.where(np.abs(rounded) < 2.0**62, rounded, 0).astype(np.int64)
    clipped = np.clip(inside, limits.min, limits.max)
    return np.where(rounded >= limits.max, limits.max, np.where(rounded <= limits.min, limits.min, clipped)
                    ).astype(NUMPY[dtype])


def converted(taken, given, x, scale):
    """What docs/operators.md says of convert."""
    numbers = numbers_of(taken, x)
    if given == "bool":
        return numbers != 0
    offset, divisor = SAMPLES.get(given if taken in FLOATS else taken, (0, 1))
    if scale and (taken in FLOATS) != (given in FLOATS):
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = numbers * divisor + offset if taken in FLOATS else (numbers - offset) / divisor
    if given not in FLOATS:
        return saturated(given, numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        return to_bf16(numbers.astype(np.float64)) if given == "bf16" else numbers.astype(NUMPY[given])


def elements(dtype, random):
    """With the ends of its range; no denormal numbers, which operators take for zero."""
    if dtype == "bool":
        return random.integers(0, 2, N).astype(bool)
    if dtype in FLOATS:
        x = np.concatenate([random.standard_normal(N // 2) * 10.0 ** random.integers(-6, 7, N // 2),
                            random.integers(-400, 400, N - N // 2) / 2])
        x[:8] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 65520.0
        with np.errstate(over="ignore"):
            return to_bf16(x) if dtype == "bf16" else x.astype(NUMPY[dtype])
    limits = np.iinfo(NUMPY[dtype])
    x = random.integers(limits.min, limits.max, N, NUMPY[dtype], endpoint=True)
    x[:N // 2] >>= 8 * x.itemsize // 2
    x[:4] = limits.min, limits.max, 0, 1
    if dtype == "i64":  # numpy rounds to f32 and f16 by way of each other: exact in float64
        x[4:] >>= 12
    return x


def bits(array):
    """As unsigned integers, with one NaN."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.view(f"u{array.itemsize}")


def stages():
    made = [("twice", "concat", 'from = ["input", "input"]\n')]
    for to in TYPES:
        made += [(f"to_{to}", "convert", f'from = "input"\nto = "{to}"\n'),
                 (f"as_{to}", "convert", f'from = "input"\nto = "{to}"\nscale = false\n')]
    return made


class DtypesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        names = [name for name, _, _ in stages()]
        cls.daemons = Daemons(VERSION + "".join(pipeline(dtype, dtype, [N], stages(), names) for dtype in TYPES))
        cls.addClassCleanup(cls.daemons.stop)

    def test_each_conversion_is_numpys(self):
        def served(daemon):
            from penstock import Client, wire
            with Client(daemon.url, timeout=60) as client:
                for seed, taken in enumerate(TYPES):
                    described = client.pipelines[taken]
                    self.assertEqual((described.input.dtype, described.input.element), (taken, taken))
                    x = np.stack([elements(taken, np.random.default_rng(seed + each)) for each in (0, 100, 200)])
                    result = client.submit(taken, x).result()
                    for given in TYPES:
                        for scale in (True, False):
                            y = np.asarray(result[f"to_{given}" if scale else f"as_{given}"])
                            self.assertEqual(y.dtype, wire.BFLOAT16 if given == "bf16" else NUMPY[given])
                            y = y.view(np.uint16) if given == "bf16" else y
                            expected = converted(taken, given, x, scale)
                            if given == "bf16":
                                y, expected = from_bf16(y), from_bf16(expected)
                            np.testing.assert_array_equal(bits(y), bits(expected), f"{taken} to {given}, {scale}")
        self.daemons.each(self, served)

    def test_each_comes_back_as_it_was_by_either_transport(self):
        def served(daemon):
            from penstock import Client
            for transport in ("zmq", "auto"):
                with Client(daemon.url, timeout=60, transport=transport) as client:
                    for dtype in TYPES:
                        x = np.stack([elements(dtype, np.random.default_rng(each)) for each in range(5)])
                        lent = client.frames(dtype, 5)  # in shared memory, by "auto"
                        lent.view(x.dtype)[...] = x
                        for given in (x, x[0], lent):
                            y = np.asarray(client.submit(dtype, given).result()["twice"]).view(x.dtype)
                            given = given.view(x.dtype)
                            np.testing.assert_array_equal(bits(y), bits(np.concatenate([given, given], -1)), dtype)
        self.daemons.each(self, served)

    def test_send_reads_and_writes_arrays_of_each(self):
        def served(daemon):
            for dtype in TYPES:
                with self.subTest(dtype), tempfile.TemporaryDirectory() as folder:
                    x = np.stack([elements(dtype, np.random.default_rng(each)) for each in range(5)])
                    file = pathlib.Path(folder) / "x.npy"
                    np.save(file, x.view("V2") if dtype == "bf16" else x)
                    subprocess.run([BIN / "penstock", "--url", daemon.url, "send", file, "-p", dtype, "-o",
                                    f"{folder}/out", "--output", "twice", "--output", f"to_{dtype}"],
                                   check=True, timeout=120, capture_output=True)
                    y = np.load(f"{folder}/out/twice.npy")
                    self.assertEqual(y.dtype, np.dtype("V2") if dtype == "bf16" else x.dtype)
                    self.assertEqual(y.tobytes(), np.concatenate([x, x], 1).tobytes())
                    self.assertEqual(np.load(f"{folder}/out/to_{dtype}.npy").shape, x.shape)
        self.daemons.each(self, served)


if __name__ == "__main__":
    unittest.main()
