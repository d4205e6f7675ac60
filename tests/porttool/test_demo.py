"""The stale experiment that comes with the tool: what it is, and what becomes of it on main."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from porttool.apply import apply
from porttool.cli import main as command_line
from porttool.demo import demo_port, write_demo
from porttool.errors import NeedsPerson, RepositoryError
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan

EXPERIMENT = "experiments/torch-compile"
TRAINER = "src/coolrl_lost_cities/games/classic/deep_cfr/trainer.py"
CONFIG = "src/coolrl_lost_cities/games/classic/deep_cfr/config.py"

GUARD = """\
        if config.compile.trainer.enabled:
            compile_kwargs = dict(
                mode=config.compile.trainer.mode,
                fullgraph=config.compile.trainer.fullgraph,
                dynamic=config.compile.trainer.dynamic,
            )
            self._advantage_networks = [
                torch.compile(net, **compile_kwargs) for net in self._advantage_networks
            ]
            self._strategy_network = torch.compile(self._strategy_network, **compile_kwargs)
"""

# What a person makes of the one conflict: main's shape, the experiment's cleaning.
BY_HAND = """\
        if self._config.traversal.inference_backend == "server":
            networks: list[dict[str, Tensor]] = []
        else:
            networks = [
                _on_cpu(_clean_state_dict(network.state_dict()))
                for network in self._advantage_networks
            ]
            networks += self._opponent_snapshot
        return {"networks": networks}
"""

# Prints which of the things that leave a trainer carry the wrapper's prefix in their keys.
LEAKS = """
import sys
from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

small = ["network.hidden_size=8", "traversal.opponent=frozen", "memory.advantage_capacity=10"]
small += ["memory.strategy_capacity=10", f"run.out={sys.argv[1]}"]
trainer = DeepCFRTrainer(load_config(None, small))
trainer._freeze_opponent()
payload = trainer._worker_payload()["networks"]
snapshot = trainer._evaluation_snapshot()
sent = {
    "payload": payload[:2],
    "opponent snapshot": trainer._opponent_snapshot,
    "evaluation snapshot": [snapshot["average"], *snapshot["current"]],
}
leaking = {name for name, dicts in sent.items() for one in dicts for k in one if "_orig_mod" in k}
print(sorted(leaking))
"""


@pytest.fixture
def demo(tmp_path):
    """The demo's repository, and a function that runs git in it."""
    folder = tmp_path / "demo"
    write_demo(folder)

    def git(*arguments, check=True):
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=check
        )
        return done.stdout.rstrip("\n")

    return folder, git


def run(folder, **options):
    options = {"onto": "main", "progress": lambda step: None, **options}
    with open_repository(folder) as repo:
        return apply(repo, load_plan(folder / "patches/torch-compile/port.yaml"), **options)


def call(*arguments):
    """Run the command line in this process and return its exit code."""
    before = sys.argv
    sys.argv = ["porttool", *map(str, arguments)]
    try:
        command_line()
    except SystemExit as stopped:
        return stopped.code or 0
    finally:
        sys.argv = before
    return 0


def test_the_bundle_holds_the_commit_that_the_plan_names():
    plan = load_plan(demo_port() / "port.yaml")
    listed = subprocess.run(
        ["git", "bundle", "list-heads", str(plan.bundle_path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    heads = dict(zip(listed[1::2], listed[::2], strict=True))
    assert set(heads) == {"refs/heads/main", f"refs/heads/{EXPERIMENT}"}
    assert (heads[f"refs/heads/{EXPERIMENT}"],) == plan.experiment.commits
    assert plan.experiment.commits[0].startswith("05cc02a")


def test_a_plain_cherry_pick_stops_once_and_the_answer_leaks_elsewhere(demo, tmp_path):
    folder, git = demo
    git("cherry-pick", EXPERIMENT, check=False)
    assert git("diff", "--name-only", "--diff-filter=U") == TRAINER
    text = (folder / TRAINER).read_text()
    hunks = re.findall(r"^<<<<<<< .*?^>>>>>>> [^\n]*\n", text, re.DOTALL | re.MULTILINE)
    assert len(hunks) == 1
    (folder / TRAINER).write_text(text.replace(hunks[0], BY_HAND))
    leaks = subprocess.run(
        [sys.executable, "-c", LEAKS, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert leaks.stdout == "['evaluation snapshot', 'opponent snapshot']\n"
    pushes = (folder / TRAINER).read_text().partition("def _push_server_weights")[2]
    assert "_on_cpu(network.state_dict())" in pushes.partition("    def ")[0]


def test_every_site_that_main_gained_is_rewritten(demo):
    folder, _ = demo
    report = run(folder).report
    here = [site for site in report.sites if site.path == TRAINER]
    rewritten = [(site.text, site.known) for site in here if site.action == "rewrite"]
    assert [text for text, known in rewritten if known] == [
        "network.state_dict()",  # the worker payload, restructured by main
        "network.state_dict()",
        "self._strategy_network.state_dict()",
        "network.load_state_dict(state_dict)",
        'self._strategy_network.load_state_dict(contents["strategy_network"])',
    ]
    assert [text for text, known in rewritten if not known] == [
        "network.state_dict()",  # the push to the server
        "network.state_dict()",  # the frozen opponent
        "self._strategy_network.state_dict()",  # the evaluation's snapshot
        "network.state_dict()",
        "self._advantage_networks[player].load_state_dict(state_dict)",  # the warm start
        'self._strategy_network.load_state_dict(contents["strategy_network"])',
    ]
    others = [site for site in report.sites if site.action not in ("rewrite", "skip")]
    assert others == []
    assert all(site.reasons for site in report.sites)
    assert [(c.path, c.kind) for c in report.conflicts] == [(TRAINER, "content")]
    assert {entry.outcome for entry in report.ledger} == {"applied", "adapted"}


def test_the_branch_is_a_commit_an_idea(demo):
    folder, git = demo
    applied = run(folder)
    assert applied.report.proof.tier == "syntax"
    assert git("log", "--reverse", "--format=%s", "main..port/torch-compile").splitlines() == [
        "Experiment: torch.compile on the trainer's networks",
        "torch-compile: behind compile.trainer.enabled, off by default",
        "deep_cfr: a run that compiles says at its start what it will regret",
        "inference_server: the served model may be compiled, in the server's own process",
        "tests: compile never shows in what is stored or sent",
    ]
    assert git("status", "--porcelain") == ""


def test_the_gate_is_the_plans_and_the_config_is_in_the_files_own_idiom(demo):
    folder, git = demo
    run(folder)
    gate = "port/torch-compile~3"  # the branch before the follow-up patches
    trainer = git("show", f"{gate}:{TRAINER}") + "\n"
    assert GUARD in trainer
    before, _, after = trainer.partition(GUARD)
    assert before.rstrip().endswith("fused=True\n        )")
    assert after.lstrip().startswith("seeds = ")
    added = git("diff", "main", gate, "--", CONFIG)
    lines = [line for line in added.splitlines() if re.match(r"[-+][^-+]", line)]
    assert all(line.startswith("+") for line in lines)
    assert "+@dataclass(frozen=True, config=CLOSED)" in lines
    for name in ("CompileTrainerConfig", "CompileInferenceServerConfig", "CompileConfig"):
        assert f"+class {name}:" in lines
    assert "+    compile: CompileConfig = field(default_factory=CompileConfig)" in lines
    old = git("show", "main:configs/deep_cfr/default.yaml")
    new = git("show", f"{gate}:configs/deep_cfr/default.yaml")
    assert new.startswith(old)
    assert new.removeprefix(old).count("enabled: false") == 2
    variant = git("show", f"{gate}:configs/deep_cfr/default_" + "compile.yaml")
    assert "hidden_size: 1024" in variant
    assert "num_layers: 6" in variant
    assert variant.count("enabled: true") == 1


def test_below_the_threshold_the_port_is_parked_and_no_branch_is_made(demo, capsys):
    folder, git = demo
    plan = folder / "patches/torch-compile/port.yaml"
    plan.write_text(
        plan.read_text()
        .replace("network.hidden_size: 1024", "network.hidden_size: 512")
        .replace("network.num_layers: 6", "network.num_layers: 3")
    )
    assert call("apply", "--repo", folder, "--onto", "main") == 5
    assert "does not meet the precondition" in capsys.readouterr().out
    assert git("for-each-ref", "refs/heads/port") == ""
    assert run(folder, despite_precondition=True).outcome == "created"


def test_a_clone_without_the_branch_takes_the_commit_from_the_bundle(demo, tmp_path):
    folder, git = demo
    bundle = demo_port() / "experiment.bundle"
    (folder / "patches/torch-compile/experiment.bundle").write_bytes(bundle.read_bytes())
    wanted = run(folder, dry_run=True).report.tip
    git("branch", "-D", EXPERIMENT)
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "--quiet", "--prune=now")
    assert git("cat-file", "-t", "05cc02a", check=False) == ""
    assert run(folder, dry_run=True).report.tip == wanted
    assert git("cat-file", "-t", "05cc02a", check=False) == ""


def test_a_dry_run_as_json_has_decisions_and_proof_and_writes_no_ref(demo, capsys):
    folder, git = demo
    refs = git("for-each-ref")
    assert call("apply", "--repo", folder, "--onto", "main", "--dry-run", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["outcome"] == "dry-run"
    assert answer["report"]["proof"]["holds"] is True
    assert {site["action"] for site in answer["report"]["sites"]} == {"rewrite", "skip"}
    assert git("for-each-ref") == refs


def test_a_merged_port_is_not_made_again_and_status_says_so(demo, capsys):
    folder, git = demo
    run(folder)
    git("merge", "--quiet", "--no-ff", "-m", "merge", "port/torch-compile")
    first = git("rev-parse", "port/torch-compile~4")
    assert call("apply", "--repo", folder, "--onto", "main") == 0
    assert f"already ported: main has it since {first}" in capsys.readouterr().out
    assert call("status", "--repo", folder) == 0
    assert "merged" in capsys.readouterr().out


def test_a_config_that_cannot_be_told_is_no_question_with_answers(demo):
    """What only a change of main can settle is refused with that change, not asked."""
    folder, git = demo
    trainer = folder / TRAINER
    trainer.write_text(trainer.read_text().replace("config: DeepCFRConfig, *", "config, *"))
    git("commit", "-qam", "untyped")
    with pytest.raises(NeedsPerson) as caught:
        run(folder)
    assert "compile.trainer.enabled cannot be put in front of 2 objects" in caught.value.what
    assert f"{TRAINER}:78" in caught.value.where
    assert "`config` is not annotated as DeepCFRConfig" in caught.value.why
    assert "a parameter `config: DeepCFRConfig`" in caught.value.next


def test_a_lost_report_is_stored_again(demo):
    folder, git = demo
    tip = run(folder).report.tip
    git("update-ref", "-d", "refs/notes/porttool")
    again = run(folder)
    assert (again.outcome, again.report.tip) == ("unchanged", tip)
    assert git("notes", "--ref=porttool", "list").endswith(tip)


def test_without_a_report_nobody_knows_whose_branch_it_is(demo):
    folder, git = demo
    old = run(folder).report.tip
    git("update-ref", "-d", "refs/notes/porttool")
    git("commit", "-q", "--allow-empty", "-m", "main moves")
    with pytest.raises(RepositoryError, match="nothing tells which commits"):
        run(folder, replace_branch=True)
    assert git("rev-parse", "port/torch-compile") == old


def test_a_plan_that_changed_is_why_the_branch_differs(demo):
    folder, _ = demo
    run(folder)
    plan = folder / "patches/torch-compile/port.yaml"
    plan.write_text(plan.read_text().replace("timeout_s: 900", "timeout_s: 901"))
    with pytest.raises(RepositoryError) as caught:
        run(folder)
    assert caught.value.why == "port.yaml or a patch has changed since"


def test_a_folder_that_is_not_empty_stays_as_it_is(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RepositoryError, match="is not empty"):
        write_demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert call("demo", tmp_path / "file" / "demo") == 2
    said = capsys.readouterr().err
    assert f"the folder {tmp_path / 'file' / 'demo'} cannot be made\n" in said
    assert "Not a directory" in said
    assert "porttool demo ~/porttool-demo" in said
    assert (tmp_path / "file").read_text() == "mine"


def test_without_an_identity_the_demo_brings_one(tmp_path, monkeypatch):
    nobody = tmp_path / "nobody"
    nobody.write_text("[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(nobody))
    write_demo(tmp_path / "demo")
    assert run(tmp_path / "demo").outcome == "created"


def test_the_tool_runs_where_there_is_no_torch(demo):
    """No import of torch, numba or numpy, and none would succeed."""
    folder, _ = demo
    program = (
        "import sys\n"
        "for name in ('torch', 'numba', 'numpy', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "from porttool.cli import main\n"
        f"sys.argv = ['porttool', 'apply', '--repo', {str(folder)!r}, '--dry-run']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no ref was written" in done.stdout


def test_the_packaged_copy_of_the_port_is_what_the_checkout_has():
    """A wheel carries the port as data: the build file maps the folder, and nothing else does."""
    root = Path(__file__).resolve().parents[2]
    mapped = (root / "pyproject.toml").read_text()
    assert '"patches/torch-compile" = "porttool/_demo/torch-compile"' in mapped
