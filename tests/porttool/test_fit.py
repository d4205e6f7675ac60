from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from porttool.source.fit import fit_lines

CASE = Path(__file__).parent / "cases" / "gate"

SAMPLES = {
    "a comprehension": (
        "networks = [_on_cpu(_clean_state_dict(network.state_dict())) "
        "for network in self.networks]\n"
    ),
    "one line of a body": (
        "snapshot = [\n"
        "    _on_cpu(_clean_state_dict(network.state_dict())) for network in self.networks\n]\n"
    ),
    "the last call": (
        'getattr(strategy_network, "_orig_mod", strategy_network).load_state_dict(contents["it"])\n'
    ),
    "an earlier call": (
        "if found:\n"
        '    getattr(self.networks[player], "_orig_mod", self.networks[player])'
        ".load_state_dict(weights)\n"
    ),
    "an element of a display": (
        "contents = {\n    1: 2,\n"
        '    "current": [_on_cpu(_clean(network.state_dict())) for network in self.networks],\n}\n'
    ),
    "a condition in a comprehension": (
        "networks = [_clean_state_dict(network) for network in networks if network is not None]\n"
    ),
    "arguments": (
        "result = function(first_argument, second_argument=3, third_argument=[1, 2, 3], x=1)\n"
    ),
    "many arguments": (
        "result = function(first_argument_of_many, second_argument_of_many=3, "
        "third_argument_of_many=[1, 2, 3], fourth_argument=1)\n"
    ),
    "a display": (
        'names = ["first name", "second name", "third name", "fourth name", "fifth name"]\n'
    ),
    "a nested call": (
        "q.put(_on_cpu(_clean_state_dict("
        "self.network.state_dict(prefix=prefix, keep_vars=keep))))\n"
    ),
}


def formatted(text: str, width: int) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={width}", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def test_lines_that_fit_keep_their_bytes() -> None:
    data = b"x = [\r\n  1,\r\n]\r\n"
    assert fit_lines("a.py", data, None, line_length=10) == data


def test_a_long_line_that_was_there_before_stays() -> None:
    data = b"x = function(1, 2, 3)\n"
    assert fit_lines("a.py", data, data, line_length=10) == data
    assert fit_lines("a.py", data, b"", line_length=14) == b"x = function(\n    1, 2, 3\n)\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = function(1, 2)  # with a comment\n",
        'x = """\nfunction(1, 2, 3, 4)\n"""\n',
        "abcdefghijklm = nopqrstuvw\n",
        "x = (function(1,\n  2, 3, 4, 5, 6, 7))\n",
        "x = (\n",
    ],
)
def test_what_is_not_plain_is_left_alone(text: str) -> None:
    assert fit_lines("a.py", text.encode(), None, line_length=12).decode() == text


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [60, 72, 79])
def test_the_break_is_the_formatters(name: str, width: int) -> None:
    text = formatted(SAMPLES[name], 200)
    assert any(len(line) > 79 for line in text.splitlines())
    assert fit_lines("a.py", text.encode(), None, line_length=width).decode() == formatted(
        text, width
    )


def test_a_port_of_a_formatted_file_is_formatted() -> None:
    path = CASE / "branch" / "src/lab/trainer.py"
    text = path.read_text()
    before = (CASE / "onto" / "src/lab/trainer.py").read_bytes()
    one_line = text.replace(
        "            networks = [\n"
        "                _on_cpu(_clean_state_dict(network.state_dict()))\n"
        "                for network in self._advantage_networks\n            ]\n",
        "            networks = [_on_cpu(_clean_state_dict(network.state_dict())) "
        "for network in self._advantage_networks]\n",
    )
    assert one_line != text
    assert fit_lines("t.py", one_line.encode(), before, line_length=100).decode() == text
