#!/usr/bin/python3
"""Sends what a digitizer would: UDP packets of complex 16-bit samples, numbered, some of them lost on the way.

sequence  u64 number of the packet, little-endian; samples, little-endian
vita49    ANSI/VITA-49 data packets: everything big-endian, a 4-bit count, UTC seconds and picoseconds
"""

import argparse
import random
import socket
import struct
import time

import numpy

SAMPLES = 256  # of a packet
STREAM = 0x7E57
DATA_WITH_STREAM, UTC, PICOSECONDS = 1, 1, 2


def sequence(number, samples, began, rate):
    return struct.pack("<Q", number) + samples.astype("<i2").tobytes()


def vita49(number, samples, began, rate):
    payload = samples.astype(">i2").tobytes()
    head_words = 5  # with the stream's number, seconds and a fraction
    word = (DATA_WITH_STREAM << 28 | UTC << 22 | PICOSECONDS << 20 | number % 16 << 16 | head_words + len(payload) // 4)
    seconds, fraction = divmod(number * SAMPLES, rate)
    return struct.pack(">IIIQ", word, STREAM, began + seconds, fraction * 10**12 // rate) + payload


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", default="127.0.0.1:4990")
    parser.add_argument("--framing", choices=("sequence", "vita49"), default="sequence")
    parser.add_argument("--rate", type=int, default=1_000_000, help="samples per second")
    parser.add_argument("--packets", type=int, default=8000)
    parser.add_argument("--lose", type=float, default=0.001, help="the share of packets that is not sent")
    chosen = parser.parse_args()
    host, port = chosen.to.rsplit(":", 1)
    framing, chance, began = globals()[chosen.framing], random.Random(1), int(time.time())
    signal = 8000 * numpy.exp(2j * numpy.pi / 8 * numpy.arange(SAMPLES))  # an eighth of the rate above the middle
    samples = numpy.stack((signal.real, signal.imag), axis=1).round()
    lost, start = 0, time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for number in range(chosen.packets):
            if 0 < number < chosen.packets - 1 and chance.random() < chosen.lose:
                lost += 1
                continue
            out.sendto(framing(number, samples, began, chosen.rate), (host, int(port)))
            ahead = start + number * SAMPLES / chosen.rate - time.monotonic()
            if ahead > 0.005:
                time.sleep(ahead)
    print(f"sent {(chosen.packets - lost) * SAMPLES} samples, lost {lost * SAMPLES}")


if __name__ == "__main__":
    main()
