"""Sources of the real daemon: files and standard input feed a pipeline with state, and every sample is accounted for.

PENSTOCK_TEST_SEED repeats a run.
"""

import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import numpy
import penstock
from scipy import signal as reference

from daemon_process import BIN, VERSION, Daemon, backends, free_port, npy, pipeline, wait_until

RATE = 48000
SMALL = "[device]\nslots = 4\nstreams = 2\n"
FATES = ("delivered", "network", "kernel", "overrun", "late", "waiting")
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))
SECTIONS = reference.butter(4, 0.2, output="sos")


def sums(batch="batch = { max_frames = 16 }\n"):
    """A pipeline that keeps state."""
    return pipeline("sums", "f32", ["max 512"], [("y", "fir", "taps = [1.0, 1.0]\n")], ["y"], batch)


def fixed():
    return pipeline("fixed", "f32", [256], [("y", "affine", "a = 2.0\n")], ["y"], "batch = { max_frames = 16 }\n")


def source(name, lines, feeds="sums"):
    return f'[[source]]\nname = "{name}"\npipeline = "{feeds}"\n{lines}\n'


def file_source(name, path, lines="", feeds="sums"):
    return source(name, f'type = "file"\npath = "{path}"\n{lines}', feeds)


def sigmf(samples, captures):
    """NAME.sigmf-meta and NAME.sigmf-data."""
    meta = {"global": {"core:datatype": "rf32_le", "core:sample_rate": RATE, "core:version": "1.0.0"},
            "captures": captures, "annotations": []}
    return json.dumps(meta).encode(), samples.astype("<f4").tobytes()


def filters(dtype, taps):
    """A pipeline of filters that treat missing samples in each way, and the same by scipy."""
    kinds = {"fir": f"taps = {numpy.asarray(taps).tolist()}\n", "iir": f"sections = {SECTIONS.ravel().tolist()}\n"}
    stages = [(f"{op}-{way}", op, f'from = "input"\non_nan = "{way}"\n{lines}')
              for op, lines in kinds.items() for way in ("reset", "hold")]
    by_scipy = {"fir": lambda x: reference.lfilter(taps, 1, x), "iir": lambda x: reference.sosfilt(SECTIONS, x)}
    return (pipeline("filters", dtype, ["max 512"], stages, [name for name, _, _ in stages]),
            {f"{op}-{way}": lambda x, is_there, op=op, way=way: gone_on(by_scipy[op], x, is_there, way)
             for op in kinds for way in ("reset", "hold")})


def gone_on(run, samples, is_there, way):
    """NaN where samples are missing; `run` is begun behind each gap, or goes on as if there were none."""
    places = numpy.arange(len(samples))
    runs = [places] if way == "hold" else numpy.split(places, numpy.flatnonzero(numpy.diff(is_there)) + 1)
    made = numpy.full(len(samples), complex(numpy.nan, numpy.nan) if numpy.iscomplexobj(samples) else numpy.nan)
    for each in runs:
        there = each[is_there[each]]
        if len(there) > 0:
            made[there] = run(samples[there])
    return made


class Fed(Daemon):
    """A daemon, and what its sources say."""

    def sources(self):
        status, text = self.ask("/api/v1/status")
        assert status == 200, text
        found = {each["name"]: each for shard in json.loads(text)["shards"] for each in shard["sources"]}
        for each in found.values():
            counts = each["samples"]
            assert counts["balanced"] and counts["expected"] == sum(counts[fate] for fate in FATES), each
        return found

    def wait_for(self, name, holds, message):
        return wait_until(lambda: (lambda each: each if each and holds(each) else None)(self.sources().get(name)),
                          message)

    def wait_for_end(self, name):
        return self.wait_for(name, lambda each: each["state"] == "ended", f"source {name} ends")

    def reload(self, text):
        (self.path / "penstock.toml").write_text(text)
        return self.ask_for_reload()


class Sources(unittest.TestCase):
    def start(self, text, files=None):
        daemon = Fed(backends()[0], "callback", VERSION + SMALL + text, files)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.stop())
        return daemon

    def stop(self, daemon):
        code, log = daemon.stop()
        self.assertEqual(code, 0, log)
        return log

    def test_a_file_feeds_a_pipeline_with_state_to_its_last_sample(self):
        samples = numpy.arange(100_003, dtype="f4")
        daemon = self.start(sums() + file_source("tape", "x.npy", 'pace = "free"\nblock = 300\n'),
                            {"x.npy": npy(samples)})
        found = daemon.wait_for_end("tape")
        self.assertEqual(found["samples"]["delivered"], len(samples))
        self.assertEqual(found["blocks"], 334)
        self.assertEqual((found["results"], found["errors"], found["filled"], found["epochs"]), (334, 0, 0, 0))
        status = daemon.counters()["status"]
        self.assertEqual(status["requests"]["results"], 334)
        self.assertEqual(status["payload_bytes"]["in"], samples.nbytes)
        self.assertEqual(status["sources"][0]["samples"], found["samples"])
        self.assertTrue(status["balanced"])
        metrics = daemon.ask("/metrics")[1]
        self.assertIn('penstock_source_samples_total{fate="delivered",source="tape"} 100003', metrics)
        self.assertIn("source 'tape': ended, 100003 samples delivered", self.stop(daemon))

    def test_frames_of_a_fixed_length_are_filled_up_at_the_end(self):
        daemon = self.start(fixed() + file_source("tape", "x.raw", 'pace = "free"\nblock = 512\n', "fixed"),
                            {"x.raw": numpy.arange(1000, dtype="f4").tobytes()})
        found = daemon.wait_for_end("tape")
        self.assertEqual(found["samples"]["delivered"], 1000)
        self.assertEqual((found["filled"], found["results"]), (24, 2))

    def test_gaps_of_a_recording_are_treated_as_the_policy_says(self):
        samples = numpy.ones(3000, "f4")
        meta, data = sigmf(samples, [{"core:sample_start": 0, "core:global_index": 5000,
                                      "core:datetime": "2026-01-31T12:00:00Z"},
                                     {"core:sample_start": 1000, "core:global_index": 6100},
                                     {"core:sample_start": 2000, "core:global_index": 17100}])
        policies = {"fill": ('gap = { policy = "fill", max_fill = "10ms" }', 100, 1),
                    "anew": ('gap = { policy = "new-epoch" }', 0, 2),
                    "splice": ('gap = { policy = "splice" }', 0, 0)}
        text = sums() + "".join(file_source(name, "x.sigmf-meta", 'pace = "free"\nblock = 500\n' + lines)
                                for name, (lines, _, _) in policies.items())
        daemon = self.start(text, {"x.sigmf-meta": meta, "x.sigmf-data": data})
        for name, (_, filled, epochs) in policies.items():
            found = daemon.wait_for_end(name)
            self.assertEqual(found["samples"], {"expected": 13100, "delivered": 3000, "network": 10100, "kernel": 0,
                                                "overrun": 0, "late": 0, "waiting": 0, "balanced": True})
            self.assertEqual((found["filled"], found["epochs"], found["gaps"]), (filled, epochs, 2), name)
            self.assertEqual(found["errors"], 0)
        checked = subprocess.run([BIN / "penstockd", "--check-config", "--config", daemon.path / "penstock.toml"],
                                 capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0)
        self.assertIn("1 pipeline, 3 sources", checked.stdout)
        self.assertRegex(checked.stderr, "source 'splice', field 'gap': spliced samples look like those of one signal"
                         r".*, and state is carried across it \('y'\)")
        self.assertIn("192 MiB of sources' queues", checked.stdout)

    def test_a_file_keeps_its_pace(self):
        seconds = 2.0
        began = time.monotonic()
        daemon = self.start(sums() + file_source("tape", "x.npy", f'pace = "2x"\nsample_rate = {RATE}\nblock = 480\n'),
                            {"x.npy": npy(numpy.zeros(int(seconds * 2 * RATE), "f4"))})
        daemon.wait_for_end("tape")
        self.assertGreater(time.monotonic() - began, 0.99 * seconds)  # on a busy machine it takes longer

    def test_standard_input_is_read_as_it_comes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "penstock.toml")
            with open(path, "w") as file:
                file.write(VERSION + SMALL + sums() + source("pipe", 'type = "stdin"\nblock = 100\n'))
            url, admin = f"ipc://{folder}/data", f"{folder}/admin"
            process = subprocess.Popen([BIN / "penstockd", "--config", path, "--listen", url, "--admin", "unix:" + admin,
                                        "--backend", "host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT)
            try:
                process.stdin.write(bytes(4 * 250 - 1))
                process.stdin.flush()

                def pipe():
                    shown = subprocess.run([BIN / "penstock", "--url", url, "info", "--json"], capture_output=True)
                    started = json.loads(shown.stdout)["status"].get("sources") if shown.returncode == 0 else None
                    return started[0] if started else None
                wait_until(lambda: (lambda each: each and each["samples"]["delivered"] == 200)(pipe()), "two blocks")
                self.assertEqual(pipe()["samples"]["waiting"], 49)
                process.stdin.write(bytes(1))
                process.stdin.close()
                process.stdin = None
                found = wait_until(lambda: (lambda each: each if each and each["state"] == "ended" else None)(pipe()),
                                   "the end")
                self.assertEqual(found["samples"]["delivered"], 250)
                self.assertEqual(found["results"], 3)
            finally:
                process.send_signal(signal.SIGTERM)
                log = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 0, log)

    def test_a_closed_standard_input_is_no_other_descriptor(self):
        daemon = Fed(backends()[0], "callback", VERSION + SMALL + fixed()
                     + '[[source]]\nname = "pipe"\ntype = "stdin"\npipeline = "fixed"\n',
                     wrapper=("sh", "-c", 'exec "$0" "$@" <&-'))
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.stop())
        found = daemon.wait_for("pipe", lambda each: "trouble" in each, "it can't be read")
        self.assertEqual(found["trouble"], "standard input: can't be read: Bad file descriptor")
        self.assertEqual(os.readlink(f"/proc/{daemon.process.pid}/fd/0"), "/dev/null")
        self.stop(daemon)

    def test_a_reload_starts_stops_and_changes_sources_and_leaves_the_others(self):
        quiet = f'pace = "0.001x"\nsample_rate = {RATE}\nblock = 100\n'
        one, two = file_source("one", "x.npy", quiet), file_source("two", "x.npy", quiet)
        daemon = self.start(sums() + one + two, {"x.npy": npy(numpy.zeros(10_000, "f4"))})
        daemon.wait_for("two", lambda each: each["state"] == "running", "two runs")
        # A source that is equal goes on: it is not connected anew, and loses nothing.
        first = daemon.wait_for("one", lambda each: each["samples"]["expected"] > 10, "one reads")
        head = VERSION + SMALL + sums()
        status, answer = daemon.reload(head + one + file_source("two", "x.npy", 'pace = "free"\n') +
                                       file_source("three", "x.npy", 'pace = "free"\nblock = 99\n'))
        self.assertEqual((status, answer["changed"]), (200, True), answer)
        self.assertEqual(daemon.wait_for_end("three")["samples"]["delivered"], 10_000)
        self.assertEqual(daemon.wait_for_end("two")["samples"]["delivered"], 10_000)
        again = daemon.sources()["one"]
        self.assertEqual(again["connections"], 1)
        self.assertGreaterEqual(again["samples"]["expected"], first["samples"]["expected"])
        status, answer = daemon.reload(head + one + file_source("two", "x.npy", "gap = 3\n"))
        self.assertEqual(status, 422)
        self.assertIn("source 'two', field 'gap': 3 is given", answer["error"])
        self.assertEqual(daemon.reload(head)[0], 200)
        wait_until(lambda: not daemon.sources(), "all sources end")
        self.assertEqual(daemon.counters()["status"]["sessions"], 0)
        log = self.stop(daemon)
        self.assertIn("source 'two': changed", log)
        self.assertIn("source 'one': removed", log)

    def test_a_source_goes_on_in_a_new_epoch_when_its_pipeline_changes(self):
        tape = file_source("tape", "x.npy", f'pace = "0.01x"\nsample_rate = {RATE}\nblock = 16\n')
        daemon = self.start(sums() + tape, {"x.npy": npy(numpy.zeros(100_000, "f4"))})
        daemon.wait_for("tape", lambda each: each["results"] > 2, "results")
        status, answer = daemon.reload(VERSION + SMALL + sums().replace("[1.0, 1.0]", "[1.0, 2.0]") + tape)
        self.assertEqual((status, answer["changed"]), (200, True), answer)
        found = daemon.wait_for("tape", lambda each: each["epochs"] == 1, "another epoch")
        daemon.wait_for("tape", lambda each: each["results"] > found["results"] + 2, "results of it")
        self.stop(daemon)

    def test_a_file_that_is_missing_is_tried_again_and_the_doctor_says_so(self):
        daemon = self.start(sums() + file_source("tape", "later.npy", 'pace = "free"\n'))
        found = daemon.wait_for("tape", lambda each: each["state"] == "waiting", "it waits")
        self.assertIn("later.npy: can't be opened", found["trouble"])
        doctor = subprocess.run([BIN / "penstockd", "--doctor", "--config", daemon.path / "penstock.toml"],
                                capture_output=True, text=True)
        self.assertEqual(doctor.returncode, 2)
        self.assertIn("tape (file): later.npy: can't be opened", doctor.stdout)
        (daemon.path / "x.npy").write_bytes(npy(numpy.zeros(1000, "f4")))
        os.rename(daemon.path / "x.npy", daemon.path / "later.npy")
        found = daemon.wait_for_end("tape")
        self.assertNotIn("trouble", found)
        self.assertEqual(found["samples"]["delivered"], 1000)
        self.assertEqual(self.stop(daemon).count("can't be opened"), 1)

    def test_a_flowgraph_pushes_topics_into_sessions_of_their_own(self):
        import zmq
        pull = source("radio", f'type = "zmq-pull"\nbind = "tcp://127.0.0.1:{free_port()}"\nblock = 100\n'
                      f'sample_rate = {RATE}\nmax_streams = 2\nstall = "200ms"\n')
        port = re.search(r"127\.0\.0\.1:(\d+)", pull).group(1)
        daemon = self.start(sums() + pull)
        with zmq.Context() as context, context.socket(zmq.PUSH) as push:
            push.connect(f"tcp://127.0.0.1:{port}")
            for topic in (b"a", b"b", b"c"):
                push.send_multipart([topic, numpy.zeros(1000, "f4").tobytes()])
            found = daemon.wait_for("radio", lambda each: each["results"] == 20 and each["refused_streams"], "all of a, b")
            self.assertEqual((found["streams"], found["samples"]["delivered"]), (2, 2000))
            self.assertEqual(daemon.counters()["status"]["sessions"], 2)
            found = daemon.wait_for("radio", lambda each: each["state"] == "stalled", "it stalls")
            push.send_multipart([b"a", numpy.zeros(100, "f4").tobytes()])
            daemon.wait_for("radio", lambda each: each["results"] == 21, "data again")
        log = self.stop(daemon)
        self.assertIn("source 'radio': no data for 0.2 s", log)
        self.assertIn("source 'radio': data again", log)

    def test_a_source_with_keys_takes_those_of_its_list_and_the_doctor_reads_them(self):
        import zmq
        own, listed, other = (zmq.curve_keypair() for _ in range(3))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)

        def write(name, key):
            path = os.path.join(folder.name, name)
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(key)
            return path
        port = free_port()
        lines = (f'type = "zmq-pull"\nbind = "tcp://*:{port}"\nblock = 100\n'
                 f'secret_key_file = "{write("own.key", own[1])}"\nauthorized_keys_file = "{write("list", listed[0])}"\n')
        daemon = self.start(sums() + source("radio", lines))
        with zmq.Context() as context:
            def push(keys, count):
                made = context.socket(zmq.PUSH)
                made.linger = 0
                if keys is not None:
                    made.curve_serverkey, (made.curve_publickey, made.curve_secretkey) = own[0], keys
                made.connect(f"tcp://127.0.0.1:{port}")
                made.send(numpy.zeros(count, "f4").tobytes())
                return made
            with push(None, 7), push(other, 8), push(listed, 100):
                daemon.wait_for("radio", lambda each: each["results"] == 1 and each["malformed"] >= 2, "one gets in")
                self.assertEqual(daemon.sources()["radio"]["samples"]["expected"], 100)
        os.remove(os.path.join(folder.name, "own.key"))
        doctor = subprocess.run([BIN / "penstockd", "--doctor", "--config", daemon.path / "penstock.toml"],
                                capture_output=True, text=True)
        self.assertRegex(doctor.stdout, r"radio \(zmq-pull\): .*own.key")
        self.stop(daemon)

    def test_what_is_pushed_is_not_bounded_by_what_a_stranger_may_send(self):
        import zmq
        port = free_port()
        daemon = self.start('[clients]\nmax_request_bytes = "64 KiB"\n' + sums() +
                            source("radio", f'type = "zmq-pull"\nbind = "tcp://127.0.0.1:{port}"\nblock = 512\n'
                                   'overrun = "block"\n'))
        count, message = 400, numpy.zeros(5120, "f4").tobytes()
        with zmq.Context() as context, context.socket(zmq.PUSH) as push:
            push.connect(f"tcp://127.0.0.1:{port}")
            for _ in range(count):
                push.send(message)
            daemon.wait_for("radio", lambda each: each["samples"]["delivered"] == count * 5120, "all of it")
        self.assertEqual(self.stop(daemon).count("connected to"), 1)

    def test_numbered_packets_with_holes_balance(self):
        port = free_port()
        daemon = self.start(sums() + source("box", f'type = "udp"\nlisten = "127.0.0.1:{port}"\n'
                                            f'framing = "sequence"\nblock = 128\nsample_rate = {RATE}\n'
                                            'gap = { policy = "fill", max_fill = "10ms" }\n'
                                            'reorder = { window = 8, max_wait = "5ms" }\n'))
        daemon.wait_for("box", lambda each: each["state"] == "running", "it listens")
        lost = {3, 4, 17}
        order = [number for number in range(64) if number not in lost]
        order[20], order[21] = order[21], order[20]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            for number in [*order, 5, 63]:  # and two duplicates
                out.sendto(struct.pack("<Q", number) + numpy.full(32, number, "f4").tobytes(), ("127.0.0.1", port))
        found = daemon.wait_for("box", lambda each: each["samples"]["expected"] == 64 * 32 and each["results"] == 16,
                                "all packets")
        self.assertEqual(found["samples"]["network"], 3 * 32)
        self.assertEqual((found["filled"], found["gaps"], found["epochs"]), (3 * 32, 2, 0))
        found = daemon.wait_for("box", lambda each: each["duplicates"] == 2 * 32, "the duplicates")
        self.assertEqual(found["restored"], 32)  # of two that were swapped, the one that came first
        self.assertEqual(found["samples"]["delivered"], 61 * 32)
        self.stop(daemon)

    def check_filters(self, results, samples, is_there, expected):
        """All results of one epoch, however they were cut."""
        begin, end = results[0].account.index, results[-1].account.index + results[-1]["iir-hold"].shape[1]
        part, there = samples[begin:end].astype(complex if samples.dtype.kind == "c" else float), is_there[begin:end]
        for name, by_scipy in expected.items():
            got = numpy.concatenate([each[name][0] for each in results])
            wanted = by_scipy(part, there)
            for plane in ("real", "imag"):
                numpy.testing.assert_allclose(getattr(got, plane), getattr(wanted, plane), rtol=0, atol=2e-5,
                                              err_msg=f"{name}, PENSTOCK_TEST_SEED={SEED}")
        at = begin
        for each in results:
            self.assertEqual(each.account.index, at)
            at += each["iir-hold"].shape[1]
            first = max(begin, min(each.account.index_of(name) for name in expected))
            self.assertEqual(each.account.filled, numpy.count_nonzero(~is_there[first:at]), SEED)

    def test_filters_go_on_behind_packets_that_are_missing(self):
        chance, port, length, packets = random.Random(SEED), free_port(), 64, 160
        taps = reference.firwin(33, 0.3)  # of a known delay: results reach back by 16 samples
        text, expected = filters("f32", taps)
        daemon = self.start(text + source("box", f'type = "udp"\nlisten = "127.0.0.1:{port}"\nframing = "sequence"\n'
                                          f'block = {length}\nsample_rate = {RATE}\ngap = {{ policy = "nan" }}\n',
                                          "filters"))
        daemon.wait_for("box", lambda each: each["state"] == "running", "it listens")
        beyond = 50 * RATE // 1000 // length + 1  # packets of a gap of more than `max_fill`
        lost = {*chance.sample(range(1, packets - 1), 25), *range(70, 70 + beyond)}
        samples = numpy.random.default_rng(SEED).standard_normal(packets * length).astype("f4")
        is_there = numpy.repeat([number not in lost for number in range(packets)], length)
        with penstock.Client(daemon.url) as client, client.subscribe("filters") as results:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                for number in sorted(set(range(packets)) - lost):
                    part = samples[number * length:(number + 1) * length]
                    out.sendto(struct.pack("<Q", number) + part.tobytes(), ("127.0.0.1", port))
            epochs = {}
            while (item := results.get(timeout=30)).account.index != (packets - 1) * length:
                epochs.setdefault(item.account.epoch, []).append(item)
            epochs[item.account.epoch].append(item)
        self.assertEqual(len(epochs), 2)
        for each in epochs.values():
            self.check_filters(each, samples, is_there, expected)
        told = sum(numpy.count_nonzero(~is_there[each[0].account.index:each[-1].account.index])
                   for each in epochs.values())
        daemon.wait_for("box", lambda each: (each["filled"], each["samples"]["network"]) == (told, len(lost) * length),
                        f"{told} samples are filled in and {len(lost) * length} lost")
        self.stop(daemon)

    def test_filters_go_on_behind_messages_that_are_missing(self):
        import zmq
        chance, port, total, block = random.Random(SEED), free_port(), 20_000, 100
        text, expected = filters("cf32", numpy.arange(9.0, 0.0, -1.0) / 45.0)
        daemon = self.start(text + source("radio", f'type = "zmq-pull"\nbind = "tcp://127.0.0.1:{port}"\n'
                                          f'framing = "gnuradio-tags"\nblock = {block}\nsample_rate = {RATE}\n'
                                          'gap = { policy = "nan" }\n', "filters"))
        samples = numpy.random.default_rng(SEED).standard_normal((total, 2)).astype("f4").view("c8")[:, 0]
        is_there = numpy.zeros(total, bool)
        with zmq.Context() as context, context.socket(zmq.PUSH) as push, penstock.Client(daemon.url) as client, \
                client.subscribe("filters") as results:
            push.connect(f"tcp://127.0.0.1:{port}")
            at = 0
            while at < total:
                end = min(at + chance.randint(1, 700), total)
                end = total if total - end < 1000 else end
                is_there[at:end] = True
                push.send(struct.pack("<HBQQ", 0x5FF0, 1, at, 0) + samples[at:end].tobytes())
                at = end + chance.choice((0, 0, chance.randint(1, 500)))
            items = [results.get(timeout=30) for _ in range(total // block)]
        self.assertEqual({item.account.epoch for item in items}, {0})
        self.check_filters(items, samples, is_there, expected)
        told = (numpy.count_nonzero(~is_there), numpy.count_nonzero(is_there))
        daemon.wait_for("radio", lambda each: (each["filled"], each["samples"]["delivered"]) == told,
                        f"{told} samples are filled in and delivered")
        self.stop(daemon)

    def test_results_that_touch_filled_samples_are_withheld_from_subscribers(self):
        port = free_port()
        daemon = self.start(sums() + source("box", f'type = "udp"\nlisten = "127.0.0.1:{port}"\n'
                                            f'framing = "sequence"\nblock = 32\nsample_rate = {RATE}\n'
                                            'gap = { policy = "fill", max_fill = "10ms", discard = true }\n'))
        daemon.wait_for("box", lambda each: each["state"] == "running", "it listens")
        with penstock.Client(daemon.url) as client, client.subscribe("sums") as results:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                for number in (0, 1, 4, 5):
                    out.sendto(struct.pack("<Q", number) + bytes(4 * 32), ("127.0.0.1", port))
            # The filter's first output of block 4 has the last filled sample too.
            got = [results.get(timeout=30) for _ in range(3)]
            self.assertEqual([each.account.index for each in got], [0, 32, 160])
            self.assertEqual([each.lost for each in got], [0, 0, 0])
        found = daemon.wait_for("box", lambda each: each["results"] == 6, "results for the source itself")
        self.assertEqual(found["filled"], 64)
        self.assertEqual(daemon.counters()["status"]["subscriptions"]["withheld"], 3)
        self.stop(daemon)

    def test_stopping_the_daemon_hands_over_what_has_come(self):
        daemon = self.start(sums() + file_source("tape", "x.npy", f'pace = "0.01x"\nsample_rate = {RATE}\nblock = 500\n'),
                            {"x.npy": npy(numpy.zeros(100_000, "f4"))})
        daemon.wait_for("tape", lambda each: each["samples"]["waiting"] > 0, "a block that is not full")
        began = time.monotonic()
        log = self.stop(daemon)
        self.assertLess(time.monotonic() - began, 10)
        self.assertNotIn("a request failed", log)


if __name__ == "__main__":
    unittest.main()
