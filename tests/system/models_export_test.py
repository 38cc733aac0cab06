"""penstock.torch.export refuses what can't be served, by name and before it compiles, and writes whole packages.

It needs torch and a C++ compiler. That the daemon serves what it writes is tested by models_document_test.
"""

import hashlib
import json
import pathlib
import re
import shutil
import tempfile
import unittest
import zipfile

try:
    import numpy
    import torch
    from penstock.torch import _decompositions as decompositions, export, load
except ImportError as error:
    class MissingTest(unittest.TestCase):
        @unittest.skip(str(error))
        def test_models(self):
            pass

    unittest.main()

from torch.nn import functional


class Double(torch.nn.Module):
    def forward(self, x):
        return 2 * x


class Counter(torch.nn.Module):
    """Keeps state in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x + self.calls


class Remembering(torch.nn.Module):
    """Keeps state in an attribute."""

    def __init__(self):
        super().__init__()
        self.last = torch.zeros(1)

    def forward(self, x):
        y = x + self.last
        self.last = x.detach().mean(0)
        return y


class Call(torch.nn.Module):
    """Does what a function does."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


class Recurrent(torch.nn.Module):
    """Has all that PyTorch fuses: a convolution, normalization, attention, GRU and LSTM."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm1d(8)
        self.attention = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.gru = torch.nn.GRU(8, 8, batch_first=True)
        self.lstm = torch.nn.LSTMCell(8, 4)

    def forward(self, x, g, h, c):
        x = self.attention(functional.gelu(self.norm(self.conv(x))).transpose(1, 2))
        x, g = self.gru(x, g.unsqueeze(0))
        h, c = self.lstm(x[:, -1], (h, c))
        return x, h.softmax(1), g.squeeze(0), h, c


def call(function):
    return Call(function).eval()


class ModelsExportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refused(self, kind, message, model, **arguments):
        arguments = {"inputs": {"x": [4]}, "buckets": [1], **arguments}
        with self.subTest(message), self.assertRaisesRegex(kind, message):
            export(model, self.folder / arguments.pop("path", "no.pt2"), **arguments)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_model_that_keeps_state_inside_is_refused(self):
        self.refused(ValueError, "changes its buffer 'calls'.*name it in state", Counter().eval())
        self.refused(ValueError, "keeps state inside, or draws random numbers", Remembering().eval())
        self.refused(TypeError, "is TorchScript.*its state_dict", torch.jit.script(Double().eval()))
        self.refused(TypeError, "its module '0' is TorchScript",
                     torch.nn.Sequential(torch.jit.script(Double().eval())).eval())

    def test_a_model_that_is_no_module_or_in_training_is_refused(self):
        self.refused(TypeError, "model is a function, not a torch.nn.Module", lambda x: x)
        self.refused(ValueError, r"in training mode: call model.eval\(\)", torch.nn.Linear(4, 4))

    def test_a_wrong_state_is_named(self):
        halve = call(lambda x, h: (x, h[:, :2]))
        self.refused(ValueError, r"state: the new 'h' is f32\[2\], and state says f32\[4\]", halve, state={"h": [4]})
        self.refused(ValueError, r"returns 1 tensors, and outputs \(out\) and state \(h\) name 2",
                     call(lambda x, h: x + h), state={"h": [4]})
        self.refused(ValueError, "a is f32, b is f64; states are packed", call(lambda x, a, b: (x, a, b)),
                     state={"a": [4], "b": ("f64", [4])})
        self.refused(ValueError, r"state\['h'\] has the shape \[0\]", halve, state={"h": [0]})

    def test_a_type_that_penstock_lacks_is_named(self):
        self.refused(ValueError, r"inputs\['x'\] has the type 'f8'; Penstock's models have u8, ", Double().eval(),
                     inputs={"x": ("f8", [4])})
        self.refused(ValueError, r"inputs\['x'\] is torch.complex64", Double().eval(),
                     inputs={"x": torch.zeros(4, dtype=torch.complex64)})
        self.refused(ValueError, "outputs: 'out' is torch.complex64", call(torch.fft.rfft))

    def test_outputs_begin_with_the_frames(self):
        self.refused(ValueError, r"outputs: 'out' has the shape \[4, 3\] for 3 frames", call(lambda x: x.T))
        self.refused(ValueError, r"outputs: 'out' has the shape \[\] for 3 frames", call(torch.sum))
        self.refused(ValueError, r"one number a frame: return it as \[frames, 1\]", call(lambda x: x.sum(1)))
        self.refused(ValueError, "'out' depends on the other frames", call(lambda x: x - x.mean(0)))

    def test_control_flow_that_depends_on_values_is_refused(self):
        self.refused(TypeError, r"say it by torch\.where", call(lambda x: -x if (x < 100).all() else x))

    def test_wrong_arguments_are_named(self):
        for message, arguments in (("path='.*no.zip': a package's name ends in .pt2", {"path": "no.zip"}),
                                   (r"buckets=\(8, 8\)", {"buckets": [8, 8]}),
                                   (r"buckets=\(0,\)", {"buckets": [0]}),
                                   ("devices has 'gpu'; there are cpu and cuda", {"devices": ["gpu"]}),
                                   ("cpu='sse'; there are avx512, avx2", {"cpu": "sse"}),
                                   ("outputs: 'a b' is no name", {"outputs": ["a b"]}),
                                   (r"sources\['z'\]: the model has no such input; it has x", {"sources": {"z": "s"}}),
                                   (r"inputs\['x'\] has the shape \[\]", {"inputs": {"x": []}}),
                                   (r"not run on 3 frames of x f32\[4\]", {"model": torch.nn.Linear(5, 4).eval()})):
            self.refused(ValueError, message, arguments.pop("model", Double().eval()), **arguments)
        if not torch.cuda.is_available():
            self.refused(ValueError, "PyTorch finds no GPU here", Double().eval(), devices=["cuda"])

    def test_cells_that_a_gpu_fuses_are_written_out(self):
        x, h, c = torch.randn(3, 5), torch.randn(3, 7), torch.randn(3, 7)
        lstm, gru = torch.nn.LSTMCell(5, 7), torch.nn.GRUCell(5, 7)
        table = decompositions()
        for cell, fused, state in ((lstm, torch.ops.aten._thnn_fused_lstm_cell.default, c),
                                   (gru, torch.ops.aten._thnn_fused_gru_cell.default, h)):
            got = table[fused](x @ cell.weight_ih.T, h @ cell.weight_hh.T, state, cell.bias_ih, cell.bias_hh)
            wanted = cell(x, (h, c)) if cell is lstm else (cell(x, h),)
            for mine, theirs in zip(got, wanted):
                torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)

    @unittest.skipUnless(shutil.which("g++"), "g++ is not installed")
    def test_a_package_has_what_the_daemon_needs(self):
        names = {"g": [8], "h": [4], "c": [4]}
        stage = export(Recurrent().eval(), self.folder / "all.pt2", inputs={"x": numpy.zeros((2, 5), "f4")},
                       outputs=["x", "h"], state=names, buckets=[2], name="net", sources={"x": "sound"})
        content = (self.folder / "all.pt2").read_bytes()
        self.assertEqual(stage, '[[pipeline.stage]]\nname   = "net"\nop     = "model"\nfile   = "all.pt2"\n'
                         f'inputs = {{ x = "sound" }}\nsha256 = "{hashlib.sha256(content).hexdigest()}"')
        self.assertEqual((self.folder / "all.pt2").stat().st_mode & 0o022, 0)
        self.assertEqual([each.name for each in self.folder.iterdir()], ["all.pt2"])
        with zipfile.ZipFile(self.folder / "all.pt2") as package:
            facts = json.loads(package.read("all/extra/penstock.json"))
            files = {each.filename: package.read(each) for each in package.infolist()}
            self.assertEqual({each.compress_type for each in package.infolist()}, {zipfile.ZIP_STORED})
        self.assertEqual(facts["inputs"], [{"name": "x", "dtype": "f32", "shape": [2, 5]}])
        self.assertEqual(facts["outputs"], [{"name": "x", "dtype": "f32", "shape": [5, 8]},
                                            {"name": "h", "dtype": "f32", "shape": [4]}])
        self.assertEqual(facts["state"], {"dtype": "f32", "shape": [16]})
        self.assertEqual(facts["buckets"], {"cpu": [2], "cuda": []})
        self.assertEqual(facts["torch"], torch.__version__.split("+")[0])
        libraries = {name: code for name, code in files.items() if name.endswith(".so")}
        self.assertEqual([name.rsplit("/", 1)[0] for name in libraries], ["all/data/aotinductor/cpu_2"])
        results = load(self.folder / "all.pt2", 2)(torch.zeros(2, 2, 5), torch.zeros(2, 16))
        self.assertEqual([tuple(each.shape) for each in results], [(2, 5, 8), (2, 4), (2, 16)])
        # What computes is what the daemon has itself.
        called = set(re.findall(rb"aoti_torch_cpu_\w+", b"".join(libraries.values())))
        self.assertLessEqual(called, {b"aoti_torch_cpu_" + each for each in
                                      (b"addmm_out", b"mm_out", b"bmm_out", b"convolution")})


if __name__ == "__main__":
    unittest.main()
