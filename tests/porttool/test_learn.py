"""What is learned from an experiment, and that the lesson makes the experiment again."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porttool.errors import CannotLearn
from porttool.learning.learn import (
    Lesson,
    Wrapper,
    check_replay,
    learn,
    replay,
)

PORTS = Path(__file__).parent / "cases" / "ports"
CASES = sorted(case.name for case in PORTS.glob("[0-9]*"))
WRAPPER = Wrapper()


def _files(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


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


def _seeds(lesson: Lesson) -> list[tuple[str, str | None, str, str, str]]:
    return [(s.scope, s.target, s.kind, s.constructor, s.call) for s in lesson.seeds]


def _residual(lesson: Lesson) -> str:
    data = lesson.residual["pkg/learner.py"]
    assert data is not None
    return data.decode()


@pytest.mark.parametrize("case", CASES)
def test_every_port_case_replays_to_the_very_bytes(case: str) -> None:
    parent, experiment = _files(PORTS / case / "base"), _files(PORTS / case / "experiment")
    lesson = learn(parent, experiment, WRAPPER)
    assert replay(lesson, parent) == experiment
    assert lesson.residual == {}
    kinds = {hunk.kind for hunk in lesson.hunks}
    assert kinds <= {"seed", "rule", "helper"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sides", [("base", "main"), ("main", "base"), ("experiment", "main")])
def test_a_change_without_any_rule_replays_from_its_residual(
    case: str, sides: tuple[str, str]
) -> None:
    parent, changed = (_files(PORTS / case / side) for side in sides)
    lesson = learn(parent, changed, Wrapper("no.such", "_none", "_none.", ()))
    check_replay(lesson, parent, changed)
    assert (lesson.rules, lesson.seeds) == ((), ())


def test_there_are_24_port_cases() -> None:
    assert len(CASES) == 24


def test_the_first_case_teaches_two_rules_two_seeds_and_a_helper() -> None:
    case = PORTS / "01_reindented_block"
    lesson = learn(_files(case / "base"), _files(case / "experiment"), WRAPPER)
    assert _rules(lesson) == [
        ("$X.state_dict()", "_clean_state_dict($X)", True),
        (
            "$X.load_state_dict($ARGS)",
            'getattr($X, "_orig_mod", $X).load_state_dict($ARGS)',
            True,
        ),
    ]
    assert [len(rule.examples) for rule in lesson.rules] == [2, 2]
    assert lesson.rules[1].examples[1].before == "c.load_state_dict(sd)"
    assert lesson.rules[0].requires == ("_clean_state_dict",)
    assert _seeds(lesson) == [
        (
            "Learner.__init__",
            "self.policy",
            "object",
            "nn.Linear(cfg.n_in, cfg.n_out)",
            "torch.compile($X)",
        ),
        (
            "Learner.__init__",
            "self.critics",
            "list",
            "nn.Linear(cfg.n_in, 1)",
            "torch.compile($X)",
        ),
    ]
    assert [(seed.line, seed.key) for seed in lesson.seeds] == [(12, 0), (13, 1)]
    (helper,) = lesson.helpers
    assert (helper.name, helper.after, helper.before) == ("_clean_state_dict", None, "Learner")
    assert [(n.line, n.text) for n in lesson.negatives] == [
        (17, "self.policy_opt.state_dict()"),
        (24, 'self.policy_opt.load_state_dict(blob["policy_opt"])'),
        (29, "actor.load_state_dict(weights)"),
    ]
    assert [(h.line_before, h.line_after, h.kind, h.by) for h in lesson.hunks] == [
        (0, 5, "helper", "_clean_state_dict"),
        (8, 12, "seed", "self.policy"),
        (9, 13, "seed", "self.critics"),
        (15, 19, "rule", "state_dict"),
        (16, 20, "rule", "state_dict"),
        (21, 25, "rule", "load_state_dict"),
        (23, 27, "rule", "load_state_dict"),
    ]


EXAMPLES = Path(__file__).parent / "cases" / "learning"
TRAINER = (EXAMPLES / "trainer.py").read_text()
CLEANED = (EXAMPLES / "trainer_cleaned.py").read_text()
MIXED = (EXAMPLES / "mixed.py").read_text()
MIXED_AFTER = (EXAMPLES / "mixed_after.py").read_text()
MIXED_RESIDUAL = (EXAMPLES / "mixed_residual.py").read_text()


def test_what_no_rule_explains_is_the_parents_file_with_that_alone() -> None:
    lesson = _learn(MIXED, MIXED_AFTER)
    assert _residual(lesson) == MIXED_RESIDUAL.lstrip("\n")
    assert _rules(lesson) == [
        ("$X.state_dict($ARGS)", "_strip($X.state_dict($ARGS))", True),
        (
            "$X.load_state_dict($ARGS)",
            'getattr($X, "_orig_mod", $X).load_state_dict($ARGS)',
            True,
        ),
    ]
    assert [seed.call for seed in lesson.seeds] == [
        'torch.compile($X, mode="default")',
        "torch.compile($X)",
    ]
    assert [(helper.name, helper.needs, helper.imports) for helper in lesson.helpers] == [
        ("PREFIX", (), ()),
        ("_strip", ("PREFIX",), ("from collections import OrderedDict",)),
    ]
    assert [edit.statement for edit in lesson.imports] == ["from collections import OrderedDict"]


def test_line_ends_of_the_parent_survive_next_to_a_residual() -> None:
    before, after = (dedent(text).replace("\n", "\r\n").encode() for text in (MIXED, MIXED_AFTER))
    lesson = learn({"a.py": before}, {"a.py": after}, WRAPPER)
    check_replay(lesson, {"a.py": before}, {"a.py": after})
    assert lesson.residual["a.py"] == MIXED_RESIDUAL.replace("\n", "\r\n").encode()


def test_new_deleted_and_other_files_are_residual_whole() -> None:
    parent = {"gone.py": b"x = 1\n", "notes.txt": b"old\n", "same.py": b"y = 1\n"}
    experiment = {"new.py": b"import torch\n", "notes.txt": b"new\n", "same.py": b"y = 1\n"}
    lesson = learn(parent, experiment, WRAPPER)
    check_replay(lesson, parent, experiment)
    assert lesson.residual == {"gone.py": None, "new.py": b"import torch\n", "notes.txt": b"new\n"}
    assert lesson.touched == ("gone.py", "new.py", "notes.txt")
    assert replay(lesson, parent) == {"new.py": b"import torch\n", "notes.txt": b"new\n"}
    assert [hunk.by for hunk in lesson.hunks] == [
        "a deleted file",
        "a new file",
        "not a Python file",
    ]


def test_nothing_changed_teaches_nothing() -> None:
    lesson = learn({"a.py": b"x = 1\n"}, {"a.py": b"x = 1\n"}, WRAPPER)
    assert (lesson.rules, lesson.seeds, lesson.hunks, lesson.touched) == ((), (), (), ())


def test_a_comment_alone_is_told_and_not_carried() -> None:
    parent, experiment = {"a.py": b"x = 1\n"}, {"a.py": b"x = 1  # one\n"}
    lesson = learn(parent, experiment, WRAPPER)
    (hunk,) = lesson.hunks
    assert (hunk.after, hunk.line_after, hunk.by) == (
        "# one",
        1,
        "a comment alone, not carried over",
    )
    assert replay(lesson, parent) == parent


def _refusal(before: str, after: str) -> str:
    with pytest.raises(CannotLearn) as refusal:
        _learn(before, after)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("before", "after", "side"),
    [("def f(:\n", "x = 1\n", "the parent's side"), ("x = 1\n", "def f(:\n", "the experiment's")],
)
def test_a_side_that_does_not_parse_is_refused(before: str, after: str, side: str) -> None:
    message = _refusal(before, after)
    assert f"cannot learn from pkg/learner.py: {side}" in message
    assert "pkg/learner.py:1" in message


def test_a_lesson_of_another_experiment_does_not_replay() -> None:
    parent = {"pkg/learner.py": _text(TRAINER)}
    lesson = _learn(TRAINER, CLEANED)
    other = {"pkg/learner.py": _text(CLEANED.replace("for _ in range(2)", "for _ in range(3)"))}
    with pytest.raises(CannotLearn) as refusal:
        check_replay(lesson, parent, other)
    assert "pkg/learner.py:12 (experiment)" in str(refusal.value)
    assert "the experiment has `3`, the replay `2`" in str(refusal.value)


NAMES = st.sampled_from(
    ["net", "self.policy", "nets[0]", "self.nets[i]", 'd["a"].net', "pool.get(k)"]
)
ARGUMENTS = st.sampled_from(["", "w", "w, strict=False", "*a, **k", 'blob["é"]', "(x for x in w)"])


@st.composite
def _programs(draw: st.DrawFn) -> tuple[str, str]:
    """A program and its experiment: some sites wrapped, some left alone, some other edits."""
    before: list[str] = []
    after: list[str] = []
    for number in range(draw(st.integers(1, 6))):
        receiver, arguments = draw(NAMES), draw(ARGUMENTS)
        form = draw(st.sampled_from(["save", "load", "seed", "plain", "change", "both"]))
        old, new = f"log({number})", f"log({number})"
        if form == "save":
            old, new = f"out = {receiver}.state_dict()", f"out = clean({receiver}.state_dict())"
        elif form == "load":
            old = f"{receiver}.load_state_dict({arguments})"
            new = f'getattr({receiver}, "_orig_mod", {receiver}).load_state_dict({arguments})'
        elif form == "seed":
            old = f"self.m{number} = build({arguments})"
            new = f"self.m{number} = torch.compile(build({arguments}), dynamic=True)"
        elif form == "change":
            new = f"log({number}, 'more')"
        elif form == "both":
            old = f"send(1, {receiver}.state_dict())"
            new = f"send(2, clean({receiver}.state_dict()), flush=True)"
        before.append(old)
        after.append(new)
        if draw(st.booleans()):
            after.append(f"extra({number})")
        if draw(st.integers(0, 5)) == 0:
            before.append(f"gone({number})")
    indent = draw(st.sampled_from(["    ", "\t", "  "]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    head = ["import torch", "class T:", f"{indent}def run(self, w, k, blob, *a):"]
    helper = ["def clean(d):", f'{indent}return {{k.removeprefix("_orig_mod."): d[k] for k in d}}']

    def text(lines: list[str], top: list[str]) -> str:
        body = [indent * 2 + line for line in lines]
        return newline.join([head[0], *top, *head[1:], *body, ""])

    return text(before, []), text(after, helper)


@settings(max_examples=80, deadline=None)
@given(_programs())
def test_random_wrappings_of_random_receivers_replay_exactly(programs: tuple[str, str]) -> None:
    before, after = (program.encode() for program in programs)
    lesson = learn({"t.py": before}, {"t.py": after}, WRAPPER)
    check_replay(lesson, {"t.py": before}, {"t.py": after})
    made = replay(lesson, {"t.py": before})["t.py"]
    assert made.count(b"\r\n") == (made.count(b"\n") if b"\r" in before else 0)
    sites = after.count(b"clean(") - 1 + after.count(b"getattr(")
    assert sum(len(rule.examples) for rule in lesson.rules) == sites
    assert len(lesson.seeds) == after.count(b"torch.compile(")
    explained = lesson.residual.get("t.py", before)
    assert explained is not None
    assert b"_orig_mod" not in explained
    assert b"compile" not in explained


@pytest.mark.parametrize(
    ("before", "after", "read"),
    [
        (b"print 1\n", b"print 2\n", True),
        (None, b"print 2\n", True),
        (b"print 1\n", None, True),
        (b"print 1\n", b"print torch.compile(2)\n", False),
        (b"print 1\n", b"print(2)\n", False),
        (b"print(1)\n", b"print 2\n", False),
    ],
)
def test_a_file_that_this_python_never_read_is_carried_over_as_text(
    before: bytes | None, after: bytes | None, read: bool
) -> None:
    parent = {"a.py": before} if before is not None else {}
    experiment = {"a.py": after} if after is not None else {}
    if not read:
        with pytest.raises(CannotLearn, match="does not parse"):
            learn(parent, experiment, WRAPPER)
        return
    lesson = learn(parent, experiment, WRAPPER)
    assert lesson.residual == {"a.py": after}
    assert [hunk.by for hunk in lesson.hunks] == ["it does not parse: carried over as text"]
    assert replay(lesson, parent) == experiment


def test_an_object_that_only_has_a_name_in_its_call_cannot_be_learned() -> None:
    before = "import torch\n\nnet = (plain := build())\n"
    with pytest.raises(CannotLearn, match="is no expression of its own") as caught:
        _learn(before, before.replace("(plain := build())", "torch.compile(plain := build())"))
    assert caught.value.where == "pkg/learner.py:3 (experiment)"
