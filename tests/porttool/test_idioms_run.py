"""What was declared runs: off where nobody asks, on where somebody does, and the rest as before."""

from __future__ import annotations

import ast
import inspect

import pytest
from click.testing import CliRunner as ClickRunner
from typer.testing import CliRunner

from porttool.gating.idioms.declaring import declare_switch
from porttool.gating.idioms.reading import read_switch
from porttool.gating.idioms.values import SwitchRead
from porttool.source.syntax import apply_edits, parse_source

NAME = "compile_model"


def declared(text):
    """Declare the switch of the one `wrap(...)` call and run the file; return its names."""
    source = parse_source("train.py", inspect.cleandoc(text).encode() + b"\n")
    [call] = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "wrap"
    ]
    read = read_switch({"train.py": source}, "train.py", call, NAME)
    assert isinstance(read, SwitchRead), read
    edits = list(declare_switch({"train.py": source}, [read], NAME).get("train.py", ()))
    argument = call.args[0]
    start = source.line_starts[argument.lineno - 1]
    spans = (start + argument.col_offset, start + argument.end_col_offset)
    edits.append(type(edits[0])(*spans, read.expression))
    names = {"wrap": lambda value: value}
    exec(compile(apply_edits(source, edits), "train.py", "exec"), names)
    return names


def test_an_argparse_flag_is_opt_in():
    names = declared(
        """
        import argparse

        def parse(argv):
            parser = argparse.ArgumentParser()
            parser.add_argument("--lr", type=float, default=0.1)
            return parser.parse_args(argv)

        def main(args):
            return wrap(None), args.lr
        """
    )

    def run(*words):
        return names["main"](names["parse"](words))

    assert run() == (False, 0.1)
    assert run("--lr", "2") == (False, 2.0)
    assert run("--compile-model") == (True, 0.1)
    assert run("--compile-model", "--no-compile-model") == (False, 0.1)


def test_a_flag_above_sub_commands_is_there_for_each():
    names = declared(
        """
        import argparse

        def train(args):
            return wrap(None)

        def main(argv):
            parser = argparse.ArgumentParser()
            commands = parser.add_subparsers()
            command = commands.add_parser("train")
            command.set_defaults(run=train)
            args = parser.parse_args(argv)
            return args.run(args)
        """
    )
    assert names["main"](["train"]) is False
    assert names["main"](["--compile-model", "train"]) is True


@pytest.mark.parametrize(
    "heading",
    ["@dataclass", "@dataclass(frozen=True, slots=True)", "@dataclass(kw_only=True, order=True)"],
)
def test_a_dataclass_takes_the_switch_last(heading):
    names = declared(
        f"""
        from dataclasses import dataclass

        {heading}
        class Config:
            lr: float
            depth: int = 3

        def build(config: Config):
            return wrap(None)
        """
    )
    config = names["Config"]
    assert names["build"](config(lr=0.5)) is False
    assert names["build"](config(lr=0.5, compile_model=True)) is True
    if "kw_only" not in heading:
        assert config(0.5, 4).depth == 4


def test_a_model_that_forbids_extras_takes_the_switch_and_no_other():
    names = declared(
        """
        from pydantic import BaseModel, ConfigDict

        class Config(BaseModel):
            model_config = ConfigDict(extra="forbid")
            lr: float = 0.1

        def build(config: Config):
            return wrap(None)
        """
    )
    config = names["Config"]
    assert names["build"](config()) is False
    assert names["build"](config.model_validate({"compile_model": True})) is True
    with pytest.raises(ValueError, match="compile_models"):
        config.model_validate({"compile_models": True})
    with pytest.raises(ValueError, match=r"compile_model\n.*valid boolean"):
        config.model_validate({"compile_model": "maybe"})


@pytest.mark.parametrize(
    "parameter",
    [
        "width: int = 3",
        "width: int = typer.Option(3)",
        'width: Annotated[int, typer.Option("--width")] = 3',
    ],
)
def test_a_typer_option_is_opt_in(parameter):
    names = declared(
        f"""
        from typing import Annotated
        import typer

        app = typer.Typer()

        @app.command()
        def main({parameter}):
            print(wrap(None), width)
        """
    )

    def run(*words):
        return CliRunner().invoke(names["app"], words).output.split()

    assert run() == ["False", "3"]
    assert run("--width", "5", "--compile-model") == ["True", "5"]
    assert run("--no-compile-model") == ["False", "3"]


@pytest.mark.parametrize(
    ("setting", "read"),
    [
        ('CONFIG = {"lr": 0.1}', 'CONFIG["lr"]'),
        ("CONFIG = dict(lr=0.1)", 'CONFIG["lr"]'),
        ("from types import SimpleNamespace\nCONFIG = SimpleNamespace(lr=0.1)", "CONFIG.lr"),
        ("class Config:\n    lr = 0.1\nCONFIG = Config()", "CONFIG.lr"),
    ],
)
def test_written_settings_take_the_switch(setting, read):
    names = declared(f"{setting}\ndef build():\n    return wrap(None), {read}\n")
    assert names["build"]() == (False, 0.1)


@pytest.mark.parametrize(
    ("heading", "field"),
    [
        ("@attrs.define", "lr: float = 0.1"),
        ("@attrs.frozen(kw_only=True)", "lr: float = attrs.field(default=0.1)"),
        ("@attr.s(auto_attribs=True)", "lr: float = 0.1"),
    ],
)
def test_an_attrs_class_takes_the_switch(heading, field):
    names = declared(
        f"""
        import attr
        import attrs

        {heading}
        class Config:
            {field}

        def build(config: Config):
            return wrap(None), config.lr
        """
    )
    config = names["Config"]
    assert names["build"](config()) == (False, 0.1)
    assert names["build"](config(lr=2.0, compile_model=True)) == (True, 2.0)


@pytest.mark.parametrize(
    ("heading", "parameters", "read"),
    [
        ("@click.command()\n@click.option('--width', default=3)", "width", "width"),
        (
            "@click.command()\n@click.pass_context\n@click.option('--width', default=3)",
            "context, width",
            "width",
        ),
        (
            "@click.group()\ndef app():\n    pass\n\n"
            "@app.command('run')\n@click.option('--width', default=3)",
            "width",
            "width",
        ),
    ],
)
def test_a_click_option_is_opt_in(heading, parameters, read):
    names = declared(
        f"import click\n\n{heading}\ndef main({parameters}):\n"
        f"    click.echo(str(wrap(None)) + ' ' + str({read}))\n"
    )
    command = ["run"] if "app" in names else []
    program = names.get("app", names["main"])

    def run(*words):
        return ClickRunner().invoke(program, [*command, *words], catch_exceptions=False).output

    assert run() == "False 3\n"
    assert run("--width", "5", "--compile-model") == "True 5\n"
    assert run("--no-compile-model") == "False 3\n"
