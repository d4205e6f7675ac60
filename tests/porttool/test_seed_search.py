"""Seeds found again on a main that has moved on: placed, followed, asked, or left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent

import pytest

from porttool.deciding.dataflow import analyse
from porttool.deciding.decide import decide
from porttool.deciding.edits import port_edits
from porttool.deciding.seed_search import place_seeds
from porttool.deciding.sites import Decision, PlacedSeed
from porttool.learning.learn import Lesson, Wrapper, learn
from porttool.source.syntax import Source, apply_edits, parse_source

HEAD = "import torch\nfrom torch import nn\n\n\n"
BASE = HEAD + dedent(
    """
    class Learner:
        def __init__(self, cfg):
            self.net = nn.Linear(cfg.n, 2)
            self.nets = [nn.Linear(cfg.n, 1) for _ in range(2)]
            self.opt = torch.optim.Adam(self.net.parameters())
    """
).lstrip("\n")
EXPERIMENT = BASE.replace("nn.Linear(cfg.n, 2)", "torch.compile(nn.Linear(cfg.n, 2))").replace(
    "nn.Linear(cfg.n, 1)", "torch.compile(nn.Linear(cfg.n, 1))"
)
NET_KEY = "learner.py::Learner.__init__::wrap self.net"


def lesson_of(base: str = BASE, experiment: str = EXPERIMENT) -> Lesson:
    return learn({"learner.py": base.encode()}, {"learner.py": experiment.encode()}, Wrapper())


def place(
    main: str | dict[str, str],
    lesson: Lesson | None = None,
    answers: Mapping[str, str] | None = None,
) -> tuple[dict[str, Source], tuple[PlacedSeed, ...], tuple[Decision, ...]]:
    files = {"learner.py": main} if isinstance(main, str) else main
    onto = {path: parse_source(path, text.encode()) for path, text in files.items()}
    placed, decisions = place_seeds(onto, lesson or lesson_of(), answers)
    return onto, placed, decisions


def ported(main: str, lesson: Lesson | None = None) -> str:
    """Return the file with its seeds wrapped and nothing else changed."""
    lesson = lesson or lesson_of()
    onto, placed, asks = place(main, lesson)
    sites = decide(onto, lesson, placed, analyse(onto, placed, lesson, asks))
    source = onto["learner.py"]
    return apply_edits(source, port_edits(source, sites, placed, lesson)).decode()


def wrapped_texts(onto: Mapping[str, Source], placed: tuple[PlacedSeed, ...]) -> list[str]:
    return [onto[p.path].text[p.value.start : p.value.end] for p in placed]


def test_seeds_are_found_where_they_were() -> None:
    onto, placed, decisions = place(BASE)
    assert decisions == ()
    assert wrapped_texts(onto, placed) == ["nn.Linear(cfg.n, 2)", "nn.Linear(cfg.n, 1)"]
    net = placed[0]
    assert (net.scope, net.target, net.kind, net.line) == (
        "Learner.__init__",
        "self.net",
        "object",
        7,
    )
    assert (net.call, net.moved_from, net.note) == ("torch.compile($X)", None, "")
    statement = onto["learner.py"].text[net.binding.start : net.binding.end]
    assert statement == "        self.net = nn.Linear(cfg.n, 2)\n"
    assert ported(BASE) == EXPERIMENT


def test_moved_to_another_method_is_followed_and_said() -> None:
    main = BASE.replace(
        "        self.nets",
        "        self._build(cfg)\n\n    def _build(self, cfg):\n        self.nets",
    )
    _, placed, decisions = place(main)
    assert decisions == ()
    assert [(p.scope, p.moved_from, p.note) for p in placed] == [
        ("Learner.__init__", None, ""),
        ("Learner._build", "Learner.__init__", "moved from `Learner.__init__`"),
    ]


def test_other_arguments_are_followed_and_said() -> None:
    main = BASE.replace("nn.Linear(cfg.n, 2)", "nn.Linear(cfg.n, 2, bias=False)")
    _, placed, decisions = place(main)
    assert decisions == ()
    assert placed[0].note == "main constructs it with other arguments"
    assert "torch.compile(nn.Linear(cfg.n, 2, bias=False))" in ported(main)


def test_set_up_in_another_way_is_followed_with_the_set_up_inside() -> None:
    main = BASE.replace("nn.Linear(cfg.n, 2)", "nn.Linear(cfg.n, 2).to(cfg.device)")
    _, placed, decisions = place(main)
    assert decisions == ()
    assert [p.note for p in placed] == ["main sets it up in another way", ""]
    assert "torch.compile(nn.Linear(cfg.n, 2).to(cfg.device))" in ported(main)


def test_alias_of_the_target_file_is_used() -> None:
    main = BASE.replace("import torch\n", "import torch as th\n").replace("torch.optim", "th.optim")
    assert "self.net = th.compile(nn.Linear(cfg.n, 2))" in ported(main)


def test_import_is_added_where_the_package_is_not() -> None:
    base = "from nets import build\n\n\ndef make():\n    net = build()\n    return net\n"
    experiment = (
        "import torch\nfrom nets import build\n\n\n"
        "def make():\n    net = torch.compile(build())\n    return net\n"
    )
    result = ported(base, lesson_of(base, experiment))
    assert "torch.compile(build())" in result
    assert "import torch\n" in result


def test_wrapped_already_is_left_alone() -> None:
    _, placed, decisions = place(EXPERIMENT)
    assert placed == ()
    assert [(d.action, d.reasons) for d in decisions] == [
        ("skip", ("main wraps it already (learner.py:7)",)),
        ("skip", ("main wraps it already (learner.py:8)",)),
    ]
    assert ported(EXPERIMENT) == EXPERIMENT


def test_wrapped_already_further_on_is_left_alone() -> None:
    main = BASE + "        if cfg.fast:\n            self.net = torch.compile(self.net)\n"
    _, placed, decisions = place(main)
    assert [p.target for p in placed] == ["self.nets"]
    assert [d.action for d in decisions] == ["skip"]


def test_doubled_is_asked_and_an_answer_places_both() -> None:
    main = BASE.replace(
        "        self.net = nn.Linear(cfg.n, 2)\n",
        "        if cfg.big:\n            self.net = nn.Linear(cfg.n, 2)\n"
        "        else:\n            self.net = nn.Linear(cfg.n, 2)\n",
    )
    _, placed, decisions = place(main)
    assert [p.target for p in placed] == ["self.nets"]
    assert [(d.action, d.key, d.line) for d in decisions] == [("ask", NET_KEY, 8)]
    assert decisions[0].reasons == (
        "main constructs `self.net` of `Learner.__init__` in 2 places "
        "(learner.py:8, learner.py:10), the experiment in 1",
    )
    onto, placed, decisions = place(main, answers={NET_KEY: "rewrite"})
    assert decisions == ()
    assert wrapped_texts(onto, placed)[:2] == ["nn.Linear(cfg.n, 2)"] * 2
    _, placed, decisions = place(main, answers={NET_KEY: "skip"})
    assert [p.target for p in placed] == ["self.nets"]
    assert [d.action for d in decisions] == ["skip"]


def test_another_constructor_is_asked() -> None:
    _, placed, decisions = place(BASE.replace("nn.Linear(cfg.n, 2)", "make_net(cfg)"))
    assert [p.target for p in placed] == ["self.nets"]
    assert [d.action for d in decisions] == ["ask"]
    assert decisions[0].reasons == (
        "main constructs it differently: `make_net(cfg)` (learner.py:7)",
    )
    assert decisions[0].text == "make_net(cfg)"


@pytest.mark.parametrize(
    "whole",
    [
        "nn.Sequential(nn.Linear(cfg.n, 2), nn.Linear(2, 2))",
        "Scaled(by=0.1, net=nn.Linear(cfg.n, 2))",
        "init(nn.Linear(cfg.n, 2)).half_of(2)",
        "nn.Linear(cfg.n, 2) if cfg.small else nn.Bilinear(2, 3, 4)",
        "cfg.net or nn.Linear(cfg.n, 2)",
        "Pair((nn.Linear(cfg.n, 2), 3))",
    ],
)
def test_a_part_of_something_else_is_asked_about_as_a_whole(whole: str) -> None:
    main = BASE.replace("nn.Linear(cfg.n, 2)", whole)
    _, placed, decisions = place(main)
    assert [p.target for p in placed] == ["self.nets"]
    assert [(d.action, d.text) for d in decisions] == [("ask", whole)]
    assert decisions[0].reasons == (f"main constructs it differently: `{whole}` (learner.py:7)",)
    onto, placed, decisions = place(main, answers={NET_KEY: "rewrite"})
    assert decisions == ()
    assert wrapped_texts(onto, placed)[0] == whole


def test_a_network_that_may_be_left_out_is_wrapped_where_it_is_made() -> None:
    main = BASE.replace("nn.Linear(cfg.n, 2)", "nn.Linear(cfg.n, 2) if cfg.on else None")
    onto, placed, decisions = place(main)
    assert decisions == ()
    assert wrapped_texts(onto, placed)[0] == "nn.Linear(cfg.n, 2)"


def test_another_container_is_asked() -> None:
    main = BASE.replace(
        "[nn.Linear(cfg.n, 1) for _ in range(2)]", "nn.ModuleList([nn.Linear(cfg.n, 1)])"
    )
    _, placed, decisions = place(main)
    assert [p.target for p in placed] == ["self.net"]
    assert decisions[0].reasons == (
        "main builds `self.nets` of `Learner.__init__` in another container (learner.py:8)",
    )


def test_another_class_is_asked() -> None:
    main = BASE.replace("class Learner:", "class Builder:")
    _, placed, decisions = place(main)
    assert placed == ()
    assert {d.action for d in decisions} == {"ask"}
    assert "is no longer constructed there; main has learner.py:7" in decisions[0].reasons[0]


def test_deleted_stays_deleted() -> None:
    main = BASE.replace("        self.nets = [nn.Linear(cfg.n, 1) for _ in range(2)]\n", "")
    _, placed, decisions = place(main)
    assert [p.target for p in placed] == ["self.net"]
    assert [(d.action, d.reasons) for d in decisions] == [
        ("skip", ("main no longer constructs `self.nets` of `Learner.__init__`: nothing to wrap",))
    ]
    assert "self.nets" not in ported(main)


def test_renamed_is_asked_and_an_answer_wraps_it_under_its_new_name() -> None:
    main = re.sub(r"self\.net\b", "self.actor", BASE)
    _, placed, decisions = place(main)
    (asked,) = [decision for decision in decisions if decision.action == "ask"]
    assert (asked.key, asked.line, asked.text) == (NET_KEY, 7, "nn.Linear(cfg.n, 2)")
    assert "main still constructs `nn.Linear(cfg.n, 2)` (learner.py:7)" in asked.reasons[0]
    assert [seed.target for seed in placed] == ["self.nets"]
    onto, placed, decisions = place(main, answers={NET_KEY: "rewrite"})
    assert decisions == ()
    assert [seed.target for seed in placed] == ["self.actor", "self.nets"]
    assert wrapped_texts(onto, placed[:1]) == ["nn.Linear(cfg.n, 2)"]
    _, placed, (left,) = place(main, answers={NET_KEY: "skip"})
    assert (left.action, [seed.target for seed in placed]) == ("skip", ["self.nets"])


def test_still_read_though_nobody_assigns_it_is_asked() -> None:
    main = BASE.replace("        self.net = nn.Linear(cfg.n, 2)\n", "        build(self)\n")
    _, _, decisions = place(main)
    (asked,) = [decision for decision in decisions if decision.action == "ask"]
    assert asked.reasons[0].endswith("main still reads `self.net` (learner.py:9)")


def test_another_construction_beside_it_is_asked() -> None:
    main = BASE.replace(
        "        self.net = nn.Linear(cfg.n, 2)\n",
        "        self.net = nn.Linear(cfg.n, 2)\n"
        "        if cfg.big:\n            self.net = nn.Linear(cfg.n, 9)\n",
    )
    onto, before = (
        {"learner.py": parse_source("learner.py", text.encode())} for text in (main, BASE)
    )
    placed, (asked,) = place_seeds(onto, lesson_of(), before=before)
    assert [seed.target for seed in placed] == ["self.nets"]
    assert "in 2 places (learner.py:7, learner.py:9), the experiment in 1" in asked.reasons[0]


def test_one_of_a_tuple_is_the_one_at_its_place() -> None:
    base = BASE.replace(
        "self.net = nn.Linear(cfg.n, 2)",
        "self.other, self.net = nn.Linear(cfg.n, 2), nn.Linear(cfg.n, 2)",
    )
    experiment = base.replace("2), nn.Linear(cfg.n, 2)", "2), torch.compile(nn.Linear(cfg.n, 2))")
    onto, placed, decisions = place(base, lesson_of(base, experiment))
    assert decisions == ()
    (seed,) = placed
    assert onto["learner.py"].text[: seed.value.start].endswith("nn.Linear(cfg.n, 2), ")


def test_file_that_moved_is_followed() -> None:
    _, placed, decisions = place({"pkg/agent.py": BASE})
    assert decisions == ()
    assert [(p.path, p.moved_from) for p in placed] == [
        ("pkg/agent.py", "learner.py::Learner.__init__")
    ] * 2


FORMS = {
    "literal list": (
        "def f():\n    nets = [nn.Linear(2, 2), nn.Linear(2, 2)]\n    return nets\n",
        "def f():\n    nets = [torch.compile(nn.Linear(2, 2)), torch.compile(nn.Linear(2, 2))]\n"
        "    return nets\n",
    ),
    "dictionary": (
        "def f():\n    nets = {'a': nn.Linear(2, 2)}\n    return nets\n",
        "def f():\n    nets = {'a': torch.compile(nn.Linear(2, 2))}\n    return nets\n",
    ),
    "return": (
        "def build(n):\n    return nn.Linear(n, n)\n",
        "def build(n):\n    return torch.compile(nn.Linear(n, n))\n",
    ),
    "argument": (
        "def f():\n    run(nn.Linear(2, 2), 3)\n",
        "def f():\n    run(torch.compile(nn.Linear(2, 2)), 3)\n",
    ),
    "options": (
        "def f():\n    net = nn.Linear(2, 2)\n    return net\n",
        "def f():\n    net = torch.compile(nn.Linear(2, 2), mode='default')\n    return net\n",
    ),
    "added re-binding": (
        "def f():\n    net = nn.Linear(2, 2)\n    go(net)\n",
        "def f():\n    net = nn.Linear(2, 2)\n    net = torch.compile(net)\n    go(net)\n",
    ),
    "added re-binding of a list": (
        "def f():\n    nets = build()\n    go(nets)\n",
        "def f():\n    nets = build()\n    nets = [torch.compile(n) for n in nets]\n    go(nets)\n",
    ),
    "in place": (
        "def f():\n    net = nn.Linear(2, 2)\n    go(net)\n",
        "def f():\n    net = nn.Linear(2, 2)\n    net.compile()\n    go(net)\n",
    ),
    "decorator": (
        "def step(x):\n    return x + 1\n",
        "@torch.compile\ndef step(x):\n    return x + 1\n",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_wrapping_is_placed_and_placed_once(form: str) -> None:
    before, after = (HEAD + text for text in FORMS[form])
    lesson = lesson_of(before, after)
    later = "# main has a comment now\n" + before
    assert ported(later, lesson) == "# main has a comment now\n" + after
    assert ported(after, lesson) == after


def test_added_rebinding_of_a_list_wraps_its_elements() -> None:
    before, after = (HEAD + text for text in FORMS["added re-binding of a list"])
    onto, placed, _ = place(before, lesson_of(before, after))
    assert wrapped_texts(onto, placed) == ["build()"]
    assert (placed[0].kind, placed[0].call) == ("rebind", "[torch.compile(n) for n in $X]")


def test_what_an_open_seed_would_wrap_is_asked_too() -> None:
    base = BASE + "\n    def save(self):\n        return self.net.state_dict()\n"
    experiment = EXPERIMENT + (
        "\n    def save(self):\n"
        "        return getattr(self.net, '_orig_mod', self.net).state_dict()\n"
    )
    lesson = lesson_of(base, experiment)
    onto, placed, asks = place(base.replace("nn.Linear(cfg.n, 2)", "make_net(cfg)"), lesson)
    sites = decide(onto, lesson, placed, analyse(onto, placed, lesson, asks))
    assert [(d.action, d.text) for d in sites] == [("ask", "self.net.state_dict()")]
    assert "whether `make_net(cfg)` is wrapped (learner.py:7) is still open" in sites[0].reasons[0]
