-- One request of Triton's HTTP protocol with a binary tensor, sent over and over; prints a line of JSON. From the
-- environment: PEER_BODY, the file with the body, and PEER_HEADER, the size of the JSON at its beginning.

local file = assert(io.open(os.getenv("PEER_BODY"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.headers["Inference-Header-Content-Length"] = os.getenv("PEER_HEADER")
file:close()

function done(summary, latency, requests)
  local errors = summary.errors
  print(string.format('{"requests_per_s": %.1f, "p50": %.1f, "p99": %.1f, "errors": %d}',
    summary.requests / summary.duration * 1e6, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
