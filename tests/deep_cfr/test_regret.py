import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coolrl_lost_cities.games.classic.deep_cfr.regret import regret_matching


def reference(advantages: list[float], legal: list[bool]) -> list[float]:
    listed = [a for a, allowed in zip(advantages, legal, strict=True) if allowed]
    positive = sum(max(a, 0.0) for a in listed)
    policy = []
    for advantage, allowed in zip(advantages, legal, strict=True):
        if not allowed:
            policy.append(0.0)
        elif positive > 0:
            policy.append(max(advantage, 0.0) / positive)
        else:
            policy.append(float(advantage == max(listed)) / listed.count(max(listed)))
    return policy


ROWS = st.lists(
    st.tuples(st.floats(-1e6, 1e6, width=32), st.booleans()), min_size=1, max_size=20
).filter(lambda row: any(allowed for _, allowed in row))


@settings(max_examples=300, deadline=None)
@given(ROWS)
def test_equals_the_definition_written_out(row: list[tuple[float, bool]]) -> None:
    advantages, legal = [a for a, _ in row], [allowed for _, allowed in row]
    policy_BA = regret_matching(np.array([advantages], np.float32), np.array([legal]))
    np.testing.assert_allclose(policy_BA[0], reference(advantages, legal), rtol=1e-6, atol=1e-7)
    assert policy_BA[0].sum() == pytest.approx(1.0, abs=1e-5)
    assert not policy_BA[0][~np.array(legal)].any()


@pytest.mark.parametrize(
    ("advantages", "legal", "policy"),
    [
        ([3.0, 1.0, -2.0, 9.0], [1, 1, 1, 0], [0.75, 0.25, 0.0, 0.0]),
        ([-3.0, -1.0, -2.0, 9.0], [1, 1, 1, 0], [0.0, 1.0, 0.0, 0.0]),
        ([-1.0, -5.0, -1.0, -1.0], [1, 1, 1, 0], [0.5, 0.0, 0.5, 0.0]),
        ([0.0, 0.0, 0.0, 0.0], [1, 1, 0, 1], [1 / 3, 1 / 3, 0.0, 1 / 3]),
        ([0.0, 0.0, -1.0, 0.0], [0, 0, 1, 0], [0.0, 0.0, 1.0, 0.0]),
        ([1e-40, 1e-40, 0.0, 0.0], [1, 1, 1, 1], [0.5, 0.5, 0.0, 0.0]),
        ([5.0, 5.0, 5.0, 5.0], [0, 0, 0, 0], [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_known_rows(advantages: list[float], legal: list[int], policy: list[float]) -> None:
    rows_BA = np.array([advantages] * 3, np.float32)
    policy_BA = regret_matching(rows_BA, np.array([legal] * 3, np.bool_))
    assert policy_BA.dtype == np.float32
    np.testing.assert_allclose(policy_BA, [policy] * 3, rtol=1e-6)
