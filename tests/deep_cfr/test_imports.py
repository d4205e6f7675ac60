"""The trainer is imported without garbage collections, which a run has like any other program."""

import subprocess
import sys

COUNTED = """
import gc, sys
from coolrl_lost_cities.games.classic.deep_cfr.imports import import_trainer
{before}
collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
import_trainer()
gc.callbacks.clear()
print(len(collections), gc.get_freeze_count() > 100_000, gc.isenabled(), "torch" in sys.modules)
"""


def printed(before: str) -> str:
    code = COUNTED.format(before=before)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_nothing_is_collected_meanwhile_and_what_came_is_not_searched_again() -> None:
    assert printed("") == "0 True True True"


def test_whoever_collects_no_garbage_is_left_at_that() -> None:
    assert printed("gc.disable()") == "0 True False True"


def test_where_torch_is_there_nothing_happens() -> None:
    assert printed("import torch") == "0 False True True"
