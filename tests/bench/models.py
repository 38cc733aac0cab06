#!/usr/bin/env python3
"""Measures models of PyTorch as stages, all contenders of a comparison in turns, and says what is wanted of each figure.

Usage: models.py [--bin build/release/bin] [--backend cuda] [--packages FOLDER] [--tritonserver DIR] [--repeats 5]
                 [--seconds 1.5] [--sessions 5000] [--only PART,...] [--json FILE]

  replay   time of a batch of a model's stage on the device, beside replays of a torch.cuda.CUDAGraph of the same module
           and of the same package; processor time of the shard's thread for a batch
  served   requests/s and p99 beside peers/pyzmq_model.py (a ROUTER that batches, torch in eager mode), and beside Triton
           with its Python backend where --tritonserver names one (peers/README.md)
  live     sessions of silero-vad that send a frame every 32 ms, whatever happens: the most that are served in real time
           with a p99 of at most 10 ms, of --sessions and the numbers around it, and what is busy then
  first    the first request of each bucket in a new daemon over the p50 of those that follow

Packages (convnet.pt2, vad.pt2, vad_64.pt2) are taken from --packages, or exported into it where they are not there.

It needs Python with torch, numpy and pyzmq, silero-vad's package for `vad` (its code is not imported), and
client/python/src on PYTHONPATH. --backend host shows that the script works.
"""

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "peers"))
from kernels import HEAD, Daemon, Server, affine_stage, load, ratios, show, spread, take_turns  # noqa: E402
from run import Triton, free_port  # noqa: E402

EXAMPLES = HERE.parents[1] / "deploy/examples/models"
BUCKETS = (1, 8, 64, 256)
FRAME_SECONDS = 512 / 16000  # of silero-vad
MAX_P99_US = 10_000
STAGES_AHEAD = 8


# -- the models; the peers import them from here -------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Model:
    """`make` gives a module of float32; `state` the sizes of its states, which are its last arguments and results."""
    name: str
    length: int  # of a frame
    results: int
    make: object
    element: str = "f32"
    state: dict = dataclasses.field(default_factory=dict)

    def module(self):
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return self.make().eval()

    def export(self, file, buckets, device):
        """Its stage, as TOML; the package is written unless it is there."""
        from penstock.torch import export

        if not file.exists():
            print(f"  exporting {file.name}", file=sys.stderr, flush=True)
            export(self.module(), file, inputs={"x": [self.length]}, outputs=["y"],
                   state={name: [size] for name, size in self.state.items()} or None, buckets=buckets,
                   devices=[device])


def convnet():
    from torch import nn

    return nn.Sequential(nn.Unflatten(1, (1, 1024)), nn.Conv1d(1, 32, 16, 4), nn.GELU(), nn.Conv1d(32, 64, 8, 4),
                         nn.GELU(), nn.AvgPool1d(8), nn.Flatten(), nn.Linear(448, 128), nn.GELU(), nn.Linear(128, 16))


def silero_vad():
    found = importlib.util.spec_from_file_location("silero_vad_example", EXAMPLES / "silero_vad.py")
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    return example.load()


MODELS = {
    "convnet": Model("convnet", 1024, 16, convnet),
    "vad": Model("vad", 512, 1, silero_vad, "i16", {"context": 64, "h": 128, "c": 128}),
}


# -- a process with torch, so that the benchmark's own needs no GPU ---------------------------------------------------

def replay_worker(packages):
    """Answers lines of {"model", "bucket", "of", "seconds"} with microseconds of a replay, of a graph of the "module" or
    the "package" over and over, or of the module "as a stage": with events around each replay, as the daemon measures
    its stages."""
    import penstock.torch
    import torch

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # as the stage computes
    graphs = {}

    def captured(name, bucket, kind):
        model = MODELS[name]
        x = torch.randn((bucket, model.length), device="cuda")
        states = [torch.zeros((bucket, size), device="cuda") for size in model.state.values()]
        if kind != "package":
            call = model.module().cuda()
        else:
            file = packages / (f"{name}_{bucket}.pt2" if model.state else f"{name}.pt2")
            call = penstock.torch.load(file, bucket, "cuda")
            states = [torch.cat(states, 1)] if states else []
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.inference_mode():
            for _ in range(3):
                call(x, *states)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(graph):
            result = call(x, *states)
        return graph, (x, states, result, call)

    def replay(graph, count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def replay_one_by_one(graph, count):
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        for begin, end in events:
            begin.record()
            graph.replay()
            end.record()
        events[-1][1].synchronize()
        return sum(begin.elapsed_time(end) for begin, end in events)

    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["model"], asked["bucket"], asked["of"]
        try:
            if key not in graphs:
                graphs[key] = captured(*key)
            graph = graphs[key][0]
            count, taken = 20, 0.0
            while taken < 1e3 * asked["seconds"]:
                taken, replays = (replay_one_by_one if key[2] == "as a stage" else replay)(graph, count), count
                count = max(count + 1, min(50 * count, int(count * 1.2e3 * asked["seconds"] / max(taken, 1e-3))))
            print(json.dumps(1e3 * taken / replays), flush=True)
        except Exception as error:  # what torch can't capture is left out
            print(json.dumps(None), flush=True)
            print(f"  {key}: {error}", file=sys.stderr, flush=True)


class ReplayProcess:
    def __init__(self, packages):
        self.process = subprocess.Popen([sys.executable, __file__, "--replay-worker", "--packages", packages],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, model, bucket, kind, seconds):
        self.process.stdin.write(json.dumps({"model": model, "bucket": bucket, "of": kind, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("the process with torch has ended")
        return json.loads(answer)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)


# -- configurations ---------------------------------------------------------------------------------------------------

def model_pipeline(model, file, name=None, batch=256, ahead=0):
    """With `ahead` stages before the model that change nothing."""
    name = name or model.name
    text = f'[[pipeline]]\nname = "{name}"\ninput = {{ dtype = "{model.element}", shape = [{model.length}] }}\n'
    text += f"batch = {{ max_frames = {batch} }}\n"
    if model.element != "f32":
        text += '[[pipeline.stage]]\nname = "sound"\nop = "convert"\nto = "f32"\n'
    text += "".join(affine_stage(f"ahead{each}") for each in range(ahead))
    return text + f'[[pipeline.stage]]\nname = "{name}"\nop = "model"\nfile = "{file}"\n'


def start(options, stack, pipelines, sessions=1024, more=""):
    folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-")))
    for file in options.packages.glob("*.pt2"):
        (folder / file.name).write_bytes(file.read_bytes())
    text = HEAD + (f'{more}[code]\nallow = ["."]\n[sessions]\nmax_sessions = {sessions}\n'
                   f"max_per_client = {sessions}\n") + "".join(pipelines)
    daemon = Daemon(options, folder, text)
    stack.callback(daemon.stop)
    return daemon


# -- parts ------------------------------------------------------------------------------------------------------------

def measure_replay(options):
    """The stage's time is that of the device's own events around it, behind stages that keep the device busy while the
    batch's work is enqueued: what is measured is the device's work, as of replays that follow one another."""
    results, wanted = {}, []
    cases = [("convnet", bucket) for bucket in BUCKETS] + [("vad", 64)]
    with contextlib.ExitStack() as stack:
        worker = None
        if options.backend == "cuda":
            worker = ReplayProcess(options.packages)
            stack.callback(worker.stop)
        for name, bucket in cases:
            model = MODELS[name]
            file = f"{name}_{bucket}.pt2" if model.state else f"{name}.pt2"
            with contextlib.ExitStack() as daemons:
                daemon = start(options, daemons, [model_pipeline(model, file, batch=bucket, ahead=STAGES_AHEAD)],
                               more="[device]\nstreams = 1\n")

                def microseconds(kind, daemon=daemon, model=model, bucket=bucket):
                    if kind != "stage":
                        return worker.ask(model.name, bucket, kind, options.seconds / 4)
                    if model.state:  # its package has one bucket, which every batch takes
                        load(options, daemon.url, model.name, 4, bucket, 1, "zmq", "--sessions", str(bucket))
                        return statistics.median(daemon.step_us(model.name))
                    load(options, daemon.url, model.name, 2, 4, bucket)
                    return statistics.median(daemon.step_us(model.name, bucket))

                contenders = ["stage"]
                if worker is not None:
                    contenders += [kind for kind in ("module", "as a stage", "package")
                                   if worker.ask(name, bucket, kind, 0.01) is not None]
                figures = take_turns(options, contenders, microseconds)
            title = f"{name}, {bucket} frames"
            results[title] = {"us_per_batch": {each: spread(values) for each, values in figures.items()}}
            for kind, text, bound in (("as a stage", "replays of the module, events around each", 1.05),
                                      ("module", "replays of the module over and over", None),
                                      ("package", "replays of the package over and over", None)):
                if kind in figures:
                    results[title][f"stage over {kind}"] = one = ratios(figures, "stage", kind)
                    wanted.append((f"{title}: the stage over {text}", one, "<=" if bound else None, bound, "×"))
        single = 'input = { dtype = "f32", shape = [1024] }\nbatch = { max_frames = 1 }\n'
        daemon = start(options, stack, [
            model_pipeline(MODELS["convnet"], "convnet.pt2", batch=1),
            f'[[pipeline]]\nname = "affine"\n{single}{affine_stage("affine")}'])

        def shard_us(name):
            load(options, daemon.url, name, 4, 4)  # warm
            seconds, done = daemon.shard_seconds(), daemon.status()["requests"]["results"]
            load(options, daemon.url, name, 8, 8)
            return 1e6 * (daemon.shard_seconds() - seconds) / (daemon.status()["requests"]["results"] - done)

        figures = take_turns(options, ["convnet", "affine"], shard_us)
    results["shard_us_per_batch"] = {each: spread(values) for each, values in figures.items()}
    more = spread([mine - theirs for mine, theirs in zip(figures["convnet"], figures["affine"])])
    whole = results["shard_us_per_batch"]["convnet"]
    wanted += [("the shard's time for a batch of the convnet, with its request and reply", whole, None, None, "µs"),
               ("the same less one of affine", more, "<=", 15, "µs")]
    return results, wanted


class TritonConvnet(Triton):
    model = "convnet"


def measure_served(options):
    results, wanted = {}, []
    with contextlib.ExitStack() as stack:
        daemon = start(options, stack, [model_pipeline(model, f"{name}.pt2") for name, model in MODELS.items()])
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-")))
        url = f"tcp://127.0.0.1:{free_port()}"
        router = Server([sys.executable, HERE / "peers/pyzmq_model.py", url, "--device",
                         "cuda" if options.backend == "cuda" else "cpu"], folder / "router.log")
        stack.callback(router.stop)
        router.wait_for(options, url)
        triton = None
        if options.tritonserver is not None:
            settings = argparse.Namespace(tritonserver=options.tritonserver, seconds=max(1, round(options.seconds)))
            triton = TritonConvnet(settings, folder)
            stack.callback(triton.stop)
        for name, title, clients, in_flight, sessions in (
                ("convnet", "convnet, 32 clients × 16", 32, 16, 0), ("convnet", "convnet, one at a time", 1, 1, 0),
                ("vad", "vad, 32 clients × 16 sessions", 32, 16, 16)):
            tails = {}

            def rate(contender, name=name, clients=clients, in_flight=in_flight, sessions=sessions, tails=tails):
                if contender == "triton":
                    rate, _, tail = triton.load(settings, 4 * MODELS[name].length, clients, in_flight)
                else:
                    words = ("--sessions", str(sessions)) if sessions else ()
                    done = load(options, daemon.url if contender == "penstock" else url, name, clients, in_flight, 1,
                                "zmq", *words)
                    rate, tail = done["requests_per_s"], done["latency_us"]["p99"]
                tails.setdefault(contender, []).append(tail)
                return rate

            contenders = ["penstock", "pyzmq"] + (["triton"] if triton is not None and not sessions else [])
            figures = take_turns(options, contenders, rate)
            results[title] = {"requests_per_s": {each: spread(values) for each, values in figures.items()},
                              "p99_us": {each: spread(values) for each, values in tails.items()}}
            busy = clients > 1
            for peer in contenders[1:]:
                wanted += [(f"{title}: requests/s over {peer}", ratios(figures, "penstock", peer),
                            ">=" if busy else None, 5 if busy else None, "×"),
                           (f"{title}: p99 over that of {peer}", ratios(tails, "penstock", peer),
                            "<=" if busy else None, 1 / 3 if busy else None, "×")]
    return results, wanted


def device_busy(before, after, seconds):
    """The part of the time that the device worked on batches of the first pipeline, from those that were timed."""
    def of(status):
        pipeline = status["pipelines"][0]
        times = pipeline.get("timing_us", {})
        spent = sum(times.get(each, {}).get("sum", 0) for each in ("copy_in", "compute", "copy_out"))
        return pipeline["batches"], pipeline["frames"], times.get("compute", {}).get("count", 0), spent

    batches, frames, timed, spent = (late - early for late, early in zip(of(after), of(before)))
    return {"batches_per_s": batches / seconds, "frames_per_batch": frames / max(batches, 1),
            "device_us_per_batch": spent / max(timed, 1),
            "device_work_s_per_s": spent / max(timed, 1) * batches / 1e6 / seconds}


def live(options, daemon, clients, sessions):
    """One run of so many sessions: what `penstock bench` measures, and what was busy."""
    rate = sessions / FRAME_SECONDS
    longer = argparse.Namespace(bin=options.bin, seconds=max(options.seconds, 2))
    seconds = longer.seconds + 1  # with the warm-up
    before, shard = daemon.status(), daemon.shard_seconds()
    done = load(longer, daemon.url, "vad", clients, 1, 1, "zmq", "--sessions", str(sessions // clients), "--rate",
                str(rate), warmup="1s")
    after = daemon.status()
    return {"sessions": sessions, "rate": rate, "frames_per_s": done["requests_per_s"],
            "p50_us": done["latency_us"]["p50"], "p99_us": done["latency_us"]["p99"],
            "p99.9_us": done["latency_us"]["p99.9"], "errors": done["errors"],
            "shard_busy": (daemon.shard_seconds() - shard) / seconds, **device_busy(before, after, seconds)}


def in_time(run):
    return not run["errors"] and run["frames_per_s"] >= 0.99 * run["rate"] and run["p99_us"] <= MAX_P99_US


def measure_live(options):
    clients = 25
    numbers = sorted({max(1, round(part * options.sessions / clients)) * clients
                      for part in (1 / 8, 1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2)})
    results, best = [], 0
    with contextlib.ExitStack() as stack:
        daemon = start(options, stack, [model_pipeline(MODELS["vad"], "vad.pt2")], sessions=2 * numbers[-1])
        for sessions in numbers:
            runs = [live(options, daemon, clients, sessions) for _ in range(3)]
            results += runs
            for run in runs:
                print(f"  {sessions} sessions: {run['frames_per_s']:,.0f} frames/s, p99 {run['p99_us']:,.0f} µs, shard "
                      f"{100 * run['shard_busy']:.0f} %, {run['frames_per_batch']:.1f} frames a batch of "
                      f"{run['device_us_per_batch']:.0f} µs, errors {run['errors']}", file=sys.stderr, flush=True)
            if sum(map(in_time, runs)) < 2:
                break
            best = sessions
        at = [run for run in results if run["sessions"] == min(best or numbers[0], options.sessions)]
    wanted = [("live sessions of silero-vad in real time with p99 of at most 10 ms", spread([best]), ">=",
               options.sessions, "sessions"),
              (f"p99 at {at[0]['sessions']} sessions", spread([run["p99_us"] for run in at]), "<=", MAX_P99_US, "µs")]
    return results, wanted


def measure_first(options):
    """Over connections that have been used, on a device that is awake."""
    import numpy
    from penstock import Client

    figures = {bucket: [] for bucket in BUCKETS}
    for turn in range(options.repeats):
        with contextlib.ExitStack() as stack:
            model = MODELS["convnet"]
            other = ('[[pipeline]]\nname = "affine"\ninput = { dtype = "f32", shape = [1024] }\n'
                     + affine_stage("affine"))
            daemon = start(options, stack, [model_pipeline(model, "convnet.pt2"), other])
            client = stack.enter_context(Client(daemon.url))
            for bucket in BUCKETS[turn % len(BUCKETS):] + BUCKETS[:turn % len(BUCKETS)]:
                frames = numpy.random.default_rng(1).standard_normal((bucket, model.length), dtype=numpy.float32)

                def once(name, frames=frames):
                    begin = time.perf_counter()
                    client.submit(name, frames, frames=len(frames)).result(60)
                    return time.perf_counter() - begin

                for _ in range(200):
                    once("affine")
                first, steady = once("convnet"), statistics.median(once("convnet") for _ in range(200))
                figures[bucket].append(first / steady)
    return ({f"first over p50, {bucket} frames": spread(values) for bucket, values in figures.items()},
            [(f"the first request over the steady p50, {bucket} frames", spread(values), "<=", 2, "×")
             for bucket, values in figures.items()])


PARTS = {"replay": measure_replay, "served": measure_served, "live": measure_live, "first": measure_first}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--backend", default="cuda", choices=("cuda", "host"))
    parser.add_argument("--packages", type=pathlib.Path, help="a folder; without it one that is removed at the end")
    parser.add_argument("--tritonserver", type=pathlib.Path, help="the folder of the wheel; without it no Triton")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one contender in one turn")
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, comma-separated")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures into this file")
    parser.add_argument("--replay-worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay_worker:
        replay_worker(options.packages)
        return 0
    options.bin = options.bin.resolve()
    everything, rows, begin = {"repeats": options.repeats}, [], time.monotonic()
    with contextlib.ExitStack() as stack:
        if options.packages is None:
            options.packages = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-"))
        options.packages = pathlib.Path(options.packages).resolve()
        options.packages.mkdir(exist_ok=True)
        device = "cuda" if options.backend == "cuda" else "cpu"
        for name, model in MODELS.items():
            model.export(options.packages / f"{name}.pt2", BUCKETS, device)
        MODELS["vad"].export(options.packages / "vad_64.pt2", (64,), device)
        everything["export_seconds"] = time.monotonic() - begin
        with contextlib.ExitStack() as daemons:
            everything["device"] = start(options, daemons, [model_pipeline(MODELS["convnet"], "convnet.pt2")]
                                         ).status()["device"]
        for part in options.only.split(","):
            print(f"{part}:", file=sys.stderr)
            everything[part], wanted = PARTS[part](options)
            rows += wanted
            if options.json:  # what there is, should a later part not end
                options.json.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    print(f"{everything['device']['name']}, {options.repeats} repeats, {time.monotonic() - begin:.0f} s\n")
    missed = show(rows)
    return missed if options.backend == "cuda" else 0


if __name__ == "__main__":
    sys.exit(main())
