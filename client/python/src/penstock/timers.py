"""When the connection's thread must look at a request, or at a session that pauses, again."""
from __future__ import annotations

import heapq
import math
from typing import Dict, Iterator, List, Optional, Tuple


class Timers:
    """One time for each request id, and for each session under its number's negative, in time.monotonic()'s seconds.
    Holds no request, so that none outlives its end."""

    def __init__(self) -> None:
        self._due: Dict[int, float] = {}
        self._heap: List[Tuple[float, int]] = []  # has times that were set anew or cleared, too

    def set(self, request_id: int, due: float) -> None:
        """Sets its time in place of an earlier one; infinity is never."""
        if due == math.inf:
            self.clear(request_id)
            return
        self._due[request_id] = due
        heapq.heappush(self._heap, (due, request_id))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [(time, each) for each, time in self._due.items()]
            heapq.heapify(self._heap)

    def clear(self, request_id: int) -> None:
        """It has no time any more."""
        self._due.pop(request_id, None)

    def take_due(self, now: float) -> Iterator[int]:
        """Those whose time has come, earliest first; they have none any more."""
        while self._heap and self._heap[0][0] <= now:
            due, request_id = heapq.heappop(self._heap)
            if self._due.get(request_id) == due:
                del self._due[request_id]
                yield request_id

    def seconds_left(self, now: float) -> Optional[float]:
        """Until the next; None when there is none."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return max(0.0, self._heap[0][0] - now) if self._heap else None
