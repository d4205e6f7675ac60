"""What `--help` shows at the end of each command: command lines that work, and what they do."""

from __future__ import annotations

import textwrap

_INDENT = "  "
_WIDTH = 74

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "init": (
        ("porttool init experiments/compile", "draft patches/compile/port.yaml from a branch"),
        ("porttool init 05cc02a --name ema --onto develop", "one commit, onto another branch"),
        ("porttool init HEAD~2 --dry-run", "only show what would be written"),
    ),
    "apply": (
        ("porttool apply", "the only port there is, onto the branch that its plan names"),
        ("porttool apply compile --onto main --dry-run", "decide and prove, write no branch"),
        ("porttool apply compile --onto release --replace", "move its branch to another onto"),
    ),
    "verify": (
        ("porttool verify", "run the plan's checks and give a verdict"),
        ("porttool verify compile --bench --drift", "measure too, on this machine"),
        ("porttool verify --junit checks.xml", "leave the checks for a CI system to show"),
    ),
    "precondition": (
        ("porttool precondition", "say whether it holds, and by what"),
        ("porttool precondition compile --measure", "measure too, with the plan's own program"),
    ),
    "review": (
        ("porttool review", "what to look at first, in the terminal"),
        ("porttool review --html review.html", "the same as one page for a browser"),
        ("porttool review --site 3", "why the third decision came out as it did"),
        ("porttool review --markdown > body.md", "the body of a pull request"),
    ),
    "record": (
        ("porttool record", "write what verify measured into the project's docs"),
        ("porttool record compile --bench bench.json", "from a file of another machine"),
    ),
    "publish": (
        ("porttool publish", "push the branch, open or update its pull request"),
        ("porttool publish compile --draft", "as a draft"),
        ("porttool publish --dry-run", "show the push and the command for the request"),
    ),
    "resolve": (
        ("porttool resolve", "open the conflicts in a folder"),
        ("porttool resolve --done --theirs train.py", "keep the experiment's train.py"),
        ("porttool resolve --abort", "remove the folder"),
    ),
    "status": (
        ("porttool status", "every port, how it stands, and what to type next"),
        ("porttool status --json", "the same for a program"),
    ),
    "refresh": (
        ("porttool refresh compile", "make it again on today's main, show what changed"),
        ("porttool refresh --all --dry-run", "say of every port what would change"),
        ("porttool refresh compile --keep", "with your own commits on top"),
    ),
    "radar": (
        ("porttool radar", "every unmerged branch, and how it would port today"),
        ("porttool radar --onto main --html radar.html", "as a page with a heat map"),
    ),
    "gate": (
        ("porttool gate train.py", "put its calls behind the setting compile_model"),
        ("porttool gate --check .", "fail where a call is behind no switch"),
        ("porttool gate --check --sarif gate.sarif .", "for code scanning too"),
        ("porttool gate --switch fast --dry-run src", "show the changes, write nothing"),
    ),
    "demo": (("porttool demo porttool-demo", "write a repository with a stale experiment"),),
    "schema": (
        ("porttool schema > patches/port.schema.json", "for an editor that edits port.yaml"),
        ("porttool schema report", "of what review --json prints"),
    ),
}


def epilog(command: str) -> str:
    """Return the end of a command's `--help`: its examples, each with what it does below it."""
    lines = ["\b", "Examples:"]
    for line, words in EXAMPLES[command]:
        lines.append(f"{_INDENT}{line}")
        lines += textwrap.wrap(
            words, _WIDTH, initial_indent=_INDENT * 3, subsequent_indent=_INDENT * 3
        )
    return "\n".join(lines)
