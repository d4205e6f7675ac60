"""The precondition: read from the config, or measured by the project's own program."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.cli import app
from porttool.errors import EXIT_CHECK_FAILED, EXIT_DONE, EXIT_PARKED, EXIT_USAGE, PlanError
from porttool.git.checkout import pool_folder
from porttool.git.repo import open_repository
from porttool.outcomes import parked
from porttool.plan.plan import load_plan
from porttool.proving.proof import FileProof, Proof
from porttool.record import load_report, store_report
from porttool.report import Report, from_json, to_json
from porttool.review.markdown import markdown
from porttool.verifying.threshold import NothingMeasured
from porttool.verifying.verdict import Verified
from porttool.verifying.verify import verify

EXPERIMENT = "e" * 40
DAY = "2026-05-07T12:00:00+00:00"
PROOF = Proof(True, "syntax", (FileProof("trainer.py", "identical tree", ""),), ())
MEASURE = """\
  measure:
    command: [python, measure.py, call, "{out}", "{config}"]
    result: call.json
    all:
      - {key: device, equals: gpu}
      - {key: call_us, at_least: 150}
"""
PLAN = f"""\
name: compile-it
experiment: {{branch: experiments/compile, commits: [{EXPERIMENT}]}}
variants:
  - {{path: big.yaml, from: small.yaml, set: {{size: 7}}}}
precondition:
  config: big.yaml
  any:
    - {{all: [{{key: size, at_least: 8}}]}}
{MEASURE}verify:
  bench: {{command: [python, measure.py, bench, "{{out}}"], result: bench.json}}
  drift: {{command: [python, measure.py, drift, "{{out}}"], result: drift.json}}
"""
# Writes what `answers.json` says of a kind; HERE is the folder, CONFIG what the config holds.
PROGRAM = r"""import json, pathlib, sys
kind, out = sys.argv[1], pathlib.Path(sys.argv[2])
config = pathlib.Path(sys.argv[3]).read_text() if len(sys.argv) > 3 else ""
answer = json.loads(pathlib.Path("answers.json").read_text()).get(kind)
if answer is None:
    print("\u256d\u2500\u256e\n\u2502 No such command 'call-time'. \u2502\n\u2570\u2500\u256f\n")
    sys.exit(2)
text = json.dumps(answer).replace("HERE", str(out)).replace("CONFIG", config.strip())
(out / f"{kind}.json").write_text(text)
"""


def call(us: float = 200, **more: Any) -> dict[str, Any]:
    return {"measured": DAY, "device": "gpu", "call_us": us, **more}


@dataclasses.dataclass
class Port:
    work: Any
    steps: list[str] = dataclasses.field(default_factory=list)

    @property
    def plan(self) -> Path:
        path: Path = self.work.path / "patches/compile-it/port.yaml"
        return path

    def porttool(self, *words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words, "--repo", str(self.work.path)])
        return done.exit_code, done.output

    def branch(self, answers: dict[str, Any], *, size: int = 7) -> None:
        main = self.work.id("main")
        self.work.switch("port/compile-it", "main")
        files = {"big.yaml": f"size: {size}\n", "answers.json": json.dumps(answers)}
        tip = self.work.commit(files, f"port\n\nPorted-from: {EXPERIMENT}\nPort: compile-it\n")
        self.work.switch("main")
        with open_repository(self.work.path) as repo:
            digest = load_plan(self.plan).digest
            made = Report("compile-it", digest, "0", (), "main", main, "port/compile-it", tip)
            store_report(repo, made)

    def verify(self, **options: Any) -> Verified:
        with open_repository(self.work.path) as repo:
            return verify(
                repo,
                load_plan(self.plan),
                prove=lambda onto, tip: PROOF,
                progress=self.steps.append,
                **options,
            )

    def report(self) -> Report:
        with open_repository(self.work.path) as repo:
            return load_report(repo, load_plan(self.plan))


MakePort = Callable[..., Port]


@pytest.fixture
def make_port(make_repo: Callable[..., Any]) -> MakePort:
    def make(answers: dict[str, Any] | None = None, *, plan: str = PLAN) -> Port:
        files = {
            "trainer.py": "x = 1\n",
            "patches/compile-it/port.yaml": plan,
            "small.yaml": "size: 1\n",
            "measure.py": PROGRAM,
            "answers.json": json.dumps(answers or {}),
        }
        return Port(make_repo(files))

    return make


def test_before_there_is_a_branch_it_is_read_as_the_branch_would_have_it(
    make_port: MakePort,
) -> None:
    port = make_port({"call": call()})
    code, said = port.porttool("precondition")
    assert code == EXIT_PARKED
    assert said.splitlines() == [
        "compile-it: big.yaml as a branch would have it, made on main at "
        f"{port.work.id('main')[:12]}",
        "  does not hold size >= 8 (is 7)",
        "  not measured  device == gpu and call_us >= 150",
        "the precondition does not hold",
        "next: porttool precondition compile-it --measure, on the machine that trains",
    ]
    port.work.commit({port.plan.relative_to(port.work.path).as_posix(): PLAN.replace("7}", "9}")})
    code, said = port.porttool("precondition")
    assert code == EXIT_DONE
    assert "next: porttool apply compile-it --onto main && porttool verify compile-it" in said


def test_a_measurement_gets_the_config_that_the_branch_would_have(make_port: MakePort) -> None:
    port = make_port({"call": call(machine="saw CONFIG in HERE/x")})
    before = port.work.git("for-each-ref")
    code, said = port.porttool("precondition", "--measure", "--json")
    assert code == EXIT_DONE
    found = json.loads(said[said.index("{") :])
    assert found["precondition"]["measured"]["taken"]["machine"] == "saw size: 7 in measure/x"
    assert found["precondition"]["measured"]["clause"]["seen"] == "gpu, 200"
    assert found["next"] == (
        "porttool apply compile-it --onto main --despite-precondition && porttool verify compile-it"
    )
    assert port.work.git("for-each-ref") == before
    assert port.work.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (call(149.5), "gpu, 149.5"),
        (call(200) | {"device": "cpu"}, "cpu, 200"),
        ({"measured": DAY, "device": "gpu"}, "gpu, not set in call.json"),
        (call(200) | {"call_us": True}, "gpu, true"),
    ],
)
def test_every_clause_has_to_hold_of_the_result(
    make_port: MakePort, answer: dict[str, Any], seen: str
) -> None:
    code, said = make_port({"call": answer}).porttool("precondition", "--measure")
    assert code == EXIT_PARKED
    assert f"call_us >= 150 (is {seen}, measured 2026-05-07)" in said
    assert "not measured" not in said


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "exit code 2, and no call.json in {out}; No such command 'call-time'."),
        (call(float("inf")), "its result is not one: "),
        (call() | {"measured": "today"}, "its result is not one: measured: String should match"),
    ],
)
def test_a_program_that_gives_no_result_is_an_error_with_a_next_step(
    make_port: MakePort, answer: object, why: str
) -> None:
    port = make_port({"call": answer})
    code, said = port.porttool("precondition", "--measure")
    assert code == EXIT_CHECK_FAILED
    assert "nothing was measured for the precondition of compile-it" in said
    assert f"why:   {why}" in said
    assert "(precondition.measure), run at" in said
    assert "or leave --measure out" in said
    port.branch({"call": answer}, size=8)
    with pytest.raises(NothingMeasured, match="nothing was measured"):
        port.verify(measure=True)
    assert port.report().verdict == "unverified"
    assert port.verify().report.verdict == "ready"


def test_a_plan_that_does_not_say_how_is_refused(make_port: MakePort) -> None:
    port = make_port({"call": call()}, plan=PLAN.replace(MEASURE, ""))
    code, said = port.porttool("precondition", "--measure")
    assert code == EXIT_USAGE
    assert "there is no precondition.measure" in said
    assert "not measured" not in port.porttool("precondition")[1]
    with pytest.raises(PlanError, match="--measure: the plan does not say how"):
        port.verify(measure=True)


def test_a_measurement_opens_the_way_for_what_the_config_parks(make_port: MakePort) -> None:
    port = make_port()
    port.branch({"call": call(machine="a big one")})
    verified = port.verify()
    assert (verified.exit_code, verified.report.verdict) == (EXIT_DONE, "ready")
    assert port.steps[:3] == ["precondition", "precondition, measured", "proof by syntax"]
    assert from_json(to_json(port.report())) == verified.report
    shown = "gpu, 200, measured 2026-05-07 on a big one"
    assert f"call_us >= 150`: `{shown}`, holds" in markdown(verified.report)
    assert shown in port.porttool("review")[1]
    # It counts at this tip, on a machine without the device too, and at no other one.
    port.steps.clear()
    assert port.verify().report.precondition == verified.report.precondition
    assert "precondition, measured" not in port.steps
    assert shown in port.porttool("precondition")[1]
    port.work.switch("port/compile-it")
    port.work.commit({"answers.json": json.dumps({"call": call(100)})}, "by hand")
    port.work.switch("main")
    assert "not measured  device == gpu" in port.porttool("precondition")[1]
    assert port.verify().exit_code == EXIT_PARKED


def test_where_measuring_fails_unasked_the_config_decides_and_it_is_said(
    make_port: MakePort,
) -> None:
    port = make_port()
    port.branch({})
    verified = port.verify()
    assert (verified.exit_code, verified.report.verdict) == (EXIT_PARKED, "parked")
    (check,) = verified.report.checks
    assert check.detail == (
        "big.yaml: size >= 8: 7; measuring it gave nothing: exit code 2, and no call.json in "
        "{out}; No such command 'call-time'."
    )


def test_what_the_config_meets_is_measured_only_when_asked(make_port: MakePort) -> None:
    port = make_port()
    port.branch({"call": call(100)}, size=8)
    assert port.verify().report.precondition.measured is None
    found = port.verify(measure=True).report.precondition
    assert (found.met, found.measured is not None and found.measured.met) == (True, False)


def test_a_parked_port_is_told_that_it_can_be_measured(make_port: MakePort) -> None:
    port = make_port()
    plan = load_plan(port.plan)
    report = Report("compile-it", "0", "0", (), "main", "1" * 40, "port/compile-it")
    command = "porttool precondition compile-it --measure"
    assert parked(report, plan).message.endswith(f"--despite-precondition, or measure: {command}")
    verified = port.verify()
    assert verified.exit_code == EXIT_PARKED
    assert verified.next == f"raise big.yaml to the precondition, or measure it: {command}"


def merged(port: Port, *, size: int = 8) -> str:
    files = {"big.yaml": f"size: {size}\n"}
    message = f"port it\n\nPorted-from: {EXPERIMENT}\nPort: compile-it\n"
    commit: str = port.work.commit(files, message)
    return commit


def test_of_a_merged_port_onto_is_measured_and_the_files_are_recorded(
    make_port: MakePort,
) -> None:
    bench = {"measured": DAY, "effect": 0.08, "interval": [0.06, 0.1], "table": "| a |\n| --- |"}
    drift = {"measured": DAY, "verdict": "no drift"}
    port = make_port({"bench": bench, "drift": drift})
    onto = merged(port)
    assert "on main, which has the port, at" in port.porttool("precondition")[1]
    before = port.work.git("for-each-ref")
    verified = port.verify(bench=True, drift=True)
    assert (verified.exit_code, verified.report.verdict) == (EXIT_DONE, "ready")
    assert verified.message == (
        f"compile-it is merged, main has it since {onto[:12]}; measured on main at {onto[:12]}: "
        "ship: at least 5% faster, and no drift"
    )
    assert port.work.git("for-each-ref") == before
    with open_repository(port.work.path) as repo:
        folder = pool_folder(repo) / "measures/compile-it" / onto
    assert verified.next == (
        f"porttool record compile-it --bench {folder}/bench/bench.json "
        f"--drift {folder}/drift/drift.json"
    )
    code, _ = port.porttool(*verified.next.split()[1:])
    assert code == EXIT_DONE
    document = (port.work.path / "docs/performance.md").read_text()
    assert "Decision: **ship**. At least 5% faster, and no drift." in document


def test_a_merged_port_may_turn_out_not_to_be_worth_it(make_port: MakePort) -> None:
    bench = {"measured": DAY, "effect": -0.02, "interval": [-0.03, -0.01]}
    port = make_port({"bench": bench})
    merged(port)
    verified = port.verify(bench=True, drift=True)
    assert (verified.exit_code, verified.report.verdict) == (EXIT_PARKED, "parked")
    assert "parked: slower by 2.0%: a regression at this size" in verified.message
    assert [c.status for c in verified.report.checks] == ["passed", "passed", "skipped"]
    code, said = port.porttool("verify")
    assert (code, "is merged: main has it since" in said) == (EXIT_USAGE, True)


def test_an_entry_from_files_goes_by_what_was_measured_where_the_config_parks(
    make_port: MakePort,
) -> None:
    port = make_port()
    merged(port, size=7)
    results = port.work.path.parent
    (results / "bench.json").write_text(
        json.dumps({"measured": DAY, "effect": 0.01, "interval": [0.0, 0.02]})
    )
    (results / "call.json").write_text(json.dumps(call()))
    words = ("record", "--bench", str(results / "bench.json"))
    port.porttool(*words)
    document = port.work.path / "docs/performance.md"
    assert "Decision: **parked**. The threshold rule fails on the" in document.read_text()
    code, _ = port.porttool(*words, "--measure", str(results / "call.json"))
    assert code == EXIT_DONE
    assert "Decision: **do not ship**. Less than 5% faster" in document.read_text()
    code, said = port.porttool(*words, "--measure", str(results / "bench.json"))
    assert "Decision: **parked**" in document.read_text()
    (results / "call.json").write_text("{}")
    code, said = port.porttool(*words, "--measure", str(results / "call.json"))
    assert (code, "call.json is no result of a measurement" in said) == (EXIT_USAGE, True)


def test_an_entry_from_files_may_come_before_the_merge(make_port: MakePort) -> None:
    """What `variants` write is on the branch, and not on main yet."""
    port = make_port()
    port.branch({}, size=8)
    result = port.work.path.parent / "bench.json"
    result.write_text(json.dumps({"measured": DAY, "effect": 0.01, "interval": [0.0, 0.02]}))
    code, said = port.porttool("record", "--bench", str(result))
    assert code == EXIT_DONE, said
    document = port.work.path / "docs/performance.md"
    assert "Decision: **do not ship**. Less than 5% faster" in document.read_text()
