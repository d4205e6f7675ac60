import pytest
from learner import Learner


def test_save():
    learner = Learner(1)
    learner.target.state_dict()
    assert "weight" in learner.policy.state_dict()


@pytest.fixture
def learner():
    return Learner(1)


def test_fixture(learner):
    learner.policy.state_dict()
