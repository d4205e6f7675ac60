"""What was measured of a port: run on its branch, decided by the tree, recorded once."""

from __future__ import annotations

import dataclasses
import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.cli import app
from porttool.entry import HEADING, entry, with_entry
from porttool.errors import (
    EXIT_CHECK_FAILED,
    EXIT_DONE,
    EXIT_PARKED,
    EXIT_USAGE,
    PlanError,
    RepositoryError,
)
from porttool.evidence import Bench, Decision, Drift, Evidence, Measurement, Outcome, decide
from porttool.git.checkout import pool_folder
from porttool.git.commits import CommitId
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.proving.proof import FileProof, Proof
from porttool.record import load_report, store_report
from porttool.report import Report, from_json, to_json
from porttool.review.markdown import markdown
from porttool.review.text import measured_lines
from porttool.standing import next_step
from porttool.verifying.results import read_bench, read_drift
from porttool.verifying.verdict import Verified
from porttool.verifying.verify import verify

EXPERIMENT = "e" * 40
DAY = "2026-05-07T12:00:00+00:00"
TAKEN = Measurement(DAY)
PROOF = Proof(True, "syntax", (FileProof("trainer.py", "identical tree", ""),), ())
PLAN = f"""\
name: compile-it
experiment: {{branch: experiments/compile, commits: [{EXPERIMENT}]}}
precondition:
  config: big.yaml
  any:
    - {{all: [{{key: size, at_least: 8}}]}}
verify:
  bench:
    command: [python, measure.py, bench, "{{out}}"]
    result: bench.json
  drift:
    command: [python, measure.py, drift, "{{out}}"]
    result: drift.json
"""
# Writes what `answers.json` says; `asked.txt` in the folder of results counts the runs.
MEASURE = """\
import json, pathlib, sys
kind, out = sys.argv[1], pathlib.Path(sys.argv[2])
answer = json.loads(pathlib.Path("answers.json").read_text())[kind]
with open(out / "asked.txt", "a") as asked:
    asked.write(kind + "\\n")
print("measuring", kind, "in", out)
if answer is not None:
    text = json.dumps(answer).replace("HERE", str(out))
    (out / f"{kind}.json").write_text(text)
sys.exit(0 if answer else 3)
"""


def bench(low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"measured": DAY, "effect": (low + high) / 2, "interval": [low, high], **more}


def drift(verdict: str, **more: Any) -> dict[str, Any]:
    return {"measured": DAY, "verdict": verdict, **more}


def bench_value(low: float, high: float, failed: str = "") -> Bench:
    return Bench((low + high) / 2, low, high, 0.05, TAKEN, failed)


FAST, NO_DRIFT = bench_value(0.06, 0.1), Drift("no drift", TAKEN)


@pytest.mark.parametrize(
    ("met", "measured", "drifted", "outcome", "branch"),
    [
        (False, FAST, NO_DRIFT, "parked", "the threshold rule fails"),
        (True, None, NO_DRIFT, "open", "no bench was run"),
        (True, FAST, NO_DRIFT, "ship", "at least 5% faster, and no drift"),
        (True, FAST, None, "open", "drift was not checked"),
        (True, FAST, Drift("not enough", TAKEN, "4 more seeds"), "open", "cannot tell yet"),
        (True, FAST, Drift("drift", TAKEN), "do not ship", "drift apart"),
        (True, bench_value(0.05, 0.05), NO_DRIFT, "ship", "at least 5% faster"),
        (True, bench_value(0.0, 0.04), NO_DRIFT, "do not ship", "less than 5% faster"),
        (True, bench_value(-0.02, 0.02), None, "do not ship", "less than 5% faster"),
        (True, bench_value(0.04, 0.09), NO_DRIFT, "do not ship", "5% are not shown"),
        (True, bench_value(-0.07, -0.03), NO_DRIFT, "parked", "slower by 5.0%: a regression"),
        (True, bench_value(0.2, 0.3, "fell back to eager"), NO_DRIFT, "do not ship", "fell back"),
    ],
)
def test_the_tree_gives_the_answer_of_its_first_branch(
    met: bool, measured: Bench | None, drifted: Drift | None, outcome: Outcome, branch: str
) -> None:
    decision = decide(met, measured, drifted)
    assert decision.outcome == outcome
    assert branch in decision.branch


@dataclasses.dataclass
class Port:
    """A repository with a branch and its report, whose measurements answer as they are told."""

    work: Any
    steps: list[str] = dataclasses.field(default_factory=list)

    def verify(self, **options: Any) -> Verified:
        with open_repository(self.work.path) as repo:
            plan = load_plan(self.work.path / "patches/compile-it/port.yaml")
            return verify(
                repo,
                plan,
                prove=lambda onto, tip: PROOF,
                progress=self.steps.append,
                **options,
            )

    def report(self) -> Report:
        with open_repository(self.work.path) as repo:
            return load_report(repo, load_plan(self.work.path / "patches/compile-it/port.yaml"))

    def runs(self) -> list[str]:
        with open_repository(self.work.path) as repo:
            found = (pool_folder(repo) / "measures").rglob("asked.txt")
            return sorted(word for file in found for word in file.read_text().split())

    def porttool(self, *words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words, "--repo", str(self.work.path)])
        return done.exit_code, done.output


MakePort = Callable[..., Port]


@pytest.fixture
def make_port(make_repo: Callable[..., Any]) -> MakePort:
    def make(answers: dict[str, Any], *, size: int = 8, plan: str = PLAN) -> Port:
        work = make_repo(
            {"trainer.py": "x = 1\n", "patches/compile-it/port.yaml": plan, "big.yaml": "size: 8\n"}
        )
        main = work.id("main")
        work.switch("port/compile-it", "main")
        files = {"measure.py": MEASURE, "answers.json": json.dumps(answers)}
        message = f"port it\n\nPorted-from: {EXPERIMENT}\nPort: compile-it\n"
        tip = work.commit({**files, "big.yaml": f"size: {size}\n"}, message)
        work.switch("main")
        with open_repository(work.path) as repo:
            digest = load_plan(work.path / "patches/compile-it/port.yaml").digest
            store_report(
                repo,
                Report("compile-it", digest, "0", (), "main", main, "port/compile-it", tip),
            )
        return Port(work)

    return make


def statuses(verified: Verified) -> dict[str, str]:
    return {check.name: check.status for check in verified.report.checks}


def test_what_is_faster_and_does_not_drift_ships(make_port: MakePort) -> None:
    port = make_port(
        {
            "bench": bench(0.06, 0.1, what="1024 x 6", machine="a box", table="| a |\n| - |"),
            "drift": drift("no drift", detail="6 seeds"),
        }
    )
    verified = port.verify(bench=True, drift=True)
    assert (verified.exit_code, verified.report.verdict) == (EXIT_DONE, "ready")
    assert statuses(verified)["bench"] == statuses(verified)["drift"] == "passed"
    assert verified.message.endswith("ship: at least 5% faster, and no drift")
    assert verified.next == "git merge --no-ff port/compile-it"
    assert port.report() == verified.report
    assert from_json(to_json(verified.report)) == verified.report
    assert port.steps[-2:] == ["bench", "drift"]


def test_what_is_not_shown_to_be_faster_is_parked_and_needs_no_drift_check(
    make_port: MakePort,
) -> None:
    port = make_port({"bench": bench(0.04, 0.09), "drift": drift("no drift")})
    verified = port.verify(bench=True, drift=True)
    assert (verified.exit_code, verified.report.verdict) == (EXIT_PARKED, "parked")
    assert statuses(verified)["drift"] == "skipped"
    assert port.runs() == ["bench"]
    assert "5% are not shown: the interval +4.0% to +9.0% holds values below" in verified.message
    assert verified.next.endswith("porttool record compile-it")


def test_drift_parks_what_is_faster(make_port: MakePort) -> None:
    port = make_port({"bench": bench(0.2, 0.3), "drift": drift("drift")})
    verified = port.verify(bench=True, drift=True)
    assert (verified.exit_code, verified.report.verdict) == (EXIT_PARKED, "parked")
    assert "the learning curves drift apart" in verified.message


def test_a_bench_that_counts_for_nothing_fails_the_branch(make_port: MakePort) -> None:
    port = make_port({"bench": bench(0.2, 0.3, failed="a guard failed"), "drift": None})
    verified = port.verify(bench=True, drift=True)
    assert (verified.exit_code, verified.report.verdict) == (EXIT_CHECK_FAILED, "failed")
    assert [c.detail for c in verified.report.checks if c.name == "bench"] == ["a guard failed"]
    assert statuses(verified)["drift"] == "skipped"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "exit code 3, and no bench.json in {out}"),
        (bench(0.3, 0.2), "its result is not one: effect 0.25 is not between"),
        ({"measured": DAY, "effect": 0.1}, "its result is not one: interval: Field required"),
        (bench(0.1, 0.2) | {"effect": "much"}, "its result is not one: effect: Input should be"),
        (bench(0.1, 0.2) | {"measured": "today"}, "its result is not one: measured: "),
    ],
)
def test_a_result_that_cannot_be_read_fails_and_decides_nothing(
    make_port: MakePort, answer: object, said: str
) -> None:
    port = make_port({"bench": answer, "drift": None})
    verified = port.verify(bench=True)
    assert verified.report.verdict == "failed"
    (detail,) = [c.detail for c in verified.report.checks if c.name == "bench"]
    assert detail.startswith(said)
    assert verified.report.evidence is not None
    assert verified.report.evidence.bench is None
    assert verified.next == (
        f"mend verify.bench in {port.work.path}/patches/compile-it/port.yaml or the program, then: "
        "porttool verify compile-it --bench; or verify without --bench"
    )


def test_nothing_is_measured_of_a_port_that_is_parked_or_fails(make_port: MakePort) -> None:
    port = make_port({"bench": bench(0.2, 0.3), "drift": None}, size=7)
    verified = port.verify(bench=True, drift=True)
    assert verified.exit_code == EXIT_PARKED
    assert [c.detail for c in verified.report.checks if c.name in ("bench", "drift")] == [
        "the precondition parks the port"
    ] * 2
    assert port.runs() == []
    measured = port.verify(bench=True, despite_precondition=True)
    assert port.runs() == ["bench"]
    assert measured.exit_code == EXIT_PARKED
    assert measured.report.evidence is not None
    assert measured.report.evidence.decision.branch.startswith("the threshold rule fails")


def test_what_was_measured_counts_until_the_branch_moves(make_port: MakePort) -> None:
    port = make_port({"bench": bench(0.06, 0.1), "drift": drift("no drift")})
    first = port.verify(bench=True)
    assert first.report.evidence is not None
    assert first.report.evidence.decision.outcome == "open"
    assert first.next == "porttool verify compile-it --bench --drift"
    second = port.verify(drift=True)
    assert second.report.evidence is not None
    assert second.report.evidence.decision.outcome == "ship"
    assert port.verify().report.evidence == second.report.evidence
    assert port.runs() == ["bench", "drift"]
    port.work.switch("port/compile-it")
    port.work.commit({"trainer.py": "x = 2\n"}, "by hand")
    port.work.switch("main")
    assert port.report().evidence is None


def test_results_stay_for_the_next_run_on_the_same_tip_only(make_port: MakePort) -> None:
    port = make_port({"bench": bench(0.06, 0.1), "drift": drift("not enough")})
    port.verify(drift=True)
    port.verify(drift=True)
    assert port.runs() == ["drift", "drift"]
    port.work.switch("port/compile-it")
    tip = port.work.commit({"answers.json": json.dumps({"drift": drift("no drift")})}, "again")
    port.work.switch("main")
    assert port.verify(drift=True).report.tip == CommitId(tip)
    assert port.runs() == ["drift"]


def test_a_measurement_that_is_under_way_is_not_disturbed(make_port: MakePort) -> None:
    port = make_port({"bench": bench(0.06, 0.1), "drift": drift("no drift")})
    with open_repository(port.work.path) as repo:
        folder = pool_folder(repo) / "measures" / "compile-it"
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RepositoryError, match="being measured by another porttool verify"):
            port.verify(bench=True)
    assert port.runs() == []


def test_results_name_no_folder_of_this_machine(make_port: MakePort) -> None:
    port = make_port({"bench": bench(0.06, 0.1, table="see HERE/plot.png"), "drift": None})
    report = port.verify(bench=True).report
    assert report.evidence is not None
    assert report.evidence.bench is not None
    assert report.evidence.bench.taken.table == "see bench/plot.png"
    assert str(Path.home()) not in to_json(report)


def test_an_option_without_its_plan_is_refused(make_port: MakePort) -> None:
    port = make_port({}, plan=PLAN.split("  drift:", maxsplit=1)[0])
    with pytest.raises(PlanError, match="--drift: the plan does not say how") as caught:
        port.verify(bench=True, drift=True)
    assert caught.value.why == "there is no verify.drift"
    assert port.steps == []


def test_a_review_shows_what_was_measured(make_port: MakePort) -> None:
    table = "| <b>on</b> |\n| --- |"
    port = make_port({"bench": bench(0.06, 0.1, what="large", table=table), "drift": None})
    report = port.verify(bench=True).report
    assert measured_lines(report) == [
        f"bench {DAY}: +8.0% time saved, +6.0% to +10.0%",
        "  large",
        "decision: not decided, at least 5% faster, and drift was not checked",
    ]
    assert "## Measured" in markdown(report)
    assert table in markdown(report)
    code, shown = port.porttool("review")
    assert code == EXIT_DONE
    assert "at least 5% faster, and drift was not checked" in shown


def test_an_entry_is_written_once_and_replaced_by_a_newer_result(make_port: MakePort) -> None:
    port = make_port({"bench": bench(0.01, 0.02, table="| a |\n| --- |"), "drift": None})
    port.work.commit({"docs/performance.md": "# Performance\n\nWords.\n"}, "docs")
    code, said = port.porttool("record")
    assert (code, "nothing was measured of compile-it" in said) == (EXIT_USAGE, True)
    port.verify(bench=True)
    code, said = port.porttool("record")
    document = port.work.path / "docs/performance.md"
    first = document.read_text()
    assert code == EXIT_DONE
    assert said.startswith("wrote the entry into docs/performance.md")
    assert first.startswith(f"# Performance\n\nWords.\n\n{HEADING}\n\n### 2026-05-07: compile-it, ")
    assert "Decision: **do not ship**. Less than 5% faster" in first
    assert "Drift of the learning curves: not measured." in first
    assert port.porttool("record")[1] == "docs/performance.md has this entry already\n"
    assert document.read_text() == first
    result = port.work.path.parent / "bench.json"
    result.write_text(json.dumps(bench(-0.06, -0.04)))
    code, _ = port.porttool("record", "--bench", str(result))
    second = document.read_text()
    assert second.startswith(first)
    assert "Decision: **parked**. Slower by 5.0%: a regression at this size." in second
    result.write_text(json.dumps(bench(0.06, 0.08)))
    port.porttool("record", "--bench", str(result))
    third = document.read_text()
    assert third.count("### 2026-05-07") == 2
    assert "regression" not in third


def test_a_file_that_is_no_result_changes_nothing(make_port: MakePort) -> None:
    port = make_port({"bench": None, "drift": None})
    result = port.work.path.parent / "drift.json"
    result.write_text(json.dumps(drift("perhaps")))
    code, said = port.porttool("record", "--drift", str(result))
    assert code == EXIT_USAGE
    assert "drift.json is no result of a measurement" in said
    assert not (port.work.path / "docs").exists()


def test_an_entry_keeps_the_documents_line_ends_and_the_text_around_it() -> None:
    evidence = Evidence(Decision("open", "x"), FAST, None)
    text = entry("a", "tip", evidence)
    document = with_entry("# Top\r\n", text)
    assert "\n" not in document.replace("\r\n", "")
    document += "\r\n## Below\r\n\r\nwords\r\n"
    newer = entry("a", "tip", dataclasses.replace(evidence, drift=NO_DRIFT))
    changed = with_entry(document, newer)
    assert changed.endswith("\r\n## Below\r\n\r\nwords\r\n")
    assert "Drift: no drift." in changed
    assert changed.count("###") == 1
    assert with_entry(changed, newer) == changed


def test_hostile_results_stay_text() -> None:
    found = read_bench(json.dumps(bench(0.06, 0.1, what="\x1b[2J")).encode(), at_least=0.05)
    assert "\x1b" not in entry("a", "tip", Evidence(Decision("open", "x"), found, None))
    with pytest.raises(ValueError, match="verdict: Input should be 'no drift', 'drift'"):
        read_drift(json.dumps(drift("\x1b[2J")).encode())
    with pytest.raises(ValueError, match="effect: Input should be a finite number"):
        read_bench(json.dumps(bench(0.0, 0.1) | {"effect": float("nan")}).encode(), at_least=0.05)


def test_a_parked_port_says_what_is_next_by_its_reason() -> None:
    parked = Report("p", "d", "0", (), "main", "1" * 40, "port/p", "2" * 40, verdict="parked")
    decision = decide(True, bench_value(0.0, 0.01), None)
    assert next_step(dataclasses.replace(parked, evidence=Evidence(decision))) == (
        "park it, then: porttool record p"
    )
