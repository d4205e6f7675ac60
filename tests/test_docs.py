"""What the documentation shows works: every command is run or at least read, output is as shown.

A page says where its commands run, `<!-- runs in: demo -->`: from there on they are run in one
shell, in the order of the page, in a folder of their own:

    empty      an empty folder
    checkout   a folder with this repository's configs
    demo       what `porttool demo` writes
    port       the same after `porttool apply --onto main`

In a `sh` block every line is a command. In a `console` block commands stand behind `$ `, above what
they print, where `...` stands for anything; ids, times and dates are masked. A command exits with
0, or with what its line ends in: `# exit code 3`. A block with a title, as in
`yaml title="conf.yaml"`, is written to that file; a `diff` block with
file names is applied. What stands under `<!-- not run: REASON -->`, every indented block, and
every command within a line, such as `porttool status --json`, is only read: its programs, options
and settings have to be there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
import typer.main

from coolrl_lost_cities.games.classic.deep_cfr.cli import app as trainer_app
from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
from porttool.apply import apply
from porttool.cli import app as porttool_app
from porttool.demo import write_demo
from porttool.git.repo import open_repository
from porttool.plan.plan import find_plan, load_plan

ROOT = Path(__file__).resolve().parent.parent
# A review is what the tool prints, and its own tests hold it.
WRITTEN = [path for path in (ROOT / "docs").rglob("*.md") if "reviews" not in path.parts]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in WRITTEN)]
INSTALLS = "installs from a package index"
VERIFIES = "takes minutes; docs/guides/checks.md runs a smaller one"
# What is shown and not run, by its page, and why.
LEFT_OUT = {
    "README.md": [
        VERIFIES,
        INSTALLS,
        VERIFIES,
        "takes an hour",
        "is what runs these lines",
    ],
    "docs/guides/cluster.md": [
        "trains until it is stopped",
        "measures for minutes",
        INSTALLS,
        "needs two machines",
        "needs a cluster",
    ],
    "docs/guides/evidence.md": ["measures for minutes"],
}
# Measurements of minutes to hours, indented.
ONLY_READ = {
    "docs/LOG.md",
    "docs/guides/bench-and-drift.md",
    "docs/guides/moving-main.md",
    "docs/performance.md",
}

STARTS = ("empty", "checkout", "demo", "port")
ELSEWHERE = {".", "cd", "export", "gh", "git", "glab", "python3.11", "ray"}
TIMEOUT_S = 600
# Bytecode may be written: else each of a page's commands would compile all modules again.
OF_THE_USER = re.compile(
    r"GIT_|XDG_|PORTTOOL_|EDITOR|VISUAL|PAGER|PYTHONPATH|PYTHONDONTWRITEBYTECODE"
)

_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$|^<!-- (.*?) -->$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n)+")
# A command within a line; one without words of its own is a name.
_INLINE = re.compile(r"(?<!`)`((?:porttool|lost-cities-deep-cfr|make|python|ray) [^`]+)`(?!`)")
# What is named, not shown: a command without what it needs, and a program of Python's own.
NAMED = {"porttool demo", "porttool gate", "porttool gate --check", "porttool init"}
NAMED |= {'python -c "import torch"'}
_TITLE = re.compile(r'\btitle="([^"]+)"')
_EXIT = re.compile(r"#[^\n]*\bexit code (\d+)[^\n]*$")


@dataclass
class Step:
    """A command, what it prints (None: not shown), and how it exits."""

    text: str
    line: int
    prints: str | None = None
    exit_code: int = 0


@dataclass
class Part:
    """Steps that go on in one shell from one start."""

    start: str
    steps: list[Step] = field(default_factory=list)


@dataclass
class Page:
    parts: list[Part] = field(default_factory=list)
    only_read: list[str] = field(default_factory=list)
    indented: list[str] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def read_page(text: str) -> Page:
    """Return the commands of a page; raises ValueError for one that nothing says where to run."""
    page = Page()
    reason: str | None = None
    for found in _FENCE.finditer(text):
        kind, words, body, comment = found.groups()
        line = text.count("\n", 0, found.start()) + 2
        if comment is not None:
            key, _, value = comment.partition(": ")
            if key == "runs in":
                if value not in STARTS:
                    raise ValueError(f"line {line}: {value} is none of {STARTS}")
                page.parts.append(Part(value))
            elif key == "not run":
                reason = value
            continue
        steps = _steps(kind, words, body, line)
        if reason is not None:
            page.reasons.append(reason)
            page.only_read += [step.text for step in steps]
        elif steps:
            if not page.parts:
                raise ValueError(f"line {line}: no comment says where this runs")
            page.parts[-1].steps += steps
        reason = None
    prose = _FENCE.sub("", text)
    page.inline += [" ".join(words.split()) for words in _INLINE.findall(prose)]
    for block in _INDENTED.findall(prose):
        page.indented += [
            step.text for step in _shell("\n".join(line[4:] for line in block.splitlines()), 0)
        ]
    return page


def _steps(kind: str, words: str, body: str, line: int) -> list[Step]:
    title = _TITLE.search(words)
    if title:
        path = shlex.quote(title[1])
        return [Step(f"mkdir -p \"$(dirname {path})\"\ncat > {path} <<'END'\n{body}END", line)]
    if kind == "diff" and body.startswith("--- "):
        return [Step(f"git apply --recount --unidiff-zero - <<'END'\n{body}END", line)]
    if kind == "sh":
        return _shell(body, line)
    return _console(body, line) if kind == "console" else []


def _shell(body: str, line: int) -> list[Step]:
    """Return a step a line; one that ends in a backslash goes on."""
    steps = []
    for number, text in enumerate(body.replace("\\\n", "\\\0").splitlines(), line):
        if text.strip() and not text.startswith("#"):
            steps.append(_step(text.replace("\0", "\n"), number))
    return steps


def _console(body: str, line: int) -> list[Step]:
    steps: list[Step] = []
    for number, text in enumerate(body.splitlines(), line):
        if text.startswith("$ "):
            steps.append(_step(text[2:], number))
            steps[-1].prints = ""
        elif steps:
            steps[-1].prints = f"{steps[-1].prints}{text}\n"
        else:
            raise ValueError(f"line {number}: output without a command")
    return steps


def _step(text: str, line: int) -> Step:
    code = _EXIT.search(text)
    return Step(text, line, exit_code=int(code[1]) if code else 0)


def masked(text: str, home: Path | None = None) -> str:
    """Return text in which what varies from run to run has one form."""
    if home is not None:
        text = text.replace(str(home), "/home/ada")
    text = re.sub(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}\b", "ID", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d\b", "DATE", text)
    text = re.sub(r"\b\d+(\.\d+)? ?(s|ms|min|h)\b", "TIME", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def printed_as_shown(shown: str, printed: str, home: Path) -> bool:
    first, *others = masked(shown).split("...")
    text = masked(printed, home)
    if not others:
        return text == first
    place, last = len(first), others.pop()
    for piece in others:
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return text.startswith(first) and text.endswith(last) and len(text) - len(last) >= place


@pytest.fixture(scope="session")
def starts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folder of each start, made once."""
    folder = tmp_path_factory.mktemp("starts")
    (folder / "empty").mkdir()
    (folder / "checkout").mkdir()
    (folder / "checkout" / "configs").symlink_to(ROOT / "configs")
    write_demo(folder / "demo")
    shutil.copytree(folder / "demo", folder / "port", symlinks=True)
    with open_repository(folder / "port") as repository:
        plan = load_plan(find_plan(folder / "port"))
        apply(repository, plan, onto="main", progress=lambda step: None)
    return {name: folder / name for name in STARTS}


def run(part: Part, start: Path, room: Path) -> None:
    """Run a part's steps in one shell, in a copy of its start; raises AssertionError at a fault."""
    home, answers = room / "home", room / "answers"
    shutil.copytree(start, home / "lab" if part.start in ("demo", "port") else home, symlinks=True)
    answers.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    script = "".join(
        f"{{ {step.text}\n}} > {answers}/{number}.text 2>&1\ncode=$?\n"
        f"echo $code > {answers}/{number}.code; test $code -eq {step.exit_code} || exit\n"
        for number, step in enumerate(part.steps)
    )
    kernels = {"NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]}
    env = {k: v for k, v in os.environ.items() if not OF_THE_USER.match(k)} | kernels
    env |= {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
        "VIRTUAL_ENV": sys.prefix,
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PAGER": "cat",
        "TERM": "dumb",
    }
    subprocess.run(
        ["bash", "-c", script],
        cwd=home / "lab" if (home / "lab").is_dir() else home,
        env=env,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    for number, step in enumerate(part.steps):
        text = (answers / f"{number}.text").read_text()
        where = f"line {step.line}: $ {step.text}"
        code = int((answers / f"{number}.code").read_text())
        assert code == step.exit_code, f"{where}\nexits with {code}:\n{text}"
        if step.prints is not None:
            shown = printed_as_shown(step.prints, text, home)
            assert shown, (
                f"{where}\nprints\n{masked(text, home)}\n, shown is\n{masked(step.prints)}"
            )


def read(command: str) -> None:
    """Check that what a command names is there, without running it."""
    # A shell takes a backslash and the end of its line out; shlex keeps the end.
    words = shlex.shlex(command.replace("\\\n", ""), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    calls: list[list[str]] = [[]]
    for word in words:
        if word == ">":
            next(words)
        elif set(word) <= set("&|;"):
            calls.append([])
        else:
            calls[-1].append(word)
    for call in filter(None, calls):
        _read_call(call)


def _read_call(words: list[str]) -> None:
    program, arguments = words[0], words[1:]
    if program in ("porttool", "lost-cities-deep-cfr"):
        group = typer.main.get_command(porttool_app if program == "porttool" else trainer_app)
        parent = group.make_context(program, list(arguments))
        command = group.commands[arguments[0]]
        options = command.make_context(arguments[0], arguments[1:], parent=parent).params
        if program == "lost-cities-deep-cfr" and "overrides" in options:
            config = options["config"]
            load_config(config and ROOT / config, options["overrides"] or [])
    elif program == "make":
        # What it would do is printed, and whatever it needs has to be there.
        done = subprocess.run(
            ["make", "--dry-run", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    elif program == "python" and arguments[0] == "-m":
        module = ROOT / arguments[1].replace(".", "/")
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file(), words
    elif program == "python":
        assert (ROOT / arguments[0]).is_file(), words
    elif program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for extras in re.findall(r"\[([\w,-]+)\]", " ".join(arguments)):
            assert set(extras.split(",")) <= set(project["optional-dependencies"]), words
    elif "/" in program:
        assert (ROOT / program).is_file(), words
    else:
        assert program in ELSEWHERE or "=" in program, words


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, starts: dict[str, Path], tmp_path: Path) -> None:
    page = read_page((ROOT / name).read_text(encoding="utf-8"))
    for command in page.only_read + page.indented:
        read(command)
    for command in page.inline:
        if command not in NAMED:
            read(command)
    for number, part in enumerate(page.parts):
        if part.steps:
            run(part, starts[part.start], tmp_path / str(number))


def test_the_recording_shows_what_a_review_prints_today(starts: dict[str, Path]) -> None:
    tour = ElementTree.parse(ROOT / "docs" / "images" / "tour.svg")
    lines = ["".join(text.itertext()) for text in tour.iter() if text.tag.endswith("text")]
    commands = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    [(first, last)] = [
        (number, after)
        for number, after in pairwise(commands)
        if lines[number].startswith("$ porttool review")
    ]
    done = subprocess.run(
        shlex.split(lines[first].removeprefix("$ ")),
        cwd=starts["port"],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    # Without any white space: a terminal is narrower than a pipe.
    shown = "".join("".join(lines[first + 1 : last]).removesuffix("...").split())
    assert len(shown) > 500
    assert shown in "".join(done.stdout.split()), (
        "python scripts/record_terminal.py docs/images/tour.svg"
    )


def test_what_is_not_run_is_little_and_known() -> None:
    pages = {name: read_page((ROOT / name).read_text(encoding="utf-8")) for name in PAGES}
    assert {name: page.reasons for name, page in pages.items() if page.reasons} == LEFT_OUT
    assert {name for name, page in pages.items() if page.indented} == ONLY_READ
    assert {command for page in pages.values() for command in page.inline} >= NAMED


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "prints"),
        ("```console\n$ echo one\none\ntwo\n```\n", "prints"),
        ("```sh\nfalse\n```\n", "exits with 1"),
        ("```sh\ntrue # exit code 4\n```\n", "exits with 0"),
    ],
)
def test_a_page_that_is_wrong_is_found_out(
    text: str, fault: str, starts: dict[str, Path], tmp_path: Path
) -> None:
    page = read_page("<!-- runs in: empty -->\n" + text)
    with pytest.raises(AssertionError, match=fault):
        run(page.parts[0], starts["empty"], tmp_path / "room")


@pytest.mark.parametrize(
    "command",
    [
        "porttool apply --on main",
        "porttool schema no-such > FILE",
        "lost-cities-deep-cfr train --set traversal.no_such_key=1",
        "make no-such-target",
        "pip install '.[trainer,no-such]'",
        "python -m benchmarks.no_such_file",
        "no-such-program --help",
    ],
)
def test_what_is_only_read_is_read(command: str) -> None:
    with pytest.raises(Exception, match=r"no[-_ ]such|--on"):
        read(command)


def test_commands_within_lines_are_found() -> None:
    page = read_page("Then `porttool status\n--json` or `make` or `port.yaml`, ``porttool x``.\n")
    assert (page.inline, page.indented) == (["porttool status --json"], [])


def test_a_command_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2: no comment says where"):
        read_page("```sh\ntrue\n```\n")
