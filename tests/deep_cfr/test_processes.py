"""What a spawned process does of itself."""

import resource
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import numpy as np

from coolrl_lost_cities.games.classic.deep_cfr.processes import start_process, stop_process

MEBIBYTES = 24  # below what is always mapped afresh, far above what is kept by default


def _count_page_faults(connection: Connection) -> None:
    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def use() -> None:
        arrays = [np.ones(1 << 20, np.uint8) for _ in range(MEBIBYTES)]
        del arrays

    use()
    before = faults()
    for _ in range(20):
        use()
    connection.send(faults() - before)


def test_freed_memory_is_used_again_without_a_page_fault() -> None:
    ours, theirs = Pipe()
    process = start_process(_count_page_faults, (theirs,), "counting")
    theirs.close()
    try:
        assert ours.recv() < 20 * MEBIBYTES  # 256 pages a mebibyte; given back, all would fault
    finally:
        stop_process(process, ours)
