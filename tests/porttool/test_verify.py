"""Verification with real checkouts, programs and torch, on a trainer of a few lines."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from porttool.errors import EXIT_CHECK_FAILED, EXIT_DONE, EXIT_PARKED, PlanError, RepositoryError
from porttool.git.checkout import pool_folder
from porttool.git.commits import CommitId
from porttool.git.publish import NOTES
from porttool.git.repo import open_repository
from porttool.plan.plan import RunPlan, WrapperPlan, load_plan
from porttool.proving.proof import FileProof, Proof
from porttool.record import find_report, load_report, store_report
from porttool.report import Check, Report
from porttool.verifying.checks import Finished, Processes, workplace
from porttool.verifying.trial import (
    Comparison,
    Setup,
    Trial,
    frames_check,
    pair_check,
    prefix_check,
    run_check,
    run_trial,
    same_check,
)
from porttool.verifying.verify import CannotVerify, Verified, verify

EXPERIMENT = "e" * 40
PLAN = f"""\
name: compile-it
experiment: {{branch: experiments/compile, commits: [{EXPERIMENT}]}}
wrapper: {{callee: torch.compile}}
"""
PRECONDITION = """\
precondition:
  config: big.yaml
  any:
    - {all: [{key: network.size, at_least: 8}]}
    - {all: [{key: network.depth, at_least: 6}]}
"""
CHECKS = """\
verify:
  pythonpath: [src]
  timeout_s: 300
  env: {COLOUR: green}
  checks:
    - {name: quick, command: [python, -c, "import trainer, os; print(os.environ['COLOUR'])"]}
"""
RUN = (
    CHECKS.replace("import trainer, os", "import os")
    + """\
  run:
    command: [python, -m, trainer, --out, "{out}"]
    "on": [--compile]
    metrics: metrics.jsonl
    checkpoint: latest.pt
    ignore: [seconds, arguments]
"""
)
RESUME = """\
    resume: [--resume, "{checkpoint}"]
"""
TRAINER = '''\
"""Trains one small network for two steps."""
import json, pathlib, sys, time
import torch

arguments = sys.argv[1:]
out = pathlib.Path(arguments[arguments.index("--out") + 1])
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
'''
LOAD = """\
if "--resume" in arguments:
    state = torch.load(arguments[arguments.index("--resume") + 1], weights_only=True)
    {plain}.load_state_dict(state["net"])
"""
# Steps by hand: torch.optim imports torch._dynamo, which takes each run as long as torch itself.
REST = """\
with open(out / "metrics.jsonl", "w") as metrics:
    for step in range(2):
        loss = net(torch.randn(8, 3)).square().mean()
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weights in net.parameters():
                weights -= 0.01 * weights.grad
        metrics.write(json.dumps({"loss": loss.item(), "seconds": time.time()}) + "\\n")
torch.save({"net": STATE, "arguments": arguments}, out / "latest.pt")
"""
WRAP = """\
if "--compile" in arguments:
    net = torch.compile(net, backend="eager")
"""
ONTO = TRAINER + LOAD.format(plain="net") + REST.replace("STATE", "net.state_dict()")
GOOD = (
    TRAINER
    + WRAP
    + LOAD.format(plain="getattr(net, '_orig_mod', net)")
    + REST.replace("STATE", "getattr(net, '_orig_mod', net).state_dict()")
)


HOLDS = Proof(True, "syntax", (FileProof("src/trainer.py", "identical tree", ""),), ())


@dataclasses.dataclass
class Port:
    """A repository with `main`, `port/compile-it` and a stored report; and how to verify it."""

    work: Any
    plan_path: Path
    proof: Proof = HOLDS
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    steps: list[str] = dataclasses.field(default_factory=list)

    def prove(self, onto: CommitId, tip: CommitId) -> Proof:
        self.asked.append((onto, tip))
        return self.proof

    def verify(self, **options: Any) -> Verified:
        with open_repository(self.work.path) as repo:
            return verify(
                repo,
                load_plan(self.plan_path),
                prove=self.prove,
                progress=self.steps.append,
                **options,
            )

    def report(self) -> Report:
        with open_repository(self.work.path) as repo:
            return load_report(repo, load_plan(self.plan_path))

    def restate(self, **changes: Any) -> None:
        """Store the report with changes."""
        with open_repository(self.work.path) as repo:
            store_report(repo, dataclasses.replace(self.report(), **changes))


MakePort = Callable[..., Port]


@pytest.fixture
def make_port(make_repo: Callable[..., Any]) -> MakePort:
    def make(branch: Mapping[str, str], plan: str, onto: str = "x = 1\n") -> Port:
        work = make_repo({"src/trainer.py": onto})
        main = work.id("main")
        work.switch("port/compile-it", "main")
        tip = work.commit(branch, f"port it\n\nPorted-from: {EXPERIMENT}\nPort: compile-it\n")
        work.switch("main")
        folder = work.path.parent / "plan"
        folder.mkdir()
        (folder / "port.yaml").write_text(PLAN + plan)
        digest = load_plan(folder / "port.yaml").digest
        report = Report("compile-it", digest, "0", (), "main", main, "port/compile-it", tip)
        with open_repository(work.path) as repo:
            store_report(repo, report)
        return Port(work, folder / "port.yaml")

    return make


def statuses(verified: Verified) -> dict[str, str]:
    return {check.name: check.status for check in verified.report.checks}


def test_a_precondition_that_is_not_met_parks_and_runs_nothing(make_port: MakePort) -> None:
    port = make_port(
        {"src/trainer.py": "raise SystemExit(1)\n", "big.yaml": "network: {size: 7, depth: 3}\n"},
        PRECONDITION + CHECKS,
    )
    verified = port.verify()
    assert (verified.exit_code, verified.report.verdict) == (EXIT_PARKED, "parked")
    assert statuses(verified) == {"precondition": "failed"}
    assert verified.report.checks[0].tail == ("network.size >= 8: 7", "network.depth >= 6: 3")
    assert (port.asked, port.steps) == ([], ["precondition"])
    assert port.report() == verified.report
    with open_repository(port.work.path) as repo:
        assert not pool_folder(repo).exists()


def test_despite_the_precondition_everything_runs_and_the_verdict_stays(
    make_port: MakePort,
) -> None:
    port = make_port(
        {"src/trainer.py": "x = 2\n", "big.yaml": "network: {size: 7}\n"}, PRECONDITION + CHECKS
    )
    verified = port.verify(despite_precondition=True)
    assert (verified.exit_code, verified.report.verdict) == (EXIT_PARKED, "parked")
    assert statuses(verified)["quick"] == "passed"


def test_one_clause_is_enough_and_checks_see_the_branch(make_port: MakePort) -> None:
    port = make_port(
        {"src/trainer.py": "x = 2\n", "big.yaml": "network: {size: 7, depth: 6}\n"},
        PRECONDITION + CHECKS,
    )
    verified = port.verify()
    assert verified.exit_code == EXIT_DONE
    assert verified.message == (
        "port/compile-it ready: 3 checks passed, 1 skipped, no run was compared"
    )
    assert statuses(verified) == {
        "precondition": "passed",
        "proof by syntax": "passed",
        "seeded run": "skipped",
        "quick": "passed",
    }
    assert verified.report.checks[0].detail == "big.yaml: network.depth >= 6: 6"
    assert verified.report.checks[3].tail == ("green",)
    assert verified.report.proof.tier == "syntax"
    assert port.asked == [(port.work.id("main"), port.work.id("port/compile-it"))]


def test_a_report_names_no_folder_of_this_machine(make_port: MakePort) -> None:
    say = "import os, sys; print(os.getcwd() + '/a.py', sys.prefix + '/lib')"
    check = json.dumps([{"name": "say", "command": ["python", "-c", say]}])
    port = make_port({"src/trainer.py": "x = 2\n"}, f"verify: {{checks: {check}}}\n")
    tail = next(c.tail for c in port.verify().report.checks if c.name == "say")
    assert tail == ("a.py lib",)


def test_the_users_repository_is_left_alone_but_for_the_note(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    refs = port.work.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
    status = port.work.git("status", "--porcelain")
    note = port.work.id(NOTES)
    port.verify()
    assert port.work.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads") == refs
    assert port.work.git("status", "--porcelain") == status
    assert port.work.id(NOTES) != note
    assert port.work.git("worktree", "list").count("\n") == 0


def test_a_failed_check_and_a_failed_proof_fail_the_branch(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "raise ValueError('not today')\n"}, CHECKS)
    port.proof = Proof(
        False, "none", (FileProof("src/trainer.py", "not proven", "line 1: raise"),), ()
    )
    verified = port.verify()
    assert (verified.exit_code, verified.report.verdict) == (EXIT_CHECK_FAILED, "failed")
    assert verified.message == (
        "port/compile-it failed: 2 of 3 checks (proof by syntax), 1 skipped, no run was compared"
    )
    syntax, _, quick = verified.report.checks
    assert syntax.detail == "src/trainer.py: line 1: raise"
    assert quick.tail[-1] == "ValueError: not today"
    assert [look.kind for look in verified.report.look_first] == ["check", "check"]


def test_a_branch_or_a_report_that_is_not_there_is_said(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    port.work.git("update-ref", "-d", NOTES)
    with pytest.raises(RepositoryError, match="no report came with the branch") as caught:
        port.verify()
    apart = "git branch -m port/compile-it port/compile-it-mine && "
    apart += "porttool apply compile-it --onto main"
    assert caught.value.next == apart
    port.work.git("remote", "add", "upstream", "nowhere")
    with pytest.raises(RepositoryError, match="no report came with the branch") as caught:
        port.verify()
    assert caught.value.next == (
        "git fetch upstream refs/notes/porttool:refs/notes/porttool, "
        f"or make the branch again: {apart}"
    )
    port.work.git("branch", "-D", "port/compile-it")
    with pytest.raises(RepositoryError, match="there is no branch `port/compile-it` yet"):
        port.verify()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "it is not a program"),
        (lambda path: path.write_text("#!/bin/sh\n"), "it is not a program"),
        (lambda path: path.symlink_to("/bin/true"), "it does not run Python: exit code 0"),
    ],
)
def test_a_python_that_is_none_is_refused_and_nothing_is_stored(
    make_port: MakePort, make: Callable[[Path], object], why: str
) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    port.restate(verdict="ready")
    before = port.work.git("for-each-ref")
    path = port.work.path.parent / "python"
    make(path)
    with pytest.raises(CannotVerify, match="Python cannot be used") as caught:
        port.verify(python=path)
    assert (caught.value.where, caught.value.why) == (f"--python {path}", why)
    assert (caught.value.exit_code, port.steps) == (2, [])
    assert port.work.git("for-each-ref") == before


def test_a_branch_of_another_plan_is_refused(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    port.plan_path.write_text(port.plan_path.read_text() + "onto: main\n")
    with pytest.raises(CannotVerify, match=r"port\.yaml or a patch changed since") as caught:
        port.verify()
    assert (caught.value.exit_code, port.steps) == (2, [])
    assert caught.value.next == "porttool refresh compile-it && porttool verify compile-it"


def test_a_stale_branch_is_checked_and_said_to_be_stale(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    port.work.commit({"other.py": "x = 1\n"}, "go on")
    verified = port.verify()
    assert verified.exit_code == EXIT_DONE
    assert verified.message.endswith("no run was compared, stale by 1 commit")
    assert verified.next == "porttool refresh compile-it && porttool verify compile-it"


def test_onto_merged_into_the_branch_is_refused(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    port.work.commit({"other.py": "x = 1\n"}, "go on")
    port.work.switch("port/compile-it")
    port.work.git("merge", "-m", "catch up", "main")
    with pytest.raises(CannotVerify, match="main was merged into port/compile-it") as caught:
        port.verify()
    assert (caught.value.exit_code, port.steps) == (2, [])
    assert "it holds 1 commit of main beyond" in str(caught.value.why)
    assert caught.value.next == (
        "git branch -m port/compile-it port/compile-it-mine && "
        "porttool apply compile-it --onto main && porttool verify compile-it"
    )


def test_a_branch_made_on_another_onto_says_which(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    port.work.git("branch", "release")
    port.restate(onto="release")
    port.work.commit({"other.py": "x = 1\n"}, "go on")
    verified = port.verify()
    assert verified.message.startswith("port/compile-it on release ready: 2 checks passed")
    assert verified.next == "git switch release && git merge --no-ff port/compile-it"


def test_a_merged_port_is_said_to_be_merged(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    tip = port.work.id("port/compile-it")
    port.work.git("merge", "--no-ff", "-m", "merge", "port/compile-it")
    verified = port.verify()
    assert "stale" not in verified.message
    assert verified.next == f"nothing, main has it since {tip[:12]}"
    port.work.git("branch", "-D", "port/compile-it")
    with pytest.raises(RepositoryError, match="is merged: main has it since") as caught:
        port.verify()
    assert (caught.value.exit_code, caught.value.next) == (
        2,
        f"nothing; to look at it: git show {tip[:12]}",
    )


def test_a_precondition_on_a_file_that_is_not_there_is_the_plans_error(
    make_port: MakePort,
) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, PRECONDITION + CHECKS)
    with pytest.raises(PlanError, match=r"big\.yaml is not in the tree"):
        port.verify()


def test_commits_that_a_person_added_extend_the_report(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    port.verify()
    port.work.switch("port/compile-it")
    added = port.work.commit({"src/trainer.py": "x = 3\n"}, "mend by hand")
    port.work.switch("main")
    report = port.report()
    assert (report.tip, report.verdict, report.checks) == (added, "unverified", ())
    assert [commit.subject for commit in report.series] == ["mend by hand"]
    verified = port.verify()
    assert port.asked[-1] == (port.work.id("main"), added)
    assert port.report() == verified.report
    with open_repository(port.work.path) as repo:
        assert find_report(repo, CommitId(added), "another-port") is None
        assert find_report(repo, CommitId(port.work.id("main")), "compile-it") is None


def test_progress_names_each_step_from_any_thread(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": "x = 2\n"}, CHECKS)
    before = set(threading.enumerate())  # what other tests of this process have left running
    port.verify()
    assert port.steps == ["precondition", "proof by syntax", "quick"]
    assert set(threading.enumerate()) <= before


@pytest.mark.slow
def test_a_good_port_is_ready_and_proven_by_a_run(make_port: MakePort) -> None:
    port = make_port({"src/trainer.py": GOOD}, RUN + RESUME, ONTO)
    verified = port.verify()
    assert statuses(verified) == {
        "proof by syntax": "passed",
        "run on onto": "passed",
        "run with the switch off": "passed",
        "run with the switch on": "passed",
        "switch off equals onto": "passed",
        "compiled frames: 0 off, more than 0 on": "passed",
        "no _orig_mod. in any checkpoint": "passed",
        "saved with the switch off, loaded with it off": "passed",
        "saved with the switch off, loaded with it on": "passed",
        "saved with the switch on, loaded with it off": "passed",
        "saved with the switch on, loaded with it on": "passed",
        "quick": "passed",
    }, verified.report.checks
    details = {check.name: check.detail for check in verified.report.checks}
    assert details["switch off equals onto"] == (
        "equal to the bit: 2 records of metrics, 4 tensors and 4 values"
    )
    assert details["compiled frames: 0 off, more than 0 on"].startswith("0 off, 1 on (1 graph")
    assert details["no _orig_mod. in any checkpoint"] == "4 checkpoints, the same keys off and on"
    assert verified.report.proof.tier == "run"
    assert "`seconds, arguments` were left out" in verified.report.proof.assumes[-1]
    assert verified.exit_code == EXIT_DONE


@pytest.mark.slow
def test_a_leak_and_a_changed_default_are_found(make_port: MakePort) -> None:
    leaking = (
        TRAINER.replace("manual_seed(0)", "manual_seed(1)")
        + WRAP
        + (LOAD.format(plain="net") + REST.replace("STATE", "net.state_dict()"))
    )
    port = make_port({"src/trainer.py": leaking}, RUN, ONTO)
    verified = port.verify()
    found = {check.name: check for check in verified.report.checks if check.status == "failed"}
    assert sorted(found) == [
        "no _orig_mod. in any checkpoint",
        "switch off equals onto",
    ]
    assert found["no _orig_mod. in any checkpoint"].detail == "leaks: net._orig_mod.0.weight"
    assert found["switch off equals onto"].detail.startswith("metrics: [0].loss: ")
    assert (verified.exit_code, verified.report.proof.tier) == (EXIT_CHECK_FAILED, "syntax")


RUN_PLAN = RunPlan(command=("python", "-m", "t", "{out}"), metrics="m.jsonl", checkpoint="c.pt")
DONE = Finished(("python",), 0, 1.5, ("last line",))
SAME = {
    **{"only_a": [], "only_b": [], "different": [], "num_different": 0},
    **{"tensors": 3, "values": 4, "same_keys": True, "same": True},
}
FOUND = {
    **{"metrics": SAME, "checkpoint": SAME, "records": [2, 2]},
    **{"prefixed_a": [], "prefixed_b": []},
}


def compared(**changes: object) -> Comparison:
    return Comparison(DONE, {**FOUND, **changes})


def trial(frames: int | None, **counts: object) -> Trial:
    known = {
        **{"frames_ok": frames, "graphs": frames, "functions": [], "recompiles": []},
        **{"failures": [], "limit_hits": 0, "disabled_by": {}},
    }
    return Trial("a run", Path("x"), DONE, {} if frames is None else {**known, **counts})


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({}, None),
        ({"records": [0, 0]}, "m.jsonl is empty, so nothing was compared"),
        ({"checkpoint": {**SAME, "tensors": 0}}, "c.pt holds no tensor, so nothing was compared"),
        ({"checkpoint": {**SAME, "only_a": ["x"]}}, "checkpoint: only on onto: x"),
        ({"metrics": {**SAME, "only_b": ["y"]}}, "metrics: only on the branch: y"),
        (
            {"metrics": {**SAME, "different": ["l: 1 against 2"], "num_different": 9}},
            "metrics: l: 1 against 2",
        ),
    ],
)
def test_off_equals_onto_only_when_something_was_compared_and_is_equal(
    changes: dict[str, object], detail: str | None
) -> None:
    check = same_check(RUN_PLAN, compared(**changes))
    assert (check.status, check.detail) == (
        ("failed", detail)
        if detail
        else ("passed", "equal to the bit: 2 records of metrics, 3 tensors and 4 values")
    )


def test_what_could_not_be_compared_is_a_failure_with_its_output() -> None:
    torn = Comparison(Finished(("python",), 1, 0.1, ("EOFError",)), {})
    for check in (same_check(RUN_PLAN, torn), prefix_check(WrapperPlan(), [torn])):
        assert (check.status, check.tail) == ("failed", ("EOFError",))


def test_on_and_off_must_write_the_same_keys() -> None:
    fewer = compared(checkpoint={**SAME, "only_b": ["net.extra"]})
    check = prefix_check(WrapperPlan(), [compared(), fewer])
    assert (check.status, check.detail) == ("failed", "only with the switch on: net.extra")


@pytest.mark.parametrize(
    ("off", "on", "detail"),
    [
        (trial(1), trial(1), "a run compiled 1 frames"),
        (trial(0), trial(0), "the switch is on and nothing was compiled"),
        (
            trial(0),
            trial(0, disabled_by={"TORCH_COMPILE_DISABLE": "1"}),
            "the switch is on and nothing was compiled; TORCH_COMPILE_DISABLE=1 is set",
        ),
        (
            trial(0),
            trial(8, limit_hits=1),
            "the recompile limit was met, and the run went on eager",
        ),
        (
            trial(0),
            trial(1, failures=["Unsupported: x"]),
            "a frame was not compiled: Unsupported: x",
        ),
        (trial(None), trial(1), "what was compiled is not known: a run"),
        (trial(0), trial(None), "what was compiled is not known: a run"),
    ],
)
def test_frames_are_counted_on_both_sides(off: Trial, on: Trial, detail: str) -> None:
    check = frames_check([off], on)
    assert (check.status, check.detail) == ("failed", detail)


def test_frames_pass_with_their_numbers() -> None:
    check: Check = frames_check([trial(0)], trial(2))
    assert (check.status, check.detail) == ("passed", "0 off, 2 on (2 graphs, 0 recompiles)")


def run_once(tmp_path: Path, *words: str, folder: str = "tree", **changes: object) -> Trial:
    (tmp_path / "tree").mkdir(exist_ok=True)
    (tmp_path / "tree" / "t.py").write_text(
        "import pathlib, sys\n"
        "for name in sys.argv[2:]: (pathlib.Path(sys.argv[1]) / name).write_text('')\n"
    )
    plan = RUN_PLAN.model_copy(
        update={"command": ("python", str(tmp_path / "tree" / "t.py"), "{out}", *words), **changes}
    )
    place = workplace(tmp_path / folder, Path(sys.executable), pythonpath=(), variables={})
    with Processes() as processes:
        setup = Setup(plan, WrapperPlan(), processes, 60)
        return run_trial("a run", setup, place, tmp_path / "out" / "x", on=False)


def test_a_run_has_to_leave_what_is_compared(tmp_path: Path) -> None:
    done = run_once(tmp_path, "m.jsonl")
    assert (done.finished.exit_code, done.passed) == (0, False)
    assert run_check(done).detail == "left no c.pt in {out}: see verify.run in port.yaml"


def test_a_run_that_leaves_everything_passes_and_knows_its_code(tmp_path: Path) -> None:
    done = run_once(tmp_path, "m.jsonl", "c.pt")
    assert (done.passed, done.frames) == (True, 0)
    assert done.counts["origin"] == str(tmp_path / "tree" / "t.py")


def test_a_run_of_code_from_elsewhere_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    done = run_once(tmp_path, "m.jsonl", "c.pt", folder="other")
    assert not done.passed
    check = run_check(done)
    assert check.status == "failed"
    assert check.detail.startswith(f"ran {tmp_path}/tree/t.py, which is not in the checkout")


def test_a_program_that_is_not_python_runs_uncounted(tmp_path: Path) -> None:
    done = run_once(tmp_path, command=("sh", "-c", "touch {out}/m.jsonl {out}/c.pt"))
    assert (done.passed, done.counts) == (True, {})


def test_loading_with_the_switch_off_compiles_nothing() -> None:
    assert pair_check(trial(3), "on").status == "passed"
    assert pair_check(trial(3), "off").detail == "3 frames were compiled with the switch off"


@pytest.mark.parametrize(
    ("resume", "message"),
    [
        ("    resume: [--resume, x]\n", "no word of resume holds {checkpoint}"),
        (
            '    resume: ["{checkpoint}"]\n',
            "resume needs the name of the checkpoint that a run leaves",
        ),
    ],
)
def test_a_resume_that_would_load_nothing_is_refused(
    tmp_path: Path, resume: str, message: str
) -> None:
    run = RUN if "--resume" in resume else RUN.replace("    checkpoint: latest.pt\n", "")
    (tmp_path / "port.yaml").write_text(PLAN + run + resume)
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / "port.yaml")
    assert message in str(caught.value)
