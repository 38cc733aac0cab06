"""How a client gets memory that it shares with the daemon, uses it and loses it."""
from __future__ import annotations

import os
import socket
import struct
import threading
import time
from concurrent import futures
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

import numpy as np

from . import frames, wire
from .arena import Arena, ArenaBase, Shape, SharedPayload, nbytes_of
from .control import Attached, ErrorBody, PipelineDescription, Welcome
from .cuda import CudaDevice, CudaError
from .dealer import Dealer
from .device_memory import DeviceArena, DevicePayload
from .errors import NoRoom, PenstockError, Rejected
from .pending_request import AttachRequest, Patience, PendingRequest, PlaceRequest
from .tensor import Tensor
from .wire import MessageType, Status, room_for

#: Requests with less input and less output go over the socket, unless they lie in the arena already.
SHARE_FROM_BYTES = 16384
#: Pause before the next ATTACH after a refusal, in seconds; it doubles each time.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
#: Until the next attempt to connect while the listener's backlog is full.
_BETWEEN_CONNECTS_S = 0.005
#: Between two looks whether a former arena is empty.
_BETWEEN_LOOKS_S = 1.0
_RETURNS = (MessageType.RESULT, MessageType.RESULT_SHARED, MessageType.RELEASED)
_LEAST_BYTES = 64 << 10
_RECORD = struct.Struct("<4sIQ")
_MAGIC, _DEVICE_MAGIC = b"PNSM", b"PNSD"
_GET_SEALS, _SHRINK_AND_GROW = 1034, 2 | 4  # Linux's values; not every Python names them


class ArenaSize:
    """Decides how many bytes to ask for: few at first, twice as many when a request finds no room, half as many when
    the daemon has no room. Not thread-safe."""

    def __init__(self, first: int, need: int, held: int) -> None:
        """first: bytes of the first arena, if two requests fit. need: bytes of the request that found no room, 0 =
        none. held: bytes of the present arena, 0 = none."""
        self._first = first
        self._need = need
        self._held = held
        self._divisor = 1
        self._may_be_less = False

    def next(self, most: int) -> int:
        """Bytes to ask for, at most `most`; 0 when a larger arena would not help."""
        if self._held > 0 and (most <= self._held or most < self._need):
            return 0
        wanted = min(most, max(self._first, 2 * max(self._need, self._held)))
        least = min(most, max(self._need, self._held + 1, _LEAST_BYTES))
        asked = max(wanted // self._divisor, least)
        self._may_be_less = asked > least
        return asked

    def halve(self) -> bool:
        """The daemon had no room. True when asking for less makes sense."""
        self._divisor *= 2
        return self._may_be_less


class ArenaSocket:
    """The Unix connection that brings one arena and holds its lease. Never blocks: call `receive` when `fileno` is
    readable. Thread: the connection's."""

    def __init__(self, attached: Attached, device: Optional[CudaDevice] = None) -> None:
        """device: the GPU whose memory it is to be. Raises OSError where no descriptor can be passed."""
        self.arena: Optional[ArenaBase] = None  #: once it has come
        self._device = device
        self.connected = False
        if not hasattr(socket, "recv_fds"):
            raise OSError("descriptors can't be passed on this system")
        self._attached = attached
        self._record = b""
        self._descriptors: List[int] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)

    def connect(self) -> None:
        """Connects and sends the ticket. Stays not `connected` while the listener's backlog is full: try again later.
        Raises OSError."""
        name = self._attached.socket
        try:
            self._socket.connect(b"\0" + name[1:].encode() if name.startswith("@") else name)
            self._socket.sendall(self._attached.ticket.encode())
            self.connected = True
        except BlockingIOError:
            pass
        except (OSError, ValueError) as error:
            raise OSError(f"can't fetch memory at {name}: {error}") from None

    def fileno(self) -> int:
        """The descriptor to poll for reading once connected."""
        return self._socket.fileno()

    def receive(self) -> None:
        """Reads what has arrived, and maps the arena when the answer is complete. Raises OSError when the lease has
        ended."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _RECORD.size, 1)
        except BlockingIOError:
            return
        self._descriptors += descriptors
        if not data:
            raise OSError("the daemon has ended the lease" if self.arena else "the daemon gave no memory")
        if self.arena is None:
            self._record += data
            if len(self._record) >= _RECORD.size:
                self._map()

    def close(self) -> None:
        """Ends the lease. The arena stays mapped while arrays in it exist."""
        self._close_descriptors()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked child has it too
        except OSError:
            pass
        self._socket.close()

    def _map(self) -> None:
        magic, number, nbytes = _RECORD.unpack_from(self._record)
        if magic != (_MAGIC if self._device is None else _DEVICE_MAGIC) or not self._descriptors:
            raise OSError("what answers at the daemon's socket is no daemon")
        try:
            if self._device is None:
                _check_sealed(self._descriptors[0])
                self.arena = Arena(number, self._descriptors[0], nbytes)
            else:
                self.arena = DeviceArena(self._device, number, self._descriptors[0], nbytes)
        except (OSError, ValueError, OverflowError, CudaError) as error:
            raise OSError(f"can't map the daemon's memory: {error}") from None
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        descriptors, self._descriptors = self._descriptors, []
        for each in descriptors:
            os.close(each)


def _check_sealed(descriptor: int) -> None:
    """Raises OSError for memory that can change its size: a read beyond its end would raise SIGBUS."""
    import fcntl  # no earlier: the package runs where there is none, too
    if fcntl.fcntl(descriptor, _GET_SEALS) & _SHRINK_AND_GROW != _SHRINK_AND_GROW:
        raise OSError("it is not sealed against another size")


class Outlet(Protocol):
    """The part of the protocol engine that the lease calls."""

    def begin(self, pending: PendingRequest) -> None:
        """Sends a request that has its id."""

    def end(self, pending: PendingRequest, value: object = None, error: Optional[PenstockError] = None) -> None:
        """Ends a request."""


class ArenaLease:
    """The client's arena, the smaller ones before it, and the requests whose memory the daemon may still use.

    That memory stays reserved until the daemon's reply or RELEASED, or until the arena ends, also after the caller has
    given up. Because those messages can be lost, the lease asks for them. Thread: the connection's."""

    def __init__(self, outlet: Outlet, dealer: Dealer, patience: Patience, on_device: bool = False) -> None:
        self._on_device = on_device
        self.arena: Optional[Any] = None  #: written by the connection's thread, read by any
        self.device: Optional[CudaDevice] = None  #: the GPU, for a lease of its memory; written before ATTACH
        self._outlet = outlet
        self._dealer = dealer
        self._patience = patience
        self._held: Optional[ArenaSocket] = None
        self._outgrown: List[ArenaSocket] = []  # in whose arenas something still lies
        self._coming: Optional[ArenaSocket] = None  # whose arena is being fetched
        self._attachment: Optional[AttachRequest] = None  # for it
        self._connect_at = 0.0  # of one that is not connected; in time.monotonic()'s seconds
        self._lent: Dict[int, SharedPayload] = {}
        self._questions: Dict[int, PlaceRequest] = {}  # after what is lent and has ended here

    # The lease.

    def fetch(self, pending: AttachRequest, attached: Attached) -> None:
        """Handles ATTACHED: the request ends when the arena is mapped, or fails."""
        if self._coming is not None:
            return  # a repeat
        try:
            self._coming = ArenaSocket(attached, self.device)
        except OSError as error:
            self._outlet.end(pending, error=Rejected(str(error), step="client", request_id=pending.request_id))
            return
        self._attachment = pending
        self._connect_at = 0.0
        self.look()

    def seconds_left(self, now: float) -> Optional[float]:
        """Seconds until `look` must be called although no descriptor is readable; None = never."""
        if self._coming is not None and not self._coming.connected:
            return max(0.0, self._connect_at - now)
        return _BETWEEN_LOOKS_S if self._outgrown else None

    def look(self) -> None:
        """Connects where that is due, and reads from the connections; notices their end."""
        for connection in self._connections():
            try:
                if not connection.connected:
                    self._connect(connection)
                elif self._dealer.is_ready(connection.fileno()):
                    connection.receive()
            except OSError as error:
                self._leave(connection, str(error))
        if self._coming is not None and self._coming.arena is not None:
            self._take_over(self._coming, self._coming.arena)
        for connection in self._outgrown.copy():
            if connection.arena is not None and connection.arena.unused:
                self._leave(connection, "it was outgrown")

    def end(self, arena: ArenaBase) -> None:
        """The daemon does not know this arena any more."""
        arena.end()
        for connection in self._connections():
            if connection.arena is arena:
                self._leave(connection, "the daemon does not know this memory any more")

    def leave(self) -> None:
        """Ends all leases: the daemon was restarted, or the client closes."""
        for connection in self._connections():
            self._leave(connection, "the lease has ended")

    def ended(self, pending: PendingRequest) -> None:
        """The caller does not wait for this request any more. An arena that arrives later is dropped; where the daemon
        may still use the request's memory, the lease begins to ask."""
        if pending is self._attachment:
            self._attachment = None
            if self._coming is not None:
                self._leave(self._coming, "nobody waits for it")
        request_id = pending.request_id
        question = self._questions.pop(request_id, None)
        if request_id in self._lent:
            self._questions[request_id] = question = question or PlaceRequest(request_id, self._patience)
            question.begins = True
            self._outlet.begin(question)

    def _connections(self) -> List[ArenaSocket]:
        held = [] if self._held is None else [self._held]
        return self._outgrown + held + ([] if self._coming is None else [self._coming])

    def _take_over(self, connection: ArenaSocket, arena: ArenaBase) -> None:
        """Uses a new arena from now on. What lies in the old one stays there."""
        if self._held is not None and self._held.arena is not None:
            self._held.arena.outgrow()
            self._outgrown.append(self._held)
        attachment, self._attachment = self._attachment, None
        self._held, self._coming, self.arena = connection, None, arena
        if attachment is not None:
            self._outlet.end(attachment, arena)

    def _leave(self, connection: ArenaSocket, reason: str) -> None:
        if connection.connected:
            self._dealer.unwatch(connection.fileno())
        connection.close()
        if connection is self._coming:
            attachment, self._coming, self._attachment = self._attachment, None, None
            if attachment is not None:
                self._outlet.end(attachment,
                                 error=Rejected(reason, step="client", request_id=attachment.request_id))
            return
        if connection is self._held:
            self._held = self.arena = None
        else:
            self._outgrown.remove(connection)
        if connection.arena is not None:
            connection.arena.end()
        self._lent = {request_id: each for request_id, each in self._lent.items() if each.arena is not connection.arena}
        for request_id, question in list(self._questions.items()):
            if request_id not in self._lent:
                self._outlet.end(question)

    def _connect(self, connection: ArenaSocket) -> None:
        now = time.monotonic()
        if self._connect_at <= now:
            self._connect_at = now + _BETWEEN_CONNECTS_S
            connection.connect()
            if connection.connected:
                self._dealer.watch(connection.fileno())

    # Memory that the daemon may use.

    def lend(self, pending: PendingRequest) -> None:
        """Notes that the request was sent."""
        placement = pending.placement
        mine = placement is not None and isinstance(placement, DevicePayload) == self._on_device
        if placement is not None and mine and placement.lent > 0 and not placement.arena.ended:
            self._lent[pending.request_id] = placement

    def hear(self, header: wire.Header, error: Optional[ErrorBody]) -> None:
        """Notes a message of the daemon; `error` is the body of an ERROR. Not for HELLO_REQUIRED, which does not
        concern memory."""
        placement = self._lent.get(header.request_id)
        if placement is None or (error is None and header.type not in _RETURNS) or (error is not None and error.holds):
            return
        placement.lent -= 1
        if header.status == Status.UNKNOWN_ARENA:
            self.end(placement.arena)
        elif error is None or placement.lent == 0 or self._asked(header) or not _only_refuses(header.status):
            del self._lent[header.request_id]
            placement.lent = 0

    def _asked(self, header: wire.Header) -> bool:
        """True when the message answers a question of this lease: then it is final, however often the request was
        sent."""
        question = self._questions.get(header.request_id)
        return question is not None and question.asked


def _only_refuses(status: int) -> bool:
    """True for an ERROR that does not end an accepted request: another copy of it may still be in flight."""
    return status >> 8 == Status.REJECTED >> 8 and status != Status.OVERFLOW


class Leases:
    """The leases of the host's memory and of the GPU's. Thread: the connection's."""

    def __init__(self, outlet: Outlet, dealer: Dealer, patience: Patience) -> None:
        self.host = ArenaLease(outlet, dealer, patience)
        self.device = ArenaLease(outlet, dealer, patience, on_device=True)
        self._both = (self.host, self.device)

    def fetch(self, pending: AttachRequest, attached: Attached) -> None:
        """Handles ATTACHED: the request ends when the arena is mapped, or fails."""
        (self.device if pending.on_device else self.host).fetch(pending, attached)

    def seconds_left(self, now: float) -> Optional[float]:
        """Seconds until `look` must be called although no descriptor is readable; None = never."""
        left = [each.seconds_left(now) for each in self._both]
        return min((each for each in left if each is not None), default=None)

    def look(self) -> None:
        """Connects where that is due, and reads from the connections; notices their end."""
        for each in self._both:
            each.look()

    def leave(self) -> None:
        """Ends all: the daemon was restarted, or the client closes."""
        for each in self._both:
            each.leave()

    def ended(self, pending: PendingRequest) -> None:
        """The caller does not wait for this request any more."""
        for each in self._both:
            each.ended(pending)

    def lend(self, pending: PendingRequest) -> None:
        """Notes that the request was sent."""
        for each in self._both:
            each.lend(pending)

    def hear(self, header: wire.Header, error: Optional[ErrorBody]) -> None:
        """Notes a message of the daemon; `error` is the body of an ERROR."""
        for each in self._both:
            each.hear(header, error)


class SharedMemory:
    """The callers' side of the arena. Thread-safe."""

    on_device = False

    def __init__(self, nbytes: int, first: int, timeout: float, patience: Patience, lease: ArenaLease,
                 start: Callable[[PendingRequest], None], welcome: Callable[[], Optional[Welcome]]) -> None:
        """nbytes: upper limit, if the daemon gives that much. first: bytes of the first arena. timeout: seconds to
        wait for it."""
        self._nbytes = nbytes
        self._first = first
        self._timeout = timeout
        self._patience = patience
        self._lease = lease
        self._start = start
        self._welcome = welcome
        self._lock = threading.Lock()
        self._asking: Optional[Future[None]] = None
        self._not_before = 0.0  # in time.monotonic()'s seconds
        self._pause = _FIRST_PAUSE_S
        self._shared = self._unshared = 0  # requests; under the lock

    @property
    def requests(self) -> Tuple[int, int]:
        """Requests sent through the arena, and large requests for which it had no room."""
        with self._lock:
            return self._shared, self._unshared

    @property
    def arena(self) -> Optional[Any]:
        """The present arena; None when there is none."""
        return self._lease.arena

    def fetch(self, need: int = 0) -> Optional[Future[None]]:
        """Asks in the background for an arena with room for `need` bytes. Returns a future that is done once there is
        one, or None when the daemon offers none or no larger one, and for a while after a refusal."""
        with self._lock:
            if self._asking is not None and not self._asking.done():
                return self._asking
            arena, now = self.arena, time.monotonic()
            size = ArenaSize(self._first, need, 0 if arena is None else arena.nbytes)
            if self._offered(size) == 0 or now < self._not_before:
                return None
            self._not_before = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
            asking: Future[None] = Future()
            self._asking = asking
        self._ask(size, asking)
        return asking

    def empty(self, shape: Shape, dtype: Any, wait: bool) -> np.ndarray:
        """An array in the arena; an ordinary one when there is no arena or no room. wait: wait for the arena."""
        made = self._empty(shape, dtype)
        if made is None:
            need = nbytes_of(shape, dtype)
            asked = self.fetch(need) if need > 0 or self.arena is None else None
            if asked is not None and wait:
                futures.wait([asked], self._timeout)
                made = self._empty(shape, dtype)
        return np.empty(shape, dtype) if made is None else made

    def place(self, pipeline: PipelineDescription, batch: np.ndarray, dtype: np.dtype[Any]) -> Optional[SharedPayload]:
        """Places the frames of `batch`, as `dtype`, in the arena: in place when they lie there already, else as a copy.
        None when input and outputs are small, or when there is no arena or no room: the frames then go over the
        socket."""
        room = sum(room_for(frames.most_bytes(each, len(batch))) for each in pipeline.outputs)
        large = max(batch.nbytes, _likely_output(pipeline, batch)) >= SHARE_FROM_BYTES
        placement = self._place(batch, dtype, room, large)
        with self._lock:
            self._shared += placement is not None
            self._unshared += placement is None and large
        if placement is None and large:
            # Not asked for at WELCOME: a client that sends only small requests needs no pinned memory.
            self.fetch(room_for(batch.nbytes) + room)
        return placement

    def _place(self, batch: np.ndarray, dtype: np.dtype[Any], room: int, large: bool) -> Optional[SharedPayload]:
        arena = self.arena
        if arena is None:
            return None
        offset = arena.offset_of(batch) if batch.dtype == dtype else None
        if offset is None and not large:
            return None
        outputs = arena.empty(room, np.uint8)
        placed = batch if offset is not None else arena.empty(batch.shape, dtype)
        if outputs is None or placed is None:
            return None
        if offset is None:
            np.copyto(placed, batch)
        return SharedPayload(arena, placed, arena.offset_of(placed) or 0, outputs, arena.offset_of(outputs) or 0)

    def _empty(self, shape: Shape, dtype: Any) -> Optional[np.ndarray]:
        arena = self.arena
        return None if arena is None else arena.empty(shape, dtype)

    def _offered(self, size: ArenaSize) -> int:
        welcome = self._welcome()
        return 0 if welcome is None else size.next(min(self._nbytes, self._granted(welcome)))

    def _granted(self, welcome: Welcome) -> int:
        """What the daemon shares with this client at most."""
        return welcome.shared_bytes

    def _ask(self, size: ArenaSize, asking: Future[None]) -> None:
        attempt = AttachRequest(self._offered(size), self._timeout, self._patience, self.on_device)
        attempt.future.add_done_callback(lambda done: self._answered(done, size, asking))
        self._start(attempt)

    def _answered(self, attempt: Future[Arena], size: ArenaSize, asking: Future[None]) -> None:
        error = attempt.exception()
        if error is None:
            self._pause, self._not_before = _FIRST_PAUSE_S, 0.0
            asking.set_result(None)  # not the arena: kept here, it would stay mapped when its lease has ended
        elif _lacks_room(error) and size.halve():
            self._ask(size, asking)
        else:
            asking.set_exception(error)


class DeviceMemory(SharedMemory):
    """The callers' side of the memory of the daemon's GPU. Thread-safe."""

    on_device = True

    def refusal(self) -> str:
        """Why there is no such memory, as the end of a sentence; "" where there may be. It opens the GPU."""
        welcome = self._welcome()
        if welcome is None or welcome.device_bytes == 0:
            return ("the daemon shares none: it runs on the host, on a GPU that can't share memory, or its setting "
                    "shared_memory.max_device_bytes is 0")
        if self._nbytes == 0:
            return 'this client is to send everything through the socket (transport="zmq")'
        try:
            self._lease.device = CudaDevice.of(welcome.device)
        except CudaError as error:
            return str(error)
        return ""

    @property
    def device(self) -> Optional[CudaDevice]:
        """The daemon's GPU, once `refusal` has opened it."""
        return self._lease.device

    def tensor(self, shape: Shape, dtype: Any, is_bfloat16: bool) -> Tensor:
        """A new tensor; waits for memory. Raises Rejected where there is none."""
        need = room_for(nbytes_of(shape, dtype))
        made = self._made(lambda arena: arena.empty(shape, dtype, is_bfloat16), need)
        if made is None:
            self._wait(need)
            made = self._made(lambda arena: arena.empty(shape, dtype, is_bfloat16), need)
        if made is None:
            raise Rejected(f"there is no room for {need} bytes of device memory: let go of what is not needed any more",
                           step="client")
        self.arena_settled()
        return made

    def arena_settled(self) -> None:
        """Waits until what was freed before is not in use."""
        arena = self.arena
        if arena is not None:
            arena.settle()

    def place_frames(self, pipeline: PipelineDescription, batch: Tensor, wait: bool) -> DevicePayload:
        """Places frames that lie on the daemon's GPU: in place when they lie in its memory already, else for a copy.
        wait: for memory that the daemon has yet to give. Raises NoRoom when there is none just now."""
        room = sum(room_for(frames.most_bytes(each, batch.shape[0])) for each in pipeline.outputs)
        need = room_for(batch.nbytes) + room
        placed = self._made(lambda arena: self._placed(arena, batch, room), need)
        if placed is None and wait:
            self._wait(need)
            placed = self._made(lambda arena: self._placed(arena, batch, room), need)
        if placed is None:
            raise NoRoom("device memory has no room for it just now", step="client")
        return placed

    def _placed(self, arena: DeviceArena, batch: Tensor, room: int) -> Optional[DevicePayload]:
        outputs = arena.empty(room, np.uint8)
        inside = arena.offset_of(batch) is not None
        placed = batch if inside else arena.empty(batch.shape, batch.dtype, batch.is_bfloat16)
        if outputs is None or placed is None:
            return None
        return DevicePayload(arena, placed, batch, outputs)

    def _made(self, make: Callable[[DeviceArena], Any], need: int) -> Any:
        """What `make` makes in the present arena; None when it has no room, and a larger one is asked for. Raises
        Rejected for what can never have room, or why the daemon gives no memory."""
        welcome = self._welcome()
        most = 0 if welcome is None else min(self._nbytes, welcome.device_bytes)
        if need > most:
            raise Rejected(f"{need} bytes of device memory are needed; the daemon and this client (shared_bytes) allow "
                           f"{most}", step="client")
        arena = self.arena
        made = None if arena is None else make(arena)
        if made is None:
            asking = self.fetch(need)
            if asking is None:
                with self._lock:
                    asking = self._asking
            refusal = asking.exception() if self.arena is None and asking is not None and asking.done() else None
            if isinstance(refusal, Rejected):
                raise refusal
        return made

    def _wait(self, need: int) -> None:
        asking = self.fetch(need)
        if asking is not None:
            futures.wait([asking], self._timeout)

    def _granted(self, welcome: Welcome) -> int:
        return welcome.device_bytes


def _likely_output(pipeline: PipelineDescription, batch: np.ndarray) -> int:
    """Estimated bytes of the outputs: a variable output is as long, in proportion, as the input."""
    part = batch.shape[1] / pipeline.input.shape[0] if pipeline.input.variable else 1.0
    return sum(room_for(int((part if each.variable else 1.0) * frames.most_bytes(each, len(batch))))
               for each in pipeline.outputs)


def _lacks_room(error: BaseException) -> bool:
    """True when the daemon refused this amount of memory and may grant less."""
    return isinstance(error, Rejected) and error.step != "client" and error.status in (Status.REJECTED, Status.TOO_LARGE)
