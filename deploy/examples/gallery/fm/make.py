"""Two seconds of a station on ultra-short waves after ITU-R BS.450, fm.cu8: what a receiver hears at 480 kHz, 100 kHz
below the station.

The sound, sound.i16, is what one should hear at 48 kHz: a tone that rises through four octaves, and another one. It is
sent with a pre-emphasis of 50 microseconds at 90 % of the deviation of 75 kHz, with a pilot of 19 kHz at 10 % and a
stereo difference of 3 kHz around 38 kHz. There are noise, and a station of the same strength 300 kHz below.
"""

import numpy as np

RATE = 480_000
SECONDS = 2


def sound(t):
    return 0.4 * np.sin(2 * np.pi * 200 * (16 ** (t / SECONDS) - 1) * SECONDS / np.log(16)) + 0.2 * np.sin(
        2 * np.pi * 440 * t)


def emphasized(x):
    """With the inverse of the receiver's de-emphasis, s · 50 us + 1, by the spectrum; nothing above 15 kHz."""
    spectrum = np.fft.rfft(x)
    hertz = np.fft.rfftfreq(len(x), 1 / RATE)
    return np.fft.irfft(np.where(hertz < 15e3, spectrum * (1 + 2j * np.pi * hertz * 50e-6), 0), len(x))


def heard(noise):
    t = np.arange(SECONDS * RATE) / RATE
    mono = emphasized(sound(t))
    multiplex = 0.75 * mono + 0.1 * np.sin(2 * np.pi * 19e3 * t)
    multiplex += 0.1 * np.sin(2 * np.pi * 3e3 * t) * np.sin(2 * np.pi * 38e3 * t)
    wave = np.exp(2j * np.pi * (100e3 * t + 75e3 * np.cumsum(multiplex) / RATE))
    wave += np.exp(2j * np.pi * (-200e3 * t + 3 * np.sin(2 * np.pi * 1e3 * t)))
    wave = 0.4 * wave + 0.02 * (noise.standard_normal(len(t)) + 1j * noise.standard_normal(len(t)))
    return np.clip(np.round(np.stack([wave.real, wave.imag], -1) * 127.5 + 127.5), 0, 255).astype(np.uint8)


def low_pass(hertz, rate, count):
    k = np.arange(count) - (count - 1) / 2
    taps = np.sinc(2 * hertz / rate * k) * np.hamming(count)
    return taps / taps.sum()


if __name__ == "__main__":
    np.save("station.npy", low_pass(100e3, RATE, 95))
    np.save("mono.npy", low_pass(17e3, 240e3, 241))
    heard(np.random.default_rng(450)).tofile("fm.cu8")
    t = np.arange(SECONDS * 48_000) / 48_000
    np.round(0.75 * sound(t) * 32768).astype("<i2").tofile("sound.i16")
