"""Attributes that name programs: none is started, and what follows from that is said."""

import pytest

from porttool.apply import apply
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan

BASE = """import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)

    def save(self):
        return {"policy": self.policy.state_dict()}
"""
EXPERIMENT = BASE.replace(
    "nn.Linear(cfg.n_in, cfg.n_out)", "torch.compile(nn.Linear(cfg.n_in, cfg.n_out))"
).replace("self.policy.state_dict()", "getattr(self.policy, '_orig_mod', self.policy).state_dict()")
LOG = "".join(f"{number}\n" for number in range(9))


@pytest.mark.parametrize(
    ("line", "where", "reason"),
    [
        ("*.log merge=mine", "n.log", "its merge driver `mine` is not run: it merged as text"),
        ("*.log merge=union", "n.log", "lines of both are kept, whatever they say together"),
        ("*.py filter=mine", "a.py", "the filter `mine` is not run"),
        ("*.py working-tree-encoding=latin1", "a.py", "it is checked out as latin1"),
        ("*.log merge=text", None, None),
        ("*.py merge=mine", None, None),
        ("other.txt filter=mine merge=mine", None, None),
        ("*.py text eol=crlf", None, None),
        ("# nothing", None, None),
    ],
)
def test_no_program_of_an_attribute_is_started(make_repo, tmp_path, line, where, reason):
    attributes = {".gitattributes": f"{line}\n"}
    repo = make_repo({"a.py": BASE, "n.log": LOG, "other.txt": "k\n"})
    repo.switch("exp", "main")
    commit = repo.commit({"a.py": EXPERIMENT, "n.log": f"first\n{LOG}"}, "compile")
    repo.switch("main")
    plan = f"name: x\nexperiment: {{branch: exp, commits: [{commit}]}}\n"
    repo.commit({"n.log": f"{LOG}last\n", "patches/x/port.yaml": plan, **attributes}, "moved on")
    mark = tmp_path / "started"
    for name in ("merge.mine.driver", "filter.mine.clean", "filter.mine.smudge"):
        repo.git("config", name, f"touch {mark} %A")
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        report = apply(opened, plan, onto="main", progress=str).report
    assert not mark.exists()
    assert [hazard.path for hazard in report.hazards] == ([where] if where else [])
    assert all(reason in hazard.reasons[0] for hazard in report.hazards)
    assert repo.show("port/x", "n.log").decode() == f"first\n{LOG}last\n"
    assert repo.show("port/x", "a.py").decode() == EXPERIMENT
