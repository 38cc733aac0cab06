"""What a pulse radar hears of three targets, echoes.ci16: eight bursts of 64 pulses, 575 samples behind each.

The pulse is pulse.npy, of 64 samples whose frequency rises through 0.8 of the band. It is shaped, so that a strong
target's sidelobes hide no weak one, and scaled, so that the map shows a target's level. Targets lie below the noise.
"""

import numpy as np

TARGETS = ((97, 9.0, -34), (240, -13.0, -40), (402, 0.5, -37))  # range, turns in 64 pulses, decibels of full scale


def pulse():
    k = np.arange(64) - 31.5
    return np.exp(1j * np.pi * 0.8 / 64 * k * k)


def template():
    shape = np.hamming(64)
    pulses = 0.54 * 64  # what the window over the pulses sums to
    return pulse() * shape / shape.sum() / pulses


def burst(noise):
    heard = 0.02 * (noise.standard_normal((64, 575)) + 1j * noise.standard_normal((64, 575)))
    turns = np.arange(64) / 64
    for place, speed, level in TARGETS:
        heard[:, place:place + 64] += 10 ** (level / 20) * np.outer(np.exp(2j * np.pi * speed * turns), pulse())
    return heard


if __name__ == "__main__":
    noise = np.random.default_rng(8)
    np.save("pulse.npy", template())
    echoes = np.concatenate([burst(noise) for _ in range(8)])
    np.round(np.stack([echoes.real, echoes.imag], -1) * 32768).astype("<i2").tofile("echoes.ci16")
