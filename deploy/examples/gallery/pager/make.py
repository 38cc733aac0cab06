"""A pager's transmission after ITU-R M.584 (POCSAG), pager.cu8: what a receiver hears at 240 kHz, 20 kHz off the middle.

A preamble of 576 alternating bits, and two batches of a synchronization word and eight frames of two codewords, at
512 bits a second (or 1200, where that is said) by FSK of 4.5 kHz to both sides, a 1 below. The sender's clock is 40 ppm
fast and its carrier 300 Hz high. There is noise, and one or two bits of some codewords are turned over. Writes what the
pipeline needs too.
"""

import sys

import numpy as np

RATE = 240_000
SYNC, IDLE = 0x7CD215D8, 0x7A89C197
GENERATOR = 0x769  # x^10 + x^9 + x^8 + x^6 + x^5 + x^3 + 1
CALLS = ((1234567, 3, "PENSTOCK 31"), (42, 0, "BIT ERRORS MENDED"))  # address, function, message


def codeword(information):
    """The 21 bits, ten check bits and the even parity."""
    rest = information << 10
    for bit in range(30, 9, -1):
        rest ^= GENERATOR << bit - 10 if rest >> bit & 1 else 0
    word = information << 10 | rest
    return word << 1 | bin(word).count("1") % 2


def message_of(text):
    """Message codewords: seven bits a letter, the lowest first, 20 in each."""
    bits = [ord(letter) >> bit & 1 for letter in text for bit in range(7)]
    bits += [0] * (-len(bits) % 20)
    return [codeword(1 << 20 | int("".join(map(str, bits[at:at + 20])), 2)) for at in range(0, len(bits), 20)]


def batches():
    """The codewords of each batch. An address stands in the frame that its last three bits name."""
    words = []
    for address, function, text in CALLS:
        words += [IDLE] * ((2 * (address % 8) - len(words)) % 16)
        words += [codeword(address // 8 << 2 | function), *message_of(text)]
    words += [IDLE] * (-len(words) % 16)
    return [words[at:at + 16] for at in range(0, len(words), 16)]


def sent(noise):
    """The bits, some of which are wrong."""
    bits = [1, 0] * 288
    for batch in batches():
        for number, word in enumerate([SYNC, *batch]):
            broken = [int(bit) for bit in f"{word:032b}"]
            for place in noise.choice(32, number % 3, replace=False):  # none, one, two
                broken[place] ^= 1
            bits += broken
    return np.array(bits)


def heard(bits, rate, noise):
    times = np.arange(int(len(bits) / rate * RATE)) / RATE * (1 + 40e-6)
    hertz = 20_000 + 300 + 4500 * (1 - 2 * bits[np.minimum((times * rate).astype(int), len(bits) - 1)])
    wave = 0.3 * np.exp(2j * np.pi * np.cumsum(hertz) / RATE)
    wave += 0.1 * (noise.standard_normal(len(wave)) + 1j * noise.standard_normal(len(wave)))
    return np.clip(np.round(np.stack([wave.real, wave.imag], -1) * 127.5 + 127.5), 0, 255).astype(np.uint8)


def fields():
    """Of 32 bits and the number of wrong ones: whether it is a message, an eighth of the address, function, wrong."""
    weights = np.zeros((33, 4))
    weights[0, 0] = weights[32, 3] = 1
    weights[1:19, 1] = 2.0 ** np.arange(17, -1, -1)
    weights[19:21, 2] = 2, 1
    return weights


def channel():
    k = np.arange(121) - 60
    taps = np.sinc(2 * 8000 / RATE * k) * np.hamming(121)
    return taps / taps.sum()


if __name__ == "__main__":
    noise = np.random.default_rng(584)
    np.save("fields.npy", fields())
    np.save("channel.npy", channel())
    rate = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    samples_of_a_bit = round(24_000 / rate)
    np.save("bit.npy", np.full(samples_of_a_bit, 1 / samples_of_a_bit))
    heard(np.concatenate([sent(noise), np.zeros(8, int)]), rate, noise).tofile("pager.cu8")
