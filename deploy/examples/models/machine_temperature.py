"""Trains a network of two layers on the temperature of a machine, makes machine.pt2 of it, and prints the configuration
that serves it: pip install torch

    python3 machine_temperature.py machine_temp.f32 > machine.toml
    penstockd --config machine.toml &
    penstock send --pipeline machine --session boiler machine_temp.f32 --out results

The network expects the next reading from the last 24, which the state keeps. It is trained on the first half of the
recording, in a few seconds. Each frame is one reading; what comes back is by how many degrees it is off. It is most
where the machine comes back from its first stop.
"""
import pathlib
import sys

import numpy
import torch

from penstock.torch import export

READINGS = 24


class Surprise(torch.nn.Module):
    def __init__(self, mean, deviation):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(READINGS, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        self.mean, self.deviation = mean, deviation

    def expected(self, past):
        last = past[:, -1:]
        return last + self.deviation * self.layers((past - self.mean) / self.deviation)

    def forward(self, x, past, known):
        """`known`: how many readings of the past there are, up to all."""
        off = torch.where(known >= READINGS, x - self.expected(past), 0.0)
        return off, torch.cat([past[:, 1:], x], 1), torch.clamp(known + 1, max=READINGS)


def train(readings):
    torch.manual_seed(1)
    half = torch.from_numpy(readings[:len(readings) // 2])
    model = Surprise(float(half.mean()), float(half.std()))
    windows = half.unfold(0, READINGS + 1, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(300):
        loss = torch.nn.functional.l1_loss(model.expected(windows[:, :-1]), windows[:, -1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def main(recording, path="machine.pt2", *devices):
    model = train(numpy.fromfile(recording, "<f4"))
    stage = export(model, path, inputs={"x": [1]}, outputs=["off"], state={"past": [READINGS], "known": [1]},
                   pipeline="machine", devices=devices or ["cpu"])
    print(f"""config_version = 1

[code]
allow = ["{pathlib.Path(path).name}"]

{stage}""")


if __name__ == "__main__":
    main(*sys.argv[1:])
