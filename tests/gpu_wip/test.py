import sys, time, random, numpy as np, scipy.signal, penstock
url = sys.argv[1]
rng = np.random.default_rng(1)
with penstock.Client(url, connect_timeout=60) as c:
    x = rng.standard_normal((50, 1024), dtype=np.float32)
    fs = [c.submit("agc", each) for each in x]
    got = np.stack([np.ravel(f.result(30)["agc"]) for f in fs])
    assert np.array_equal(got, x * np.float32(0.5)); print("agc exact")
    fs = [c.submit("reverse", each) for each in x]
    got = np.stack([np.ravel(f.result(30)["reverse"]) for f in fs])
    assert np.array_equal(got, (2 * x)[:, ::-1]); print("reverse exact")
    N = 1000
    signals = rng.standard_normal((N, 300, 2), dtype=np.float32)
    want = scipy.signal.lfilter([1], [1, -0.9], signals.astype(np.float64), axis=1)
    sessions = [c.open_session("pole") if hasattr(c, "open_session") else c.session("pole") for _ in range(N)]
    at, outs, pending = [0] * N, [[] for _ in range(N)], []
    order = random.Random(2)
    live = list(range(N))
    while live:
        i = order.choice(live)
        k = min(order.randint(1, 64), 300 - at[i])
        pending.append((i, sessions[i].submit(signals[i, at[i]:at[i] + k])))
        at[i] += k
        if at[i] == 300: live.remove(i)
    for i, f in pending: outs[i].append(f.result(60)["pole"].reshape(-1, 2))
    worst = max(float(np.max(np.abs(np.concatenate(outs[i]) - want[i]))) / float(np.max(np.abs(want[i]))) for i in range(N))
    print("pole: 1000 sessions,", len(pending), "frames, worst", worst)
    assert worst < 2e-6
