"""The tiny run that tests of real trainers share, and a machine's lock of their own.

One game, one network and one batch size for all of them: what torch compiles for one test it finds
compiled in the next.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from coolrl_lost_cities.games.classic.deep_cfr import compute_lock
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, load_config

_TINY_RUN = (
    "rules.num_colors=2",
    "rules.num_ranks=3",
    "rules.num_wagers=1",
    "rules.hand_size=2",
    "rules.max_steps=20",
    "network.hidden_size=16",
    "network.num_layers=2",
    "traversal.traversals_per_iteration=16",
    "traversal.lanes=8",
    "optimization.advantage_batch_size=32",
    "optimization.strategy_batch_size=32",
    "optimization.advantage_steps=2",
    "optimization.strategy_steps=2",
    "memory.advantage_capacity=200",
    "memory.strategy_capacity=200",
)


@pytest.fixture(scope="session")
def tiny_run() -> tuple[str, ...]:
    """Return the settings of a run that takes milliseconds an iteration."""
    return _TINY_RUN


@pytest.fixture(scope="session")
def tiny_config() -> Callable[..., DeepCFRConfig]:
    """Return what makes the configuration of a tiny run, with further settings."""
    return lambda *overrides: load_config(None, [*_TINY_RUN, *overrides])


@pytest.fixture
def _own_lock(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests that measure run side by side: the lock is the machine's elsewhere."""
    lock: Path = tmp_path_factory.getbasetemp() / compute_lock.LOCK
    monkeypatch.setattr(compute_lock, "lock_path", lambda: lock)
