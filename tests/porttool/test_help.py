"""What a person asks of the command line itself: examples, completion, quiet, no colours."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from porttool.cli import app, main
from porttool.commands.examples import EXAMPLES
from porttool.plan.names import ports_above

COMMANDS = typer.main.get_command(app).commands
LINES = [(name, line) for name, examples in EXAMPLES.items() for line, _ in examples]
# As the console script starts it, whose name completion goes by.
PROGRAM = "import sys; from porttool.cli import main; sys.argv[0] = 'porttool'; main()"
COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-7]|9[0-7]|4[0-7])[0-9;]*m")


def call(folder, *words):
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, words)


def start(folder, words, **environment):
    """Run the command line as a program of its own, and return what it writes, and how it ends."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_command_has_examples_and_every_example_a_command():
    assert sorted(COMMANDS) == sorted(EXAMPLES)


@pytest.mark.parametrize(("name", "line"), LINES, ids=[line for _, line in LINES])
def test_an_example_is_a_line_that_the_command_takes(name, line):
    words = shlex.split(line.partition(" > ")[0])
    assert words[:2] == ["porttool", name]
    context = COMMANDS[name].make_context(name, words[2:])
    assert context.command is COMMANDS[name]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_says_what_it_does_and_shows_the_examples(name):
    shown = CliRunner().invoke(app, [name, "--help"]).output
    for line, words in EXAMPLES[name]:
        assert f"\n    {line}\n" in shown
        assert words.split()[0] in shown
    assert max(map(len, shown.splitlines())) <= 80
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} says nothing"


def test_a_named_command_is_the_only_one_that_is_built(make_port, monkeypatch, capsys):
    repo, registered = make_port(), list(app.registered_commands)
    monkeypatch.chdir(repo.path)
    for words, shown in (
        (["status"], "compile-it: not applied"),
        (["status", "--help"], "porttool status --json"),
        (["statsu"], "Did you mean"),
        (["--help"], CliRunner().invoke(app, ["--help"], prog_name="porttool").output),
        ([], "publish Push the review branch and open a pull request."),
    ):
        monkeypatch.setattr(sys, "argv", ["porttool", *words])
        with contextlib.suppress(SystemExit):
            main()
        # Where lines are broken depends on the terminal.
        assert " ".join(shown.split()) in " ".join("".join(capsys.readouterr()).split())
        assert app.registered_commands == registered


def test_a_shell_completes_commands_and_ports(make_port):
    repo = make_port()

    def completed(words):
        done = start(
            repo.path / "src",
            [],
            _PORTTOOL_COMPLETE="complete_bash",
            COMP_WORDS=words,
            COMP_CWORD=str(len(words.split(" ")) - 1),
        )
        return done.stdout.split()

    assert completed("porttool re") == ["review", "record", "resolve", "refresh"]
    assert completed("porttool verify com") == ["compile-it"]
    assert completed("porttool verify x") == []


def test_the_completion_script_is_shown_for_a_shell(monkeypatch):
    shown = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="porttool")
    assert "_PORTTOOL_COMPLETE=complete_bash" in shown.output


def test_ports_are_those_of_the_working_tree_around(tmp_path):
    for name in ("b", "a"):
        (tmp_path / "patches" / name).mkdir(parents=True)
        (tmp_path / "patches" / name / "port.yaml").touch()
    (tmp_path / "patches" / "c").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    assert ports_above(tmp_path / "deep" / "er") == ("a", "b")
    (tmp_path / "deep" / ".git").touch()
    assert ports_above(tmp_path / "deep" / "er") == ()
    assert ports_above(tmp_path / "nowhere") == ("a", "b")


def test_quiet_says_the_result_and_nothing_else(make_port):
    repo = make_port()
    loud = call(repo.path, "apply", "--dry-run")
    assert len(loud.stdout.splitlines()) > 10
    assert loud.stderr
    made = call(repo.path, "apply", "--quiet")
    assert (made.stdout, made.stderr) == ("created port/compile-it with 2 commits\n", "")
    again = call(repo.path, "apply", "-q")
    assert again.stdout.count("\n") == 1
    # The next command is not quiet because this one was.
    assert len(call(repo.path, "status").stdout.splitlines()) > 1


def test_quiet_keeps_a_refusal_whole(make_port):
    repo = make_port()
    asked = call(repo.path, "verify", "--quiet")
    assert asked.exit_code == 2
    assert (asked.stdout, asked.stderr.count("\n") > 1) == ("", True)
    assert "next:" in asked.stderr


def test_quiet_keeps_what_a_person_has_to_do(make_repo):
    repo = make_repo({"a.py": "import torch\n\ndef f(net):\n    return torch.compile(net)\n"})
    listed = call(repo.path, "gate", "--check", "--quiet", ".")
    assert listed.stdout.startswith("a.py:4:12: ")
    gated = call(repo.path, "gate", "--quiet", "a.py")
    assert gated.stdout == "1 call behind `compile_model`, 1 file changed, nothing for a person\n"
    answered = call(repo.path, "gate", "--check", "--quiet", "--json", ".")
    assert json.loads(answered.stdout)["ungated"] == []


def at_a_terminal(folder, words, **environment):
    """Return what a program writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "porttool", *words],
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "PAGER": "cat", **environment},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ):
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as screen:
            while data := screen.read(65536):
                written += data
    return written.decode()


def test_colours_are_for_terminals_that_want_them(make_port, monkeypatch):
    repo = make_port()
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    words = ["radar"]
    assert COLOUR.search(at_a_terminal(repo.path, words))
    assert not COLOUR.search(at_a_terminal(repo.path, words, NO_COLOR="1"))
    monkeypatch.setenv("TERM", "xterm-256color")
    written = call(repo.path, *words).stdout
    assert "experiments/compile" in written
    assert "\x1b" not in written
