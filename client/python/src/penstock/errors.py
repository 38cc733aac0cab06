"""What a request can end with other than a result: one exception class a kind of status."""
from __future__ import annotations

from typing import Dict, Optional, Type

from .control import ErrorBody
from .wire import Status, known_status, status_name


class PenstockError(Exception):
    """A request ended without a result.

    status: its code; a `Status` where this version knows it.
    status_name: "WRONG_SHAPE", "EXPIRED", ...
    reason: one sentence for a person.
    step: where the request stood: "ingress", "queued", "batched", "executing", or "client" when the client itself
        ended it; "" when unknown.
    stage, device_error: for FAILED, the pipeline's stage and the device's own name for the error.
    request_id: the request, 0 when there was none.
    """

    default_status = Status.REJECTED

    def __init__(self, reason: str, *, status: Optional[int] = None, step: str = "", stage: str = "", device_error: str = "",
                 request_id: int = 0) -> None:
        self.status = self.default_status if status is None else status
        self.status_name = status_name(self.status)
        self.reason = reason
        self.step = step
        self.stage = stage
        self.device_error = device_error
        self.request_id = request_id
        super().__init__(reason)

    def __str__(self) -> str:
        where = [f"{name} {value}" for name, value in (("step", self.step), ("stage", self.stage),
                                                       ("device error", self.device_error)) if value]
        return f"{self.status_name}: {self.reason}" + (f" ({', '.join(where)})" if where else "")


class Rejected(PenstockError):
    """The daemon refused the request; status_name says why."""


class NoCredit(Rejected):
    """All requests or bytes that the daemon granted are in flight."""
    default_status = Status.NO_CREDIT


class NoRoom(NoCredit):
    """Device memory has no room just now."""


class Expired(PenstockError):
    """The timeout ran out; step says where."""
    default_status = Status.EXPIRED


class Unreachable(Expired):
    """No daemon could be reached: which address, what happened there, and what to try."""

    def __str__(self) -> str:
        return self.reason


class Cancelled(PenstockError):
    """The request was cancelled, or the client was closed."""
    default_status = Status.CANCELLED


class Failed(PenstockError):
    """The device or an operator failed."""
    default_status = Status.FAILED


class Shutdown(PenstockError):
    """The daemon is stopping."""
    default_status = Status.SHUTDOWN


class SessionLost(PenstockError):
    """The session can't go on: the daemon restarted, dropped it, or refused one of its requests. Open another."""
    default_status = Status.SESSION_LOST


_BY_KIND: Dict[int, Type[PenstockError]] = {1: Rejected, 2: Expired, 3: Cancelled, 4: Failed, 5: Shutdown,
                                            6: SessionLost}


def error_of(status: int, body: ErrorBody, request_id: int) -> PenstockError:
    """The exception that an ERROR stands for."""
    kind = NoCredit if status == Status.NO_CREDIT else _BY_KIND.get(status >> 8, PenstockError)
    return kind(body.reason, status=known_status(status), step=body.step, stage=body.stage, device_error=body.device_error,
                request_id=request_id)
