"""Spawned processes that live as long as their owner, and weights on the way to them.

A child never sees Ctrl-C or SIGTERM, which terminals and batch systems send to every process of a
run: only the owner decides when to stop. An idle child ends when its pipe to the owner closes, and
every one ends at once with its owner, even where that is killed.
"""

import ctypes
import io
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

_STOP_S = 1.0  # a child holds nothing that would be lost, so it is not worth more
_REAP_S = 5.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def keep_freed_memory() -> None:
    """Have this process keep the memory that it frees for its next use.

    glibc gives back what lies free at the top of the heap, which the next training step or forward
    asks for again: 2,300 page faults a step of a 512 x 3 network, 7% of its time. With another
    library nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that it accepts


def start_process(
    target: Callable[..., None], arguments: tuple[Any, ...], name: str
) -> SpawnProcess:
    """Start a fresh interpreter that runs `target(*arguments)`, deaf to Ctrl-C and SIGTERM."""
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(target, arguments), name=name, daemon=True
    )
    # A child inherits the blocked signals of the thread that starts it; one that arrives meanwhile
    # reaches the owner afterwards. The resource tracker unblocks both when it starts (Python
    # 3.11), so it has to be there before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _run(target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_owner, daemon=True).start()
    keep_freed_memory()
    target(*arguments)
    os._exit(0)  # a second sooner than by unloading torch; nothing is left to be written


def _end_with_owner() -> None:
    """Wait until the owner is gone; a child in the middle of its work looks at no pipe."""
    owner = multiprocessing.parent_process()
    assert owner is not None
    owner.join()
    os._exit(1)


def stop_process(process: SpawnProcess, connection: Connection) -> None:
    """Close the pipe, which ends an idle child, and end by force one that does not follow."""
    connection.close()
    process.join(_STOP_S)
    if process.is_alive():
        process.kill()
        process.join()


def exit_reason(process: SpawnProcess) -> str:
    """Say how a process that is gone ended."""
    process.join(_REAP_S)  # its pipe may close a moment before it can be reaped
    code = process.exitcode
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def pack_weights(weights: Any) -> bytes:
    """Return nested containers of CPU tensors as bytes.

    Sent as they are, tensors would be moved into memory shared with the child, which would then see
    every later training step.
    """
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    return buffer.getvalue()


def unpack_weights(packed: bytes) -> Any:
    """Return what `pack_weights` was given."""
    return torch.load(io.BytesIO(packed), map_location="cpu", weights_only=True)
