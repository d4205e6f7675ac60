"""A port behind a flat switch, from the plan to the proof, in the idiom that the plan names."""

from __future__ import annotations

import textwrap

import pytest

from porttool.apply import apply
from porttool.errors import NeedsPerson, PlanError
from porttool.git.repo import open_repository
from porttool.learning.lesson import Lesson, Wrapper
from porttool.plan.plan import load_plan
from porttool.plan.switch import FlatSwitch
from porttool.proving.proof import prove_off

PLAN = "name: x\nexperiment: {{branch: exp, commits: [{commit}]}}\nswitch: {switch}\n"
HELPER = """def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


"""
TRAIN = """import torch
from torch import nn
{imports}

class Learner:
    def __init__(self{parameter}):
        self.net = nn.Linear({width}, 3)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def save(self):
        return self.net.state_dict()
"""
PUSH = "\n    def push(self, queue):\n        queue.put(self.net.state_dict())\n"
COMMAND = """import torch
import {tool}
from torch import nn

app = {app}


@{command}
{option}def main({parameters}):
    net = nn.Linear(width, 3)
    return net.state_dict()
"""
GUARD = "        if {test}:\n            self.net = torch.compile(self.net)\n"


def ported(make_repo, files, switch):
    """Port an experiment that compiles the network in train.py; main has gained a weight push."""
    repo = make_repo(files)
    repo.switch("exp", "main")
    old = files["train.py"]
    [line] = [line for line in old.splitlines() if "nn.Linear(" in line]
    new = old.replace(line, line.replace("nn.Linear(", "torch.compile(nn.Linear(") + ")")
    new = new.replace("return self.net.state_dict()", "return _clean_state_dict(self.net)")
    new = new.replace("return net.state_dict()", "return _clean_state_dict(net)")
    head = "class Learner" if "class Learner" in new else "app = "
    new = new.replace(head, HELPER + head, 1)
    commit = repo.commit({"train.py": new}, "Compile the network")
    repo.switch("main")
    plan = PLAN.format(commit=commit, switch=switch)
    push = PUSH if "class Learner" in old else ""
    repo.commit({"train.py": old + push, "patches/x/port.yaml": plan}, "moved on")
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return repo, apply(opened, plan, onto="main", progress=lambda step: None)


def train(imports="", parameter=", config", width="config.width"):
    return TRAIN.format(imports=imports, parameter=parameter, width=width)


MAIN = textwrap.dedent(
    """\
    import argparse

    from train import Learner


    def parse(argv=None):
        parser = argparse.ArgumentParser()
        parser.add_argument("--width", type=int, default=4)
        return parser.parse_args(argv)


    if __name__ == "__main__":
        print(Learner(parse()).save())
    """
)
ACTION = "action=argparse.BooleanOptionalAction"
FLAG = f'    parser.add_argument("--compile-model", {ACTION}, default=False)'
ARGPARSE = {"train.py": train(parameter=", args", width="args.width"), "main.py": MAIN}
CLASS = "from dataclasses import dataclass\n\n\n@dataclass\nclass Run:\n    width: int = 4\n"
DATACLASS = {"conf.py": CLASS, "train.py": train("from conf import Run\n", ", config: Run")}
MODEL = textwrap.dedent(
    """\
    from pydantic import BaseModel, ConfigDict


    class Run(BaseModel):
        model_config = ConfigDict(extra="forbid")
        width: int = 4
    """
)
PYDANTIC = {
    "conf.py": MODEL,
    "conf/run.yaml": "# how wide\nwidth: 4  # neurons\n",
    "train.py": train("from conf import Run\n", ", config: Run"),
}
HYDRA = {
    "train.py": train("from omegaconf import DictConfig\n", ", cfg: DictConfig", "cfg.width"),
    "conf/base.yaml": "width: 4\n",
}
WRITTEN = {"train.py": train('\nCONFIG = {"width": 4}\n', "", 'CONFIG["width"]')}
LOADED = {"train.py": train("", ", config: dict", 'config["width"]'), "run.yaml": "width: 4\n"}
BARE = {"train.py": train("", ", width", "width")}
ABSL = {
    "train.py": train(
        "from absl import flags\n\nFLAGS = flags.FLAGS\nflags.DEFINE_integer('width', 4, 'W.')\n",
        "",
        "FLAGS.width",
    )
}
KINDS = {
    "argparse": (
        ARGPARSE,
        "module: main.py",
        "args.compile_model",
        {"main.py": [FLAG]},
        "nobody reads `--help` or abbreviates a flag of parse.parser in main.py",
    ),
    "dataclass": (
        DATACLASS,
        "module: conf.py, root: Run",
        "config.compile_model",
        {"conf.py": ["    compile_model: bool = False"]},
        "nothing depends on the number of fields of Run; its dumps gain `compile_model`",
    ),
    "pydantic": (
        PYDANTIC,
        "module: conf.py, root: Run, yaml: [conf/run.yaml]",
        "config.compile_model",
        {
            "conf.py": ["    compile_model: bool = False"],
            "conf/run.yaml": ["# how wide", "width: 4  # neurons", "compile_model: false"],
        },
        "nothing depends on the number of fields of Run; its dumps gain `compile_model`",
    ),
    "hydra": (
        HYDRA,
        "yaml: [conf/base.yaml]",
        'OmegaConf.select(cfg, "compile_model", default=False)',
        {
            "conf/base.yaml": ["width: 4", "compile_model: false"],
            "train.py": ["from omegaconf import DictConfig, OmegaConf"],
        },
        "reads `compile_model` of the settings, which is false or not there",
    ),
    "dict": (
        WRITTEN,
        "module: train.py, root: CONFIG",
        'CONFIG["compile_model"]',
        {"train.py": ['CONFIG = {"width": 4, "compile_model": False}']},
        "nothing goes over all entries of CONFIG; it has `compile_model` now",
    ),
    "loaded dict": (
        LOADED,
        "yaml: [run.yaml]",
        'config.get("compile_model", False)',
        {"run.yaml": ["width: 4", "compile_model: false"]},
        "reads `compile_model` of the settings, which is false or not there",
    ),
    "absl": (
        ABSL,
        "module: train.py",
        "FLAGS.compile_model",
        {
            "train.py": [
                "flags.DEFINE_boolean('compile_model', False, 'Compile with torch.compile.')"
            ]
        },
        "they have --compile_model now",
    ),
    "env": (
        BARE,
        "",
        'os.environ.get("COMPILE_MODEL", "0") == "1"',
        {"train.py": ["import os"]},
        "reads the environment variable COMPILE_MODEL, which is not 1 when it is off",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_is_behind_the_planned_switch_and_proven(make_repo, kind):
    files, place, test, declared, assumed = KINDS[kind]
    idiom = kind.rpartition(" ")[2]
    switch = f"{{idiom: {idiom}, name: compile_model, {place}}}"
    repo, applied = ported(make_repo, files, switch)
    assert applied.outcome == "created"
    result = repo.show("port/x", "train.py").decode()
    assert GUARD.format(test=test) in result
    assert result.count("torch.compile") == 1 + result.count("with torch.compile")
    assert "queue.put(_clean_state_dict(self.net))" in result
    for path, lines in declared.items():
        assert set(lines) <= set(repo.show("port/x", path).decode().splitlines())
    proof = applied.report.proof
    assert (proof.holds, proof.tier) == (True, "syntax"), proof.files
    assert any(assumed in text for text in proof.assumes), proof.assumes


def command(tool, app, decorator, option, parameters):
    return COMMAND.format(
        tool=tool, app=app, command=decorator, option=option, parameters=parameters
    )


@pytest.mark.parametrize(
    ("idiom", "text", "lines"),
    [
        pytest.param(
            "typer",
            command("typer", "typer.Typer()", "app.command()", "", "width: int = 4"),
            ["def main(width: int = 4, compile_model: bool = False):"],
            id="typer",
        ),
        pytest.param(
            "click",
            command(
                "click",
                "click.Group()",
                "app.command()",
                '@click.option("--width", default=4)\n',
                "width",
            ),
            [
                '@click.option("--compile-model/--no-compile-model", default=False)',
                "def main(width, compile_model):",
            ],
            id="click",
        ),
    ],
)
def test_a_command_takes_the_switch_as_an_option_and_is_proven(make_repo, idiom, text, lines):
    switch = f"{{idiom: {idiom}, name: compile_model, module: train.py, root: main}}"
    repo, applied = ported(make_repo, {"train.py": text}, switch)
    result = repo.show("port/x", "train.py").decode()
    assert "    if compile_model:\n        net = torch.compile(net)\n" in result
    assert set(lines) <= set(result.splitlines())
    proof = applied.report.proof
    assert proof.holds
    assert any("nobody reads `--help` of main" in text for text in proof.assumes)


@pytest.mark.parametrize(
    ("files", "switch", "error", "told"),
    [
        pytest.param(
            DATACLASS,
            "{idiom: dataclass, module: conf.py, root: Runn, name: on}",
            PlanError,
            r"Runn is no dataclass[\s\S]*write root: Run\b",
            id="root with a slip",
        ),
        pytest.param(
            DATACLASS,
            "{idiom: pydantic, module: conf.py, root: Run, name: on}",
            PlanError,
            r"Run is no pydantic[\s\S]*it is dataclass",
            id="another idiom",
        ),
        pytest.param(
            DATACLASS,
            "{idiom: dataclass, module: conv.py, root: Run, name: on}",
            PlanError,
            "write module: conf.py",
            id="module with a slip",
        ),
        pytest.param(
            {**DATACLASS, "conf.py": CLASS + "    on: bool = True\n"},
            "{idiom: dataclass, module: conf.py, root: Run, name: on}",
            NeedsPerson,
            "`on` is there already .conf.py:7. and is not off",
            id="on already",
        ),
        pytest.param(
            {**ARGPARSE, "main.py": MAIN.replace("--width", "--compile")},
            "{idiom: argparse, module: main.py, name: compile_model}",
            NeedsPerson,
            "begin alike",
            id="flags that begin alike",
        ),
        pytest.param(
            {**ARGPARSE, "main.py": MAIN.replace("Learner(parse())", "Learner(None)")},
            "{idiom: argparse, module: main.py, name: compile_model}",
            NeedsPerson,
            "nothing tells what `args` holds",
            id="arguments from nowhere",
        ),
        pytest.param(
            {**PYDANTIC, "conf/run.yaml": "width: 4\non: true\n"},
            "{idiom: pydantic, module: conf.py, root: Run, name: on, yaml: [conf/run.yaml]}",
            NeedsPerson,
            "has a `on` that is not off",
            id="on in the settings file",
        ),
        pytest.param(
            {**DATACLASS, "train.py": train("from conf import Run\n", ", config: Run, args: Run")},
            "{idiom: dataclass, module: conf.py, root: Run, name: on}",
            NeedsPerson,
            "several objects could hold the switch",
            id="two candidates",
        ),
        pytest.param(
            BARE,
            "{idiom: hydra, name: on}",
            NeedsPerson,
            "no settings that could hold `on` are in scope",
            id="nothing in scope",
        ),
    ],
)
def test_what_cannot_be_declared_or_read_is_refused(make_repo, files, switch, error, told):
    with pytest.raises(error, match=told):
        ported(make_repo, files, switch)


def test_of_several_settings_in_scope_the_plans_are_meant(make_repo):
    repo, _ = ported(
        make_repo,
        {**DATACLASS, "train.py": train("from conf import Run\n", ", config: Run, args")},
        "{idiom: dataclass, module: conf.py, root: Run, name: on}",
    )
    assert "if config.on:" in repo.show("port/x", "train.py").decode()


HELD = {
    "main.py": MAIN.replace("    return parser", f"{FLAG}\n    return parser"),
    "train.py": ARGPARSE["train.py"].replace(
        "        self.optimizer", GUARD.format(test="args.compile_model") + "        self.optimizer"
    ),
}
LESSON = Lesson(Wrapper(), (), (), (), (), {}, (), ("train.py",), ())
FLAT = FlatSwitch(idiom="argparse", module="main.py", name="compile_model")


def proven(**changes):
    """Prove the argparse port with some texts replaced, by path without suffix."""
    branch = dict(HELD)
    for name, (old, new) in changes.items():
        path = f"{name}.py"
        assert branch[path].count(old) == 1
        branch[path] = branch[path].replace(old, new)
    onto = {path: text.encode() for path, text in ARGPARSE.items()}
    files = {path: text.encode() for path, text in branch.items()}
    return prove_off(onto, files, LESSON, FLAT)


def test_the_gated_argparse_port_is_proven():
    proof = proven()
    assert proof.holds
    assert {file.path: file.verdict for file in proof.files} == {
        "main.py": "declaration only",
        "train.py": "identical tree",
    }


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"main": ("default=False", "default=True")}, id="on by default"),
        pytest.param({"main": (f"{ACTION}, ", "type=bool, ")}, id="another type"),
        pytest.param({"main": ("--compile-model", "--compile-models")}, id="another flag"),
        pytest.param({"main": (FLAG, f"{FLAG}\n{FLAG}")}, id="declared twice"),
        pytest.param({"main": (FLAG, f"{FLAG}\n    parser.add_argument('--x')")}, id="one more"),
        pytest.param(
            {
                "main": (
                    f"{FLAG}\n    return parser.parse_args(argv)",
                    f"    found = parser.parse_args(argv)\n{FLAG}\n    return found",
                )
            },
            id="declared too late",
        ),
        pytest.param({"main": ("parse())", "argparse.Namespace(width=4))")}, id="another caller"),
        pytest.param({"train": ("if args.", "if not args.")}, id="the other way round"),
        pytest.param({"train": ("if args.", "if self.args.")}, id="read from something else"),
        pytest.param({"train": ("if args.compile_model", "if args.width")}, id="another setting"),
        pytest.param({"train": ("if args.compile_model:", "if True:")}, id="no gate"),
        pytest.param(
            {"train": ("__init__(self, args):", "__init__(self, args, cfg):")},
            id="another signature",
        ),
    ],
)
def test_a_port_that_is_not_off_is_not_proven(changes):
    assert not proven(**changes).holds


@pytest.mark.parametrize(
    ("switch", "told"),
    [
        ("{idiom: argparse, name: on}", "switch`: argparse needs the file"),
        ("{idiom: argpars, name: on}", "switch.idiom`: has to be 'absl', 'argparse'"),
        (
            "{idiom: argparse, module: a.py, nam: on}",
            "unknown key `switch.nam`; did you mean `name`",
        ),
        ("{idiom: pydantic, module: a.py, name: on}", "pydantic needs the class that declares"),
        ("{idiom: env, name: on, module: a.py}", "module has no meaning for env"),
        ("{idiom: env, name: on, yaml: [a.yaml]}", "env reads no settings file"),
        ("{idiom: hydra, name: on-off}", "switch.name`: not a Python identifier"),
        ("{idiom: dict, name: on}", "dict needs the file that writes it"),
        ("{idiom: hydra}", "`switch.name` is missing"),
        ("{idiom: hydra, name: on, env: ON}", "env has no meaning for hydra"),
        ("{name: on}", "unknown key `switch.name`"),
    ],
)
def test_a_wrong_flat_switch_is_refused_by_key(tmp_path, switch, told):
    path = tmp_path / "port.yaml"
    path.write_text(PLAN.format(commit="a" * 40, switch=switch))
    with pytest.raises(PlanError) as refused:
        load_plan(path)
    assert told in str(refused.value)
    assert "port.yaml:3" in str(refused.value)


def test_the_report_says_which_settings_files_reach_the_switch(make_repo):
    files = {
        **HYDRA,
        "conf/base.yaml": "defaults:\n  - model: small\nwidth: 4\n",
        "conf/other.yaml": "width: 8\ncompile_model: true\n",
        "conf/model/small.yaml": "depth: 1\n",
        "conf/model/all.yaml": "# @package _global_\nwidth: 2\n",
        "main.py": "import hydra\n\nfrom train import Learner\n\n\n"
        '@hydra.main(version_base=None, config_path="conf", config_name="base")\n'
        "def main(cfg):\n    Learner(cfg).save()\n",
    }
    switch = "{idiom: hydra, name: compile_model, yaml: [conf/base.yaml]}"
    _, applied = ported(make_repo, files, switch)
    reach = {file.path: (file.reaches, file.why, file.on) for file in applied.report.gate.reach}
    assert reach == {
        "conf/base.yaml": (True, "main.py starts from it", False),
        "conf/model/all.yaml": (True, "with model=all: its package is _global_", False),
        "conf/model/small.yaml": (False, "its keys end up under `model`, not at the top", False),
        "conf/other.yaml": (True, "with --config-name=other", True),
    }
    assert [look.path for look in applied.report.look_first if look.kind == "hazard"] == [
        "conf/other.yaml"
    ]


def test_a_file_with_other_keys_is_not_read_as_the_class(make_repo):
    files = {
        **PYDANTIC,
        "data.yaml": "names: [a]\n",
        "list.yaml": "- 1\n",
        "main.py": "FILES = 'conf/run.yaml', 'data.yaml', 'list.yaml', 'no.yaml'\n",
    }
    switch = "{idiom: pydantic, module: conf.py, root: Run, name: on}"
    _, applied = ported(make_repo, files, switch)
    reach = {file.path: (file.reaches, file.why) for file in applied.report.gate.reach}
    assert reach == {
        "conf/run.yaml": (True, "its default is off"),
        "data.yaml": (False, "`names` is no field of Run, so it is not read as one"),
        "list.yaml": (False, "it is not a mapping"),
    }


def test_a_switch_that_is_there_already_is_used_and_not_declared_again(make_repo):
    files = {**ARGPARSE, "main.py": MAIN.replace("    return", f"{FLAG}\n    return")}
    switch = "{idiom: argparse, module: main.py, name: compile_model}"
    repo, applied = ported(make_repo, files, switch)
    assert applied.report.proof.holds
    assert repo.show("port/x", "main.py").decode() == files["main.py"]
    assert GUARD.format(test="args.compile_model") in repo.show("port/x", "train.py").decode()


def test_a_switch_that_decides_something_already_is_off_on_both_sides(make_repo):
    text = ARGPARSE["train.py"].replace(
        "        self.net =",
        "        if args.compile_model:\n            print('on')\n        self.net =",
    )
    files = {"train.py": text, "main.py": MAIN.replace("    return", f"{FLAG}\n    return")}
    switch = "{idiom: argparse, module: main.py, name: compile_model}"
    repo, applied = ported(make_repo, files, switch)
    assert applied.report.proof.holds
    result = repo.show("port/x", "train.py").decode()
    assert GUARD.format(test="args.compile_model") in result
    assert "            print('on')\n" in result


def test_a_variant_turns_the_switch_on_and_is_not_told_as_a_hazard(make_repo):
    switch = (
        "{idiom: pydantic, module: conf.py, root: Run, name: fast, yaml: [conf/run.yaml]}\n"
        "variants: [{path: conf/fast.yaml, from: conf/run.yaml, set: {fast: true}}]"
    )
    repo, applied = ported(make_repo, PYDANTIC, switch)
    variant = repo.show("port/x", "conf/fast.yaml").decode()
    assert variant == "# how wide\nwidth: 4  # neurons\nfast: true\n"
    assert {file.path: (file.why, file.on) for file in applied.report.gate.reach} == {
        "conf/fast.yaml": ("it turns the switch on", False),
        "conf/run.yaml": ("it shows the switch, off", False),
    }
    assert not [look for look in applied.report.look_first if look.kind == "hazard"]


def test_options_of_the_call_stay_in_the_call_form(make_repo):
    built = "import torch\nfrom torch import nn\n\n\ndef build(args):\n    return {}\n"
    caller = MAIN.replace("import Learner", "import build")
    files = {
        "train.py": built.format("nn.Linear(args.width, 3)"),
        "main.py": caller.replace("Learner(parse()).save()", "build(parse())"),
    }
    repo = make_repo(files)
    repo.switch("exp", "main")
    wrapped = "torch.compile(nn.Linear(args.width, 3), dynamic=True)"
    commit = repo.commit({"train.py": built.format(wrapped)}, "Compile the network")
    repo.switch("main")
    switch = "{idiom: argparse, module: main.py, name: on}"
    plan = PLAN.format(commit=commit, switch=switch)
    repo.commit({"README.md": "x\n", "patches/x/port.yaml": plan}, "moved on")
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        applied = apply(opened, plan, onto="main", progress=lambda step: None)
    assert applied.report.proof.holds
    result = repo.show("port/x", "train.py").decode()
    assert "def _gated(wrap, module, enabled, **options):" in result
    line = "    return _gated(torch.compile, nn.Linear(args.width, 3), args.on, dynamic=True)"
    assert line in result.splitlines()


SETTINGS = {
    "dataclass": FlatSwitch(idiom="dataclass", module="conf.py", root="Run", name="on"),
    "hydra": FlatSwitch(idiom="hydra", name="on"),
    "env": FlatSwitch(idiom="env", name="on"),
    "dict": FlatSwitch(idiom="dict", module="train.py", root="CONFIG", name="on"),
}
SELECT = 'OmegaConf.select(cfg, "on", default=False)'
ENVIRON = 'os.environ.get("ON", "0") == "1"'


def behind(kind, test, *edits):
    """Prove a port of one kind that is gated by `test`, its texts replaced by `edits`."""
    onto = {path: text.encode() for path, text in KINDS[kind][0].items() if path.endswith(".py")}
    guard = GUARD.format(test=test)
    branch = {path: data.decode() for path, data in onto.items()}
    branch["train.py"] = branch["train.py"].replace("        self.opt", f"{guard}        self.opt")
    for path, old, new in edits:
        assert branch[path].count(old) == 1, (path, old)
        branch[path] = branch[path].replace(old, new)
    files = {path: text.encode() for path, text in branch.items()}
    return prove_off(onto, files, LESSON, SETTINGS[kind]).holds


FIELD = ("conf.py", "    width: int = 4\n", "    width: int = 4\n    on: bool = False\n")
IMPORTED = ("train.py", "import DictConfig", "import DictConfig, OmegaConf")
OS = ("train.py", "import torch\n", "import os\nimport torch\n")
ASSIGNED = ("train.py", "\n\nclass", '\nCONFIG["on"] = True\n\nclass')
ENTRY = ("train.py", '{"width": 4}', '{"width": 4, "on": False}')


@pytest.mark.parametrize(
    ("kind", "test", "edits"),
    [
        ("dataclass", "config.on", [FIELD]),
        ("hydra", SELECT, [IMPORTED]),
        ("env", ENVIRON, [OS]),
        ("dict", 'CONFIG["on"]', [ENTRY]),
    ],
)
def test_each_kind_is_proven_as_declared(kind, test, edits):
    assert behind(kind, test, *edits)


@pytest.mark.parametrize(
    ("kind", "test", "edits"),
    [
        ("dataclass", "config.on", []),
        ("dataclass", "config.width", [FIELD]),
        ("dataclass", "config.on", [(*FIELD[:2], FIELD[2].replace("False", "True"))]),
        ("dataclass", "config.on", [(*FIELD[:2], FIELD[2].replace("bool", "int"))]),
        ("dataclass", "config.on", [(*FIELD[:2], "    on: bool = False\n    width: int = 4\n")]),
        ("dataclass", "config.on or config.width", [FIELD]),
        ("dataclass", "self.on", [FIELD]),
        ("hydra", SELECT, []),
        ("hydra", SELECT.replace("False", "True"), [IMPORTED]),
        ("hydra", SELECT.replace('"on"', '"width"'), [IMPORTED]),
        ("hydra", SELECT.replace("cfg", "self"), [IMPORTED]),
        ("hydra", "cfg.on", [IMPORTED]),
        ("hydra", f"not {SELECT}", [IMPORTED]),
        ("env", ENVIRON, []),
        ("env", ENVIRON.replace('"0"', '"1"'), [OS]),
        ("env", ENVIRON.replace("==", "!="), [OS]),
        ("env", ENVIRON.replace('"ON"', '"PATH"'), [OS]),
        ("env", ENVIRON, [(*OS[:2], "import sys as os\nimport torch\n")]),
        ("dict", 'CONFIG["on"]', []),
        ("dict", 'CONFIG["on"]', [(*ENTRY[:2], '{"width": 4, "on": True}')]),
        ("dict", 'CONFIG["on"]', [(*ENTRY[:2], '{"on": False, "width": 4}')]),
        ("dict", 'CONFIG["on"]', [ENTRY, ASSIGNED]),
    ],
)
def test_each_kind_is_not_proven_when_it_is_anything_else(kind, test, edits):
    assert not behind(kind, test, *edits)
