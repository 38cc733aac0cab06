"""Which of the daemon's shards a client talks to."""
from __future__ import annotations

from typing import Optional

from .control import Welcome


def better_endpoint(welcome: Welcome, url: str) -> Optional[str]:
    """Where a client that reached the daemon at `url` should go instead: an endpoint of the shard that `welcome` names.
    None when it is where it should be, or when that shard has no endpoint that it could use."""
    if welcome.shard == welcome.answering or max(welcome.shard, welcome.answering) >= len(welcome.shards):
        return None
    here = [_reachable(endpoint, url) for endpoint in welcome.shards[welcome.answering]]
    there = [_reachable(endpoint, url) for endpoint in welcome.shards[welcome.shard]]
    place = here.index(url) if url in here else len(there)
    if place < len(there):
        return there[place]
    return next((endpoint for endpoint in there if _transport(endpoint) == _transport(url)), None)


def _transport(url: str) -> str:
    return url.partition("://")[0]


def _reachable(endpoint: str, url: str) -> str:
    """A host that stands for all of the daemon's is the one that the client was given."""
    host, _, port = endpoint.rpartition(":")
    if host not in ("tcp://*", "tcp://0.0.0.0", "tcp://[::]") or _transport(url) != "tcp":
        return endpoint
    return f"{url.rpartition(':')[0]}:{port}"
