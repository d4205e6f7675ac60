"""Seeds that are found by more than a constructor: added statements, decorators, arguments.

They are found again on onto, followed, put behind the switch, or asked: never left out in silence.
"""

from __future__ import annotations

import re
from textwrap import dedent, indent

import pytest

from porttool.apply import apply
from porttool.deciding.dataflow import analyse
from porttool.deciding.decide import check_guard, decide, place_seeds
from porttool.deciding.edits import port_edits
from porttool.gating.gate import gate_edits
from porttool.git.repo import open_repository
from porttool.learning.learn import check_replay, for_gated_port, learn
from porttool.learning.lesson import Wrapper
from porttool.plan.plan import load_plan
from porttool.plan.switch import FlatSwitch, SwitchPlan
from porttool.proving.proof import prove_off
from porttool.source.syntax import apply_edits, parse_source

PATH = "learner.py"
SWITCH = FlatSwitch(idiom="env", name="compile_model")
IF_ON = 'if os.environ.get("COMPILE_MODEL", "0") == "1":\n'
IMPORTS = "import torch\nfrom torch import nn\n\n\n"
CLEAN = 'getattr({0}, "_orig_mod", {0}).state_dict()'

TRAIN = IMPORTS + dedent(
    '''\
        def train(net, queue):
            """Train."""
            optimizer = torch.optim.Adam(net.parameters())
            for step in range(3):
                net(torch.zeros(step)).sum().backward()
            queue.put(net.state_dict())
            return optimizer
        '''
)
AGENT = IMPORTS + dedent(
    """\
        class Agent:
            def __init__(self, n):
                self.net = nn.Linear(n, n)
                self.nets = [nn.Linear(n, 1) for _ in range(2)]

            def setup(self):
                self.ready = True

            def save(self):
                return self.net.state_dict()


        def main(queue):
            agent = Agent(3)
            queue.put(agent.net.state_dict())
        """
)


def behind(text, line, added):
    """Add lines behind a line, at its indent."""
    [found] = [one for one in text.splitlines(keepends=True) if one.strip() == line]
    return text.replace(found, found + indent(added, found[: len(found) - len(found.lstrip())]))


def cleaned(text, *receivers):
    for receiver in receivers:
        call = rf"(?<![\w.]){re.escape(receiver)}\.state_dict\(\)"
        text = re.sub(call, CLEAN.format(receiver), text)
    return text


def ported(base, experiment, main, *, switch=SWITCH):
    """Return what is asked, the port without a switch, and the one behind the switch."""
    before, after, onto = ({PATH: text.encode()} for text in (base, experiment, main))
    lesson = learn(before, after, Wrapper())
    check_replay(lesson, before, after)
    parent, source = parse_source(PATH, before[PATH]), parse_source(PATH, onto[PATH])
    placed, asks = place_seeds({PATH: parent}, lesson)
    flow = analyse({PATH: parent}, placed, lesson, asks)
    check_guard(lesson, decide({PATH: parent}, lesson, placed, flow))
    placed, asks = place_seeds({PATH: source}, lesson, before={PATH: parent})
    flow = analyse({PATH: source}, placed, lesson, asks)
    sites = decide({PATH: source}, lesson, placed, flow, parent={PATH: parent})
    plain = apply_edits(source, port_edits(source, sites, placed, lesson)).decode()
    neutral = for_gated_port(lesson)
    edits, questions = gate_edits(source, placed, switch, neutral)
    assert not questions
    edits = (*port_edits(source, sites, (), neutral, placed), *edits)
    gated = apply_edits(source, edits).decode()
    proof = prove_off(onto, {PATH: gated.encode()}, neutral, switch)
    assert proof.holds, proof.files
    asked = [(d.line, d.text) for d in (*asks, *sites) if d.action == "ask"]
    return asked, plain, gated


def switched(text, added):
    """Put added lines behind the switch; the module that reads it is imported."""
    [first, *_] = added.splitlines(keepends=True)
    at = text.index(first.strip())
    lead = text[text.rindex("\n", 0, at) + 1 : at]
    block = indent(added, lead)
    assert text.count(block) == 1
    inner = indent(added, lead + "    ")
    return f"import os\n\n{text}".replace(block, f"{lead}{IF_ON}{inner}")


CASES = {
    # base, the line that it stands behind, what is added, the receivers cleaned, main since then
    "a parameter, behind the docstring": (
        *(TRAIN, '"""Train."""', "net = torch.compile(net)\n"),
        *(("net",), lambda text: behind(text, "return optimizer", "queue.put(net.state_dict())\n")),
    ),
    "a parameter, in a function whose docstring changed": (
        *(TRAIN, '"""Train."""', "net = torch.compile(net)\n"),
        *(("net",), lambda text: text.replace("Train.", "Train a network.")),
    ),
    "a parameter, in a function whose docstring is gone": (
        *(TRAIN, '"""Train."""', "net = torch.compile(net)\n"),
        *(("net",), lambda text: text.replace('    """Train."""\n', "")),
    ),
    "a parameter, where main has more around it": (
        TRAIN,
        "optimizer = torch.optim.Adam(net.parameters())",
        "net = torch.compile(net)\n",
        ("net",),
        lambda text: text.replace("    for step", "    best = None\n    for step").replace(
            "    optimizer", "    torch.manual_seed(0)\n    optimizer", 1
        ),
    ),
    "a parameter, under a new condition": (
        TRAIN,
        '"""Train."""',
        "if hasattr(torch, 'compile'):\n    net = torch.compile(net)\n",
        ("net",),
        lambda text: text + "\n\ndef other():\n    pass\n",
    ),
    "another object's attribute": (
        *(AGENT, "agent = Agent(3)", "agent.net = torch.compile(agent.net)\n"),
        ("self.net", "agent.net"),
        lambda text: text + "    queue.put(agent.net.state_dict())\n",
    ),
    "an attribute, in another method than the one that builds it": (
        *(AGENT, "self.ready = True", "self.net = torch.compile(self.net)\n"),
        ("self.net", "agent.net"),
        lambda text: text.replace(
            "        self.ready", "        self.count = 0\n        self.ready"
        ),
    ),
    "the method that runs": (
        AGENT,
        "self.net = nn.Linear(n, n)",
        "self.net.forward = torch.compile(self.net.forward)\n",
        (),
        lambda text: text + "    queue.put(agent.net.state_dict())\n",
    ),
    "in place": (
        *(AGENT, "self.net = nn.Linear(n, n)", "self.net.compile(dynamic=True)\n"),
        *((), lambda text: text + "    queue.put(agent.net.state_dict())\n"),
    ),
    "in place, each of a list": (
        AGENT,
        "self.nets = [nn.Linear(n, 1) for _ in range(2)]",
        "for net in self.nets:\n    net.compile()\n",
        (),
        lambda text: text + "    queue.put([net.state_dict() for net in agent.nets])\n",
    ),
    "a discarded call": (
        *(AGENT, "self.net = nn.Linear(n, n)", "torch.compile(self.net)\n"),
        *((), lambda text: text + "    queue.put(agent.net.state_dict())\n"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_statement_is_added_where_the_experiment_has_it(name):
    base, line, added, receivers, moved_on = CASES[name]
    experiment = cleaned(behind(base, line, added), *receivers)
    main = moved_on(base)
    wanted = cleaned(moved_on(behind(base, line, added)), *receivers)
    asked, plain, gated = ported(base, experiment, main)
    assert asked == []
    assert plain == wanted
    assert gated == switched(wanted, added)


SCRIPT = (
    IMPORTS.rstrip("\n") + "\n\nnet = nn.Linear(2, 2)\ntorch.save(net.state_dict(), 'net.pt')\n"
)


def test_a_script_reads_the_environment_where_it_builds_the_network():
    experiment = cleaned(SCRIPT.replace("nn.Linear(2, 2)", "torch.compile(nn.Linear(2, 2))"), "net")
    main = SCRIPT + "torch.save([net.state_dict()], 'again.pt')\n"
    asked, _, gated = ported(SCRIPT, experiment, main)
    assert asked == []
    guard = f"net = nn.Linear(2, 2)\n{IF_ON}    net = torch.compile(net)\n"
    wanted = cleaned(main, "net").replace("net = nn.Linear(2, 2)\n", guard)
    assert gated == f"import os\n\n{wanted}"


ASKED = {
    "the function is called otherwise": (
        lambda text: text.replace("def train", "def fit"),
        "`net` of `train` is no longer constructed there; main has learner.py:7",
    ),
    "the parameter is called otherwise": (
        lambda text: text.replace("net", "model"),
        "`net` of `train` is not where it was: main has no `net` in it any more (learner.py:5)",
    ),
    "what it stood behind is gone": (
        lambda text: text.replace(
            "    optimizer = torch.optim.Adam(net.parameters())\n", ""
        ).replace("return optimizer", "return net"),
        "what stood in front of `net = torch.compile(net)` is not there any more (learner.py:8)",
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_has_no_sure_place_is_asked_and_never_left_out(name):
    moved_on, why = ASKED[name]
    line, added = "optimizer = torch.optim.Adam(net.parameters())", "net = torch.compile(net)\n"
    experiment = cleaned(behind(TRAIN, line, added), "net")
    before, after = {PATH: TRAIN.encode()}, {PATH: experiment.encode()}
    lesson = learn(before, after, Wrapper())
    onto = {PATH: parse_source(PATH, moved_on(TRAIN).encode())}
    parent = {PATH: parse_source(PATH, before[PATH])}
    placed, [ask] = place_seeds(onto, lesson, before=parent)
    assert (placed, ask.action, ask.reasons) == ((), "ask", (why,))
    placed, decided = place_seeds(onto, lesson, {ask.key: "rewrite"}, before=parent)
    if ask.line:
        assert ([one.call for one in placed], decided) == (["torch.compile($X)"], ())
    else:
        nothing = "answered `rewrite`, and nothing is there that could be wrapped"
        assert (placed, decided[0].reasons) == ((), (nothing, why))


NESTED = SwitchPlan.model_validate(
    {
        "module": "config.py",
        "root": "Config",
        "key": "compile",
        "class": "CompileConfig",
        "gate": "compile.trainer.enabled",
        "options": ["mode"],
        "sections": [
            {
                "key": "trainer",
                "class": "CompileTrainer",
                "fields": [
                    {"name": "enabled", "type": "bool", "default": False},
                    {"name": "mode", "type": "str", "default": "default"},
                ],
            }
        ],
    }
)
OPTIONS = {
    'net = torch.compile(net, mode="max-autotune", fullgraph=True)\n': (
        "net = torch.compile(net, fullgraph=True, **compile_kwargs)\n"
    ),
    "net = torch.compile(net).to('cpu')\n": (
        "net = torch.compile(net, **compile_kwargs).to('cpu')\n"
    ),
    "if hasattr(torch, 'compile'):\n    net = torch.compile(net)\n": (
        "if hasattr(torch, 'compile'):\n    net = torch.compile(net, **compile_kwargs)\n"
    ),
    "net.compile(mode='max-autotune')\n": "net.compile(**compile_kwargs)\n",
}


@pytest.mark.parametrize("added", OPTIONS)
def test_the_options_that_the_config_decides_go_into_the_added_call(added):
    base = TRAIN.replace("queue):", "queue, config: Config):").replace(
        "from torch", "from config import Config\nfrom torch"
    )
    line = '"""Train."""'
    receivers = () if added.startswith("net.compile") else ("net",)
    experiment = cleaned(behind(base, line, added), *receivers)
    asked, _, gated = ported(base, experiment, base, switch=NESTED)
    guard = (
        "if config.compile.trainer.enabled:\n"
        "    compile_kwargs = dict(\n        mode=config.compile.trainer.mode,\n    )\n"
    )
    assert asked == []
    assert gated == cleaned(behind(base, line, guard + indent(OPTIONS[added], "    ")), *receivers)


FILLED = {
    "[nn.Linear(n, 1) for _ in range(2)]": (
        "self.nets",
        "[]\n        for _ in range(3):\n            self.nets.append(nn.Linear(n, 1))",
    ),
    '{key: nn.Linear(n, 1) for key in "ab"}': (
        "self.nets.values()",
        '{}\n        for key in "ab":\n            self.nets[key] = nn.Linear(n, 1)',
    ),
}


@pytest.mark.parametrize("made", FILLED)
def test_a_container_that_main_fills_by_hand_is_still_the_experiments(made):
    over, filled = FILLED[made]
    base = AGENT.replace("[nn.Linear(n, 1) for _ in range(2)]", made).replace(
        "return self.net.state_dict()", f"return [net.state_dict() for net in {over}]"
    )
    experiment = cleaned(base.replace("nn.Linear(n, 1)", "torch.compile(nn.Linear(n, 1))"), "net")
    asked, plain, _ = ported(base, experiment, base.replace(made, filled))
    assert asked == []
    wrapped = made.replace("nn.Linear(n, 1)", "torch.compile(nn.Linear(n, 1))")
    filled = filled.replace("nn.Linear(n, 1)", "torch.compile(nn.Linear(n, 1))")
    assert plain == experiment.replace(wrapped, filled)


def test_what_a_cached_property_makes_now_is_asked_with_its_line_and_wrapped_there():
    base = AGENT.replace("self.nets = [nn.Linear(n, 1) for _ in range(2)]", "self.n = n")
    experiment = cleaned(
        base.replace("nn.Linear(n, n)", "torch.compile(nn.Linear(n, n))"), "self.net"
    )
    experiment = cleaned(experiment, "agent.net")
    method = "    @cached_property\n    def net(self):\n        return nn.Linear(self.n, self.n)\n"
    main = base.replace("        self.net = nn.Linear(n, n)\n", "").replace(
        "    def setup", f"{method}\n    def setup"
    )
    lesson = learn({PATH: base.encode()}, {PATH: experiment.encode()}, Wrapper())
    onto = {PATH: parse_source(PATH, main.encode())}
    parent = {PATH: parse_source(PATH, base.encode())}
    placed, [ask] = place_seeds(onto, lesson, before=parent)
    assert (placed, ask.line, ask.text) == ((), 11, "nn.Linear(self.n, self.n)")
    [placed], decided = place_seeds(onto, lesson, {ask.key: "rewrite"}, before=parent)
    wrapped = apply_edits(onto[PATH], port_edits(onto[PATH], (), [placed], lesson)).decode()
    assert decided == ()
    assert "        return torch.compile(nn.Linear(self.n, self.n))\n" in wrapped


def test_an_import_comes_along_with_the_unexplained_code_that_needs_it():
    experiment = "import logging\n" + behind(
        cleaned(behind(TRAIN, '"""Train."""', "net = torch.compile(net)\n"), "net"),
        "optimizer = torch.optim.Adam(net.parameters())",
        'logging.info("compiled")\n',
    )
    lesson = learn({PATH: TRAIN.encode()}, {PATH: experiment.encode()}, Wrapper())
    merged = parse_source(PATH, lesson.residual[PATH])
    assert "logging" in merged.text
    assert "import" not in merged.text.replace(IMPORTS, "")
    made = apply_edits(merged, port_edits(merged, (), (), lesson)).decode()
    assert made == merged.text.replace("nn\n", "nn\nimport logging\n", 1)


LOSS = (
    "import torch\n\n\ndef loss(x, y):\n    return (x - y).pow(2).mean()\n\n\n"
    "class Head:\n    def forward(self, x):\n        return x\n\n"
    "    def size(self):\n        return 1\n"
)
DECORATED = {
    "@torch.compile\ndef loss": (
        "mean()\n",
        f"mean()\n\n\n{IF_ON}    loss = torch.compile(loss)\n",
    ),
    "@torch.compile(dynamic=True)\n    def forward": (
        "return x\n",
        f"return x\n\n    {IF_ON}        forward = torch.compile(forward, dynamic=True)\n",
    ),
}


@pytest.mark.parametrize("decorated", DECORATED)
def test_a_decorator_is_a_guard_behind_its_function_where_the_environment_is_asked(decorated):
    experiment = LOSS.replace(decorated.rpartition("\n")[2].strip(), decorated)
    main = LOSS.replace("return 1", "return 2")
    asked, plain, gated = ported(LOSS, experiment, main)
    assert asked == []
    assert plain == experiment.replace("return 1", "return 2")
    end, guard = DECORATED[decorated]
    assert gated == "import os\n\n" + main.replace(end, guard)


RENAMED = {
    "loss": (LOSS.replace("def loss", "def mse"), (4, "def mse("), "the same body as `mse` now"),
    "forward": (
        LOSS.replace("class Head", "class Tail"),
        (9, "def forward("),
        "main has learner.py:9",
    ),
}


@pytest.mark.parametrize("name", RENAMED)
def test_a_decorated_function_that_main_renamed_is_asked_and_never_left_out(name):
    main, place, why = RENAMED[name]
    experiment = LOSS.replace(f"def {name}", f"@torch.compile\n    def {name}")
    experiment = experiment.replace("\n    def loss", "\ndef loss")
    lesson = learn({PATH: LOSS.encode()}, {PATH: experiment.encode()}, Wrapper())
    onto = {PATH: parse_source(PATH, main.encode())}
    parent = {PATH: parse_source(PATH, LOSS.encode())}
    placed, [ask] = place_seeds(onto, lesson, before=parent)
    assert (placed, ask.line, ask.text.startswith(place[1])) == ((), place[0], True)
    assert why in ask.reasons[0]
    placed, _ = place_seeds(onto, lesson, {ask.key: "rewrite"}, before=parent)
    edits = port_edits(onto[PATH], (), placed, lesson)
    line = main.splitlines()[place[0] - 1]
    lead = line[: len(line) - len(line.lstrip())]
    wanted = main.replace(f"{line}\n", f"{lead}@torch.compile\n{line}\n")
    assert apply_edits(onto[PATH], edits).decode() == wanted


GIVEN = IMPORTS + "def main(queue):\n    agent = Agent(nn.Linear(2, 2))\n    queue.put(agent)\n"


@pytest.mark.parametrize(
    ("main", "asked"),
    [
        (GIVEN.replace("(2, 2)", "(2, 3)"), None),
        (GIVEN.replace("Agent(", "Agent(net="), None),
        (GIVEN + "    critic = nn.Linear(5, 5)\n    queue.put(critic)\n", None),
        (GIVEN.replace("agent = Agent(nn.Linear(2, 2))", "agent = Agent()"), "gone"),
        (GIVEN.replace("agent = ", "other = ").replace("2, 2", "2, 3"), (6, "nn.Linear(2, 3)")),
        (GIVEN.replace("def main", "def run"), (6, "nn.Linear(2, 2)")),
    ],
)
def test_an_argument_is_wrapped_with_other_arguments_and_asked_in_another_function(main, asked):
    wrapped = "torch.compile(nn.Linear(2, 2))"
    experiment = GIVEN.replace("nn.Linear(2, 2)", wrapped)
    lesson = learn({PATH: GIVEN.encode()}, {PATH: experiment.encode()}, Wrapper())
    onto = {PATH: parse_source(PATH, main.encode())}
    parent = {PATH: parse_source(PATH, GIVEN.encode())}
    placed, asks = place_seeds(onto, lesson, before=parent)
    open_ = [(ask.line, ask.text) for ask in asks if ask.action == "ask"]
    assert open_ == ([asked] if isinstance(asked, tuple) else [])
    made = apply_edits(onto[PATH], port_edits(onto[PATH], (), placed, lesson)).decode()
    assert ("torch.compile(nn.Linear(2, " in made) == (asked is None)


def test_behind_one_statement_the_guard_comes_before_the_helper(make_repo):
    base = (
        IMPORTS.rstrip("\n")
        + "\n\nnet = nn.Linear(2, 2)\n\n\ndef save():\n    return net.state_dict()\n"
    )
    helper = 'def clean(net):\n    return getattr(net, "_orig_mod", net).state_dict()\n'
    experiment = (
        base.replace("nn.Linear(2, 2)", "torch.compile(nn.Linear(2, 2))")
        .replace("net.state_dict()", "clean(net)")
        .replace("def save", f"{helper}\n\ndef save")
    )
    repo = make_repo({PATH: base})
    repo.switch("exp", "main")
    commit = repo.commit({PATH: experiment}, "Compile the network")
    repo.switch("main")
    plan = f"name: x\nexperiment: {{branch: exp, commits: [{commit}]}}\n"
    plan += "switch: {idiom: env, name: compile_model}\n"
    repo.commit({"patches/x/port.yaml": plan}, "moved on")
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        applied = apply(opened, plan, onto="main", progress=lambda step: None)
    assert applied.outcome == "created"
    built = "net = nn.Linear(2, 2)\n"
    wanted = base.replace(
        f"{built}\n\ndef save",
        f"{built}{IF_ON}    net = torch.compile(net)\n\n\n{helper}\n\ndef save",
    ).replace("return net.state_dict()", "return clean(net)")
    assert repo.show("port/x", PATH).decode() == f"import os\n\n{wanted}"
