"""One thread of a process, held by the debugger's interface."""

import ctypes
import os
import pathlib

WALL = 0x40000000  # __WALL: wait for threads too
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
PTRACE_DETACH = 17


class HeldThread:
    """A thread that is held where it stands, and only that one, while the others of its process go on."""

    def __init__(self, process, name):
        """`process`: as this machine numbers it; `name`: the thread's."""
        tasks = pathlib.Path(f"/proc/{process}/task")
        self.thread = next(int(task.name) for task in tasks.iterdir() if (task / "comm").read_text().strip() == name)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long
        self._ptrace(PTRACE_SEIZE)
        self._ptrace(PTRACE_INTERRUPT)
        os.waitpid(self.thread, WALL)

    def has_died(self):
        """Whether the thread is gone; who holds it must ask, for its process ends only then."""
        waited, status = os.waitpid(self.thread, WALL | os.WNOHANG)
        return waited == self.thread and (os.WIFEXITED(status) or os.WIFSIGNALED(status))

    def let_go(self):
        self._ptrace(PTRACE_DETACH)

    def _ptrace(self, request):
        if self.libc.ptrace(request, self.thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace({request:#x}) of thread {self.thread}")
