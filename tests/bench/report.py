#!/usr/bin/python3
"""Tables and plots of what penstock-bench measured.

  report.py FILE...                   tables of these JSON files, as Markdown; "-" is the standard input
  report.py --ratios FILE...          one table: the ratio to each limit, beside its target
  report.py --plots FOLDER FILE...    an SVG of each file that has a plot (needs python3-matplotlib)
"""

import argparse
import json
import pathlib
import statistics
import sys


def is_spread(value):
    return isinstance(value, dict) and set(value) == {"median", "least", "most"}


def is_table(value):
    return isinstance(value, list) and value and all(isinstance(each, dict) for each in value)


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def text(value):
    if is_spread(value):
        return f"{number(value['median'])} ({number(value['least'])}–{number(value['most'])})"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(each)}" for key, each in value.items())
    return str(value)


def is_series(value):
    return isinstance(value, list) and bool(value) and all(isinstance(each, (int, float)) for each in value)


def contenders_of(row):
    """Members of a row that hold the figures of one contender each."""
    return [key for key, value in row.items()
            if isinstance(value, dict) and not is_spread(value) and any(map(is_spread, value.values()))]


def lines_of(row):
    """One line for a row, or one for each of its contenders."""
    contenders = contenders_of(row)
    plain = {key: value for key, value in row.items()
             if key not in contenders and not is_table(value) and not is_series(value)}
    if not contenders:
        return [plain]
    return [{**plain, "contender": name, **{key: value for key, value in row[name].items() if key != "turns"}}
            for name in contenders]


def table(rows):
    lines = [line for row in rows for line in lines_of(row)]
    columns = list(dict.fromkeys(key for line in lines for key in line))
    yield "| " + " | ".join(column.replace("_", " ") for column in columns) + " |"
    yield "|---" * len(columns) + "|"
    for line in lines:
        yield "| " + " | ".join(text(line.get(column, "")) for column in columns) + " |"


def tables(name, value):
    """The tables in a result, with those in the rows of others."""
    if is_table(value):
        yield f"\n### {name}\n"
        yield from table(value)
        for row in value:
            for key, each in row.items():
                if is_table(each):
                    yield from tables(f"{name}: {row.get('name', '')} {key}", each)


def machine_of(result):
    machine, device = result["machine"], result["device"]
    return (f"{device['name']}, {machine['processor']}, {machine['cores']} cores, libzmq {machine['libzmq']}, "
            f"commit {machine['commit']}, {machine['date']}, {result['repeats']} repeats; median (least–most)")


def report(result):
    yield f"## {result['benchmark']}\n"
    if result.get("quick"):
        yield "A quick run: it shows that the benchmark works, and no more.\n"
    yield machine_of(result)
    rest = {key: value for key, value in result.items() if key not in ("benchmark", "machine", "device", "repeats")}
    rest = {key: [value] if isinstance(value, dict) and contenders_of(value) else value for key, value in rest.items()}
    single = {key: value for key, value in rest.items() if not isinstance(value, list)}
    if single:
        yield ""
        yield from table([{"figure": key.replace("_", " "), "value": text(value)} for key, value in single.items()])
    for key, value in rest.items():
        yield from tables(key.replace("_", " "), value)


def spread_of(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratio(row, contender, reference):
    """Of throughput, turn by turn, so that both see the same state of the machine."""
    own, other = (row[name]["turns"]["requests_per_second"] for name in (contender, reference))
    return spread_of([a / b for a, b in zip(own, other)])


def worst(spreads):
    return min(spreads, key=lambda each: each["median"], default=None)


def throughput_ratios(result):
    cuda = result["device"]["backend"] == "cuda"
    large = [row for row in result["rows"] if 65536 <= row["bytes"] <= 1 << 20]
    small = [row for row in result["rows"] if row["bytes"] == 256 and row["clients"] == 32]
    contender = "poll" if cuda else "callback"
    yield "64 KiB to 1 MiB over ZeroMQ / echo", 0.9, worst([ratio(row, contender, "echo") for row in large])
    yield "256 B, 32 clients / echo", 0.8, worst([ratio(row, contender, "echo") for row in small])
    for name in ("hand_callback", "hand_poll", "hand_mapped", "hand"):
        if all(name in row for row in small):
            yield (f"256 B, 32 clients / server by hand ({name})", 5.0,
                   worst([ratio(row, contender, name) for row in small]))
    if any("poll_two_shards" in row for row in small):
        yield "256 B, 32 clients, two shards / echo", 0.8, worst(
            [ratio(row, "poll_two_shards", "echo") for row in small if "poll_two_shards" in row])


def ratios_of(result):
    """What each benchmark says of its limit: name, target, spread."""
    name = result["benchmark"]
    if name == "throughput":
        yield from throughput_ratios(result)
    elif name == "shared":
        large = [row["shared"]["of_limit"] for row in result["rows"] if row["bytes"] >= 1 << 20]
        yield "frames of 1 to 16 MiB in shared memory / copies both ways", 0.9, worst(large)
    elif name == "latency":
        idle = result["idle"]
        for mode in ("poll", "callback"):
            turns = (idle[mode]["turns"]["latency_p50_us"], idle["echo"]["turns"]["latency_p50_us"],
                     idle["bare_turns"][mode])
            yield (f"one 4 KiB request, {mode}, beyond an echo and a plain batch, µs", "≤ 10",
                   spread_of([own - echo - batch for own, echo, batch in zip(*turns)]))
    elif name == "overlap":
        for mode in ("poll", "callback"):
            yield (f"three equal stages, {mode} / plain CUDA with the same chunks", 0.95,
                   worst([row[mode]["of_bare"] for row in result["rows"]]))
    elif name == "devices":
        for row in result["rows"][1:]:
            yield f"{row['devices']} devices / one", {2: 1.9, 4: 3.7}.get(row["devices"]), row["ratio"]
    elif name == "timing":
        timed = next(row["ratio"] for row in result["rows"] if row["timing"] == "default")
        yield "event timing by default / off", 0.99, timed
        for what, turns in (("metrics", 1000), ("timeline_read", 60_000)):  # once a turn, and that often in these ms
            part = result[what]["turn_ms"] / turns
            yield (f"{what.replace('_', ' ')} every {turns // 1000} s / not", 0.99,
                   {key: 1 - (1 - value) * part for key, value in result[what]["ratio"].items()})
    elif name == "live":
        for row in result["rows"]:
            if "of_the_bare_loop" in row:
                yield f"{row['wire']}: {row['contender']} / bare loop", 0.9, row["of_the_bare_loop"]
    elif name == "operators":
        for key in ("of_numpy", "of_cupy", "of_cufft", "of_cufft_passes", "of_cublas", "of_cublaslt", "of_openblas", "of_cudnn",
                    "of_onednn"):
            rows = [row for row in result["rows"] if key in row]
            if rows:
                slowest = min(rows, key=lambda row: row[key]["median"])
                yield f"operators / {key[3:]}, the slowest: {slowest['name']}", 1.0, slowest[key]
    elif name == "modes":
        for other in ("callback", "poll"):
            yield f"completion auto / {other}", 0.95, worst([row[f"auto_to_{other}"] for row in result["rows"]])
    elif name == "fairness":
        inverse = result["p99_ratio"]
        yield "p99 beside a fair client / beside a flood", None, {
            "median": 1 / inverse["median"], "least": 1 / inverse["most"], "most": 1 / inverse["least"]}
    if "passed" in result:
        yield f"{name}: passed", None, result["passed"]


def ratio_text(value):
    if not is_spread(value):
        return text(value)
    return f"{value['median']:#.3g} ({value['least']:#.3g}–{value['most']:#.3g})"


def ratio_table(results):
    yield "| ratio | target | reached | machine, date |"
    yield "|---|---|---|---|"
    for result in results:
        where = result["device"]["name"] if result["device"]["backend"] == "cuda" else result["machine"]["processor"]
        where += f", {result['machine']['date']}"
        for name, target, reached in ratios_of(result):
            if isinstance(target, float):
                target = f"≥ {target}"
            if reached is not None:
                yield f"| {name} | {target or ''} | {ratio_text(reached)} | {where} |"


# Benchmark: x, its label, y (in a contender's figures), its label, scales, and which rows.
PLOTS = {
    "throughput": ("bytes", "payload, bytes", "requests_per_second", "requests per second", "log", "log",
                   lambda row: row["transport"] == "tcp" and row["clients"] == 32),
    "shared": ("bytes", "frame, bytes", "gb_per_second", "GB/s each way", "log", "linear", lambda row: True),
    "latency": ("load", "load, part of the capacity", "p99", "p99, µs", "linear", "log", lambda row: True),
    "overlap": ("chunks", "chunks", "speedup", "speedup", "log", "linear", lambda row: True),
    "completion": ("bytes", "batch, bytes", "latency_p50_us", "one batch, p50, µs", "log", "linear", lambda row: True),
    "link": ("bytes", "copy, bytes", "both_gb_per_second", "GB/s each way, both at once", "log", "linear",
             lambda row: True),
    "modes": ("bytes", "payload, bytes", "requests_per_second", "requests per second", "log", "log",
              lambda row: row["in_flight"] > 1 and row["clients"] == 1),
}


def curve(axes, rows, x, name, values):
    points = sorted((row[x], value) for row, value in zip(rows, values))
    at = [each for each, _ in points]
    line, = axes.plot(at, [value["median"] for _, value in points], linewidth=1.2, label=name)
    axes.fill_between(at, [value["least"] for _, value in points], [value["most"] for _, value in points],
                      color=line.get_color(), alpha=0.15, linewidth=0)


def draw(result, axes, contenders):
    x, x_label, y, y_label, x_scale, y_scale, chosen = PLOTS[result["benchmark"]]
    rows = [row for row in result["rows"] if chosen(row)]
    for name in dict.fromkeys(key for row in rows for key in contenders_of(row)):
        has = [row for row in rows if name in row and y in row[name]]
        if has and (not contenders or name in contenders):
            curve(axes, has, x, name.replace("_", " "), [row[name][y] for row in has])
    if "limit_gb_per_second" in rows[0]:
        curve(axes, rows, x, "copies both ways", [row["limit_gb_per_second"] for row in rows])
    axes.set(xlabel=x_label, ylabel=y_label, xscale=x_scale, yscale=y_scale,
             title=f"{result['benchmark']}: {result['device']['name']}, {result['machine']['date']}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def plot(results, folder, contenders):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "penstock", "svg.fonttype": "none", "path.simplify": True})
    from matplotlib import pyplot
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        if result["benchmark"] not in PLOTS:
            continue
        figure, axes = pyplot.subplots(figsize=(6.4, 4), constrained_layout=True)
        draw(result, axes, contenders)
        file = folder / f"{result['benchmark']}-{result['device']['backend']}.svg"
        figure.savefig(file, metadata={"Date": None})
        pyplot.close(figure)
        print(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--ratios", action="store_true")
    parser.add_argument("--plots", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--contenders", default="", metavar="NAME,...", help="draw only these")
    options = parser.parse_args()
    results = [json.loads(sys.stdin.read() if file == "-" else pathlib.Path(file).read_text())
               for file in options.files]
    if options.plots:
        plot(results, options.plots, [each for each in options.contenders.split(",") if each])
    elif options.ratios:
        print("\n".join(ratio_table(results)))
    else:
        print("\n\n".join("\n".join(report(result)) for result in results))


if __name__ == "__main__":
    main()
