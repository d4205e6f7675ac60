"""Edits of expressions as rules: what becomes general, what is neutral, what is refused."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from porttool.errors import CannotLearn
from porttool.learning.learn import (
    Lesson,
    Wrapper,
    check_replay,
    for_gated_port,
    learn,
)

WRAPPER = Wrapper()


def _text(text: str) -> bytes:
    return dedent(text).lstrip("\n").encode()


def _learn(before: str, after: str) -> Lesson:
    """Learn from one file and hold the lesson against the experiment."""
    parent, experiment = {"pkg/learner.py": _text(before)}, {"pkg/learner.py": _text(after)}
    lesson = learn(parent, experiment, WRAPPER)
    check_replay(lesson, parent, experiment)
    return lesson


def _rules(lesson: Lesson) -> list[tuple[str, str, bool]]:
    return [(rule.before, rule.after, rule.neutral) for rule in lesson.rules]


def _residual(lesson: Lesson) -> str:
    data = lesson.residual["pkg/learner.py"]
    assert data is not None
    return data.decode()


EXAMPLES = Path(__file__).parent / "cases" / "learning"
TRAINER = (EXAMPLES / "trainer.py").read_text()
CLEANED = (EXAMPLES / "trainer_cleaned.py").read_text()


def test_a_helper_that_takes_the_state_dict_keeps_the_call_inside() -> None:
    lesson = _learn(TRAINER, CLEANED)
    assert _rules(lesson) == [
        ("$X.state_dict()", "_clean_state_dict($X.state_dict())", True),
        ("$X.load_state_dict($ARGS)", "$X._orig_mod.load_state_dict($ARGS)", False),
    ]
    assert [len(rule.examples) for rule in lesson.rules] == [3, 2]
    assert [negative.text for negative in lesson.negatives] == ["self._optimizer.state_dict()"]
    assert lesson.residual == {}


def test_a_bare_unwrapping_is_offered_in_its_neutral_form() -> None:
    rules = for_gated_port(_learn(TRAINER, CLEANED)).rules
    assert [(rule.after, rule.neutral, rule.adapted) for rule in rules] == [
        ("_clean_state_dict($X.state_dict())", True, False),
        ('getattr($X, "_orig_mod", $X).load_state_dict($ARGS)', True, True),
    ]


def test_a_bare_unwrapping_inside_a_helper_is_made_neutral_too() -> None:
    lesson = _learn(
        "def f(a):\n    return a.state_dict()\n",
        """
        def clean(net):
            # what torch.compile holds
            return net._orig_mod.state_dict()


        def f(a):
            return clean(a)
        """,
    )
    assert _rules(lesson) == [("$X.state_dict()", "clean($X)", False)]
    gated = for_gated_port(lesson)
    assert _rules(gated) == [("$X.state_dict()", "clean($X)", True)]
    assert gated.rules[0].adapted
    assert gated.helpers[0].text == (
        "def clean(net):\n"
        "    # what torch.compile holds\n"
        '    return getattr(net, "_orig_mod", net).state_dict()\n'
    )


def test_an_edit_that_has_nothing_to_do_with_the_wrapper_is_residual() -> None:
    lesson = _learn(
        "def f(logger, a):\n    logger.info(a)\n",
        "def f(logger, a):\n    logger.debug(a)\n",
    )
    assert lesson.rules == ()
    assert _residual(lesson) == "def f(logger, a):\n    logger.debug(a)\n"
    assert lesson.hunks[0].by == "it is not about the wrapper"


def test_a_template_with_a_local_name_is_no_rule() -> None:
    lesson = _learn(
        "def f(net, p):\n    return net.state_dict()\n",
        "def f(net, p):\n    return {k: v for k, v in net.state_dict().items() if k != p}\n",
    )
    assert lesson.rules == ()
    assert lesson.hunks[0].by == "it uses the local name p"


def test_a_method_as_helper_is_named_with_its_class() -> None:
    lesson = _learn(
        """
        class A:
            def save(self):
                return self.net.state_dict()
        """,
        """
        class A:
            def save(self):
                return self._clean(self.net.state_dict())

            def _clean(self, weights):
                return {k.replace("_orig_mod.", ""): v for k, v in weights.items()}
        """,
    )
    assert _rules(lesson) == [("$X.state_dict()", "self._clean($X.state_dict())", True)]
    assert lesson.rules[0].requires == ("A._clean",)
    assert [(helper.name, helper.after) for helper in lesson.helpers] == [("A._clean", "save")]


def _refusal(before: str, after: str) -> str:
    with pytest.raises(CannotLearn) as refusal:
        _learn(before, after)
    return str(refusal.value)


def test_two_ways_for_one_pattern_are_refused() -> None:
    message = _refusal(
        "def f(a, b):\n    return [a.state_dict(), b.state_dict()]\n",
        "def c(x):\n    return x._orig_mod.state_dict()\n\n\n"
        "def f(a, b):\n    return [c(a), b._orig_mod.state_dict()]\n",
    )
    assert "the experiment rewrites `$X.state_dict()` in two ways" in message
    assert "pkg/learner.py:2 and pkg/learner.py:2" in message
    assert "`a.state_dict()` becomes `c(a)`" in message
    assert "`b.state_dict()` becomes `b._orig_mod.state_dict()`" in message


def test_a_special_case_that_the_general_rule_would_do_otherwise_is_refused() -> None:
    message = _refusal(
        'def f(a, b, w):\n    a.load_state_dict(w)\n    b.load_state_dict("best")\n',
        "def reload(net):\n    net._orig_mod.load_state_dict(best())\n\n\n"
        "def f(a, b, w):\n    a._orig_mod.load_state_dict(w)\n    reload(b)\n",
    )
    assert 'the experiment rewrites `$X.load_state_dict("best")` in two ways' in message


def test_two_edits_in_one_call_overlap() -> None:
    message = _refusal(
        "def swap(a, b): ...\ndef f(a, b):\n    swap(a, b)\n",
        "def swap(a, b): ...\ndef f(a, b):\n    swap(a._orig_mod, b._orig_mod)\n",
    )
    assert "two edits overlap in `swap(a, b)`" in message
    assert "both `a` and `b` are rewritten in one call" in message


def test_a_static_method_is_a_helper_and_a_property_is_none() -> None:
    before = """
        class A:
            def save(self):
                return self.net.state_dict()
        """
    after = """
        class A:
            def save(self):
                return self._clean(self.net)

            @staticmethod
            def _clean(net):
                return getattr(net, "_orig_mod", net).state_dict()
        """
    lesson = _learn(before, after)
    assert _rules(lesson) == [("$X.state_dict()", "self._clean($X)", True)]
    assert [helper.text.splitlines()[0] for helper in lesson.helpers] == ["@staticmethod"]
    lesson = _learn(before, after.replace("@staticmethod", "@functools.cache"))
    assert lesson.helpers == ()
