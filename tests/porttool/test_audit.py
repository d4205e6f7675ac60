"""The second opinion from names alone, and what becomes of it."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from porttool.auditing import ask_where_names_disagree, audit_files, check_written, written_audit
from porttool.deciding.dataflow import analyse
from porttool.deciding.decide import decide, place_seeds
from porttool.deciding.edits import port_edits
from porttool.errors import PortError, ProofFailed
from porttool.git.commits import CommitId, TreeId
from porttool.git.quarantine import Quarantine
from porttool.git.repo import open_repository
from porttool.learning.learn import learn
from porttool.learning.lesson import Helper, Lesson, Rule, Wrapper
from porttool.proving.audit import Judged, NamedSeed, audit_names
from porttool.source.syntax import apply_edits, parse_source, span_of
from porttool.workbench import Decided

CASES = Path(__file__).parent / "cases" / "ports"
HELPER = """\
def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()
"""
LESSON = Lesson(
    wrapper=Wrapper(),
    rules=(
        Rule("clean", "$X.state_dict()", "_clean_state_dict($X)", (), True, ("_clean_state_dict",)),
    ),
    seeds=(),
    helpers=(Helper("_clean_state_dict", "a.py", HELPER, None, None),),
    imports=(),
    residual={},
    hunks=(),
    touched=("a.py",),
    negatives=(),
)


def read_by_names(text, *, other=""):
    """Return the receivers that names say are wrapped, and those that names say are plain.

    A line that ends in `# KIND` is a seed of that kind in the scope that it stands in.
    """
    sources = {"a.py": parse_source("a.py", text.encode())}
    if other:
        sources["b.py"] = parse_source("b.py", other.encode())
    seeds = []
    for source in sources.values():
        scopes = []
        for number, line in enumerate(source.text.splitlines(), 1):
            depth = (len(line) - len(line.lstrip())) // 4
            if line.strip():
                scopes = scopes[:depth]
            if line.lstrip().startswith(("def ", "class ")):
                scopes.append(line.split()[1].partition("(")[0].rstrip(":"))
            code, _, kind = line.partition("  # ")
            if kind in ("object", "list", "dict", "return", "rebind"):
                target = None if kind == "return" else code.partition(" = ")[0].strip()
                call = "torch.compile($X)"
                seeds.append(NamedSeed(source.path, ".".join(scopes), number, target, kind, call))
    found = []
    for action in ("skip", "rewrite"):
        judged = []
        for path, source in sources.items():
            for node in walk_calls(source.tree):
                judged.append(Judged(f"{path}:{node.lineno}", path, span_of(source, node), action))
        doubts = audit_names(sources, LESSON, seeds, judged)
        found.append(sorted(doubt.text.removesuffix(".state_dict()") for doubt in doubts))
    return tuple(found)


def walk_calls(tree):
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node).endswith(".state_dict()")
    ]


LEARNER = """\
class Learner:
    def __init__(self, cfg):
        self.policy = nn.Linear(2, 2)  # object
        self.critics = [nn.Linear(2, 1) for _ in range(2)]  # list
        self.heads = {k: nn.Linear(2, 1) for k in "ab"}  # dict
        self.opt = torch.optim.Adam(self.policy.parameters())
        self.opts = [torch.optim.SGD(c.parameters()) for c in self.critics]

    def at(self, i, other, queue):
"""
READINGS = {
    "the attribute itself": ("self.policy.state_dict()", ["self.policy"], []),
    "an element": ("self.critics[i].state_dict()", ["self.critics[i]"], []),
    "the whole collection": ("self.critics.state_dict()", [], []),
    "an optimizer": ("self.opt.state_dict()", [], ["self.opt"]),
    "an element of plain ones": ("self.opts[0].state_dict()", [], ["self.opts[0]"]),
    "a local name for it": ("net = self.policy\nnet.state_dict()", ["net"], []),
    "two bindings": ("net = self.policy\nnet = other\nnet.state_dict()", [], []),
    "a parameter": ("other.state_dict()", [], []),
    "a loop": ("for c in self.critics:\n    c.state_dict()", ["c"], []),
    "a comprehension": ("[c.state_dict() for c in self.critics]", ["c"], []),
    "a zip": (
        "for c, o in zip(self.critics, self.opts):\n    c.state_dict(), o.state_dict()",
        ["c"],
        ["o"],
    ),
    "an enumerate around a zip": (
        "[(c.state_dict(), o.state_dict()) for i, (c, o) in "
        "enumerate(zip(self.critics, self.opts))]",
        ["c"],
        ["o"],
    ),
    "the keys of a dict": ("for h in self.heads:\n    h.state_dict()", [], []),
    "the values of a dict": ("[h.state_dict() for h in self.heads.values()]", ["h"], []),
    "the items of a dict": ("[h.state_dict() for k, h in self.heads.items()]", ["h"], []),
    "a swap": ("self.policy, other = other, self.policy\nself.policy.state_dict()", [], []),
    "a slice": ("self.critics[:1].state_dict()", [], []),
    "what a condition asks about": (
        "if self.policy is not None:\n    self.policy.state_dict()",
        [],
        [],
    ),
    "self is bound again": ("self = other\nself.policy.state_dict()", [], []),
    "a function of its own": (
        "def inner(self):\n    self.policy.state_dict()\ninner(other)",
        [],
        [],
    ),
    "a lambda's parameter": ("queue(lambda self: self.policy.state_dict())", [], []),
    "what another object has": ("other.policy.state_dict()", [], []),
    "another object's optimizer": ("other.opt.state_dict()", [], ["other.opt"]),
    "an element that was replaced": (
        "self.critics[0] = other\nself.critics[1].state_dict()",
        [],
        [],
    ),
    "what is deleted": ("del self.policy\nself.policy.state_dict()", [], []),
    "with, walrus and except": (
        "with other as net:\n    net.state_dict()\n"
        "if (found := self.policy):\n    found.state_dict()\n"
        "try:\n    pass\nexcept ValueError as error:\n    error.state_dict()",
        [],
        [],
    ),
    "a rewritten place": ("_clean_state_dict(self.policy.state_dict())", ["self.policy"], []),
    "a match": ("match other:\n    case [net]:\n        net.state_dict()", [], []),
}


@pytest.mark.parametrize("name", READINGS)
def test_what_names_tell(name):
    body, wrapped, plain = READINGS[name]
    text = LEARNER + "".join(f"        {line}\n" for line in body.split("\n"))
    assert read_by_names(text) == (wrapped, plain)


def test_a_seed_counts_only_where_it_has_been_wrapped_already():
    before = "def f():\n    net = build()  # object\n    net.state_dict()\n"
    assert read_by_names(before) == (["net"], [])
    assert read_by_names("def f():\n    net.state_dict()\n    net = build()  # object\n") == (
        [],
        [],
    )
    branch = "def f(x):\n    if x:\n        net = build()  # object\n    net.state_dict()\n"
    assert read_by_names(branch) == ([], [])


def test_a_subclass_in_another_file_is_followed_by_its_bases_name():
    other = "class Remote(Learner):\n    def send(self):\n        self.policy.state_dict()\n"
    assert read_by_names(LEARNER + "        pass\n", other=other) == (["self.policy"], [])
    own = other.replace("self.policy.st", "self.policy = build()\n        self.policy.st")
    assert read_by_names(LEARNER + "        pass\n", other=own) == ([], [])
    hidden = other + "\n    @property\n    def policy(self):\n        return 1\n"
    assert read_by_names(LEARNER + "        pass\n", other=hidden) == ([], [])


def test_two_classes_of_one_name_are_not_guessed():
    other = "class Remote(Learner):\n    def send(self):\n        self.policy.state_dict()\n"
    other += "\n\nclass Learner:\n    pass\n"
    assert read_by_names(LEARNER + "        pass\n", other=other) == ([], [])


def test_a_function_that_returns_a_wrapped_object():
    text = (
        "def build(n):\n    return nn.Linear(n, n)  # return\n\n\n"
        "class A:\n    def __init__(self):\n        self.net = build(1)\n\n"
        "    def save(self):\n        self.net.state_dict()\n"
    )
    assert read_by_names(text) == (["self.net"], [])
    either = text.replace("    return nn", "    if not n:\n        return None\n    return nn")
    assert read_by_names(either) == ([], [])
    assert read_by_names("@cached\n" + text) == ([], [])


def test_a_class_of_the_project_is_not_an_optimizer_by_its_name():
    text = "def f():\n    opt = MyOptimizer()\n    opt.state_dict()\n"
    text += "    o = Adam()\n    o.state_dict()\n"
    assert read_by_names(text) == ([], ["o"])
    assert read_by_names(text + "\n\nclass Adam:\n    pass\n") == ([], [])
    annotated = "def f(opt: torch.optim.Optimizer, net: Module):\n    opt.state_dict()\n"
    assert read_by_names(annotated) == ([], ["opt"])


# -- questions --------------------------------------------------------------------------------


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def decided(folder):
    """Decide a case as `apply` does, without a repository."""
    lesson = learn(files_of(folder / "base"), files_of(folder / "experiment"), Wrapper())
    sources = {
        path: parse_source(path, data)
        for path, data in files_of(folder / "main").items()
        if path.endswith(".py")
    }
    placed, questions = place_seeds(sources, lesson)
    flow = analyse(sources, placed, lesson, questions)
    decisions = decide(sources, lesson, placed, flow)
    return Decided(lesson, TreeId(""), (), sources, placed, decisions)


def ask(port, decisions, answers=None):
    return ask_where_names_disagree(
        port.sources, port.lesson, port.placed, decisions, answers or {}
    )


def test_a_decision_that_names_contradict_becomes_a_question():
    port = decided(CASES / "05_enumerate_zip_nested")
    assert ask(port, port.decisions) == port.decisions
    for text, wrong in (("net.state_dict()", "skip"), ("opt.state_dict()", "rewrite")):
        (right,) = [d for d in port.decisions if d.text == text]
        bent = tuple(replace(d, action=wrong) if d is right else d for d in port.decisions)
        (question,) = [d for d in ask(port, bent) if d.action == "ask"]
        assert (question.key, question.text) == (right.key, text)
        assert question.reasons[0].startswith("the audit by names disagrees: ")
        assert ask(port, bent, {right.key: wrong}) == bent


def test_a_place_that_was_not_looked_at_becomes_a_question():
    port = decided(CASES / "01_reindented_block")
    first = next(d for d in port.decisions if d.action == "rewrite")
    rest = tuple(d for d in port.decisions if d is not first)
    (question,) = [d for d in ask(port, rest) if d.action == "ask"]
    assert (question.key, question.line, question.span) == (first.key, first.line, first.span)
    (answered,) = [d for d in ask(port, rest, {first.key: "skip"}) if d.key == first.key]
    assert answered.action == "skip"


def test_names_agree_with_every_case_and_see_most_wrong_decisions():
    """Every decision about a place is turned round in turn; names alone see this many of them."""
    turned = {"rewrite": "skip", "skip": "rewrite"}
    seen = total = 0
    for folder in sorted(CASES.glob("[0-9]*")):
        port = decided(folder)
        assert ask(port, port.decisions) == port.decisions, folder.name
        for one in port.decisions:
            if one.rule is None or one.action not in turned:
                continue
            wrong = replace(one, action=turned[one.action])
            bent = tuple(wrong if d is one else d for d in port.decisions)
            total += 1
            seen += ask(port, bent) != bent
    assert total > 130
    assert seen / total > 0.8


# -- what was written -------------------------------------------------------------------------


def written(port):
    return {
        path: apply_edits(source, port_edits(source, port.decisions, port.placed, port.lesson))
        for path, source in port.sources.items()
    }


FAULTS = {
    "a place left out": (
        "_clean_state_dict(net)",
        "net.state_dict()",
        (1, "`_clean_state_dict(net)` should be there in Learner.both, and is not rewritten"),
    ),
    "a plain one rewritten": (
        "opt.state_dict()\n",
        "_clean_state_dict(opt)\n",
        (34, "`_clean_state_dict(opt)` is rewritten in Learner.both, and nobody decided that"),
    ),
    "rewritten twice": (
        "_clean_state_dict(net)",
        "_clean_state_dict(_clean_state_dict(net))",
        (
            33,
            "`_clean_state_dict(net.state_dict())` is rewritten in Learner.both, and nobody "
            "decided that",
        ),
    ),
    "a seed left plain": (
        "torch.compile(nn.Linear(cfg.n_in, cfg.n_out))",
        "nn.Linear(cfg.n_in, cfg.n_out)",
        (
            1,
            "`torch.compile(nn.Linear(cfg.n_in, cfg.n_out))` should be there in "
            "Learner.__init__, and is not wrapped",
        ),
    ),
    "something else wrapped": (
        "    actor = nn.Linear(cfg.n_in, cfg.n_out)",
        "    actor = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))",
        (
            39,
            "`torch.compile(nn.Linear(cfg.n_in, cfg.n_out))` is wrapped in run_actor, and nobody "
            "decided that",
        ),
    ),
    "a statement that is lost": (
        "        out = {}\n",
        "",
        (
            31,
            "`for i, (net, opt) in enumerate(zip(self.critics, self.critic_opts)):` is not what "
            "onto has there, and nobody decided that",
        ),
    ),
    "no helper": (
        HELPER,
        "",
        (1, "_clean_state_dict is there 0 times, expected once"),
    ),
    "a helper twice": (
        HELPER,
        HELPER + HELPER,
        (1, "_clean_state_dict is there 2 times, expected once"),
    ),
    "another helper": (
        '_orig_mod", network).state_dict()\n\n\nclass',
        '_orig_mod", network).parameters()\n\n\nclass',
        (
            5,
            "`def _clean_state_dict(network):` is not what onto has there, and nobody decided that",
        ),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_a_written_file_is_told(name):
    old, new, (line, text) = FAULTS[name]
    port = decided(CASES / "05_enumerate_zip_nested")
    files = {path: data.decode() for path, data in written(port).items()}
    assert audit_files(written(port), written_audit(port), None) == ()
    assert old in files["learner.py"]
    bent = {"learner.py": files["learner.py"].replace(old, new, 1).encode()}
    faults = audit_files(bent, written_audit(port), None)
    assert (line, text) in [(fault.line, fault.text) for fault in faults]


def test_a_file_that_does_not_parse_is_a_fault():
    port = decided(CASES / "05_enumerate_zip_nested")
    (fault,) = audit_files({"learner.py": b"x = (\n"}, written_audit(port), None)
    assert "does not parse" in fault.text


def test_an_import_of_a_helper_that_is_not_there_is_a_fault():
    port = decided(CASES / "17_subclass_other_file")
    files = written(port)
    files["learner.py"] = files["learner.py"].replace(b"def _clean", b"def clean")
    found = audit_files(files, written_audit(port), None)
    faults = {(fault.path, fault.text) for fault in found}
    assert ("dist.py", "_clean_state_dict is imported from where it is not") in faults
    assert ("learner.py", "the name _clean_state_dict means nothing in this file") in faults


def test_a_written_tree_that_is_not_as_decided_is_refused(make_repo):
    port = decided(CASES / "01_reindented_block")
    right, audit = written(port), written_audit(port)
    repo = make_repo({path: source.data for path, source in port.sources.items()})
    with open_repository(repo.path) as opened, Quarantine(opened) as quarantine:
        onto = quarantine.tree_of(CommitId(repo.id("main")))
        check_written(quarantine, quarantine.write_tree(onto, dict(right)), audit, None)
        with pytest.raises(ProofFailed, match="what was written is not what was decided") as caught:
            check_written(quarantine, onto, audit, None)
    assert caught.value.exit_code == 4
    assert isinstance(caught.value, PortError)
    assert caught.value.where == "learner.py:1 (as written)"
