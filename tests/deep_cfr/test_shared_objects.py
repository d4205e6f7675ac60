"""Objects in shared memory: whole, in place, and gone with the last process that has them."""

import os
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from coolrl_lost_cities.games.classic.deep_cfr.processes import start_process, stop_process
from coolrl_lost_cities.games.classic.deep_cfr.shared_objects import Receipt, SharedObject


@dataclass(frozen=True)
class Part:
    numbers: np.ndarray
    name: str


def some_value(size: int, dtype: Any = np.float32) -> dict[str, Any]:
    numbers = np.arange(size).astype(dtype)
    return {"parts": [Part(numbers, "first"), Part(numbers[::-1].copy(), "second")], "none": None}


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for ours, theirs in zip(found["parts"], wanted["parts"], strict=True):
        assert ours.name == theirs.name
        assert ours.numbers.dtype == theirs.numbers.dtype
        np.testing.assert_array_equal(ours.numbers, theirs.numbers)


def test_what_was_put_is_what_is_got() -> None:
    shared = SharedObject()
    for size, dtype in ((1000, np.float32), (3, np.uint8), (0, np.int64), (70_000, np.bool_)):
        value = some_value(size, dtype)
        assert_same(shared.get(shared.put(value)), value)
    shared.close()
    shared.close()


def test_arrays_are_views_and_receipts_stay_small() -> None:
    shared = SharedObject()
    receipt = shared.put(some_value(100_000))
    assert len(receipt.structure) < 1000
    assert receipt.sizes == (400_000, 400_000)
    first, again = (shared.get(receipt)["parts"][0].numbers for _ in range(2))
    again[5] = -1.0
    assert first[5] == -1.0
    shared.close()
    assert first[6] == 6.0  # who still uses it keeps it


def test_memory_grows_with_use_and_no_further() -> None:
    shared = SharedObject()
    assert shared.num_bytes == 0
    shared.put(some_value(1000))
    first = shared.num_bytes
    assert 8000 <= first <= 1.5 * (8000 + 2 * 64)
    for _ in range(50):
        shared.put(some_value(1400))
    assert shared.num_bytes == first
    shared.put(some_value(100_000))
    assert 800_000 <= shared.num_bytes <= 1.5 * (800_000 + 2 * 64)
    shared.close()


def _double(connection: Connection, questions: SharedObject, answers: SharedObject) -> None:
    """Send back twice what comes, until the pipe closes."""
    while True:
        try:
            receipt: Receipt = connection.recv()
        except EOFError:
            return
        value = questions.get(receipt)
        connection.send(answers.put([2 * part.numbers for part in value["parts"]]))


def test_two_processes_see_the_same_memory_in_both_directions() -> None:
    ours, theirs = Pipe()
    questions, answers = SharedObject(), SharedObject()
    process = start_process(_double, (theirs, questions, answers), "doubling")
    theirs.close()
    try:
        for size in (10, 50_000, 20, 200_000):  # both sides have to follow when the memory grows
            ours.send(questions.put(some_value(size)))
            first, second = answers.get(ours.recv())
            np.testing.assert_array_equal(first, 2.0 * np.arange(size))
            np.testing.assert_array_equal(second, 2.0 * np.arange(size)[::-1])
        links = [f"/proc/{process.pid}/fd/{fd}" for fd in os.listdir(f"/proc/{process.pid}/fd")]
        assert not any(os.readlink(link).startswith("/dev/shm") for link in links)
    finally:
        stop_process(process, ours)
