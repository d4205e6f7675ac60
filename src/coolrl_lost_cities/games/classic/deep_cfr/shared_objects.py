"""Objects with large arrays, handed to another process through memory that both of them see.

The memory is a file without a name: nothing is left of it however the processes end, where a name
of `multiprocessing.shared_memory` outlives an owner that was killed, and it does not count against
the size of /dev/shm, which is 64 MiB in many containers.
"""

import mmap
import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from typing import Any

_ALIGNED = 64  # a cache line


@dataclass(frozen=True)
class Receipt:
    """What the other side needs to get an object: all of it but its arrays, and their sizes."""

    structure: bytes
    sizes: tuple[int, ...]


class SharedObject:
    """One object at a time: `put` on one side, its receipt sent over a pipe, `get` on the other.

    May be handed to another process as an argument when that is started. The memory grows to half
    more than what was needed at most, and stays so.
    """

    def __init__(self) -> None:
        self._file = _nameless_file()
        self._mapped: mmap.mmap | None = None

    def put(self, value: Any) -> Receipt:
        """Copy the arrays of a value, which may hold any numpy arrays, over those from before."""
        buffers: list[pickle.PickleBuffer] = []
        structure = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        arrays = [buffer.raw() for buffer in buffers]
        sizes = tuple(array.nbytes for array in arrays)
        needed = sum(map(_aligned, sizes))
        if needed > os.fstat(self._file).st_size:
            os.ftruncate(self._file, needed + needed // 2)
        for array, place in zip(arrays, self._places(sizes), strict=True):
            place[:] = array
        return Receipt(structure, sizes)

    def get(self, receipt: Receipt) -> Any:
        """Return the value; its arrays are this memory, good until the other side's next put."""
        return pickle.loads(receipt.structure, buffers=self._places(receipt.sizes))

    @property
    def num_bytes(self) -> int:
        """What the memory takes now."""
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """Let go of this side's memory; arrays that are still in use keep theirs."""
        self._mapped = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __reduce__(self) -> tuple[Callable[[Any], "SharedObject"], tuple[Any]]:
        return _received, (DupFd(self._file),)

    def _places(self, sizes: tuple[int, ...]) -> list[memoryview]:
        needed = sum(map(_aligned, sizes))
        if needed == 0:  # a mapping of nothing is refused
            return [memoryview(bytearray()) for _ in sizes]
        if self._mapped is None or len(self._mapped) < needed:
            self._mapped = mmap.mmap(self._file, 0)
        whole = memoryview(self._mapped)
        places, at = [], 0
        for size in sizes:
            places.append(whole[at : at + size])
            at += _aligned(size)
        return places


def _received(descriptor: Any) -> SharedObject:
    shared = SharedObject.__new__(SharedObject)
    shared._file = descriptor.detach()
    shared._mapped = None
    return shared


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _nameless_file() -> int:
    """Return the descriptor of an empty file: in memory, or on disk on systems without that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("lost-cities")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
