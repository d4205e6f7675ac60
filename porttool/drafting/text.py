"""A draft as the text of `port.yaml`, with a comment wherever a person should look."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from porttool.drafting.draft import Draft
from porttool.drafting.switches import Proposal
from porttool.plan.switch import FlatSwitch, SwitchPlan
from porttool.report import counted, yaml_text
from porttool.wrappers import known_wrapper

LOOK = "# look: "
SCHEMA_NAME = "port.schema.json"
BUNDLE = "experiment.bundle"
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def port_text(draft: Draft) -> str:
    """Return `port.yaml`: it loads, and what nothing was found for is a comment with an example."""
    parts = [
        _head(draft),
        _experiment(draft),
        _wrapper(draft),
        _switch(draft),
        _variants(draft),
        _rest(draft),
        _verify(draft),
    ]
    return "\n".join("".join(f"{line}\n" for line in part) for part in parts)


def _head(draft: Draft) -> Iterator[str]:
    yield f"# yaml-language-server: $schema=../{SCHEMA_NAME}"
    yield f"# Drafted by `porttool init`. Each `{LOOK.strip()}` is a choice that was made for you:"
    yield "# make it your own and delete the comment. What is commented out was not found."
    yield f"name: {_scalar(draft.name)}"


def _experiment(draft: Draft) -> Iterator[str]:
    origin = draft.origin
    yield "experiment:"
    others = ", ".join(yaml_text(name) for name in origin.branches[1:4])
    yield f"  branch: {_scalar(origin.branch)}" + _look(f"also on {others}" if others else "")
    if len(origin.commits) > 1:
        yield f"  {LOOK}all that the branch has and {_word(origin.onto)} has not; keep what belongs"
        yield "  # to the experiment, oldest first."
    yield "  commits:"
    for commit in origin.commits:
        yield f"    - {yaml_text(commit.id)} # {yaml_text(commit.subject)}"
    if draft.mainline:
        yield f"  mainline: {draft.mainline}" + _look("the merge's parent that it is compared with")
    if draft.bundle is not None:
        why = f"{counted(len(draft.bundle), 'byte')}; no remote has the commit, so a clone needs it"
        yield f"  bundle: {BUNDLE}" + _look(f"{why}; remove both once it is pushed")
    else:
        yield "  # bundle: experiment.bundle  # for clones without the branch; make it there with:"
        yield f"  #   git bundle create {BUNDLE} BRANCH"
    yield ""
    yield f"onto: {_scalar(origin.onto)}"


def _wrapper(draft: Draft) -> Iterator[str]:
    if not draft.learned:
        yield f"{LOOK}no wrapper that porttool knows was found in the commit"
        if draft.refused:
            yield f"# ({_word(draft.refused)})."
        yield "# Say what it wraps objects in; without this, torch.compile is looked for."
        for one in draft.possible or ():
            yield f"# {one.path}:{one.line} puts {_word(one.callee)} around {_word(one.wrapped)}."
        yield "# wrapper:"
        callee = draft.possible[0].callee if draft.possible else "project.module.Wrapper"
        yield f"#   callee: {_scalar(callee)}"
        yield "#   unwrap: module    # the attribute that holds the object inside"
        yield '#   prefix: module.   # what the keys of its state_dict gain; "" for nothing'
        return
    first, *others = draft.learned
    rules = counted(first.num_rules, "rule")
    yield f"# {counted(first.num_seeds, 'object')} wrapped, {rules} learned from what came along."
    for other in others:
        yield f"{LOOK}the commit also wraps {counted(other.num_seeds, 'object')} in {other.callee};"
        yield "# one port is about one wrapper: that is not part of this one."
    yield "wrapper:"
    yield f"  callee: {_scalar(first.callee)}"
    row = known_wrapper(first.callee)
    if row is None:
        wrapper = first.wrapper
        yield f"  unwrap: {_scalar(wrapper.unwrap)}" + _look("told from its constructor")
        yield f"  prefix: {_scalar(wrapper.prefix)}" + _look("what its state_dict's keys gain")
        yield "  # methods: [state_dict, load_state_dict]  # whose results differ, if not all do"
    if row is not None and row.unwrap:
        yield f"  # unwrap: {row.unwrap}  # known of this wrapper"
    if row is not None and row.prefix:
        yield f"  # prefix: {row.prefix}"


def _switch(draft: Draft) -> Iterator[str]:
    proposal = draft.proposal
    if proposal is None:
        yield f"{LOOK}no switch is proposed as long as it is not known what is wrapped."
        yield "# Without one the port is not behind anything: always on."
        yield "# switch: {idiom: env, name: compile_model}"
        return
    yield f"{LOOK}{_word(proposal.why)}."
    for doubt in proposal.doubts:
        yield f"# {_word(doubt)}."
    if draft.refused:
        onto = _word(draft.origin.onto)
        yield from _folded(f"{LOOK}apply will stop: {_word(draft.refused)}.")
        yield f"# Change that on {onto}, and commit it. Or leave `switch` out: then apply goes on,"
        yield "# and what the experiment does is always on."
    yield "switch:"
    if isinstance(proposal.switch, SwitchPlan):
        yield from _nested(proposal.switch)
    else:
        yield from _flat(proposal.switch, proposal)
    chosen, others = draft.settings.chosen, draft.settings.others
    if chosen:
        yield f"  yaml: {_listed(chosen)}" + _look("shows the switch, off")
    if others:
        shown = ", ".join(_scalar(path) for path in others[:8])
        more = f", and {len(others) - 8} more" if len(others) > 8 else ""
        yield f"  # others that could show it: {shown}{more}"


def _nested(switch: SwitchPlan) -> Iterator[str]:
    section = switch.sections[0]
    yield f"  module: {_scalar(switch.module)}"
    yield f"  root: {_scalar(switch.root)}"
    yield f"  key: {_scalar(switch.key)}" + _look("the section's name in the settings")
    yield f"  class: {_scalar(switch.class_name)}"
    yield f"  gate: {switch.gate}"
    yield "  # options: [mode]  # fields of the gate's section that are handed to the wrapper;"
    yield "  #   without it the wrapper is called as the experiment calls it"
    yield "  sections:"
    yield f"    - key: {_scalar(section.key)}" + _look("named after the file that wraps")
    yield f"      class: {_scalar(section.class_name)}"
    yield "      fields:"
    for field in section.fields:
        yield f"        - {{name: {_scalar(field.name)}, type: bool, default: false}}"


def _flat(switch: FlatSwitch, proposal: Proposal) -> Iterator[str]:
    yield f"  idiom: {switch.idiom}"
    yield f"  name: {_scalar(switch.name)}" + _look("what it is called")
    if switch.module is not None:
        yield f"  module: {_scalar(switch.module)}"
    if switch.root is not None:
        yield f"  root: {_scalar(switch.root)}"
    if switch.idiom == "env":
        yield f"  env: {switch.variable}" + _look(f"{switch.variable}=1 turns it on")
        yield "  # Settings of the project are better, where it has any:"
        yield "  # {idiom: dataclass, name: compile_model, module: config.py, root: Config}"


def _variants(draft: Draft) -> Iterator[str]:
    shown = draft.settings.chosen[0] if draft.settings.chosen else "configs/default.yaml"
    gate = draft.proposal.switch if draft.proposal else None
    key = gate.gate if isinstance(gate, SwitchPlan) else (gate.name if gate else "compile_model")
    folder, _, file = shown.rpartition("/")
    stem = file.rpartition(".")[0]
    path = f"{folder}/{stem}_{draft.name}.yaml" if folder else f"{stem}_{draft.name}.yaml"
    yield "# Settings files that the port writes, with the switch on:"
    yield "# variants:"
    yield f"#   - path: {_scalar(path)}"
    yield f"#     from: {_scalar(shown)}"
    yield f"#     set: {{{key}: true}}"
    yield ""
    yield "# What has to be true of the targeted settings; not met, the port is parked:"
    yield "# precondition:"
    yield f"#   config: {_scalar(path)}"
    yield "#   any:"
    yield "#     - all: [{key: network.hidden_size, at_least: 1024}]"


def _rest(draft: Draft) -> Iterator[str]:
    yield "# Patches (git format-patch) beside this file, applied behind the experiment:"
    yield "# patches: [0001-follow-up.patch]"
    yield ""
    tests = draft.checks.test_folder or "tests"
    yield "# Folders in which nothing is rewritten, only counted:"
    yield f"# exclude: [{_scalar(tests)}]"
    yield ""
    if draft.num_open:
        yield f"{LOOK}`porttool apply` asks about {counted(draft.num_open, 'place')}, and prints"
        yield "# the lines for this."
    yield "answers: {}"


def _verify(draft: Draft) -> Iterator[str]:
    checks = draft.checks
    yield "verify:"
    if checks.pythonpath:
        yield f"  pythonpath: {_listed(checks.pythonpath)}" + _look("where imports start")
    yield "  timeout_s: 900" + _look("for each program, in seconds")
    yield "  # A short seeded run on onto and on the branch; {out} is a fresh folder."
    yield "  # Without it, that off means off is proven from the syntax alone."
    yield "  # run:"
    yield '  #   command: [python, train.py, --seed, "1", --out, "{out}"]'
    yield '  #   "on": [--compile]       # what turns the switch on'
    yield "  #   metrics: metrics.jsonl  # what the run leaves in {out}"
    yield "  #   checkpoint: latest.pt"
    yield '  #   ignore: [seconds, "*_per_s"]'
    if not checks.checks:
        yield f"  {LOOK}no ruff, no mypy and no tests of what is ported were found."
        yield "  # checks:"
        yield "  #   - {name: tests, command: [python, -m, pytest, -q]}"
        return
    yield "  checks:"
    for check in checks.checks:
        yield f"    {LOOK}{_word(check.why)}."
        yield f"    - name: {_scalar(check.name)}"
        yield from _command(check.command)


def _command(words: Sequence[str]) -> Iterator[str]:
    line = f"      command: {_listed(words)}"
    if len(line) <= 100:
        yield line
        return
    yield "      command:"
    for word in words:
        yield f"        - {_scalar(word)}"


def _folded(comment: str) -> list[str]:
    return textwrap.wrap(comment, 100, subsequent_indent="# ", break_on_hyphens=False)


def _look(words: str) -> str:
    return f"  {LOOK}{words}" if words else ""


def _word(text: str) -> str:
    """Return a text as a comment may hold it: one line, and nothing that a terminal obeys."""
    return yaml_text(" ".join(text.split()))[1:-1].replace('\\"', '"')


def _listed(words: Iterable[str]) -> str:
    return f"[{', '.join(_scalar(word) for word in words)}]"


def _scalar(text: str) -> str:
    """Return a text as YAML reads it back, in quotes where anything else could be meant."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else yaml_text(text)
