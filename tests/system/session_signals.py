"""Signals that go through sessions in frames of random lengths, the sessions among each other in random order."""

import random

import numpy


def through_sessions(client, pipeline, signals, longest, seed=1):
    """The results of the pipeline's only output, for each signal [steps, …] as a whole. All sessions are open at once,
    and all frames in flight as far as credits go. `longest`: steps of a frame, at most."""
    order = random.Random(seed)
    sessions = [client.session(pipeline) for _ in signals]
    at, results = [0] * len(signals), [[] for _ in signals]
    waiting = list(range(len(signals)))
    while waiting:
        slot = order.randrange(len(waiting))
        one = waiting[slot]
        end = min(at[one] + order.randint(1, longest), len(signals[one]))
        results[one].append(sessions[one].submit(signals[one][at[one]:end]))
        at[one] = end
        if end == len(signals[one]):
            waiting[slot] = waiting[-1]
            waiting.pop()
    joined = [numpy.concatenate([future.result(120).array.reshape(-1, *signal.shape[1:]) for future in futures])
              for futures, signal in zip(results, signals)]
    for session in sessions:
        session.close()
    return joined


def worst_error(got, wanted):
    """The largest difference of any signal, over the largest value of that signal."""
    return max(float(numpy.abs(mine - theirs).max() / numpy.abs(theirs).max()) for mine, theirs in zip(got, wanted))
