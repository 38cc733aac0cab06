#!/usr/bin/python3
"""A GNU Radio flowgraph whose samples go through the daemon and come back: ZMQ PUB with tags, a source, a filter that
keeps every tenth sample, a sink, ZMQ SUB. Says what is wanted of each figure; the exit code is 1 where one is missed.

    PENSTOCK_BIN=build/release/bin PYTHONPATH=client/python/src:tests/system tests/bench/live.py [--seconds 600]

  through   every sample that comes back is compared with scipy's filter in float64; nothing is lost
  return    kill -9 of the flowgraph: how soon after its return results come, and that they are of a new epoch

It needs a Python with GNU Radio 3.10, numpy, scipy and pyzmq. --rate and --seconds make it small.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy

TAPS = [0.02, 0.05, 0.1, 0.2, 0.26, 0.2, 0.1, 0.05, 0.02]
DECIMATION = 10
PERIOD = 240_000  # samples after which the signal begins again
BOUND = 1e-6  # of the sum of the taps' magnitudes times the largest sample: docs/operators.md, fir
ALIGNED = 4096  # samples that tell where in the period they are
FIRST = 64  # of them are of the filter's beginning


def signal_of_a_period():
    noise = numpy.random.default_rng(30).standard_normal((PERIOD, 2), numpy.float32)
    return (noise * numpy.float32(0.3)).view(numpy.complex64)[:, 0]


def flowgraph(chosen):
    """The other process. Prints what it has compared, as a line of JSON each half second."""
    from gnuradio import blocks, gr, zeromq
    from scipy.signal import lfilter

    samples = signal_of_a_period()
    twice = lfilter(TAPS, 1, numpy.concatenate((samples, samples)).astype(complex))[PERIOD:]
    wanted = [twice[phase::DECIMATION] for phase in range(DECIMATION)]
    bound = BOUND * numpy.abs(TAPS).sum() * numpy.abs(samples).max()

    class Compare(gr.sync_block):
        def __init__(self):
            gr.sync_block.__init__(self, "compare", [numpy.complex64], None)
            self.compared, self.breaks, self.worst, self.tags = 0, 0, 0.0, 0
            self.kept, self.phase, self.place = numpy.empty(0, numpy.complex64), None, 0

        def align(self):
            """Finds where in the period, and in the decimation, the samples are that were kept."""
            spectrum = numpy.conj(numpy.fft.fft(self.kept[:ALIGNED], PERIOD // DECIMATION))
            found = [numpy.abs(numpy.fft.ifft(numpy.fft.fft(each) * spectrum)) for each in wanted]
            self.phase = int(numpy.argmax([each.max() for each in found]))
            self.place = int(found[self.phase].argmax())

        def work(self, inputs, outputs):
            given = inputs[0]
            self.tags += len(self.get_tags_in_window(0, 0, len(given)))
            rest = given
            if self.phase is None:
                self.kept = numpy.concatenate((self.kept, given))
                if len(self.kept) < FIRST + ALIGNED:
                    return len(given)
                rest, self.kept = self.kept[FIRST:], self.kept[FIRST:]
                self.align()
                self.kept = numpy.empty(0, numpy.complex64)
            expected = wanted[self.phase].take(range(self.place, self.place + len(rest)), mode="wrap")
            worst = numpy.abs(rest - expected).max(initial=0)
            if worst > bound:
                self.breaks, self.phase = self.breaks + 1, None
            else:
                self.worst = max(self.worst, float(worst))
                self.compared += len(rest)
                self.place = (self.place + len(rest)) % (PERIOD // DECIMATION)
            return len(given)

    graph, compare = gr.top_block(), Compare()
    graph.connect(blocks.vector_source_c(samples.tolist(), True), blocks.throttle(gr.sizeof_gr_complex, chosen.rate),
                  zeromq.pub_sink(gr.sizeof_gr_complex, 1, chosen.out, 100, True, 1000))
    graph.connect(zeromq.sub_source(gr.sizeof_gr_complex, 1, chosen.back, 100, True, 1000), compare)
    began = time.time()
    graph.start()
    while True:
        print(json.dumps({"began": began, "compared": compare.compared, "breaks": compare.breaks,
                          "worst": compare.worst / bound, "tags": compare.tags}), flush=True)
        time.sleep(0.5)


class Flowgraph:
    """That process, and the last that it said."""

    def __init__(self, chosen, out, back):
        self.said = {}
        self.process = subprocess.Popen([sys.executable, __file__, "--rate", str(chosen.rate), "--out", out,
                                         "--back", back, "flowgraph"], stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.said = json.loads(line)

    def wait(self):
        """Until something came back."""
        from daemon_process import wait_until
        wait_until(lambda: self.said.get("compared") or self.process.poll() is not None, "something comes back", 60)
        if self.process.poll() is not None:
            raise SystemExit("the flowgraph has ended")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


def configuration(chosen, out, back):
    from daemon_process import VERSION, pipeline
    return VERSION + pipeline("band", "cf32", ["max 8192"],
                              [("narrow", "fir", f"decimation = {DECIMATION}\ntaps = {TAPS}\n")], ["narrow"]) + f"""
[[source]]
name = "radio"
type = "zmq-sub"
connect = ["{out}"]
framing = "gnuradio-tags"
sample_rate = {chosen.rate}
pipeline = "band"

[[sink]]
name = "back"
type = "zmq-pub"
bind = ["{back}"]
from = ["band.narrow"]
framing = "gnuradio-tags"
"""


class Figures:
    """Says each, and remembers whether one was missed."""

    def __init__(self):
        self.missed = False

    def say(self, what, value, wanted, holds):
        self.missed = self.missed or not holds
        print(f"{'ok    ' if holds else 'MISSED'} {what}: {value} (wanted: {wanted})", flush=True)


def through(chosen, daemon, graph, figures):
    graph.wait()
    time.sleep(chosen.seconds)
    graph.wait()
    shard, said = daemon.counters()["status"], graph.said
    source, results = shard["sources"][0], shard["sinks"][0]["results"]
    samples = source["samples"]
    print(f"samples {samples}, {source['gaps']} gaps; results {results}; the flowgraph heard {said}")
    least = 0.8 * samples["delivered"] / DECIMATION - chosen.rate / DECIMATION
    figures.say("samples that came back and are scipy's", said["compared"], f"at least {least:.0f}",
                said["compared"] >= max(least, 1))
    figures.say("places where they are not", said["breaks"], 0, said["breaks"] == 0)
    figures.say("largest difference, of 1e-6 of full scale", f"{said['worst']:.3f}", "at most 1", said["worst"] <= 1)
    lost = samples["network"] + samples["kernel"] + samples["overrun"] + samples["late"]
    figures.say("samples lost", lost, 0, lost == 0 and source["gaps"] == 0)
    figures.say("results that the sink dropped", results["dropped"], 0, results["dropped"] == 0)
    balanced = samples["balanced"] and results["balanced"]
    figures.say("what is expected is the sum of what came of it", balanced, True, balanced)


def back_again(chosen, daemon, graph, restart, figures):
    from penstock import Client
    with Client(daemon.url) as client, client.subscribe("band") as results:
        epoch = results.get(timeout=30).account.epoch
        graph.kill()
        time.sleep(1)
        graph = restart()
        while True:
            item = results.get(timeout=60)
            if item.account.epoch != epoch:
                break
        at = time.time()
    graph.wait()
    taken = at - graph.said["began"]
    figures.say("seconds from the flowgraph's return to a result", f"{taken:.3f}", "at most 1", taken <= chosen.patience)
    source = daemon.counters()["status"]["sources"][0]
    figures.say("epochs that began", source["epochs"], 1, source["epochs"] == 1 and item.account.epoch == epoch + 1)
    balanced = source["samples"]["balanced"]
    figures.say("what is expected is the sum of what came of it", balanced, True, balanced)
    return graph


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="*", help="through, return; both when left out")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=2.4e6)
    parser.add_argument("--patience", type=float, default=1, help="seconds for the return")
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--back", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part == ["flowgraph"]:
        return flowgraph(chosen)
    from daemon_process import Daemon, backends, free_port
    out, back = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    figures = Figures()
    daemon = Daemon(backends()[0], "callback", configuration(chosen, out, back))
    graph = Flowgraph(chosen, out, back)
    try:
        for part in chosen.part or ("through", "return"):
            if part == "through":
                through(chosen, daemon, graph, figures)
            else:
                graph = back_again(chosen, daemon, graph, lambda: Flowgraph(chosen, out, back), figures)
    finally:
        graph.kill()
        code, log = daemon.stop()
        if code != 0:
            print(log)
    return 1 if figures.missed or code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
