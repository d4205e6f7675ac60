"""The kinds of value that `port.yaml` may hold: each has its check and its words for a refusal."""

from __future__ import annotations

import ast
import keyword
import re
import shlex
from typing import Annotated, Literal

from pydantic import AfterValidator, StrictBool, StrictFloat, StrictInt, StrictStr
from pydantic_core import PydanticCustomError

from porttool.git.paths import unsafe_plan_path, unsafe_ref

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr | None


def refuse(reason: str, *, next: str | None = None) -> PydanticCustomError:
    """Return the error with which a validator says no, in words that follow the key."""
    # The reason may hold braces, which pydantic would take for its own placeholders.
    return PydanticCustomError("plan", "{reason}", {"reason": reason, "next": next})


def _check_path(value: str) -> str:
    reason = unsafe_plan_path(value)
    if reason is not None:
        raise refuse(
            f"not a path inside the repository: {reason}",
            next="write it as seen from the top of the repository, such as src/config.py",
        )
    return value


def _check_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value) or unsafe_ref(value) is not None:
        raise refuse(
            "a port's name is letters, digits, dots, dashes and underscores: it names a branch",
            next="give the port another name, and its folder under patches/ the same one",
        )
    return value


def _check_branch(value: str) -> str:
    reason = unsafe_ref(value)
    if reason is not None:
        raise refuse(
            f"not a branch name: {reason}", next="name a branch that is there: git branch --all"
        )
    return value


def _check_id(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", value):
        raise refuse(
            "a commit is named by its full id, 40 hexadecimal digits",
            next=f"write what this prints: git rev-parse {shlex.quote(f'{value}^{{commit}}')}",
        )
    return value


def _check_identifier(value: str) -> str:
    if not value.isidentifier() or keyword.iskeyword(value):
        raise refuse("not a Python identifier")
    return value


def _check_dotted(value: str) -> str:
    for part in value.split("."):
        _check_identifier(part)
    return value


def _check_key_path(value: str) -> str:
    if not all(re.fullmatch(r"[A-Za-z0-9_-]+", part) for part in value.split(".")):
        raise refuse("not a dotted path of keys, such as network.hidden_size")
    return value


def _check_line(value: str) -> str:
    if any(
        ord(character) < 0x20 or ord(character) in (0x7F, 0x85, 0x2028, 0x2029)
        for character in value
    ):
        raise refuse("has to be one line of text")
    return value


def _check_prose(value: str) -> str:
    for line in value.split("\n"):
        _check_line(line.replace("\t", " "))
    return value


_TYPE_NODES = (
    ast.Expression,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Tuple,
    ast.Constant,
    ast.BinOp,
    ast.BitOr,
    ast.UnaryOp,
    ast.USub,
    ast.Load,
)


def _check_type(value: str) -> str:
    # The text goes into a source file as it stands, so it may be a type and nothing else.
    try:
        tree = ast.parse(_check_line(value), mode="eval")
    except (SyntaxError, ValueError):
        raise refuse("not a Python type expression") from None
    for node in ast.walk(tree):
        if not isinstance(node, _TYPE_NODES):
            raise refuse(f"not a Python type expression: it holds a {type(node).__name__}")
    return value


RepoPath = Annotated[StrictStr, AfterValidator(_check_path)]
Branch = Annotated[StrictStr, AfterValidator(_check_branch)]
FullId = Annotated[StrictStr, AfterValidator(_check_id)]
Identifier = Annotated[StrictStr, AfterValidator(_check_identifier)]
DottedName = Annotated[StrictStr, AfterValidator(_check_dotted)]
KeyPath = Annotated[StrictStr, AfterValidator(_check_key_path)]
Line = Annotated[StrictStr, AfterValidator(_check_line)]
Prose = Annotated[StrictStr, AfterValidator(_check_prose)]
TypeText = Annotated[StrictStr, AfterValidator(_check_type)]
PortName = Annotated[StrictStr, AfterValidator(_check_name)]
Answer = Literal["rewrite", "skip"]


def all_different(what: str, names: list[str]) -> None:
    """Refuse a name that is there twice."""
    for name in names:
        if names.count(name) > 1:
            raise refuse(f"{what} `{name}` is there twice", next="rename or remove one of the two")


def fits(value: object, annotation: str) -> bool:
    """Tell whether a default is a value of a type, as far as builtins, Literal and unions go."""
    return _fits_node(value, ast.parse(annotation, mode="eval").body)


def _fits_node(value: object, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _fits_node(value, node.left) or _fits_node(value, node.right)
    if isinstance(node, ast.Constant) and node.value is None:
        return value is None
    if isinstance(node, ast.Name) and node.id in ("bool", "int", "float", "str"):
        kinds = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str,)}[node.id]
        return isinstance(value, kinds) and (node.id == "bool" or not isinstance(value, bool))
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).split(".")[-1] == "Literal":
        try:
            choices = ast.literal_eval(node.slice)
        except ValueError:
            return True
        choices = choices if isinstance(choices, tuple) else (choices,)
        return any(type(choice) is type(value) and choice == value for choice in choices)
    return True
