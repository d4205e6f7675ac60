"""The learned rules as a semantic patch, in the manner of SmPL: metavariables, then both sides."""

from __future__ import annotations

import re

from porttool.report import Report, Rule, counted

_METAVARIABLE = re.compile(r"\$[A-Z_]\w*")
_KINDS = {"ARGS": "arguments"}


def semantic_patch(report: Report) -> str:
    """Return every rule as a patch with its metavariables declared, "" where there is none."""
    return "\n\n".join(map(rule_patch, report.rules))


def rule_patch(rule: Rule) -> str:
    """Return one rule: a comment that says what it rests on, its metavariables, its two sides."""
    neutral = "same result on a plain object" if rule.neutral else "for wrapped objects only"
    names = dict.fromkeys(_METAVARIABLE.findall(f"{rule.before} {rule.after}"))
    declared = [f"{_KINDS.get(name[1:], 'expression')} {name};" for name in names]
    return "\n".join(
        [
            f"// {neutral}; learned from {counted(len(rule.examples), 'edit')}",
            f"@@ {rule.name} @@",
            *declared,
            "@@",
            *(f"- {line}" for line in rule.before.split("\n")),
            *(f"+ {line}" for line in rule.after.split("\n")),
        ]
    )
