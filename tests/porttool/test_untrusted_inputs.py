"""Whatever is in a plan, a source, a patch or a note: an answer or a refusal, never a traceback."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from porttool.cli import app

# More inputs than CI's: PORTTOOL_FUZZ_EXAMPLES=2000 pytest tests/porttool/test_untrusted_inputs.py
NUM_EXAMPLES = int(os.environ.get("PORTTOOL_FUZZ_EXAMPLES", "4"))
BRANCH = "refs/heads/port/compile-it"
PLAN = "patches/compile-it/port.yaml"
CODES = (0, 2, 3, 4, 5)

FUZZ = settings(
    max_examples=NUM_EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def porttool(repo: Any, *words: str) -> Result:
    with contextlib.chdir(repo.path):
        result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


# By kind: what a source says, and whether there is too much of it to be analysed.
EXCESSIVE = {
    "parentheses": (f"x = {'(' * 10_000}1{')' * 10_000}", True),
    "brackets": (f"x = {'[' * 190}1{']' * 190}", True),
    "some_brackets": (f"x = {'[' * 90}1{']' * 90}", False),
    "sum": (f"x = {' + '.join(['x'] * 20_000)}", True),
    "shorter_sum": (f"x = {' + '.join(['x'] * 900)}", True),
    "some_sum": (f"x = {' + '.join(['net.state_dict()'] * 130)}", False),
    "attributes": (f"x = x{'.a' * 20_000}", True),
    "calls": (f"x = x{'()' * 3_000}", True),
    "negations": (f"x = {'not ' * 20_000}x", True),
    "conditions": (f"x = {'1 if x else ' * 5_000}2", True),
    "lambdas": (f"x = {'lambda: ' * 5_000}1", True),
    "branches": ("if x:\n        pass\n" + "    elif x:\n        pass\n" * 5_000, True),
    "some_branches": ("if x:\n        pass\n" + "    elif x:\n        pass\n" * 60, False),
    "long_line": (f"x = '{'y' * 5_000_000}'", True),
    "many_lines": ("x = [1, 2, 3]\n" + "    x = [1, 2, 3]\n" * 250_000, True),
    "nul": ("x = '\0'", True),
    "digits": (f"x = {'9' * 100_000}", True),
    "escapes": ("x = '\\ud800 \x1b[2J'", False),
    "form_feeds": ("x = 1\f", False),
}


def test_a_source_that_is_too_much_is_reported(make_port: Callable[[], Any]) -> None:
    repo = make_port()
    repo.commit(
        {
            f"src/{name}.py": f"def f(net, x):\n    net.state_dict()\n    {text}\n"
            for name, (text, _) in EXCESSIVE.items()
        }
        | {"src/no_coding.py": "# -*- coding: no-such -*-\nstate_dict\n"}
        | {"src/not_utf8.py": b"# \xff\nstate_dict\n"}
    )
    # A process of its own: how much stack is left depends on who calls.
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from porttool.cli import main; main()"),
            *("apply", "--dry-run", "--json", "--repo", str(repo.path)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr[-2000:]  # nobody says what `net` is
    sites = json.loads(done.stdout)["report"]["sites"]
    reported = {site["path"] for site in sites if "does not parse" in str(site["reasons"])}
    too_much = {f"src/{name}.py" for name, (_, wrong) in EXCESSIVE.items() if wrong}
    assert reported == {*too_much, "src/no_coding.py", "src/not_utf8.py"}
    assert len(done.stdout) < 300_000  # the sources are megabytes; of each a piece is shown


@pytest.mark.parametrize("path", ["src/learner.py", "src/config.py"])
@pytest.mark.parametrize("kind", ["sum", "negations", "long_line"])
def test_a_source_that_is_ported_and_too_much_is_refused(
    make_port: Callable[[], Any], path: str, kind: str
) -> None:
    repo = make_port()
    repo.commit({path: repo.show("main", path).decode() + EXCESSIVE[kind][0] + "\n"})
    done = porttool(repo, "apply")
    assert (done.exit_code, f"{path} cannot be parsed" in done.stderr) == (2, True), done.stderr
    assert len(done.stderr) < 2_000


GROWING = list(itertools.pairwise("abcdefghijklmno"))
BOMBS = {
    "aliases": "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{p}, *{p}, *{p}]\n" for p, n in GROWING),
    "merges": "a: &a {x: 1}\n"
    + "".join(f"{n}: &{n} {{<<: [*{p}, *{p}], {n}: *{p}}}\n" for p, n in GROWING),
    "loop": "a: &a [*a]\n",
    "loop of keys": "a: &a {b: *a}\n",
    "depth": "a: " + "[" * 5_000 + "]" * 5_000 + "\n",
    "blocks": "".join(f"{' ' * n}a:\n" for n in range(3_000)),
    "tags": "a: !!python/object/apply:os.system [touch marked]\n",
    "binary": "a: !!binary aGVsbG8=\n",
    "timestamp": "a: 2001-12-14t21:59:43.10-05:00\n",
    "set": "a: !!set {x, y}\n",
    "null key": "~: 1\n",
    "list key": "? [1, 2]\n: 1\n",
    "number": f"a: {'9' * 10_000}\n",
    "octal": "a: 0o99\nb: 1_000\nc: .inf\nd: 1e999\n",
    "documents": "---\na: 1\n---\nb: 2\n",
    "directive": "%YAML 9.9\n---\na: 1\n",
    "duplicate": "a: 1\na: 2\n",
    "tab": "a:\n\tb: 1\n",
    "control": 'a: "\\e[2J\\0"\n',
}


@pytest.mark.parametrize("kind", BOMBS)
def test_yaml_that_is_meant_to_break_something(make_port: Callable[[], Any], kind: str) -> None:
    """As a plan, at the end of one, and as a settings file of the project."""
    repo = make_port()
    text = (repo.path / PLAN).read_text()
    for plan in (BOMBS[kind], text + BOMBS[kind]):
        (repo.path / PLAN).write_text(plan)
        done = porttool(repo, "apply", "--dry-run")
        assert done.exit_code == 2, done.output
        assert len(done.output) < 5_000
        assert "\x1b" not in done.output
    assert porttool(repo, "status").exit_code == 0
    (repo.path / PLAN).write_text(text)
    repo.commit({"big.yaml": BOMBS[kind]})
    done = porttool(repo, "apply", "--dry-run")
    assert done.exit_code in CODES, done.output
    assert not (repo.path / "marked").exists()


PLAN_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "experiment", "switch", "verify", "answers", "x"]), inner
        )
    ),
    max_leaves=10,
)


@FUZZ
@given(
    data=st.binary(max_size=200)
    | st.text(st.characters(codec="utf-8"), max_size=200).map(str.encode)
    | PLAN_VALUES.map(lambda value: json.dumps(value).encode()),
    at=st.integers(0, 1_000),
    cut=st.integers(0, 40),
    whole=st.booleans(),
)
def test_any_bytes_as_a_plan(
    make_port: Callable[[], Any], data: bytes, at: int, cut: int, whole: bool
) -> None:
    repo = make_port()
    plan = repo.path / PLAN
    old = plan.read_bytes()
    at %= len(old)
    plan.write_bytes(data if whole else old[:at] + data[:20] + old[at + cut :])
    for words in (("apply", "--dry-run"), ("status",), ("review",)):
        assert porttool(repo, *words).exit_code in CODES


WORDS = (
    *("self.net", ".state_dict()", "torch.compile(", ")", "(", "[", "]", "=", ":", "\n", "\n    "),
    *(
        "net",
        "config",
        " ",
        ",",
        "def f(",
        "class A:",
        "lambda",
        "*",
        "**",
        "@",
        "async ",
        "await ",
    ),
    *("return ", "if ", "else", "for ", " in ", "with ", " as ", "import torch", "f'{", "}'", "#"),
    *("try:", "except:", "del ", "global ", "yield ", "match x:", "case _:", "x: int", ":=", "..."),
    *("'''", '"', "\\", "\t", "\f", "\r", "\ufeff", "\xe9", "type X = int", "print >>x", "0777"),
)


@FUZZ
@given(
    path=st.sampled_from(["src/learner.py", "src/config.py", "src/other.py"]),
    words=st.lists(st.sampled_from(WORDS), max_size=15).map("".join),
    at=st.integers(0, 1_000),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
)
def test_anything_as_a_source(
    make_port: Callable[[], Any], path: str, words: str, at: int, encoding: str
) -> None:
    repo = make_port()
    file = repo.path / path
    old = file.read_text() if file.exists() else "net.state_dict()\n"
    at %= len(old)
    repo.commit({path: (old[:at] + words + old[at:]).encode(encoding, "replace")})
    assert porttool(repo, "apply", "--dry-run").exit_code in CODES


PATCH_LINES = (
    *("From 0 Mon Sep 17 00:00:00 2001\n", "From: A <a@x>\n", "Subject: x\n", "\n", "---\n"),
    *("Date: Tue, 14 Nov 2023 22:13:20 +0000\n", "Date: never\n", "-- \n2.39\n", "\x1b[2J"),
    *("diff --git a/a.py b/a.py\n", "new file mode 100644\n", "new file mode 120000\n"),
    *("--- /dev/null\n", "+++ b/a.py\n", "+++ b/../a.py\n", "+++ b/.git/config\n"),
    *("@@ -0,0 +1 @@\n", "+x\n", "rename from big.yaml\n", "rename to /etc/x\n"),
    *("GIT binary patch\n", "deleted file mode 100644\n", "Content-Transfer-Encoding: base64\n"),
    "Content-Type: text/plain; charset=utf-7\n",
)
MAIL = b"From: A <a@x>\nDate: Tue, 14 Nov 2023 22:13:20 +0000\nSubject: x\n\n---\n"


@FUZZ
@given(
    data=st.binary(max_size=300)
    | st.lists(st.sampled_from(PATCH_LINES)).map(lambda lines: "".join(lines).encode()),
    complete=st.booleans(),
)
def test_anything_as_a_patch(make_port: Callable[[], Any], data: bytes, complete: bool) -> None:
    repo = make_port()
    text = (repo.path / PLAN).read_text().replace("switch:", "patches: [0001.patch]\nswitch:", 1)
    repo.write({PLAN: text, "patches/compile-it/0001.patch": (MAIL if complete else b"") + data})
    done = porttool(repo, "apply")
    assert done.exit_code in CODES
    assert "\x1b" not in done.output
    if done.exit_code == 0:
        names = repo.git_bytes("ls-tree", "-r", "-z", "--name-only", BRANCH).split(b"\0")[:-1]
        parts = {part for name in names for part in name.split(b"/")}
        assert not {b"..", b".git", b""} & parts


@pytest.fixture
def applied(make_port: Callable[[], Any]) -> tuple[Any, bytes]:
    repo = make_port()
    assert porttool(repo, "apply").exit_code == 0
    return repo, repo.git_bytes("notes", "--ref=porttool", "show", BRANCH)


@FUZZ
@given(
    data=st.binary(max_size=50)
    | st.text(max_size=50).map(lambda text: text.encode("utf-8", "replace")),
    at=st.integers(0, 3_000),
    cut=st.integers(0, 60),
    whole=st.booleans(),
)
def test_any_note_where_a_report_is_expected(
    applied: tuple[Any, bytes], data: bytes, at: int, cut: int, whole: bool
) -> None:
    repo, report = applied
    at %= len(report)
    note = data if whole else report[:at] + data[:10] + report[at + cut :]
    blob = repo.git("hash-object", "-w", "--stdin", input=note)
    repo.git("notes", "--ref=porttool", "add", "--force", "--allow-empty", "-C", blob, BRANCH)
    for words in (("review",), ("review", "--markdown"), ("status",), ("apply",)):
        done = porttool(repo, *words)
        assert done.exit_code in CODES, done.output
        assert "\x1b" not in done.output
