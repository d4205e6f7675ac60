"""Sites decided and ported, from an experiment's own diff to the bytes of the ungated port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import pytest

from porttool.deciding.dataflow import analyse
from porttool.deciding.decide import (
    check_guard,
    decide,
    place_seeds,
    relevant_words,
    unused_answers,
)
from porttool.deciding.edits import port_edits
from porttool.deciding.sites import Decision
from porttool.errors import CannotLearn
from porttool.learning.learn import Lesson, Wrapper, learn
from porttool.learning.lesson import Negative
from porttool.source.syntax import Source, apply_edits, parse_source

CASES = Path(__file__).parent / "cases" / "ports"
# The others may need a plan of their own; `test_apply` runs them all.
EXACT = sorted(path.parent.name for path in CASES.glob("[0-9]*/expect.json"))
PROPERTIES = sorted(path.parent.name for path in CASES.glob("[0-9]*/expect_properties.json"))


@dataclass(frozen=True)
class Ported:
    """What became of a case: the decisions on sites and seeds, and the ported files."""

    lesson: Lesson
    decisions: tuple[Decision, ...]
    files: dict[str, bytes]

    def of(self, action: str) -> list[str]:
        return [decision.text for decision in self.decisions if decision.action == action]

    def at(self, text: str) -> Decision:
        return next(decision for decision in self.decisions if decision.text == text)


def parsed(files: Mapping[str, bytes]) -> dict[str, Source]:
    return {path: parse_source(path, data) for path, data in files.items()}


def own_decisions(lesson: Lesson, parent: Mapping[str, Source]) -> tuple[Decision, ...]:
    placed, asks = place_seeds(parent, lesson)
    return decide(parent, lesson, placed, analyse(parent, placed, lesson, asks))


def port(
    base: Mapping[str, bytes],
    experiment: Mapping[str, bytes],
    main: Mapping[str, bytes],
    answers: Mapping[str, str] | None = None,
) -> Ported:
    lesson = learn(base, experiment, Wrapper())
    parent, onto = parsed(base), parsed(main)
    check_guard(lesson, own_decisions(lesson, parent))
    placed, asks = place_seeds(onto, lesson, answers)
    flow = analyse(onto, placed, lesson, asks)
    sites = decide(onto, lesson, placed, flow, answers, parent=parent)
    files = {
        path: apply_edits(source, port_edits(source, sites, placed, lesson))
        for path, source in onto.items()
    }
    return Ported(lesson, (*asks, *sites), files)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.py"))
    }


def port_case(name: str) -> Ported:
    case = CASES / name
    return port(*(files_of(case / side) for side in ("base", "experiment", "main")))


def test_the_cases_are_there() -> None:
    assert (len(EXACT), len(PROPERTIES)) == (14, 10)


@pytest.mark.parametrize("name", EXACT)
def test_exact_case(name: str) -> None:
    expected = json.loads((CASES / name / "expect.json").read_text())
    ported = port_case(name)
    assert ported.files == files_of(CASES / name / "expected")
    assert sorted(ported.of("ask")) == sorted(expected["asks"])
    assert ported.of("hazard") == expected["hazards"]


@pytest.mark.parametrize("name", PROPERTIES)
def test_no_leak_is_missed_and_nothing_clean_is_touched(name: str) -> None:
    expected = json.loads((CASES / name / "expect_properties.json").read_text())
    ported = port_case(name)
    seen = {*ported.of("rewrite"), *ported.of("ask")}
    assert set(expected["leak"]) <= seen
    assert not set(expected["clean"]) & seen
    assert ported.of("ask") or not expected["status_not_ok"]
    assert ported.files == files_of(CASES / name / "expected")


@pytest.mark.parametrize("name", EXACT)
def test_a_port_of_the_port_changes_nothing(name: str) -> None:
    case = CASES / name
    once = port_case(name).files
    again = port(files_of(case / "base"), files_of(case / "experiment"), once)
    assert again.files == once


# -- one experiment, many mains ----------------------------------------------------------------

BASE = """
    import torch
    from torch import nn


    class Learner:
        def __init__(self, cfg):
            self.net = nn.Linear(2, 2)
            self.opt = torch.optim.Adam(self.net.parameters())

        def save(self):
            return self.net.state_dict(), self.opt.state_dict()

        def load(self, blob):
            self.net.load_state_dict(blob)
    """

EXPERIMENT = """
    import torch
    from torch import nn


    def _clean(network):
        return getattr(network, "_orig_mod", network).state_dict()


    class Learner:
        def __init__(self, cfg):
            self.net = torch.compile(nn.Linear(2, 2))
            self.opt = torch.optim.Adam(self.net.parameters())

        def save(self):
            return _clean(self.net), self.opt.state_dict()

        def load(self, blob):
            getattr(self.net, "_orig_mod", self.net).load_state_dict(blob)
    """


def side(text: str, **others: str) -> dict[str, bytes]:
    files = {"learner.py": text, **{f"{name}.py": other for name, other in others.items()}}
    return {path: dedent(other).lstrip("\n").encode() for path, other in files.items()}


def port_method(method: str, answers: Mapping[str, str] | None = None, **others: str) -> Ported:
    """Port onto a main that has gained a method (and other files)."""
    gained = dedent(method).strip("\n").replace("\n", "\n        ")
    main = side(BASE.rstrip(" ") + f"\n        {gained}\n", **others)
    return port(side(BASE), side(EXPERIMENT), main, answers)


def test_site_of_the_experiment_is_known_and_a_gained_one_is_not() -> None:
    ported = port_method("def push(self, queue):\n    queue.put(self.net.state_dict())")
    here = [d for d in ported.decisions if d.text == "self.net.state_dict()"]
    assert [(d.key, d.known) for d in here] == [
        ("learner.py::Learner.save::self.net.state_dict()", True),
        ("learner.py::Learner.push::self.net.state_dict()", False),
    ]
    assert here[1].action == "rewrite"
    assert here[1].replacement == "_clean(self.net)"
    assert here[1].reasons == ("`self.net` is wrapped at learner.py:7",)
    assert (here[1].line, here[1].column) == (17, 18)


def test_equal_sites_of_a_method_are_counted() -> None:
    ported = port_method("def two(self):\n    return self.net.state_dict(), self.net.state_dict()")
    keys = [d.key for d in ported.decisions if "::Learner.two::" in d.key]
    assert keys == [
        "learner.py::Learner.two::self.net.state_dict()",
        "learner.py::Learner.two::self.net.state_dict()#2",
    ]


def test_keys_survive_shifted_lines() -> None:
    keys = [
        {d.key for d in port_method(text + "def f(self):\n    self.net.state_dict()").decisions}
        for text in ("", "# a comment\n\n")
    ]
    assert keys[0] == keys[1]


def test_optimizer_is_skipped_with_the_line_that_builds_it() -> None:
    skipped = port_method("").at("self.opt.state_dict()")
    assert skipped.action == "skip"
    assert skipped.reasons == ("`self.opt` is an optimizer built at learner.py:8",)


def test_nested_sites_are_composed() -> None:
    ported = port_method(
        "def mirror(self):\n    self.net.load_state_dict(\n"
        "        self.net.state_dict()  # own\n    )"
    )
    assert (
        'getattr(self.net, "_orig_mod", self.net).load_state_dict(\n'
        "            _clean(self.net)  # own\n"
    ) in ported.files["learner.py"].decode()


POSSIBLE = "def pick(self, other):\n    return (self.net if other else nn.Linear(2, 2))"


def test_possible_site_is_rewritten_where_the_experiment_was() -> None:
    ported = port_method(POSSIBLE + "\n\ndef f(self):\n    return self.pick(1).state_dict()")
    found = ported.at("self.pick(1).state_dict()")
    assert found.action == "rewrite"
    assert found.reasons[0] == "it may be wrapped; the rule changes nothing if it is not"


def test_possible_site_elsewhere_is_asked_and_answered() -> None:
    other = """
        def export(learner):
            return learner.pick(1).state_dict()


        from learner import Learner

        export(Learner(None))
        """
    asked = port_method(POSSIBLE, other=other).at("learner.pick(1).state_dict()")
    assert asked.action == "ask"
    assert asked.reasons[0] == "it may be wrapped, and the experiment never touched this file"

    kept = port_method(POSSIBLE, {asked.key: "skip"}, other=other)
    assert kept.at(asked.text).action == "skip"
    assert kept.files["other.py"].decode().count("_clean") == 0

    yes = port_method(POSSIBLE, {asked.key: "rewrite"}, other=other)
    assert yes.at(asked.text).reasons[0] == "answered `rewrite` in the plan"
    assert "return _clean(learner.pick(1))" in yes.files["other.py"].decode()


def test_call_that_the_template_would_run_twice_is_asked() -> None:
    method = (
        "def pick(self):\n    return self.net\n\ndef f(self, sd):\n    self.pick().state_dict()"
    )
    ported = port_method(f"{method}\n    self.pick().load_state_dict(sd)")
    assert ported.at("self.pick().state_dict()").replacement == "_clean(self.pick())"
    asked = ported.at("self.pick().load_state_dict(sd)")
    assert asked.action == "ask"
    assert asked.reasons[0] == (
        "the template evaluates `self.pick()` twice, which may have side effects"
    )
    answered = port_method(f"{method}\n    self.pick().load_state_dict(sd)", {asked.key: "rewrite"})
    assert answered.at(asked.text).action == "ask"


def test_unknown_site_is_asked_by_what_its_name_says() -> None:
    ported = port_method(
        "",
        tool="""
        def export(network, optimizer, lr_scheduler, thing, model: "Metric"):
            network.state_dict()
            optimizer.state_dict()
            lr_scheduler.state_dict()
            thing.state_dict()
            model.state_dict()
        """,
    )
    actions = {d.text: d.action for d in ported.decisions if d.path == "tool.py"}
    assert actions == {
        "network.state_dict()": "ask",
        "optimizer.state_dict()": "skip",
        "lr_scheduler.state_dict()": "skip",
        "thing.state_dict()": "ask",
        "model.state_dict()": "skip",
    }
    why = ported.at("optimizer.state_dict()").reasons[0]
    assert why == "its name `optimizer` is that of an optimizer or the like, not of a module"


def test_worker_that_builds_its_own_network_is_left_alone() -> None:
    ported = port_method(
        "",
        worker="""
        from torch import nn


        def work(weights):
            network = nn.Linear(2, 2)
            network.load_state_dict(weights)
        """,
    )
    assert ported.at("network.load_state_dict(weights)").action == "skip"
    assert "_orig_mod" not in ported.files["worker.py"].decode()


def test_arguments_that_no_example_had_are_asked() -> None:
    ported = port_method("def odd(self):\n    return self.net.state_dict(keep_vars=True)")
    asked = ported.at("self.net.state_dict(keep_vars=True)")
    assert (asked.action, asked.rule, asked.replacement) == ("ask", None, None)
    assert asked.reasons == (
        "no edit of the experiment says what becomes of `state_dict` with these arguments",
        "`self.net` is wrapped at learner.py:7",
    )


def test_method_without_any_rule_is_asked_on_a_wrapped_module() -> None:
    def without_load(text: str) -> dict[str, bytes]:
        return side(text[: text.index("        def load")])

    ported = port(without_load(BASE), without_load(EXPERIMENT), side(BASE))
    asked = ported.at("self.net.load_state_dict(blob)")
    assert asked.action == "ask"
    assert asked.reasons[0] == (
        "the experiment has no rule for `load_state_dict` on a wrapped module"
    )


def test_helper_is_imported_where_it_is_used() -> None:
    ported = port_method(
        "",
        tool="""
        from learner import Learner


        def export(learner: Learner):
            return learner.net.state_dict()
        """,
    )
    assert ported.files["tool.py"].decode() == (
        "from learner import Learner, _clean\n\n\n"
        "def export(learner: Learner):\n    return _clean(learner.net)\n"
    )


def test_answers_for_places_that_are_gone_are_named() -> None:
    ported = port_method("")
    known = ported.decisions[0].key
    assert unused_answers(ported.decisions, (), {known: "skip", "gone": "skip"}) == ("gone",)


def test_relevant_words_reach_sites_seeds_and_hazards() -> None:
    words = relevant_words(port_method("").lesson)
    wanted = {"state_dict", "load_state_dict", "net", "Learner", "_clean", "_orig_mod", "deepcopy"}
    assert wanted <= set(words)
    assert "__init__" not in words


def test_guard_that_would_rewrite_what_the_experiment_left_alone_is_refused() -> None:
    parent = parsed(side(BASE))
    lesson = learn(side(BASE), side(EXPERIMENT), Wrapper())
    decisions = own_decisions(lesson, parent)
    check_guard(lesson, decisions)
    rule = next(rule for rule in lesson.rules if rule.before == "$X.state_dict()")
    left = Negative("learner.py", 11, "self.net.state_dict()", rule.name)
    with pytest.raises(CannotLearn) as refused:
        check_guard(replace(lesson, negatives=(left,)), decisions)
    assert refused.value.where == "learner.py:11 (in the experiment's parent)"


def test_guard_that_misses_what_the_experiment_rewrote_is_refused() -> None:
    parent = parsed(side(BASE))
    lesson = learn(side(BASE), side(EXPERIMENT), Wrapper())
    blind = replace(lesson, seeds=())
    with pytest.raises(CannotLearn, match="no guard separates"):
        check_guard(blind, own_decisions(blind, parent))


# -- hazards -----------------------------------------------------------------------------------

HAZARDS = {
    "import copy\nreturn copy.deepcopy(self.net)": (
        "copy.deepcopy(self.net)",
        "`deepcopy`: the copy is wrapped too, and compiles again: copy the unwrapped module",
    ),
    "torch.save(self.net, 'x')": (
        "torch.save(self.net, 'x')",
        "`save`: the wrapper itself is pickled: save a cleaned state dict",
    ),
    "return isinstance(self.net, nn.Linear)": (
        "isinstance(self.net, nn.Linear)",
        "`isinstance`: a wrapper is no instance of the module's class",
    ),
    "return dict(self.net.named_parameters())": (
        "self.net.named_parameters()",
        "`named_parameters()`: its names carry the wrapper's prefix",
    ),
    "self.net.register_forward_hook(print)": (
        "self.net.register_forward_hook(print)",
        "`register_forward_hook()` after wrapping: compiled code may not run the hook",
    ),
    "torch.compile(self.opt)": (
        "torch.compile(self.opt)",
        "the result of `torch.compile` is thrown away: nothing is wrapped",
    ),
    "m = nn.Linear(2, 2)\nm.forward = torch.compile(m.forward)": (
        "m.forward = torch.compile(m.forward)",
        "a wrapped `forward` is stored on the object: its copies go on computing with the first "
        "one's weights, and it cannot be pickled",
    ),
    "twice = torch.compile(self.net)": (
        "torch.compile(self.net)",
        "wrapped twice: the result is a bare function without `state_dict`",
    ),
    "all_of_them = torch.compile(nn.ModuleList([nn.Linear(2, 2)]))": (
        "torch.compile(nn.ModuleList([nn.Linear(2, 2)]))",
        "a container of modules is wrapped: its parts run as before",
    ),
}


@pytest.mark.parametrize("body", HAZARDS)
def test_hazard_is_reported_and_nothing_is_edited(body: str) -> None:
    ported = port_method("def f(self):\n    " + body.replace("\n", "\n    "))
    text, why = HAZARDS[body]
    found = [(d.text, d.reasons[0]) for d in ported.decisions if d.action == "hazard"]
    assert found == [(text, why)]
    assert text in ported.files["learner.py"].decode()


@pytest.mark.parametrize(
    "body",
    [
        "import copy\n    return copy.deepcopy(self.cfg)",
        "return isinstance(self.opt, int)",
        "torch.save(self.net.state_dict(), 'x')",
        "import re\n    re.compile('x')",
        "return self.net.load_state_dict({}, strict=False)",
    ],
)
def test_what_is_no_hazard(body: str) -> None:
    assert port_method(f"def f(self):\n    {body}").of("hazard") == []


def test_load_that_is_not_strict_is_a_hazard_where_it_stays() -> None:
    method = "def f(self, sd):\n    self.net.load_state_dict(sd, strict=False)"
    key = "learner.py::Learner.f::self.net.load_state_dict(sd, strict=False)"
    ported = port_method(method, {key: "skip"})
    assert [d.reasons[0] for d in ported.decisions if d.action == "hazard"] == [
        "`strict=False` on a wrapper loads nothing and says nothing"
    ]
