"""A way to the daemon that breaks when a test says so."""

import selectors
import socket
import struct
import threading


class CuttingProxy:
    """Carries bytes between a TCP port on loopback and the daemon's Unix socket, on a thread of its own."""

    def __init__(self, path):
        self.path = str(path)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.url = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.cuts = 0
        self._peers = {}  # of each socket the other end, and what is to be sent to it
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._orders, self._closing = 0, False
        self._selector.register(self.listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self):
        """Breaks every connection, in the middle of whatever it carries."""
        self.cuts += 1
        self._orders += 1
        self._wake.send(b"x")

    def close(self):
        self._closing = True
        self._wake.send(b"x")
        self._thread.join()
        for each in [*self._peers, self.listener, self._wake, self._woken]:
            each.close()
        self._selector.close()

    def _run(self):
        while not self._closing:
            for key, events in self._selector.select():
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(4096)
                    for each in list(self._peers):
                        self._drop(each)
                elif key.fileobj in self._peers:
                    self._carry(key.fileobj, events)

    def _accept(self):
        client, _ = self.listener.accept()
        daemon = socket.socket(socket.AF_UNIX)
        try:
            daemon.connect(self.path)
        except OSError:
            client.close()
            daemon.close()
            return
        for one, other in ((client, daemon), (daemon, client)):
            one.setblocking(False)
            self._peers[one] = [other, b""]
            self._selector.register(one, selectors.EVENT_READ)

    def _carry(self, one, events):
        other, _ = self._peers[one]
        try:
            if events & selectors.EVENT_READ:
                data = one.recv(1 << 16)
                if not data:
                    raise OSError("closed")
                self._peers[other][1] += data
                self._flush(other)
            if events & selectors.EVENT_WRITE and one in self._peers:
                self._flush(one)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(one)

    def _flush(self, to):
        """Sends what it can; reads no more from the other end while something is left."""
        other, left = self._peers[to]
        try:
            left = left[to.send(left):] if left else left
        except BlockingIOError:
            pass
        self._peers[to][1] = left
        self._selector.modify(other, self._interest(other, reads=not left))
        self._selector.modify(to, self._interest(to, reads=not self._peers[other][1]))

    def _interest(self, of, reads):
        wants = selectors.EVENT_WRITE if self._peers[of][1] else 0
        return (selectors.EVENT_READ if reads else 0) | wants or selectors.EVENT_WRITE

    def _drop(self, one):
        other, _ = self._peers.get(one, (None, b""))
        for each in (one, other):
            if each in self._peers:
                del self._peers[each]
                self._selector.unregister(each)
                # A reset, so that what is under way is lost.
                if each.family == socket.AF_INET:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.close()
