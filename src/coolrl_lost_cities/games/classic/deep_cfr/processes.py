"""Spawned processes that live as long as their owner, and weights on the way to them.

A child never sees Ctrl-C, which the terminal sends to every process of the run: only the owner
decides when to stop. It ends when its pipe to the owner closes, so none outlives a killed owner.
"""

import io
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

_STOP_S = 1.0  # a child holds nothing that would be lost, so it is not worth more
_REAP_S = 5.0


def start_process(
    target: Callable[..., None], arguments: tuple[Any, ...], name: str
) -> SpawnProcess:
    """Start a fresh interpreter that runs `target(*arguments)` and is not sent Ctrl-C."""
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(target, arguments), name=name, daemon=True
    )
    # A child inherits the blocked signals of the thread that starts it; one that arrives meanwhile
    # reaches the owner afterwards. The resource tracker unblocks SIGINT when it starts (Python
    # 3.11), so it has to be there before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _run(target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    target(*arguments)
    os._exit(0)  # a second sooner than by unloading torch; nothing is left to be written


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
