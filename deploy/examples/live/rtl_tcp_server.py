#!/usr/bin/python3
"""Stands in for rtl_tcp where there is no dongle. Sends a recording of unsigned bytes, I and Q, to each client, in a loop
and at the rate that the client asks for. Prints the client's commands."""

import argparse
import selectors
import socket
import struct
import time

GREETING = struct.pack(">4sII", b"RTL0", 5, 29)  # an R820T with 29 gains
FREQUENCY, SAMPLE_RATE = 1, 2
NAMES = {FREQUENCY: "frequency", SAMPLE_RATE: "sample rate"}
CHUNK = 16384


def serve(client, samples, rate):
    """Until the client goes."""
    client.sendall(GREETING)
    waiting = selectors.DefaultSelector()
    waiting.register(client, selectors.EVENT_READ)
    asked, sent, began, at = b"", 0, time.monotonic(), 0
    while True:
        due = began + sent / (2 * rate) - time.monotonic()
        if waiting.select(max(due, 0)):
            got = client.recv(4096)
            if not got:
                return
            asked += got
            while len(asked) >= 5:
                command, value = struct.unpack(">BI", asked[:5])
                asked = asked[5:]
                print(f"{NAMES.get(command, f'command {command}')}: {value}", flush=True)
                if command == SAMPLE_RATE:
                    rate, sent, began = value, 0, time.monotonic()
            continue
        part = samples[at:at + CHUNK]
        client.sendall(part)
        sent += len(part)
        at = (at + len(part)) % len(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording")
    parser.add_argument("--port", type=int, default=1234)
    parser.add_argument("--rate", type=float, default=2.048e6)
    chosen = parser.parse_args()
    with open(chosen.recording, "rb") as file:
        samples = file.read()
    with socket.create_server(("127.0.0.1", chosen.port)) as server:
        while True:
            client, address = server.accept()
            print("connected:", address[0], flush=True)
            with client:
                try:
                    serve(client, samples, chosen.rate)
                except OSError as error:
                    print(error, flush=True)


if __name__ == "__main__":
    main()
