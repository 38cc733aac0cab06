"""Twenty seconds of vibration at 12 kHz, bearing.f32, of a bearing with a fault, and what the pipeline needs.

The bearing is a 6205: nine balls of 7.94 mm on a circle of 39.04 mm, at 1797 turns a minute. Where is the fault? Say
outer, inner or ball. Each pass of the fault rings the housing at 3 kHz for a millisecond; balls slip, so that passes
come 1 % early or late. The inner race's fault turns with the shaft, through the load and out of it, a ball's with the
cage.
"""

import sys

import numpy as np

RATE = 12000
SHAFT = 1797 / 60
RATIO = 7.94 / 39.04
PASSES = {"outer": 4.5 * SHAFT * (1 - RATIO), "inner": 4.5 * SHAFT * (1 + RATIO),
          "ball": SHAFT / RATIO * (1 - RATIO ** 2), "cage": SHAFT / 2 * (1 - RATIO)}  # a second
TURNS = {"outer": 0, "inner": SHAFT, "ball": PASSES["cage"]}  # of the fault through the load


def vibration(fault):
    noise = np.random.default_rng(6205)
    samples = np.zeros(20 * RATE)
    ring = np.arange(120) / RATE
    ring = np.exp(-ring / 1e-3) * np.sin(2 * np.pi * 3000 * ring)
    passes = np.arange(int(20 * PASSES[fault])) + 0.01 * noise.standard_normal(int(20 * PASSES[fault]))
    for moment in passes / PASSES[fault]:
        first = max(int(moment * RATE), 0)
        load = 1 + 0.8 * np.cos(2 * np.pi * TURNS[fault] * moment) if TURNS[fault] else 1
        part = samples[first:first + len(ring)]
        part += load * ring[:len(part)]
    t = np.arange(len(samples)) / RATE
    samples += 2 * np.sin(2 * np.pi * SHAFT * t) + np.sin(2 * np.pi * 2 * SHAFT * t)  # imbalance
    return (samples + noise.standard_normal(len(samples))).astype("<f4")


def low_pass():
    k = np.arange(129) - 64
    taps = np.sinc(2 * 600 / RATE * k) * np.hamming(129)
    return taps / taps.sum()


def lines():
    """Of 1501 bins, half a hertz apart: the mean around each fault's harmonics, and that of all, four times."""
    weights = np.zeros((1501, 8))
    for column, passes in enumerate(PASSES.values()):
        for harmonic in (1, 2, 3):
            middle = round(2 * passes * harmonic)
            weights[middle - 1:middle + 2, column] += 1 / 9
    weights[4:, 4:] = 1 / 1497
    return weights


if __name__ == "__main__":
    np.save("low_pass.npy", low_pass())
    np.save("lines.npy", lines())
    vibration(sys.argv[1] if len(sys.argv) > 1 else "outer").tofile("bearing.f32")
    print(", ".join(f"{name} {passes:.1f} Hz" for name, passes in PASSES.items()))
