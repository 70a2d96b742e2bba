"""The connection to a virtual phone, which can be unplugged and plugged in again."""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import threading

_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_BLOCK_BYTES = 65536


class Cable:
    """The forwarding of a port of this host's loopback into a phone's network namespace, which has no other
    connection."""

    def __init__(self) -> None:
        self.port = 0
        """The port on this host, which stays the same when the cable is plugged in again; 0 before the first time."""
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._port_kept: socket.socket | None = None
        """A socket that is bound but never listens: it reserves the port, so that connections to an unplugged phone are
        refused."""
        self._ends: set[socket.socket] = set()
        self._network = -1

    def plug(self) -> None:
        if self._listener is not None:
            return
        if self._port_kept is None:
            self._port_kept = _bound(self.port)
            self.port = self._port_kept.getsockname()[1]
        listener = _bound(self.port)
        listener.listen()
        self._listener = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def unplug(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            # Only this wakes the thread that waits in `accept`.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            ends, self._ends = self._ends, set()
        for end in ends:
            _end(end)

    def close(self) -> None:
        self.unplug()
        if self._port_kept is not None:
            self._port_kept.close()
            self._port_kept = None
        if self._network >= 0:
            os.close(self._network)
            self._network = -1

    def reaches(self, pid: int) -> bool:
        """Tell whether the daemon listens in the network namespace of this process. The first call makes that namespace
        the phone's."""
        if self._network < 0:
            self._network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        reached: list[bool] = []

        def try_connect() -> None:
            try:
                self._to_phone().close()
                reached.append(True)
            except OSError:
                reached.append(False)

        # `setns` changes the thread permanently, so a new thread is used.
        thread = threading.Thread(target=try_connect)
        thread.start()
        thread.join()
        return reached[0]

    def _to_phone(self) -> socket.socket:
        """Connect to the daemon. This moves the calling thread permanently into the phone's network namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(self._network, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        end = socket.socket()
        try:
            fcntl.ioctl(end, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
            end.settimeout(2.0)
            end.connect(("127.0.0.1", self.port))
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            end.close()
            raise
        return end

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                far = self._to_phone()
            except OSError:
                near.close()
                continue
            with self._lock:
                if self._listener is not listener:
                    # The cable was unplugged meanwhile.
                    near.close()
                    far.close()
                    return
                self._ends |= {near, far}
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def forward(self, block: bytes, source: socket.socket, sink: socket.socket) -> None:
        """Pass on a block that arrived at one end of a connection to the other end."""
        sink.sendall(block)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(_BLOCK_BYTES):
                self.forward(block, source, sink)
        with self._lock:
            self._ends -= {source, sink}
        for end in (source, sink):
            _end(end)


def _bound(port: int) -> socket.socket:
    """Return a socket that is bound to a port of loopback and does not listen yet; port 0: any free port."""
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        raise
    return bound


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
