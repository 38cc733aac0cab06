"""Three minutes of a seismic station, station.i24: packed big-endian counts at 100 Hz, and three local earthquakes.

The ground moves by microseisms of 0.2 Hz, fifty times as strong as the station's own noise. An earthquake is an onset
of a wave around 6 Hz that fades, and a stronger one behind it: P and S. Prints when each P arrives.
"""

import numpy as np

RATE = 100
ARRIVALS = ((3507, 700, 3.1), (8012, 3000, 4.4), (13950, 400, 2.2))  # sample of P, counts, seconds until S


def station():
    """The counts."""
    noise = np.random.default_rng(31)
    n = np.arange(180 * RATE)
    ground = 3000 * np.sin(2 * np.pi * 0.2 * n / RATE + np.sin(2 * np.pi * 0.011 * n / RATE))
    ground = ground + 60 * noise.standard_normal(len(n))
    for first, level, lag in ARRIVALS:
        for onset, gain, fade in ((first, 1.0, 1.5), (first + int(lag * RATE), 2.5, 3.0)):
            t = (n[onset:] - onset) / RATE
            carrier = np.convolve(noise.standard_normal(len(t) + 20), np.hanning(22)[1:-1], "same")[10:-10]
            wave = np.cos(2 * np.pi * 6 * t) + 0.3 * carrier
            ground[onset:] += gain * level * wave * np.exp(-t / fade)
    return np.clip(np.round(ground), -(1 << 23), (1 << 23) - 1).astype(">i4")


if __name__ == "__main__":
    station().view(np.uint8).reshape(-1, 4)[:, 1:].tofile("station.i24")
    for first, _, _ in ARRIVALS:
        print(f"P arrives at sample {first}, {first / RATE:.2f} s")
