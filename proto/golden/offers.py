"""What the daemon of the golden messages says that there is."""


def tensor(name, dtype, element, shape, op="", variable=False, **more):
    return {"name": name, "dtype": dtype, "element": element, "shape": shape, "variable": variable, "op": op, **more}


def pipeline(number, name, max_frames, taken, given, keeps_state=False, ordered=True, period=1, **more):
    return {"id": number, "name": name, "max_frames": max_frames, "input": taken, "outputs": given,
            "keeps_state": keeps_state, "ordered": ordered, "period": period, **more}


WELCOME = {
    "server": "penstockd 0.1.0", "instance": "5f0c7a52b1d94e38", "credit_requests": 256, "credit_bytes": 67108864,
    "max_request_bytes": 67108864,
    "pipelines": [
        pipeline(0, "spectrum", 256, tensor("input", "u8", "cu8", [4, 2]),
                 [tensor("psd", "f32", "f32", [4], "power_spectrum"), tensor("stats", "f32", "f32", [5], "moments")]),
        pipeline(1, "motion – ecg", 64, tensor("input", "i16", "i16", [512], variable=True),
                 [tensor("scaled", "f32", "f32", [512], "affine", variable=True)]),
    ], "answering": 0, "shard": 0, "shards": []}

WELCOME_SHARDS = {
    **WELCOME, "pipelines": [
        pipeline(0, "decimated", 16, tensor("input", "c64", "cf32", [1024], variable=True),
                 [tensor("slow", "c64", "cf32", [128], "fir", variable=True, steps=8)], keeps_state=True, period=8),
        pipeline(1, "levels", 16, tensor("input", "f32", "f32", [256]), [tensor("level", "f32", "f32", [256], "iir")],
                 keeps_state=True, ordered=False),
    ], "answering": 0, "shard": 1,
    "shards": [["tcp://*:7600", "ipc:///run/penstock/0"], ["tcp://*:7601", "ipc:///run/penstock/1"]]}

_SIGNAL = tensor("signal", "c64", "cf32", [64], variable=True)
WELCOME_INPUTS = {
    **WELCOME, "pipelines": [
        pipeline(0, "masked", 16, _SIGNAL, [tensor("y", "c64", "cf32", [64], "map", variable=True)],
                 inputs=[_SIGNAL, tensor("mask", "f32", "f32", [64], variable=True), tensor("gain", "f32", "f32", [1])]),
    ]}
