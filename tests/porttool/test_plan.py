"""`port.yaml`: what is read, and for everything else the key, the line and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from porttool.errors import PlanError
from porttool.git.paths import unsafe_path, unsafe_ref
from porttool.plan.plan import PatchFile, find_plan, load_plan, plan_schema

PLAN = """\
name: torch-compile
experiment:
  branch: experiments/torch-compile
  commits: [05cc02a000000000000000000000000000000000]
  bundle: experiment.bundle
onto: main
switch:
  module: src/trainer/config.py
  root: Config
  key: compile
  class: CompileConfig
  gate: compile.trainer.enabled
  options: [mode, dynamic]
  sections:
    - key: trainer
      class: CompileTrainerConfig
      fields:
        - {name: enabled, type: bool, default: false}
        - {name: mode, type: 'Literal["default", "max-autotune"]', default: default}
        - {name: dynamic, type: bool | None, default: null, comment: shapes are fixed}
  yaml: [configs/default.yaml]
variants:
  - {path: configs/big.yaml, from: configs/default.yaml, header: "big", set: {network.size: 1024}}
precondition:
  config: configs/big.yaml
  any:
    - {all: [{key: network.size, at_least: 1024}]}
    - {all: [{key: network.kind, equals: wide}, {key: network.layers, at_least: 2}]}
patches: [0001-warn.patch]
answers: {"a.py::f::x.state_dict()": skip}
verify:
  pythonpath: [src]
  timeout_s: 60
  run:
    command: [python, -m, trainer, "out={out}"]
    on: [--set, compile.trainer.enabled=true]
    metrics: metrics.jsonl
    ignore: [seconds]
  checks:
    - {name: lint, command: [ruff, check, .]}
"""


def _write(folder: Path, text: str | bytes = PLAN) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "port.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (folder / "0001-warn.patch").write_bytes(b"patch\r\n")
    return path


def _refusal(folder: Path, old: str, new: str) -> PlanError:
    assert PLAN.count(old) >= 1
    with pytest.raises(PlanError) as caught:
        load_plan(_write(folder, PLAN.replace(old, new, 1)))
    return caught.value


def test_every_part_is_read(tmp_path: Path) -> None:
    plan = load_plan(_write(tmp_path))
    assert plan.name == "torch-compile"
    assert plan.review_branch == "port/torch-compile"
    assert plan.bundle_path == tmp_path / "experiment.bundle"
    assert plan.experiment.commits == ("05cc02a" + "0" * 33,)
    assert plan.wrapper.callee == "torch.compile"
    assert plan.switch is not None
    assert plan.switch.class_name == "CompileConfig"
    assert plan.switch.section.class_name == "CompileTrainerConfig"
    assert plan.switch.enabled.default is False
    assert plan.switch.section.fields[2].default is None
    assert plan.variants[0].source == "configs/default.yaml"
    assert plan.variants[0].changes == {"network.size": 1024}
    assert plan.precondition is not None
    assert [len(group.all_of) for group in plan.precondition.any_of] == [1, 2]
    assert plan.precondition.any_of[1].all_of[0].equals == "wide"
    assert plan.verify.run is not None
    assert plan.verify.run.on == ("--set", "compile.trainer.enabled=true")
    assert plan.answers == {"a.py::f::x.state_dict()": "skip"}
    assert plan.patch_files == (PatchFile("0001-warn.patch", b"patch\r\n"),)


def test_the_least_plan_has_defaults(tmp_path: Path) -> None:
    text = f"name: p\nexperiment: {{branch: b, commits: [{'a' * 40}]}}\n"
    plan = load_plan(_write(tmp_path, text))
    assert plan.onto == "main"
    assert plan.switch is None
    assert plan.verify.timeout_s == 900
    assert plan.bundle_path is None


def test_the_digest_follows_the_file_and_its_patches(tmp_path: Path) -> None:
    first = load_plan(_write(tmp_path / "a"))
    again = load_plan(_write(tmp_path / "b"))
    assert first.digest == again.digest
    assert len(first.digest) == 64
    (tmp_path / "b" / "0001-warn.patch").write_bytes(b"other\n")
    patched = load_plan(tmp_path / "b" / "port.yaml")
    edited = load_plan(_write(tmp_path / "c", PLAN + "# a comment\n"))
    assert len({first.digest, patched.digest, edited.digest}) == 3


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("onto: main", "ontoo: main", ["unknown key `ontoo`; did you mean `onto`?", "port.yaml:6"]),
        ("gate:", "gat:", ["unknown key `switch.gat`; did you mean `gate`?", "port.yaml:12"]),
        ("type: bool,", "typ: bool,", ["unknown key `switch.sections.0.fields.0.typ`", ":18 "]),
        (
            "timeout_s: 60",
            'timeout_s: "60"',
            ["`verify.timeout_s` has to be a whole number", "it is the text '60'", "timeout_s: 1"],
        ),
        ("timeout_s: 60", "timeout_s: true", ["has to be a whole number", "it is true"]),
        ("timeout_s: 60", "timeout_s: 0", ["has to be at least 1", "it is the number 0"]),
        ("timeout_s: 60", "timeout_s: 86401", ["has to be at most 86400"]),
        ("onto: main", "onto: 5", ["`onto` has to be text", "the number 5", 'onto: "text"']),
        ("onto: main", "onto:", ["`onto` has to be text", "it is empty", ":6 (onto)"]),
        ("onto: main", "onto: [main]", ["`onto` has to be text", "it is a list"]),
        ("[0001-warn.patch]", "x", ["`patches` has to be a list", "[first, second]"]),
        ("[mode, dynamic]", "[1]", ["`switch.options.0` has to be text", "like this: "]),
        ("set: {network.size: 1024}", "set: {}", ["has to hold at least one entry"]),
        (
            "set: {network.size: 1024}",
            "set: {network.size: [1]}",
            ["has to be true or false or a whole number or a number or text", "network.size: 1"],
        ),
        ("{name: lint, command: [ruff, check, .]}", "lint", ["has to be keys with values"]),
        ("name: torch-compile", "name: ../up", ["`name`", "it names a branch"]),
        ("name: torch-compile", "name: x.lock", ["`name`", "it names a branch"]),
        ("name: torch-compile", "answer: 1", ["unknown key `answer`", "did you mean `answers`?"]),
        ("onto: main", "onto: --upload-pack=x", ["`onto`", "read as an option"]),
        ("onto: main", "onto: main^{commit}", ["`onto`", "'^' is not allowed"]),
        ("05cc02a" + "0" * 33, "05cc02a", ["`experiment.commits.0`", "full id", "git rev-parse"]),
        ("gate: compile.t", "gate: other.t", ["`switch`", "has to be compile.SECTION.FIELD"]),
        (
            "compile.trainer.enabled\n",
            "compile.traner.enabled\n",
            ["names no section", "`trainer`"],
        ),
        ("gate: compile.trainer.enabled", "gate: compile.trainer.mode", ["a switch is bool"]),
        ("default: false", "default: true", ["a switch is bool and off"]),
        ("default: default}", "default: nope}", ["default 'nope' is not a value of the type"]),
        ("default: null", "default: 1", ["default 1 is not a value of the type bool | None"]),
        ("[mode, dynamic]", "[mode, dynamo]", ["option `dynamo`", "`mode`"]),
        ("type: bool,", "type: print(1),", ["not a Python type expression: it holds a Call"]),
        ("type: bool,", "type: 'bool = 1; x: int',", ["not a Python type expression"]),
        ("shapes are fixed", '"two\\nlines"', ["has to be one line"]),
        ("root: Config", "root: class", ["`switch.root`", "not a Python identifier"]),
        ("module: src/", "module: ../", ["`switch.module`", "`..` is not a name"]),
        ("module: src/", "module: /src/", ["it is absolute"]),
        ("from: configs/default", "from: .git/x", ["reaches into the repository's own .git"]),
        ("[0001-warn.patch]", "[../0001-warn.patch]", ["`patches.0`", "`..` is not a name"]),
        ("[0001-warn.patch]", "[none.patch]", ["none.patch does not exist", "git format-patch"]),
        ("skip}", "maybe}", ["`answers.a.py::f::x.state_dict()`", "'rewrite' or 'skip'"]),
        ("at_least: 1024}]", "}]", ["needs exactly one of at_least and equals"]),
        ("out={out}", "out=x", ["two runs would write to one place"]),
        ("onto: main", "onto: main\nonto: dev", ["not YAML", 'duplicate key "onto"', ":7:1"]),
        ("onto: main", "onto: [", ["not YAML"]),
        ("onto: main", "onto: 2026-05-07", ["`onto` is a date", "quotes"]),
        ("onto: main", "1: main", ["the key 1 is not text", "port.yaml:6"]),
        ("onto: main", "onto: !!python/name:os.system x", ["`onto`", "port.yaml:6"]),
        ("  branch: experiments/torch-compile\n", "", ["`experiment.branch` is missing"]),
        ("answers: {", "answers: &a {b: *a, ", ["port.yaml"]),
    ],
)
def test_a_wrong_plan_is_refused_by_key_and_line(
    tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    message = str(_refusal(tmp_path, old, new))
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "it is empty"), ("# a comment\n", "it is empty"), ("plan\n", "it is the text 'plan'")],
)
def test_a_file_without_keys_says_what_a_plan_needs(tmp_path: Path, text: str, why: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert caught.value.as_dict() == {
        "error": "PlanError",
        "what": "port.yaml has to be keys with values",
        "where": f"{path}:1",
        "why": why,
        "next": "write at least name, experiment.branch and experiment.commits",
        "exit_code": 2,
    }


@pytest.mark.parametrize(
    ("old", "new", "next"),
    [
        ("onto: main", "onto: [", "close what is open there"),
        ("onto: main", "onto: main\nonto: dev", "remove one of the two"),
        ("name: torch-compile", "name: a b", "give the port another name, and its folder"),
        ("05cc02a" + "0" * 33, "05cc02a", "git rev-parse '05cc02a^{commit}'"),
        ("compile.trainer.enabled\n", "compile.traner.on\n", "gate: compile.trainer.enabled"),
        ("compile.trainer.enabled\n", "enabled\n", "write gate: compile.trainer.enabled"),
        ("default: false", "default: true", "add a field to a section: {name: enabled"),
        ("[mode, dynamic]", "[dynamo]", "add a field of that name to trainer"),
        ("module: src/", "module: ../", "write it as seen from the top of the repository"),
        ("onto: main", "onto: -x", "git branch --all"),
        ("  branch: experiments/torch-compile\n", "", "add `branch:` there"),
    ],
)
def test_a_refused_plan_says_what_to_do_next(tmp_path: Path, old: str, new: str, next: str) -> None:
    refusal = _refusal(tmp_path, old, new)
    assert next in str(refusal.next)
    assert str(refusal.where).startswith(str(tmp_path / "port.yaml"))
    assert refusal.exit_code == 2


def test_a_name_that_is_not_its_folders_is_refused_under_patches(tmp_path: Path) -> None:
    path = _write(tmp_path / "patches" / "other one")
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    folder = tmp_path / "patches"
    assert caught.value.what == "the port `torch-compile` lies in the folder `other one`"
    assert caught.value.where == f"{path}:1 (name)"
    assert caught.value.next == (
        f"write name: other one, or rename the folder: mv '{folder / 'other one'}' "
        f"{folder / 'torch-compile'}"
    )
    assert caught.value.exit_code == 2
    assert load_plan(_write(tmp_path / "elsewhere" / "x")).name == "torch-compile"


def test_a_bare_repository_takes_a_plan_by_its_path(tmp_path: Path) -> None:
    bare = tmp_path / "a bare.git"
    (bare / "objects").mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    for port in (None, "x"):
        with pytest.raises(PlanError) as caught:
            find_plan(bare, port)
        assert caught.value.what == "patches/ was not found: this is no working tree"
        assert caught.value.where == str(bare)
        assert caught.value.next == (
            f"name the plan by its path: porttool apply PATH/TO/port.yaml --repo '{bare}'"
        )
        assert caught.value.exit_code == 2
    plan = _write(tmp_path / "outside")
    assert find_plan(bare, str(plan)) == plan


def test_aliases_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(PlanError, match="aliases make more than 20000 values"):
        load_plan(_write(tmp_path, "\n".join(lines)))


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"not UTF-8\n.*port\.yaml:2[\s\S]*iconv -f"):
        load_plan(_write(tmp_path, b"name: x\nonto: \xff\n"))


def test_a_patch_that_links_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "port")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (tmp_path / "port" / "0001-warn.patch").unlink()
    (tmp_path / "port" / "0001-warn.patch").symlink_to(secret)
    with pytest.raises(PlanError, match="leads out of the port's folder"):
        load_plan(path)


def test_a_pipe_instead_of_a_patch_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = _write(tmp_path)
    (tmp_path / "0001-warn.patch").unlink()
    os.mkfifo(tmp_path / "0001-warn.patch")
    with pytest.raises(PlanError, match="not a regular file"):
        load_plan(path)


def test_find_plan_by_name_by_path_and_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = _write(tmp_path / "patches" / "torch-compile")
    assert find_plan(tmp_path) == only
    assert find_plan(tmp_path, "torch-compile") == only
    assert find_plan(tmp_path, str(only)) == only
    assert find_plan(tmp_path, str(only.parent)) == only
    monkeypatch.chdir(only.parent)
    assert find_plan(tmp_path, ".").resolve() == only
    with pytest.raises(PlanError, match="did you mean `torch-compile`"):
        find_plan(tmp_path, "torch-compil")
    _write(tmp_path / "patches" / "other")
    with pytest.raises(PlanError, match=r"2 ports and none was named[\s\S]*`other`, `torch-com"):
        find_plan(tmp_path)


def test_find_plan_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"has no port\n[\s\S]*write patches/NAME/port\.yaml"):
        find_plan(tmp_path)
    with pytest.raises(PlanError, match=r"no such port\n[\s\S]*porttool demo DIR"):
        load_plan(tmp_path / "port.yaml")


def test_the_schema_is_closed_and_uses_the_names_of_the_file() -> None:
    schema = plan_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"name", "experiment"}
    assert {"class", "gate"} <= set(schema["$defs"]["SwitchPlan"]["properties"])


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "../x", "a/../x", "a//x", "./x", "a/.", "C:/x", "a\0b"),
        *(".git/config", "a/.git", ".GIT/x", ".git ", ".git.", ".git::$DATA", "GIT~1/x"),
        *(".g\u200cit/config", "a/b\\.git\\config"),
    ],
)
def test_paths_that_must_not_be_written(path: str) -> None:
    assert unsafe_path(path) is not None


@pytest.mark.parametrize("path", ["-x", "a b", "ä", ".github/x", ".gitignore", "git", "a/b.git/c"])
def test_odd_paths_that_may_be_written(path: str) -> None:
    assert unsafe_path(path) is None


@pytest.mark.parametrize(
    "name",
    [
        *("", "-x", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "@", "a@{1}"),
        *("/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "a\nb", "a\x7f"),
    ],
)
def test_reference_names_that_git_would_misread(name: str) -> None:
    assert unsafe_ref(name) is not None


@pytest.mark.parametrize("name", ["main", "experiments/torch-compile", "a.b", "a@b", "ä/ö", "a-"])
def test_reference_names_that_are_fine(name: str) -> None:
    assert unsafe_ref(name) is None
