"""`porttool init`: what it drafts is a plan that works, and what it did not find is said."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from typer.testing import CliRunner

from porttool.apply import apply
from porttool.cli import app
from porttool.demo import write_demo
from porttool.drafting.draft import draft_port
from porttool.drafting.origin import port_name
from porttool.drafting.text import port_text
from porttool.drafting.writing import write_draft
from porttool.errors import NeedsPerson, PlanError, RepositoryError
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.schemas import port_schema

CASES = Path(__file__).parent / "cases" / "ports"
TRAINER = "src/coolrl_lost_cities/games/classic/deep_cfr/trainer.py"

HELPER = """def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


"""
TRAIN = """import torch
from torch import nn
{imports}

class Learner:
    def __init__(self{parameter}):
        self.net = nn.Linear({width}, 3)

    def save(self):
        return self.net.state_dict()
"""
PUSH = "\n    def push(self, queue):\n        queue.put(self.net.state_dict())\n"
PARSER = """import argparse

from train import Learner


def parse(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=4)
    return parser.parse_args(argv)


if __name__ == "__main__":
    print(Learner(parse()).save())
"""
TWO_SETTINGS = """import argparse

import torch
import yaml
from torch import nn


def parse(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=4)
    return parser.parse_args(argv)


def build(args):
    with open("run.yaml") as file:
        config = yaml.safe_load(file)
    net = nn.Linear(4, args.width)
    print(config["width"])
    return net.state_dict()


if __name__ == "__main__":
    print(build(parse()))
"""
CLASS = "from dataclasses import dataclass\n\n\n@dataclass\nclass Run:\n    width: int = 4\n"
SECTIONS = """from dataclasses import dataclass, field


@dataclass
class ModelSettings:
    width: int = 4


@dataclass
class Settings:
    model: ModelSettings = field(default_factory=ModelSettings)
"""


def train(imports="", parameter="", width="4"):
    return TRAIN.format(imports=imports, parameter=parameter, width=width)


# What the project has, and what of the switch is drafted.
IDIOMS = {
    "argparse": (
        {"main.py": PARSER, "train.py": train("", ", args", "args.width")},
        {"idiom": "argparse", "module": "main.py", "root": "parse.parser"},
    ),
    "dataclass": (
        {
            "conf.py": CLASS,
            "train.py": train("from conf import Run\n", ", config: Run", "config.width"),
        },
        {"idiom": "dataclass", "module": "conf.py", "root": "Run"},
    ),
    "sections": (
        {
            "conf.py": SECTIONS,
            "default.yaml": "model:\n  width: 4\n",
            "train.py": train("from conf import Settings\n", ", s: Settings", "s.model.width"),
        },
        {
            "module": "conf.py",
            "root": "Settings",
            "class": "CompileSettings",
            "gate": "compile.train.enabled",
            "yaml": ["default.yaml"],
        },
    ),
    "dict": (
        {"train.py": train('\nCONFIG = {"width": 4}\n', "", 'CONFIG["width"]')},
        {"idiom": "dict", "module": "train.py", "root": "CONFIG"},
    ),
    "a dict that is loaded": (
        {
            "main.py": "import yaml\nfrom train import Learner\n\n"
            'print(Learner(yaml.safe_load(open("run.yaml"))).save())\n',
            "train.py": train("", ", config: dict", 'config["width"]'),
            "run.yaml": "width: 4\n",
        },
        {"idiom": "dict", "yaml": ["run.yaml"]},
    ),
    "hydra": (
        {
            "train.py": train(
                "from omegaconf import DictConfig\n", ", cfg: DictConfig", "cfg.width"
            ),
            "main.py": "import hydra\nfrom train import Learner\n\n"
            '@hydra.main(config_path="conf", config_name="base")\ndef main(cfg):\n'
            "    Learner(cfg)\n",
            "conf/base.yaml": "width: 4\n",
        },
        {"idiom": "hydra", "yaml": ["conf/base.yaml"]},
    ),
    "environment": (
        {"train.py": train("", ", width", "width")},
        {"idiom": "env", "name": "compile_model", "env": "COMPILE_MODEL"},
    ),
}


def compiled(text):
    """Return what an experiment makes of a trainer: one network compiled, its keys cleaned."""
    [line] = [line for line in text.splitlines() if "nn.Linear(" in line]
    new = text.replace(line, line.replace("nn.Linear(", "torch.compile(nn.Linear(") + ")")
    new = new.replace("return self.net.state_dict()", "return _clean_state_dict(self.net)")
    return new.replace("class Learner", HELPER + "class Learner", 1)


def stale(make_repo, files, experiment=None, branch="experiments/compile"):
    """Return a repository whose main has moved on, and that has no port."""
    repo = make_repo(files)
    repo.switch(branch, "main")
    repo.commit(experiment or {"train.py": compiled(files["train.py"])}, "Compile the network")
    repo.switch("main")
    repo.commit({"train.py": files["train.py"] + PUSH}, "Push weights")
    return repo


def drafted(repo, revision="experiments/compile", **options):
    options = {"onto": None, "name": None, "progress": lambda step: None, **options}
    with open_repository(repo.path) as opened:
        draft = draft_port(opened, revision, **options)
        write_draft(opened, draft)
        return draft


def plan_of(repo, name="compile"):
    return YAML(typ="safe").load(repo.path / f"patches/{name}/port.yaml")


def dry_run(repo, name="compile"):
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / f"patches/{name}/port.yaml")
        return apply(opened, plan, onto=plan.onto, dry_run=True, progress=lambda step: None)


@pytest.mark.parametrize("kind", IDIOMS)
def test_a_drafted_plan_ports_behind_a_switch_in_the_projects_own_idiom(make_repo, kind):
    files, wanted = IDIOMS[kind]
    repo = stale(make_repo, files)
    drafted(repo)
    switch = plan_of(repo)["switch"]
    assert {key: switch.get(key) for key in wanted} == wanted
    assert list(Draft202012Validator(port_schema()).iter_errors(plan_of(repo))) == []
    applied = dry_run(repo)
    assert (applied.outcome, applied.report.proof.holds) == ("dry-run", True)
    [seed] = applied.report.seeds
    assert seed.form == "guard"
    assert len(applied.report.sites) == 2


def test_every_choice_has_a_comment_and_editors_find_the_schema(make_repo):
    repo = stale(make_repo, IDIOMS["sections"][0])
    drafted(repo)
    lines = (repo.path / "patches/compile/port.yaml").read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=../port.schema.json"
    assert (repo.path / "patches/port.schema.json").is_file()
    looks = [line for line in lines if "# look: " in line]
    for key in ("  key: compile", "    - key: train", "  yaml: [default.yaml]", "  timeout_s: 900"):
        assert any(line.startswith(key) for line in looks), key
    for key in ("variants", "precondition", "patches", "exclude"):
        assert any(line.startswith(f"# {key}:") for line in lines), key
    assert "  # run:" in lines


def test_the_demos_port_is_drafted_again(tmp_path):
    write_demo(tmp_path / "demo")
    written = YAML(typ="safe").load(tmp_path / "demo/patches/torch-compile/port.yaml")
    for command in (["rm", "-rq", "patches"], ["commit", "--quiet", "-m", "no port"]):
        subprocess.run(["git", *command], cwd=tmp_path / "demo", check=True)
    with open_repository(tmp_path / "demo") as repo:
        draft = draft_port(
            repo, "experiments/torch-compile", onto=None, name=None, progress=lambda step: None
        )
        write_draft(repo, draft)
        plan = load_plan(tmp_path / "demo/patches/torch-compile/port.yaml")
        applied = apply(repo, plan, onto="main", dry_run=True, progress=lambda step: None)
    made = YAML(typ="safe").load(tmp_path / "demo/patches/torch-compile/port.yaml")
    for key in ("module", "root", "key", "class", "gate", "yaml"):
        assert made["switch"][key] == written["switch"][key], key
    assert made["experiment"] == {k: written["experiment"][k] for k in ("branch", "commits")}
    assert [check["name"] for check in made["verify"]["checks"]][:1] == ["ruff"]
    assert made["verify"]["pythonpath"] == ["src"]
    assert (applied.outcome, applied.report.proof.holds) == ("dry-run", True)
    assert {seed.path for seed in applied.report.seeds} == {TRAINER}


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def case(make_repo, name):
    base, main, experiment = (files_of(CASES / name / s) for s in ("base", "main", "experiment"))
    repo = make_repo(base)
    for branch, files in (("experiments/it", experiment), ("moved", main)):
        repo.switch(branch, "main")
        gone = {path: None for path in base if path not in files}
        repo.commit({**files, **gone}, f"what {branch} is")
    repo.git("branch", "--force", "trunk", "moved")
    return repo


@pytest.mark.parametrize(
    ("name", "callee", "objects"),
    [
        ("data_parallel", "torch.nn.DataParallel", 1),
        ("jit_script", "torch.jit.script", 1),
        ("41_module_list", "torch.compile", 2),
        ("dict_of_networks", "torch.compile", 2),
        ("distributed_data_parallel", "torch.nn.parallel.DistributedDataParallel", 1),
    ],
)
def test_the_wrapper_is_found_in_the_diff(make_repo, name, callee, objects):
    repo = case(make_repo, name)
    draft = drafted(repo, "experiments/it", onto="trunk")
    assert (draft.learned[0].callee, draft.learned[0].num_seeds) == (callee, objects)
    assert plan_of(repo, "it")["wrapper"]["callee"] == callee


@pytest.mark.parametrize(
    ("name", "callee", "outcome"),
    [
        ("ema_in_one_file", "train.EMA", "dry-run"),
        ("ema_relative", "project.ema.EMA", "dry-run"),
    ],
)
def test_a_wrapper_of_the_projects_own_is_told_from_its_class(make_repo, name, callee, outcome):
    repo = case(make_repo, name)
    draft = drafted(repo, "experiments/it", onto="trunk")
    assert plan_of(repo, "it")["wrapper"] == {
        "callee": callee,
        "unwrap": "model",
        "prefix": "model.",
    }
    looks = [line for line in port_text(draft).splitlines() if "# look: " in line]
    assert [line for line in looks if line.startswith(("  unwrap:", "  prefix:"))] != []
    assert dry_run(repo, "it").outcome == outcome


def test_a_switch_that_apply_would_refuse_is_said_in_the_draft(make_repo):
    """The file says what to do, and each of the two ways makes `apply --dry-run` work."""
    away = "class Away:\n    def __init__(self, net):\n        self.inner = net\n"
    config = train("from conf import Run\n", ", config: Run", "config.width")
    away_from = "from away import Away\n" + config
    wrapped = away_from.replace("nn.Linear(config.width, 3)", "Away(nn.Linear(config.width, 3))")
    wrapped = wrapped.replace("self.net.state_dict()", "self.net.inner.state_dict()")
    files = {"conf.py": CLASS, "away.py": away, "train.py": config}
    repo = stale(make_repo, files, {"train.py": wrapped})
    draft = drafted(repo)
    with pytest.raises(NeedsPerson, match="cannot be put in front of 1 object") as caught:
        dry_run(repo)
    assert "with `from away import Away` on onto it could" in caught.value.why
    assert draft.refused.endswith(caught.value.why)
    assert f"apply will stop: {draft.refused}" in draft.lines
    plan = repo.path / "patches/compile/port.yaml"
    text = plan.read_text()
    said = " ".join(line.removeprefix("# ") for line in text.splitlines() if line[:2] == "# ")
    assert f"apply will stop: {draft.refused}. Change that on main, and commit it." in said
    plan.write_text(re.sub(r"^switch:\n(  .*\n)*", "", text, flags=re.MULTILINE))
    assert dry_run(repo).outcome == "dry-run"
    plan.write_text(text)
    repo.commit({"train.py": away_from + PUSH}, "Import it")
    assert dry_run(repo).outcome == "dry-run"


def test_what_the_dry_run_asks_is_counted_with_the_switch(make_repo):
    asked = "\n\ndef send(net, queue):\n    queue.put(net.state_dict())\n"
    files, _ = IDIOMS["dataclass"]
    repo = stale(make_repo, files)
    repo.commit({"train.py": files["train.py"] + asked}, "Send weights")
    draft = drafted(repo)
    assert (draft.num_open, draft.refused) == (1, "")
    assert len(dry_run(repo).report.asks) == 1


def test_a_wrapper_that_nothing_tells_of_is_no_guess(make_repo):
    files = {"train.py": train(), "away.py": "class Away:\n    def __init__(self, *nets): ...\n"}
    wrapped = files["train.py"].replace("nn.Linear(4, 3)", "Away(nn.Linear(4, 3))")
    repo = stale(make_repo, files, {"train.py": f"from away import Away\n{wrapped}"})
    draft = drafted(repo)
    text = port_text(draft)
    assert {"wrapper", "switch"} & set(plan_of(repo)) == set()
    assert draft.learned == ()
    assert [one.callee for one in draft.possible] == ["away.Away"]
    assert re.search(
        r"train.py:\d+ puts away.Away around nn.Linear\(4, 3\).\n# wrapper:\n#   callee: away.Away",
        text,
    )


def test_which_settings_is_a_persons_choice(make_repo):
    two = train("from conf import Run\n", ", config: Run, args: Run", "config.width + args.width")
    repo = stale(make_repo, {"conf.py": CLASS, "train.py": two})
    draft = drafted(repo)
    assert plan_of(repo)["switch"]["idiom"] == "env"
    [doubt] = draft.proposal.doubts
    assert "several objects could hold the switch: `config`, `args`" in doubt
    assert f"# {doubt}." in port_text(draft)


def test_what_declares_its_settings_goes_before_a_dict_that_was_loaded(make_repo):
    repo = make_repo({"train.py": TWO_SETTINGS, "run.yaml": "width: 4\n"})
    repo.switch("experiments/compile", "main")
    plain = "nn.Linear(4, args.width)"
    wrapped = TWO_SETTINGS.replace(plain, f"torch.compile({plain})")
    repo.commit(
        {"train.py": wrapped.replace("net.state_dict()", "net._orig_mod.state_dict()")}, "Compile"
    )
    repo.switch("main")
    repo.commit({"other.py": ""}, "Go on")
    draft = drafted(repo)
    switch = plan_of(repo)["switch"]
    assert (switch["idiom"], switch["root"]) == ("argparse", "parse.parser")
    assert "several objects could hold the switch: `args`, `config`" in draft.proposal.doubts[0]
    assert dry_run(repo).outcome == "dry-run"


def test_a_name_that_is_taken_gives_way(make_repo):
    taken = CLASS + '    compile_model: str = "resnet"\n'
    config = train("from conf import Run\n", ", config: Run", "config.width")
    repo = stale(make_repo, {"conf.py": taken, "train.py": config})
    drafted(repo)
    assert plan_of(repo)["switch"]["name"] == "torch_compile"
    assert dry_run(repo).outcome == "dry-run"


def test_tests_that_load_what_is_ported_are_checks(make_repo):
    files = {
        **IDIOMS["dataclass"][0],
        "pyproject.toml": "[tool.ruff]\nline-length = 100\n",
        "tests/test_train.py": "import train\n\ndef test_it():\n    assert train\n",
        "tests/test_far.py": "import far\n",
        "far.py": "import train\n",
        "tests/test_conf.py": "import conf\n",
        "tests/broken_test.py": "def (:\n",
    }
    repo = stale(make_repo, files)
    drafted(repo)
    assert plan_of(repo)["verify"]["checks"] == [
        {"name": "ruff", "command": ["ruff", "check", "."]},
        {
            "name": "tests",
            "command": ["python", "-m", "pytest", "-q", "tests/test_far.py", "tests/test_train.py"],
        },
    ]


def test_tests_beside_a_source_folder_load_it(make_repo):
    files = {
        "src/lab/__init__.py": "",
        "src/lab/conf.py": CLASS,
        "train.py": "",
        "src/lab/train.py": train("from lab.conf import Run\n", ", run: Run", "run.width"),
        "tests/test_train.py": "from lab.train import Learner\n",
        "tests/test_conf.py": "import lab.conf\n",
    }
    repo = stale(make_repo, files, {"src/lab/train.py": compiled(files["src/lab/train.py"])})
    drafted(repo)
    [tests] = plan_of(repo)["verify"]["checks"]
    assert plan_of(repo)["verify"]["pythonpath"] == ["src"]
    assert tests["command"] == ["python", "-m", "pytest", "-q", "tests/test_train.py"]


def test_an_unpushed_commit_comes_along_as_a_bundle(make_repo, tmp_path):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "remote.git"], check=True)
    repo.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    repo.git("push", "--quiet", "origin", "main")
    drafted(repo)
    assert plan_of(repo)["experiment"]["bundle"] == "experiment.bundle"
    subprocess.run(["git", "clone", "-q", tmp_path / "remote.git", tmp_path / "clone"], check=True)
    folder = tmp_path / "clone/patches/compile"
    folder.mkdir(parents=True)
    for path in (repo.path / "patches/compile").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    with open_repository(tmp_path / "clone") as clone:
        plan = load_plan(folder / "port.yaml")
        applied = apply(clone, plan, onto="main", dry_run=True, progress=lambda step: None)
    assert applied.outcome == "dry-run"
    repo.git("push", "--quiet", "origin", "experiments/compile")
    assert drafted(repo, name="pushed").bundle is None


def test_a_branch_is_all_that_main_lacks_and_a_commit_is_itself(make_repo):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    first = repo.id("experiments/compile")
    repo.switch("experiments/compile")
    second = repo.commit({"notes.txt": "more\n"}, "More")
    repo.switch("main")
    assert [one.id for one in drafted(repo).origin.commits] == [first, second]
    one = drafted(repo, first[:10], name="one")
    assert ([commit.id for commit in one.origin.commits], one.origin.branch) == (
        [first],
        "experiments/compile",
    )
    assert dry_run(repo, "one").outcome == "dry-run"


def test_a_conflict_stops_apply_and_not_the_draft(make_repo):
    files = IDIOMS["dataclass"][0]
    wider = {"conf.py": files["conf.py"].replace("4", "8")}
    repo = stale(make_repo, files, {"train.py": compiled(files["train.py"]), **wider})
    repo.commit({"conf.py": files["conf.py"].replace("4", "6")}, "another width")
    draft = drafted(repo)
    assert plan_of(repo)["switch"]["root"] == "Run"
    assert "conflict" in draft.refused
    assert f"apply will stop: {draft.refused}" in draft.lines
    with pytest.raises(NeedsPerson, match="conflict"):
        dry_run(repo)


def test_nothing_is_overwritten(make_repo):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    drafted(repo)
    before = files_of(repo.path / "patches")
    with pytest.raises(PlanError, match="there is a port `compile` already"):
        drafted(repo)
    assert files_of(repo.path / "patches") == before


def test_what_cannot_be_ported_is_refused_with_a_way_on(make_repo):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    with pytest.raises(RepositoryError, match=r"main has [0-9a-f]{12} already"):
        drafted(repo, "main~1")
    lost = repo.id("experiments/compile")
    repo.git("branch", "-D", "experiments/compile")
    with pytest.raises(RepositoryError, match=r"no branch has the commit[\s\S]*git branch exp"):
        drafted(repo, lost)
    repo.git("branch", "experiments/compile", lost)
    with pytest.raises(PlanError, match=r"`a b` cannot name a port[\s\S]*--name NAME"):
        drafted(repo, name="a b")
    assert not (repo.path / "patches").exists()


def test_words_of_a_commit_stay_in_their_comment(make_repo):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    repo.switch("experiments/compile")
    repo.git("commit", "--quiet", "--amend", "-m", 'x\x1b[31m\u2028wrapper: {callee: evil} # "')
    repo.switch("main")
    drafted(repo)
    plan = load_plan(repo.path / "patches/compile/port.yaml")
    assert plan.wrapper.callee == "torch.compile"
    assert "\x1b" not in (repo.path / "patches/compile/port.yaml").read_text()


def call(folder, *words):
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, words)


def test_the_command_writes_and_says_what_is_next(make_repo):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    shown = call(repo.path, "init", "experiments/compile", "--dry-run")
    assert shown.exit_code == 0
    assert not (repo.path / "patches").exists()
    written = call(repo.path, "init", "experiments/compile")
    first, *_, last = written.stdout.splitlines()
    assert first == "wrote patches/compile/port.yaml: look at the lines that say so"
    assert last == "next: porttool apply compile --dry-run"
    assert (repo.path / "patches/compile/port.yaml").read_text() == shown.stdout
    assert call(repo.path, *last.split()[2:]).exit_code == 0
    refused = call(repo.path, "init", "experiments/compile")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "a draft overwrites nothing" in refused.stderr
    answer = json.loads(call(repo.path, "init", "HEAD~0", "--json").stdout)
    assert (answer["error"], answer["exit_code"]) == ("RepositoryError", 2)


def test_the_answer_as_json_is_what_was_found(make_repo):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    answer = json.loads(call(repo.path, "init", "experiments/compile", "--json").stdout)
    wanted = {
        "port": "compile",
        "wrapper": "torch.compile",
        "objects": 1,
        "rules": 1,
        "switch": "compile_model",
        "open": 0,
        "refused": "",
        "written": ["patches/compile/port.yaml", "patches/port.schema.json"],
    }
    assert {key: answer[key] for key in wanted} == wanted


def test_a_port_needs_a_working_tree(make_repo, tmp_path):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    repo.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare"))
    refused = call(tmp_path / "bare", "init", "experiments/compile")
    assert refused.exit_code == 2
    assert "a port is drafted into a working tree" in refused.stderr


def test_somebodys_own_schema_stays(make_repo):
    repo = stale(make_repo, IDIOMS["dataclass"][0])
    repo.write({"patches/port.schema.json": '{"title": "mine"}'})
    assert drafted(repo).name == "compile"
    assert (repo.path / "patches/port.schema.json").read_text() == '{"title": "mine"}'


@pytest.mark.parametrize(
    ("branch", "name"),
    [
        ("experiments/torch-compile", "torch-compile"),
        ("a/b c", "b-c"),
        ("été/.Ünïcode.", "n-code"),
        ("x/--", "experiment"),
    ],
)
def test_a_port_is_named_after_its_branch(branch, name):
    assert port_name(branch) == name


def test_sources_are_as_they_look():
    """The idioms above are real projects: their trainers parse, with and without the experiment."""
    for files, _ in IDIOMS.values():
        compile(textwrap.dedent(files["train.py"]), "train.py", "exec")
        compile(compiled(files["train.py"]), "train.py", "exec")
