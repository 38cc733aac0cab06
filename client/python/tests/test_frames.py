"""Arrays of every dtype, to messages and back."""
import unittest

import numpy as np

from penstock import frames, wire
from penstock.control import PipelineDescription, TensorDescription

BF16 = wire.BFLOAT16
ONE_AND_A_HALF = 0x3FC0  # as bf16

#: The wire's name, DLPack's code and bits, and elements at the ends of the range.
ARRAYS = {
    "u8": (1, 8, np.array([0, 255, 7], np.uint8)), "u16": (1, 16, np.array([0, 65535, 7], np.uint16)),
    "i8": (0, 8, np.array([-128, 127, 7], np.int8)), "i16": (0, 16, np.array([-32768, 32767, 7], np.int16)),
    "i32": (0, 32, np.array([-2**31, 2**31 - 1, 7], np.int32)),
    "i64": (0, 64, np.array([-2**63, 2**63 - 1, 7], np.int64)),
    "f16": (2, 16, np.array([65504, -0.0, np.inf], np.float16)),
    "bf16": (4, 16, np.array([0x7F7F, 0x8000, ONE_AND_A_HALF], np.uint16).view(BF16)),
    "f32": (2, 32, np.array([3e38, -0.0, np.inf], np.float32)), "f64": (2, 64, np.array([1e300, -0.0, 0.1])),
    "c64": (5, 64, np.array([1 + 2j, -3j, 0], np.complex64)), "bool": (6, 8, np.array([True, False, True])),
}


def pipeline(dtype):
    taken = TensorDescription("input", dtype, dtype, (3,), False, "")
    return PipelineDescription(0, "p", 4, taken, (TensorDescription("out", dtype, dtype, (3,), False, "affine"),))


def answered(given, outputs, described):
    """A RESULT of these frames as it is read."""
    header = wire.Header(wire.MessageType.RESULT, tensors=1, frames=given.count)
    head = wire.encode_header(header) + wire.encode_tensor(given.tensor)
    return frames.unpack(described or outputs, wire.decode_header(head), head, frames.taken_from([given.payload]),
                         given.single)


class FramesTest(unittest.TestCase):
    def test_every_dtype_goes_and_comes(self):
        for dtype, (code, bits, array) in ARRAYS.items():
            for x in (array, np.stack([array, array[::-1]])):
                with self.subTest(dtype, shape=x.shape):
                    described = pipeline(dtype)
                    given = frames.pack(described, x)
                    self.assertEqual((given.tensor.code, given.tensor.bits, given.tensor.lanes), (code, bits, 1))
                    self.assertEqual(bytes(given.payload), x.tobytes())
                    result = answered(given, described.outputs, None)["out"]
                    self.assertEqual((result.dtype, result.shape), (array.dtype, x.shape))
                    self.assertEqual(result.tobytes(), x.tobytes())

    def test_bytes_in_another_order_are_turned_around(self):
        for dtype, (_, _, array) in ARRAYS.items():
            if dtype != "bf16":
                with self.subTest(dtype):
                    turned = array.astype(array.dtype.newbyteorder(">"))
                    self.assertEqual(bytes(frames.pack(pipeline(dtype), turned).payload), array.tobytes())

    def test_no_dtype_is_taken_for_another(self):
        for dtype in ARRAYS:
            for other, (_, _, array) in ARRAYS.items():
                if dtype != other and not (dtype == "bf16" and other == "u16") and not (
                        {dtype, other} == {"bf16", "u16"} and BF16.kind == "u"):
                    with self.subTest(dtype, given=other), self.assertRaisesRegex(TypeError, f"takes {dtype}"):
                        frames.pack(pipeline(dtype), array)

    def test_the_bits_of_bf16_are_taken_as_they_are(self):
        bits = np.array([[0x7F7F, 0x8000, ONE_AND_A_HALF]] * 4, np.uint16)
        for x in (bits, bits.astype(">u2"), np.asfortranarray(bits)):
            given = frames.pack(pipeline("bf16"), x)
            self.assertEqual((given.tensor.code, bytes(given.payload)), (4, bits.tobytes()))

    def test_a_wrong_array_for_bf16_is_told_how_to_become_right(self):
        with self.assertRaisesRegex(TypeError, r"write x\.astype\(ml_dtypes\.bfloat16\)"):
            frames.pack(pipeline("bf16"), np.ones(3, np.float32))

    def test_a_result_of_u16_is_none_of_bf16(self):
        given = frames.pack(pipeline("u16"), ARRAYS["u16"][2])
        with self.assertRaises(wire.DecodeError):
            answered(given, (), pipeline("bf16").outputs)

    def test_a_dtype_of_a_later_daemon_is_refused_by_its_name(self):
        with self.assertRaisesRegex(TypeError, "does not know the dtype 'f8'"):
            frames.pack(pipeline("f8"), np.ones(3, np.uint8))


if __name__ == "__main__":
    unittest.main()
