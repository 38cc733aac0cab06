"""Makes vad.pt2, which finds speech, and prints the configuration that serves it: pip install torch silero-vad

    python3 silero_vad.py > vad.toml
    penstockd --config vad.toml &
    arecord -f S16_LE -r 16000 -c 1 -t raw | penstock send --pipeline vad --session microphone - --out -

The network is silero-vad's for 16 kHz, with the weights of the package's TorchScript file (its .safetensors and
_half.onnx hold others). That file keeps the state of one signal inside; here the state is an argument, so that one
batch serves the frames of many sessions. Each frame of 512 samples gives the probability that it is speech.
"""
import importlib.metadata
import pathlib
import sys

import torch
from torch.nn import functional

from penstock.torch import export

SAMPLES, CONTEXT, HIDDEN = 512, 64, 128


class SileroVad(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.basis = torch.nn.Parameter(weights["stft.forward_basis_buffer"])
        self.encoder = torch.nn.Sequential()
        for layer, stride in enumerate((1, 2, 2, 1)):
            weight = weights[f"encoder.{layer}.reparam_conv.weight"]
            conv = torch.nn.Conv1d(weight.shape[1], weight.shape[0], 3, stride, 1)
            conv.load_state_dict({"weight": weight, "bias": weights[f"encoder.{layer}.reparam_conv.bias"]})
            self.encoder += torch.nn.Sequential(conv, torch.nn.ReLU())
        self.lstm = torch.nn.LSTMCell(HIDDEN, HIDDEN)
        self.lstm.load_state_dict({name: weights[f"decoder.rnn.{name}"] for name in self.lstm.state_dict()})
        self.decoder = torch.nn.Linear(HIDDEN, 1)  # a convolution of one step
        self.decoder.load_state_dict({"weight": weights["decoder.decoder.2.weight"].squeeze(-1),
                                      "bias": weights["decoder.decoder.2.bias"]})

    def forward(self, x, context, h, c):
        x = torch.cat([context, x], 1)
        spectrum = functional.conv1d(functional.pad(x.unsqueeze(1), (0, 64), "reflect"), self.basis, stride=128)
        real, imaginary = spectrum.chunk(2, 1)
        h, c = self.lstm(self.encoder(torch.sqrt(real * real + imaginary * imaginary)).squeeze(-1), (h, c))
        return torch.sigmoid(self.decoder(functional.relu(h))), x[:, -CONTEXT:], h, c


def packaged():
    """silero-vad's own runtime of this network."""
    file = importlib.metadata.distribution("silero-vad").locate_file("silero_vad/data/silero_vad.jit")
    return torch.jit.load(str(file)).eval()


def load():
    prefix = "_model."
    return SileroVad({name.removeprefix(prefix): tensor for name, tensor in packaged().state_dict().items()
                      if name.startswith(prefix)}).eval()


def main(path="vad.pt2", *devices):
    stage = export(load(), path, inputs={"x": [SAMPLES]}, outputs=["speech"],
                   state={"context": [CONTEXT], "h": [HIDDEN], "c": [HIDDEN]}, sources={"x": "sound"},
                   devices=devices or ["cpu"])
    print(f"""config_version = 1

[code]
allow = ["{pathlib.Path(path).name}"]

[[pipeline]]
name  = "vad"
input = {{ dtype = "i16", shape = [{SAMPLES}] }}   # 32 ms at 16 kHz

[[pipeline.stage]]
name = "sound"
op   = "convert"                             # -32768..32767 to -1..1
to   = "f32"

{stage}""")


if __name__ == "__main__":
    main(*sys.argv[1:])
