#!/usr/bin/env python3
"""Measures users' kernels, all contenders of a comparison in turns, and says what is wanted of each figure.

Usage: kernels.py [--bin build/release/bin] [--backend cuda] [--repeats 5] [--seconds 1.5] [--only PART,...]
                  [--beamformer FOLDER] [--json FILE]

  served   requests/s of a kernel of 4 KiB frames, beside the same source in a CuPy and pyzmq loop that one writes by
           hand (peers/pyzmq_cupy.py): one request at a time, and in batches of what has arrived
  affine   bytes/s of a user's rewrite of `affine` over the built-in's, over TCP and in shared memory
  launch   processor time of the shard's thread for one more kernel in each batch: from pipelines of one kernel and of
           nine, one frame a batch
  start    time to READY with 20 pipelines of a kernel each, less that with 20 of `affine`: compiled, and from the cache
  beamformer  the CUTLASS example (deploy/examples/plugin-cutlass) beside bare_beamformer.cu, which launches the same
           kernel in a loop: time of a batch on the device, and batches/s from the host's memory and back.
           --beamformer names the folder that has beamformer.so and bare_beamformer; without it this is left out

It needs Python with numpy, and for `served` pyzmq and cupy. --backend host shows that the script works: it has
`affine` in place of kernels.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
sys.path.insert(0, str(PEERS))
from run import free_port  # noqa: E402

STARTED_KERNELS = 20
LONG_CHAIN = 9
SOURCE = """
extern "C" __global__ void kernel(const float* in, float* out, long long count, float a, float b) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < count / 4) {
    float4 x = reinterpret_cast<const float4*>(in)[i];
    x.x = fmaf(a, x.x, b);
    x.y = fmaf(a, x.y, b);
    x.z = fmaf(a, x.z, b);
    x.w = fmaf(a, x.w, b);
    reinterpret_cast<float4*>(out)[i] = x;
  }
}
"""
HEAD = """config_version = 1
[daemon]
log_level = "warn"
[clients]
credit_requests = 1024
credit_bytes = "256 MiB"
"""


def kernel_stage(name, file="kernel.cu"):
    return (f'[[pipeline.stage]]\nname = "{name}"\nop = "kernel"\nfile = "{file}"\n'
            'grid = ["ceil(frames * n0 / 1024)"]\nblock = [256]\n'
            'args = ["in", "out", "i64 frames * n0", "f32 a", "f32 b"]\nvalues = { a = 0.5, b = 0.25 }\n'
            "single_pass = true\n")


def affine_stage(name):
    return f'[[pipeline.stage]]\nname = "{name}"\nop = "affine"\na = 0.5\nb = 0.25\n'


def pipeline(name, floats, stages, batch=""):
    return f'[[pipeline]]\nname = "{name}"\ninput = {{ dtype = "f32", shape = [{floats}] }}\n{batch}' + "".join(stages)


def allowing(backend):
    return "" if backend == "host" else '[code]\nallow = ["."]\n'


class Server:
    """A process that ends with the benchmark."""

    def __init__(self, command, log, **environment):
        with open(log, "wb") as file:
            self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=file, stderr=file)
        self.log = log

    def wait_for(self, options, url):
        limit = time.monotonic() + 120
        while subprocess.run([options.bin / "penstock", "--url", url, "--timeout", "1s", "ping", "-n", "1"],
                             capture_output=True, check=False).returncode != 0:
            if time.monotonic() > limit or self.process.poll() is not None:
                sys.exit(f"a server does not start:\n{self.log.read_text()}")
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()


class Daemon(Server):
    """penstockd over TCP, and over a Unix socket for shared memory."""

    def __init__(self, options, folder, text):
        self.url, self.shared_url = f"tcp://127.0.0.1:{free_port()}", f"ipc://{folder}/data"
        (folder / "penstock.toml").write_text(text)
        super().__init__([options.bin / "penstockd", "--config", folder / "penstock.toml", "--listen", self.url,
                          "--listen", self.shared_url, "--admin", "none", "--backend", options.backend,
                          "--completion", "callback"], folder / "log", **cache_in(folder))
        self.options = options
        self.wait_for(options, self.url)

    def step_us(self, stage, frames=None):
        """Of the timed batches of the last seconds, with so many frames if said: the device's time for one stage."""
        done = subprocess.run([self.options.bin / "penstock", "--url", self.url, "trace", "--last", "3s", "-o", "-"],
                              capture_output=True, check=True)
        return [each["dur"] for each in json.loads(done.stdout)["traceEvents"] if each.get("cat") == "step"
                and each["name"] == stage and frames in (None, each["args"]["frames"])]

    def status(self):
        done = subprocess.run([self.options.bin / "penstock", "--url", self.url, "info", "--json"],
                              capture_output=True, check=True)
        return json.loads(done.stdout)["status"]

    def shard_seconds(self):
        """Processor time of the first shard's thread so far."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "shard-0":
                return int((task / "schedstat").read_text().split()[0]) / 1e9
        raise RuntimeError("the daemon has no thread shard-0")


def cache_in(folder):
    """Where the daemon keeps machine code, however it looks for the folder."""
    return {"CACHE_DIRECTORY": str(folder / "cache"), "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}


def load(options, url, name, clients, in_flight, size=1, transport="zmq", *more, warmup="300ms"):
    """What `penstock bench` measures of a pipeline; `more` are further words for it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run(
            [options.bin / "penstock", "--url", url, "--transport", transport, "bench", "--pipeline", name,
             "--size", str(size), "--clients", str(clients), "--in-flight", str(in_flight), "--warmup", warmup,
             "--duration", f"{round(options.seconds * 1000)}ms", "--json", file.name, *more], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"penstock bench of {name} failed:\n{done.stdout}{done.stderr}")
        return json.load(file)


def take_turns(options, contenders, measure):
    """Each contender once, then each again, every time another one first. Lists of figures by contender."""
    figures = {each: [] for each in contenders}
    for turn in range(options.repeats):
        first = turn % len(contenders)
        for each in contenders[first:] + contenders[:first]:
            figures[each].append(measure(each))
            print(f"  turn {turn + 1}, {each}: {figures[each][-1]:,.6g}", file=sys.stderr, flush=True)
    return figures


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def ratios(figures, one, other):
    """Of each turn: the contenders of a turn met the same machine."""
    return spread([mine / theirs for mine, theirs in zip(figures[one], figures[other])])


def measure_served(options, folder, daemon):
    if options.backend == "cuda":
        subprocess.run([sys.executable, "-c", "import cupy, zmq"], check=True)
    (folder / "peer.cu").write_text(SOURCE)
    urls = {"penstock": daemon.url}
    device = "cuda" if options.backend == "cuda" else "cpu"
    results = {}
    with contextlib.ExitStack() as stack:
        for name, most in (("loop, one at a time", 1), ("loop, batches", 256)):
            urls[name] = f"tcp://127.0.0.1:{free_port()}"
            server = Server([sys.executable, PEERS / "pyzmq_cupy.py", urls[name], folder / "peer.cu", "--max-batch",
                             str(most), "--device", device], folder / f"peer-{most}.log")
            stack.callback(server.stop)
            server.wait_for(options, urls[name])
        for title, clients, in_flight in (("32 clients × 16", 32, 16), ("one request at a time", 1, 1)):
            figures = take_turns(options, list(urls), lambda name, clients=clients, in_flight=in_flight: load(
                options, urls[name], "kernel", clients, in_flight)["requests_per_s"])
            results[title] = {"requests_per_s": {name: spread(each) for name, each in figures.items()}}
            for name in list(urls)[1:]:
                results[title][f"penstock over {name}"] = ratios(figures, "penstock", name)
    busy = results["32 clients × 16"]
    return results, [("penstock over the loop, one at a time", busy["penstock over loop, one at a time"], ">=", 5, "×"),
                     ("penstock over the loop in batches", busy["penstock over loop, batches"], None, None, "×")]


def measure_affine(options, _folder, daemon):
    results, wanted = {}, []
    for title, url, transport in (("TCP", daemon.url, "zmq"), ("shared memory", daemon.shared_url, "shm")):
        figures = take_turns(options, ["kernel", "affine"], lambda name, url=url, transport=transport: load(
            options, url, name, 8, 8, 64, transport)["input_bytes_per_s"])
        results[title] = {"input_bytes_per_s": {name: spread(each) for name, each in figures.items()},
                          "kernel over affine": ratios(figures, "kernel", "affine")}
        wanted.append((f"a user's affine over the built-in, {title}", results[title]["kernel over affine"], ">=", 0.98,
                       "×"))
    return results, wanted


def measure_launch(options, _folder, daemon):
    def microseconds(name):
        load(options, daemon.url, name, 4, 4)  # warm
        seconds, done = daemon.shard_seconds(), daemon.status()["requests"]["results"]
        load(options, daemon.url, name, 8, 8)
        return 1e6 * (daemon.shard_seconds() - seconds) / (daemon.status()["requests"]["results"] - done)

    names = [f"{kind}_{count}" for kind in ("kernels", "affines") for count in (1, LONG_CHAIN)]
    figures = take_turns(options, names, microseconds)
    results = {"shard_us_per_batch": {name: spread(each) for name, each in figures.items()}}
    for kind in ("kernels", "affines"):
        results[f"us per further launch, {kind}"] = spread(
            [(long - short) / (LONG_CHAIN - 1)
             for long, short in zip(figures[f"{kind}_{LONG_CHAIN}"], figures[f"{kind}_1"])])
    one = spread([mine - theirs for mine, theirs in zip(figures["kernels_1"], figures["affines_1"])])
    results["us of one kernel more than affine"] = one
    return results, [("the shard's time for a further kernel", results["us per further launch, kernels"], "<=", 2.5,
                      "µs"),
                     ("the same of a further built-in", results["us per further launch, affines"], None, None, "µs"),
                     ("a batch of one kernel less one of affine", one, None, None, "µs")]


def seconds_to_ready(options, folder, name):
    """From the start of the process to what it tells its service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = folder / "notify"
        path.unlink(missing_ok=True)
        manager.bind(str(path))
        manager.settimeout(120)
        begin = time.monotonic()
        server = Server([options.bin / "penstockd", "--config", folder / f"{name}.toml", "--listen",
                         f"tcp://127.0.0.1:{free_port()}", "--admin", "none", "--backend", options.backend],
                        folder / "start.log", NOTIFY_SOCKET=str(path), **cache_in(folder))
        try:
            while b"READY=1" not in manager.recv(4096):
                pass
            return time.monotonic() - begin
        except TimeoutError:
            sys.exit(f"a daemon does not start:\n{server.log.read_text()}")
        finally:
            server.stop()


def measure_start(options, folder, _daemon):
    folder = folder / "starts"
    folder.mkdir()
    text = {"affines": HEAD, "kernels": HEAD + allowing(options.backend)}
    for number in range(STARTED_KERNELS):
        name = f"kernel_{number}"
        (folder / f"{name}.cu").write_text(SOURCE.replace("float b) {", f"float b) {{  // number {number}"))
        text["affines"] += pipeline(name, 1024, [affine_stage("affine")])
        stage = affine_stage("kernel") if options.backend == "host" else kernel_stage("kernel", f"{name}.cu")
        text["kernels"] += pipeline(name, 1024, [stage])
    for name, content in text.items():
        (folder / f"{name}.toml").write_text(content)

    def start(contender):
        if contender == "compiled":
            shutil.rmtree(folder / "cache", ignore_errors=True)
            shutil.rmtree(folder / ".cache", ignore_errors=True)
        return seconds_to_ready(options, folder, "affines" if contender == "affines" else "kernels")

    figures = {"affines": [], "compiled": [], "from the cache": []}
    start("compiled")  # libraries come into the page cache
    for turn in range(options.repeats):  # the cache is what the turn before it compiled
        for each in figures:
            figures[each].append(start(each))
            print(f"  turn {turn + 1}, {each}: {figures[each][-1]:.3f} s", file=sys.stderr, flush=True)
    results = {"seconds_to_ready": {name: spread(each) for name, each in figures.items()}}
    wanted = []
    for name, most in (("compiled", 3), ("from the cache", 0.1)):
        results[f"seconds of {STARTED_KERNELS} kernels, {name}"] = more = spread(
            [mine - theirs for mine, theirs in zip(figures[name], figures["affines"])])
        wanted.append((f"{STARTED_KERNELS} kernels' start, {name}", more, "<=", most, "s"))
    return results, wanted


# Beams, antennas, samples, samples of a sum, frames of a batch.
BEAMFORMERS = {"4,096 beams": (4096, 256, 1024, 256, 16), "64 beams": (64, 64, 1024, 256, 64)}


def beamformer_daemon(options, folder, shape, streams, ahead=0):
    """With `ahead` stages before the beamformer that keep the device busy while its work is enqueued."""
    import numpy  # needed here alone

    beams, antennas, samples, window, frames = shape
    numpy.save(folder / "weights.npy", numpy.random.default_rng(29).normal(size=(beams, antennas, 2)))
    shutil.copy(options.beamformer / "beamformer.so", folder)
    return Daemon(options, folder, HEAD + f"""[device]
streams = {streams}
[code]
allow = ["beamformer.so"]
[[pipeline]]
name = "beams"
input = {{ dtype = "cf32", shape = [{antennas}, {samples}] }}
batch = {{ max_frames = {frames}, max_bytes = "64 MiB" }}
{"".join(affine_stage(f"ahead{each}") for each in range(ahead))}[[pipeline.stage]]
name = "beams"
op = "plugin"
file = "beamformer.so"
values = {{ weights = "weights.npy", window = {window} }}
""")


def measure_beamformer(options, folder, _daemon):
    results, wanted = {}, []
    for title, shape in BEAMFORMERS.items():
        frames = shape[-1]

        def launcher(*more, shape=shape):
            done = subprocess.run([options.beamformer / "bare_beamformer", *map(str, shape), str(options.seconds),
                                   *more], capture_output=True, text=True, check=True)
            return json.loads(done.stdout)

        results[title] = {"tflops of the launcher": launcher()["tflops"]}
        with contextlib.ExitStack() as stack:
            daemons = {}
            for streams, ahead in ((1, 8), (8, 0)):
                place = folder / f"beamformer-{title.split()[0]}-{streams}"
                place.mkdir()
                daemons[streams] = beamformer_daemon(options, place, shape, streams, ahead)
                stack.callback(daemons[streams].stop)

            def device_rate(name, daemons=daemons, launcher=launcher, frames=frames):
                if name == "launcher":
                    return launcher("events")["batches_per_s"]
                load(options, daemons[1].shared_url, "beams", 1, 3, frames, "shm")
                return 1e6 / statistics.median(daemons[1].step_us("beams", frames))

            def served_rate(name, daemons=daemons, launcher=launcher, frames=frames):
                if name == "launcher":
                    return launcher("copies")["batches_per_s"]
                return load(options, daemons[8].shared_url, "beams", 2, 4, frames, "shm")["requests_per_s"]

            for what, measure in (("on the device", device_rate), ("from the host and back", served_rate)):
                figures = take_turns(options, ["stage", "launcher"], measure)
                ratio = ratios(figures, "stage", "launcher")
                results[title][what] = {"batches_per_s": {name: spread(each) for name, each in figures.items()},
                                        "stage over launcher": ratio}
                wanted.append((f"the CUTLASS stage over its launcher, {title}, {what}", ratio, ">=", 0.97, "×"))
    return results, wanted


PARTS = {"served": measure_served, "affine": measure_affine, "launch": measure_launch, "start": measure_start,
         "beamformer": measure_beamformer}


def show(rows):
    """Prints a table of (what, figure, relation, bound, unit), and returns whether a bound was missed."""
    print("| | median | lowest | highest | wanted | |\n|---|---|---|---|---|---|")
    missed = 0
    for title, figure, relation, bound, unit in rows:
        held = relation is None or (figure["median"] >= bound if relation == ">=" else figure["median"] <= bound)
        missed += not held
        print(f"| {title} | {figure['median']:.3f} {unit} | {figure['low']:.3f} | {figure['high']:.3f} | "
              f"{'' if relation is None else f'{relation} {bound:g} {unit}'} | {'' if held else 'missed'} |")
    return int(missed > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--backend", default="cuda", choices=("cuda", "host"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one contender in one turn")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, comma-separated")
    parser.add_argument("--beamformer", type=pathlib.Path, help="the folder of beamformer.so and bare_beamformer")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures into this file")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    stage = affine_stage if options.backend == "host" else kernel_stage
    single = "batch = { max_frames = 1 }\n"
    text = HEAD + allowing(options.backend)
    text += pipeline("kernel", 1024, [stage("kernel")]) + pipeline("affine", 1024, [affine_stage("affine")])
    for count in (1, LONG_CHAIN):
        text += pipeline(f"kernels_{count}", 64, [stage(f"stage_{at}") for at in range(count)], single)
        text += pipeline(f"affines_{count}", 64, [affine_stage(f"stage_{at}") for at in range(count)], single)
    everything = {"repeats": options.repeats}
    rows, begin = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        (folder / "kernel.cu").write_text(SOURCE)
        daemon = Daemon(options, folder, text)
        stack.callback(daemon.stop)
        everything["device"] = daemon.status()["device"]
        for part in options.only.split(","):
            if part == "beamformer" and options.beamformer is None:
                continue
            print(f"{part}:", file=sys.stderr)
            everything[part], wanted = PARTS[part](options, folder, daemon)
            rows += wanted
    everything["seconds"] = time.monotonic() - begin
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    print(f"{everything['device']['name']}, {options.repeats} repeats, {everything['seconds']:.0f} s\n")
    missed = show(rows)
    return 1 if missed and options.backend == "cuda" else 0


if __name__ == "__main__":
    sys.exit(main())
