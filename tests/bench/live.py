#!/usr/bin/python3
"""Live data at work. Says what is wanted of each figure; the exit code is 1 where one is missed.

    PENSTOCK_BIN=build/release/bin PYTHONPATH=client/python/src:tests/system tests/bench/live.py [PART...]

A GNU Radio flowgraph whose samples go through the daemon and come back: ZMQ PUB with tags, a source, a filter that
keeps every tenth sample, a sink, ZMQ SUB:

  through    every sample that comes back is compared with scipy's filter in float64; nothing is lost
  return     kill -9 of the flowgraph: how soon after its return results come, and that they are of a new epoch

Without GNU Radio:

  isolation  the p99 of ordinary clients beside sinks that are stuck, a source that is flooded, and peers that are dead
  replay     how well `penstock replay` and a source of type file keep a recording's pace
  losses     sources of ZeroMQ and UDP whose senders lose, repeat and swap what they send: no result is silently of
             other samples than it says, each is the filter's, the account balances, and memory is flat

It needs a Python with numpy and pyzmq, and for the flowgraph GNU Radio 3.10 and scipy. --rate and --seconds make it
small.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
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


ECHO_RATE = 1000  # requests a second of four ordinary clients together
RADIO_RATE = 400e3
CASES = ("without", "stuck", "flooded", "dead")
ISOLATION_BOUND = 1.5


def radio(chosen):
    """The other process: pushes blocks at its rate."""
    import zmq
    with zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.connect(chosen.out)
        block = numpy.ones(8192, numpy.complex64)
        began, sent = time.monotonic(), 0
        while True:
            push.send(block)
            sent += len(block)
            time.sleep(max(0, began + sent / chosen.rate - time.monotonic()))


def flood(chosen):
    """The other process: numbered datagrams at full speed, every other two milliseconds: half of a processor."""
    host, port = chosen.out.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as box:
        samples, number = bytes(1464), 0
        while True:
            end = time.monotonic() + 0.002
            while time.monotonic() < end:
                box.sendto(number.to_bytes(8, "little") + samples, (host, int(port)))
                number += 1
            time.sleep(0.002)


def listener(chosen):
    """The other process: a client that hears everything."""
    from penstock import Client
    with Client(chosen.out) as client, client.subscribe(["echo", "band"]) as results:
        for _ in results:
            pass


@contextlib.contextmanager
def process_of(part, out, rate=0.0):
    process = subprocess.Popen([sys.executable, __file__, part, "--out", out, "--rate", str(rate)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def table(kind, name, lines):
    return f'[[{kind}]]\nname = "{name}"\n{lines}\n'


def stop(daemon):
    code, log = daemon.stop()
    if code != 0:
        raise SystemExit(f"the daemon ended with {code}:\n{log}")


def beside(case, feed, other, pipe):
    """A configuration: the clients' pipeline, a radio, and what the case says."""
    from daemon_process import VERSION, pipeline
    filter_of = [("narrow", "fir", f"decimation = {DECIMATION}\ntaps = {TAPS}\n")]
    text = (VERSION + pipeline("echo", "f32", [1024], [("y", "affine", "")], ["y"])
            + pipeline("band", "cf32", ["max 8192"], filter_of, ["narrow"]))
    common = 'pipeline = "band"\nblock = 8192\nsample_rate = 1e6\n'
    text += table("source", "radio", common + f'type = "zmq-pull"\nbind = ["tcp://{feed}"]')
    if case == "stuck":
        common_of_sinks = 'queue = "1 MiB"\n'
        text += table("sink", "push", common_of_sinks + f'type = "zmq-push"\nbind = ["tcp://{other}"]\n'
                                                        'framing = "raw"\nfrom = ["echo", "band"]')
        text += table("sink", "pipe", common_of_sinks + f'type = "file"\npath = "{pipe}"\nfrom = ["echo"]')
    if case in ("flooded", "dead"):
        text += table("source", "box", common + f'type = "udp"\nlisten = "{other}"\nframing = "sequence"')
    if case == "dead":
        text += table("source", "nobody", common + f'type = "zmq-sub"\nconnect = ["tcp://{other}"]')
    return text


def measured_beside(case, chosen):
    """What `penstock bench` says of four clients, in a daemon of its own; and what the daemon says then."""
    import zmq
    from daemon_process import BIN, Daemon, backends, free_port, wait_until
    feed, other, clients = (f"127.0.0.1:{free_port()}" for _ in range(3))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        pipe, said = pathlib.Path(folder) / "pipe", pathlib.Path(folder) / "said"
        os.mkfifo(pipe)
        stack.callback(os.close, os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
        daemon = Daemon(backends()[0], "callback", beside(case, feed, other, pipe), more_urls=(f"tcp://{clients}",))
        stack.callback(stop, daemon)

        def status():
            return daemon.counters()["status"]

        stack.enter_context(process_of("radio", f"tcp://{feed}", RADIO_RATE))
        wait_until(lambda: any(each["samples"]["delivered"] for each in status()["sources"]), "the radio sends")
        if case == "stuck":
            puller = stack.enter_context(stack.enter_context(zmq.Context()).socket(zmq.PULL))
            puller.rcvhwm = 1
            puller.connect(f"tcp://{other}")
        if case == "flooded":
            stack.enter_context(process_of("flood", other))
            wait_until(lambda: all(each["samples"]["delivered"] for each in status()["sources"]), "the flood comes")
        if case == "dead":
            hears = stack.enter_context(process_of("listener", f"tcp://{clients}"))
            wait_until(lambda: status()["subscriptions"]["open"], "somebody listens")
        bench = subprocess.Popen([BIN / "penstock", "--url", f"tcp://{clients}", "--transport", "zmq", "bench", "-p",
                                  "echo", "--clients", "4", "--rate", str(ECHO_RATE), "--warmup", "2s", "--duration",
                                  f"{chosen.seconds:g}s", "--json", said], stdout=subprocess.DEVNULL)
        if case == "dead":
            time.sleep(2 + chosen.seconds / 4)
            hears.kill()
        if bench.wait() != 0:
            raise SystemExit("penstock bench has failed")
        return json.loads(said.read_text()), status()


def isolation(chosen, figures):
    p99 = {case: [] for case in CASES}
    for _ in range(chosen.repeats):
        for case in CASES:
            said, status = measured_beside(case, chosen)
            p99[case].append(said["latency_us"]["p99"])
            check_case(case, status, figures)
    for case, values in p99.items():
        print(f"p99 {case}: {statistics.median(values):.0f} us ({min(values):.0f} to {max(values):.0f})")
    for case in CASES[1:]:
        ratios = [beside / without for beside, without in zip(p99[case], p99["without"])]
        middle = statistics.median(ratios)
        figures.say(f"p99 beside what is {case}, of that without it", f"{middle:.2f} ({min(ratios):.2f} to "
                    f"{max(ratios):.2f})", f"at most {ISOLATION_BOUND}", middle <= ISOLATION_BOUND)


def check_case(case, status, figures):
    """That it was what it says."""
    balanced = all(each["samples"]["balanced"] for each in status["sources"])
    balanced = balanced and all(each["results"]["balanced"] for each in status.get("sinks", ()))
    if not balanced:
        figures.say("what is expected is the sum of what came of it", False, True, False)
    stuck = [each["results"]["dropped"] > 0 and each["state"] == "full" for each in status.get("sinks", ())]
    if not all(stuck):
        figures.say("sinks are stuck", status["sinks"], "both", False)


PACE_RATE = 240e3
PACE_BOUND = 1e-3


def replay(chosen, figures):
    """Both at once: a source of type file, and the command."""
    from daemon_process import BIN, VERSION, Daemon, backends, pipeline
    from penstock import Client
    with tempfile.TemporaryDirectory() as folder:
        tape = pathlib.Path(folder) / "tape.sigmf-meta"
        tape.write_text(json.dumps({"global": {"core:datatype": "cf32_le", "core:sample_rate": PACE_RATE,
                                               "core:version": "1.0.0"},
                                    "captures": [{"core:sample_start": 0}], "annotations": []}))
        with open(tape.with_suffix(".sigmf-data"), "wb") as data:
            data.truncate(int(chosen.seconds * PACE_RATE) // 4096 * 4096 * 8)
        text = VERSION + pipeline("power", "cf32", [4096], [("y", "magnitude", "")], ["y"]) + table(
            "source", "file", f'type = "file"\npath = "{tape}"\npace = "1x"\npipeline = "power"')
        daemon = Daemon(backends()[0], "callback", text)
        heard = {"file": [], "command": []}
        try:
            with Client(daemon.url) as client, client.subscribe("power") as results:
                command = subprocess.Popen([BIN / "penstock", "--url", daemon.url, "replay", tape, "--pipeline",
                                            "power", "--pace", "1x", "--session", "command"],
                                           stdout=subprocess.DEVNULL)
                last = int(chosen.seconds * PACE_RATE) // 4096 * 4096 - 4096
                while not all(times and times[-1][1] >= last for times in heard.values()):
                    item = results.get(timeout=30)
                    heard[item.session].append((time.monotonic(), item.account.index))
                command.wait()
            status = daemon.counters()["status"]["sources"][0]
        finally:
            code, log = daemon.stop()
            if code != 0:
                print(log)
    for who, times in heard.items():
        at, index = numpy.array(times).T
        error = numpy.polyfit(at - at[0], (index - index[0]) / PACE_RATE, 1)[0] - 1
        whole = (index[-1] - index[0]) / PACE_RATE / (at[-1] - at[0]) - 1
        figures.say(f"error of the rate over {(index[-1] - index[0]) / PACE_RATE:.1f} s, {who}", f"{error:+.2e} "
                    f"(first to last: {whole:+.2e})", f"at most {PACE_BOUND}", abs(error) < PACE_BOUND)
    samples = status["samples"]
    figures.say("samples of the file that were lost", samples["expected"] - samples["delivered"], 0,
                samples["expected"] == samples["delivered"] and samples["balanced"])


LOSSY_RATE = 1e6  # of the sender of ZeroMQ; that of UDP has half
TONE = 1 / 50  # cycles a sample
TONE_BOUND = 1e-6
SETTLED = 60  # seconds after which memory is flat
GROWTH_BOUND = 16  # MiB, from then on
PACKET = 512  # samples


TONES = numpy.exp(2j * numpy.pi * TONE * numpy.arange(50 + 8500)).astype(numpy.complex64)


def tone(index, count):
    return TONES[index % 50:][:count]


def lossy_radio(chosen):
    """The other process: publishes messages of any length with GNU Radio's header, and skips some samples."""
    import struct
    import zmq
    random = numpy.random.default_rng(30)
    with zmq.Context() as context, context.socket(zmq.PUB) as out:
        out.sndhwm = 0
        out.connect(chosen.out)
        began, index = time.monotonic(), 0
        while True:
            count = int(random.integers(500, 8500))
            if random.random() < 0.003:
                index += int(random.integers(1, 200_000 if random.random() < 0.2 else 20_000))
            out.send(struct.pack("<HBQQ", 0x5FF0, 1, index, 0) + tone(index, count).tobytes())
            index += count
            time.sleep(max(0, began + index / chosen.rate - time.monotonic()))


def lossy_box(chosen):
    """The other process: numbered datagrams, of which some are lost, come twice, or late."""
    host, port = chosen.out.split(":")
    random, held = numpy.random.default_rng(31), []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        def send(packet):
            out.sendto(packet, (host, int(port)))
        began, number = time.monotonic(), 0
        while True:
            for chance in random.random(8):
                packet = number.to_bytes(8, "little") + tone(number * PACKET, PACKET).tobytes()
                number += 1
                if chance < 0.004:
                    held += [packet] if chance < 0.002 else []
                    continue
                for _ in range(2 if chance < 0.006 else 1):
                    send(packet)
                if held and random.random() < 0.3:
                    send(held.pop())
            if random.random() < 0.0005:
                number += int(random.integers(100))
            time.sleep(max(0, began + number * PACKET / (chosen.rate / 2) - time.monotonic()))


class ToneCheck:
    """Of one pipeline's results: whether each follows on those before, or says why not, and is the filter's tone."""

    def __init__(self):
        self.checked, self.silent, self.worst, self.ends = 0, 0, 0.0, {}
        powers = numpy.exp(-2j * numpy.pi * TONE * numpy.arange(len(TAPS)))
        self.gain = numpy.dot(TAPS, powers)

    def take(self, item):
        account, given = item.account, item.array.reshape(-1)
        end, was_filled = self.ends.get(item.session, (None, True))
        self.ends[item.session] = account.index + len(given) * DECIMATION, account.filled > 0
        if end is not None and account.index != end and not account.lost_before:
            self.silent += 1
        if end is None or account.lost_before or account.filled or was_filled:
            return  # the filter still has samples that are no tone
        # The index is that of the tap in the middle.
        at = account.index_of("narrow") + (len(TAPS) - 1) // 2 + DECIMATION * numpy.arange(len(given))
        expected = self.gain * numpy.exp(2j * numpy.pi * numpy.mod(TONE * at, 1))
        self.worst = max(self.worst, float(numpy.abs(given - expected).max(initial=0)))
        self.checked += 1


def losses(chosen, figures):
    from daemon_process import VERSION, Daemon, backends, free_port, pipeline
    from penstock import Client
    radio_url, box = f"tcp://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    common = 'pipeline = "band"\nblock = 8000\ngap = { policy = "fill", max_fill = "10ms", beyond = "new-epoch" }\n'
    text = VERSION + pipeline("band", "cf32", ["max 8000"],
                              [("narrow", "fir", f"decimation = {DECIMATION}\ntaps = {TAPS}\n")], ["narrow"])
    text += table("source", "radio", common + f'type = "zmq-sub"\nbind = ["{radio_url}"]\n'
                                              f'framing = "gnuradio-tags"\nsample_rate = {LOSSY_RATE}')
    text += table("source", "box", common + f'type = "udp"\nlisten = "{box}"\nframing = "sequence"\n'
                                            f'sample_rate = {LOSSY_RATE / 2}\n'
                                            'reorder = { window = 64, max_wait = "5ms" }')
    daemon = Daemon(backends()[0], "callback", text)

    def resident_mib():
        lines = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    check, settled, lost = ToneCheck(), None, 0
    try:
        with Client(daemon.url) as client, client.subscribe("band") as results, \
                process_of("lossy_radio", radio_url, LOSSY_RATE), process_of("lossy_box", box, LOSSY_RATE):
            began = time.monotonic()
            while time.monotonic() < began + chosen.seconds:
                item = results.get(timeout=30)
                lost += item.lost
                check.take(item)
                if settled is None and time.monotonic() > began + min(SETTLED, chosen.seconds / 2):
                    settled = resident_mib()
        grown, status = resident_mib() - settled, daemon.counters()["status"]
    finally:
        stop(daemon)
    for source in status["sources"]:
        samples = source["samples"]
        print(f"{source['name']}: {samples}, {source['gaps']} gaps, {source['epochs']} epochs, "
              f"{source['duplicates']} samples twice, {source['restored']} put in order")
        figures.say(f"{source['name']}: what is expected is the sum of what came of it", samples["balanced"], True,
                    samples["balanced"] and source["gaps"] > 0 and source["errors"] == 0)
    figures.say("results compared, and those that the listener lost", f"{check.checked}, {lost}", "some, 0",
                check.checked > 0 and lost == 0)
    figures.say("results behind a gap that they do not tell", check.silent, 0, check.silent == 0)
    figures.say("largest difference from the filter's tone", f"{check.worst:.1e}", f"at most {TONE_BOUND}",
                check.worst <= TONE_BOUND)
    figures.say("growth of the daemon's memory", f"{grown:.1f} MiB", f"at most {GROWTH_BOUND}", grown <= GROWTH_BOUND)


def flowgraph_parts(parts, chosen, figures):
    from daemon_process import Daemon, backends, free_port
    out, back = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    daemon = Daemon(backends()[0], "callback", configuration(chosen, out, back))
    graph = Flowgraph(chosen, out, back)
    try:
        for part in parts:
            if part == "through":
                through(chosen, daemon, graph, figures)
            else:
                graph = back_again(chosen, daemon, graph, lambda: Flowgraph(chosen, out, back), figures)
    finally:
        graph.kill()
        code, log = daemon.stop()
        if code != 0:
            print(log)
            figures.missed = True


PARTS = ("through", "return", "isolation", "replay", "losses")
PROCESSES = {"flowgraph": flowgraph, "radio": radio, "flood": flood, "listener": listener,
             "lossy_radio": lossy_radio, "lossy_box": lossy_box}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="*", help=", ".join(PARTS) + "; the first two when left out")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=2.4e6)
    parser.add_argument("--patience", type=float, default=1, help="seconds for the return")
    parser.add_argument("--repeats", type=int, default=5, help="of each case of isolation")
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--back", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part and chosen.part[0] in PROCESSES:
        return PROCESSES[chosen.part[0]](chosen)
    parts = chosen.part or PARTS[:2]
    figures = Figures()
    with_graph = [part for part in parts if part in PARTS[:2]]
    if with_graph:
        flowgraph_parts(with_graph, chosen, figures)
    if "isolation" in parts:
        isolation(chosen, figures)
    if "replay" in parts:
        replay(chosen, figures)
    if "losses" in parts:
        losses(chosen, figures)
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main())
