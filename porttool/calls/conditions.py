"""Is a call behind a switch already? A setting is one, a condition on the machine is not.

What cannot be told apart (`if args.fast:`) is for a person: leaving it could leave compile on, and
a second switch in front of a first would have to be turned on twice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from porttool.calls.arguments import arguments
from porttool.calls.defaults import default_truth
from porttool.calls.neighbours import mentioning
from porttool.calls.values import Gate, Site
from porttool.calls.view import (
    FUNCTIONS,
    View,
    block_of,
    function_of,
    origin,
    scope_of,
)
from porttool.frozen import dataclass
from porttool.source.nodes import walk

_SWITCH = re.compile(r"compil|dynamo|inductor|(^|_)(jit|aot)(_|$)", re.IGNORECASE)
_ABLE = re.compile(
    r"^_?(has|have|can|supports?)_|_(available|supported|capable|exists)$", re.IGNORECASE
)
_MACHINE = (
    "sys.", "os.name", "platform.", "torch.cuda.", "torch.backends.", "torch.__version__",
    "torch.version.", "torch.distributed.", "torch.xpu.", "torch.mps.", "shutil.which",
    "importlib.util.find_spec", "typing.TYPE_CHECKING", "packaging.", "torch._dynamo.is_",
    "torch.compiler.is_", "torch.utils.", "torch.device", "torch.accelerator.", "triton.",
)  # fmt: skip
_MACHINE_WORDS = re.compile(
    r"(^|_)(device|cuda|gpu|cpu|mps|xpu|rank|world_size|platform|version|windows|win32|linux|darwin|"
    r"macos|distributed|ddp|fsdp|master)(_|$)|^is_",
    re.IGNORECASE,
)
_SETTINGS = re.compile(
    r"^_?(cfg|config|conf|args|opts?|options|settings|hparams|hp|params|flags|FLAGS|hyp|conf_dict)$"
)
_SPEED = re.compile(r"(^|_)(fast|optimi[sz]e|speed|speedup|accelerate|turbo|perf|trace)(_|$)")
_LEVEL = re.compile(r"(^|_)opt(imi[sz]ation)?_?level(_|$)")

Meaning = Literal["setting", "machine", "neutral", "unclear"]


@dataclass(frozen=True)
class Unclear:
    """A condition of which it cannot be seen whether it is the switch."""

    test: str
    line: int


def gate_of(here: View, site: Site, depth: int = 2) -> Gate | Unclear | None:
    """Return the switch that a site stands behind already; None where it runs unconditionally."""
    if gate := _own_option(here, site):
        return gate
    return _gate_around(here, site.whole, depth)


def _asks_about(test: ast.expr, options: list[str]) -> bool:
    """Tell whether a test asks for what the call is given: `if backend:` and `backend=backend`."""
    if isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant):
        test = test.left
    return isinstance(test, ast.Name | ast.Attribute) and ast.unparse(test) in options


def _own_option(here: View, site: Site) -> Gate | None:
    """Return the gate that `disable=` is, where a setting decides it."""
    for word in site.call.keywords if site.call else ():
        if word.arg == "disable" and _meaning(here, word.value) == "setting":
            off = default_truth(here, word.value)
            return Gate(f"disable={ast.unparse(word.value)}", None if off is None else not off)
    return None


def _gate_around(here: View, node: ast.AST, depth: int) -> Gate | Unclear | None:
    unclear: Unclear | None = None
    options = [ast.unparse(word.value) for word in getattr(node, "keywords", ())]
    for test, holds in _tests(here, node):
        if isinstance(test, ast.Constant):
            if bool(test.value) is not holds:
                return Gate(ast.unparse(test), on_by_default=False)  # it never runs
            continue
        meaning = _meaning(here, test)
        if meaning in ("neutral", "unclear") and _asks_about(test, options):
            meaning = "setting"
        if meaning == "setting":
            known = default_truth(here, test)
            on = None if known is None else known is holds
            if not holds and on is None:
                # Compiled where nobody asks against it: on, unless its value says otherwise.
                on = True
            text = ast.unparse(test)
            return Gate(text if holds else f"not ({text})", on)
        if meaning == "unclear" and unclear is None:
            unclear = Unclear(ast.unparse(test), test.lineno)
    if unclear is not None:
        return unclear
    return _gated_callers(here, node, depth)


def _tests(here: View, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the conditions under which a node runs, and which outcome; the innermost first.

    A test joined by `and` that has to hold is given part by part, and so is `or` that must not.
    """
    below: ast.AST = node
    above = here.above.get(node)
    while above is not None and not _runs_later(above, below):
        if isinstance(above, ast.If | ast.While):
            if below in above.body:
                yield from _parts(above.test, True)
            elif below in above.orelse:
                yield from _parts(above.test, False)
        elif isinstance(above, ast.IfExp) and below is not above.test:
            yield from _parts(above.test, below is above.body)
        elif isinstance(above, ast.BoolOp):
            before = [id(value) for value in above.values].index(id(below))
            for value in above.values[:before]:
                yield from _parts(value, isinstance(above.op, ast.And))
        elif isinstance(above, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for generator in above.generators:
                for test in generator.ifs:
                    if below not in generator.ifs and below is not generator:
                        yield from _parts(test, True)
        elif isinstance(above, ast.Dict):
            yield from _picked(here, above, below)
        elif isinstance(above, ast.match_case) and below in above.body:
            if above.guard:
                yield from _parts(above.guard, True)
            yield from _matched(here, above)
        if isinstance(below, ast.stmt):
            yield from _left_early(here, below)
        below, above = above, here.above.get(above)
    if isinstance(below, ast.stmt):
        yield from _left_early(here, below)


def _picked(here: View, table: ast.Dict, value: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the comparison that `{True: f, False: g}[x]` is."""
    picked = here.above[table]
    if not (isinstance(picked, ast.Subscript) and picked.value is table and value in table.values):
        return
    key = table.keys[table.values.index(value)]
    if isinstance(key, ast.Constant):
        yield ast.copy_location(ast.Compare(picked.slice, [ast.Eq()], [key]), picked), True


def _runs_later(above: ast.AST, below: ast.AST) -> bool:
    """Tell whether a node is the body of a function, not its decorator or a default in front."""
    if isinstance(above, ast.Lambda):
        return below is not above.args
    return isinstance(above, FUNCTIONS) and below in above.body


def _matched(here: View, case: ast.match_case) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the comparison that `match x: case "name":` is."""
    holder = here.above[case]
    if isinstance(holder, ast.Match) and isinstance(case.pattern, ast.MatchValue):
        test = ast.Compare(holder.subject, [ast.Eq()], [case.pattern.value])
        yield ast.copy_location(test, case.pattern), True


def _left_early(here: View, statement: ast.stmt) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the tests of `if ...: return` in front of a statement: they were not met."""
    if statement not in here.above:
        return
    block = block_of(here, statement)
    for earlier in block[: block.index(statement)] if statement in block else ():
        if isinstance(earlier, ast.If) and _leaves(earlier.body) and not earlier.orelse:
            yield from _parts(earlier.test, False)


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _parts(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for value in test.values:
            yield from _parts(value, holds)
    else:
        yield test, holds


def _meaning(here: View, test: ast.expr, depth: int = 4) -> Meaning:
    """Tell what a condition is about."""
    if depth == 0:
        return "neutral"
    if isinstance(test, ast.BoolOp):
        kinds = {_meaning(here, value, depth) for value in test.values}
        for kind in ("unclear", "setting", "machine"):
            if kind in kinds:
                # `cfg.compile or sys.platform == "linux"` is no switch: it cannot be turned off.
                return "unclear" if kind == "setting" and len(kinds) > 1 else kind
        return "neutral"
    if isinstance(test, ast.UnaryOp):
        return _meaning(here, test.operand, depth)
    if isinstance(test, ast.Name):
        value = _constant_value(here, test)
        if value is not None and not isinstance(value, ast.Constant):
            inner = _meaning(here, value, depth - 1)
            if inner != "neutral":
                return inner
        handed = _handed_setting(here, test, depth)
        if handed:
            return "setting"
    words = list(_words(test))
    if here.marks & set(words):
        return "setting"
    if any(_machine(here, node) for node in walk(test)):
        return "machine"
    if isinstance(test, ast.Call) and not _reads_a_value(here, test):
        asked = _function_meaning(here, test, depth)
        if asked is not None:
            return asked
    if any(_ABLE.search(word) for word in words):
        return "machine"
    if _state(test):
        return "neutral"
    if any(_SWITCH.search(word) for word in words):
        return "setting"
    if any(_MACHINE_WORDS.search(word) for word in words):
        return "machine"
    if isinstance(test, ast.Compare):
        graded = any(_LEVEL.search(word) for word in words) and _of_settings(test.left)
        return "unclear" if graded else "neutral"
    return "unclear" if _plain_setting(test) else "neutral"


def _handed_setting(here: View, name: ast.Name, depth: int) -> bool:
    """Tell whether a parameter is a setting where its function is called, or written there."""
    kinds = [
        "written" if isinstance(given, ast.Constant) else _meaning(there, given, depth - 1)
        for there, given in arguments(here, name)
    ]
    return "setting" in kinds and set(kinds) <= {"setting", "written"}


def _state(test: ast.expr) -> bool:
    """Tell whether a test asks about what the program holds: `key in self.compiled`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        if isinstance(test.ops[0], ast.In | ast.NotIn):
            return not isinstance(test.left, ast.Constant)
        if isinstance(test.ops[0], ast.Is | ast.IsNot):
            # A plain name can be an option that is None unless it is given.
            option = isinstance(test.left, ast.Name) or _of_settings(test.left)
            return _is_done(test.left) or not option
    return _is_done(test)


def _is_done(test: ast.expr) -> bool:
    """Tell whether a value is named after what was done, not what is wanted: `self._compiled`."""
    word = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return bool(re.search(r"(^|_)compiled(_|$)", word)) and not _of_settings(test)


def _words(test: ast.expr) -> Iterator[str]:
    for node in walk(test):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _machine(here: View, node: ast.AST) -> bool:
    """Tell whether a node asks about the machine, the installed packages, or an object."""
    if isinstance(node, ast.Name) and node.id in ("__name__", "TYPE_CHECKING"):
        return True
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "hasattr" and node.args:
            # `hasattr(args, "compile")` is about a setting, whatever else has it is an object.
            return not _is_settings(node.args[0])
        return name in ("isinstance", "issubclass", "callable", "len")
    if isinstance(node, ast.Attribute):
        meant = origin(here, node)
        if meant is None or meant.startswith("sys.argv"):
            return False
        return meant.startswith(_MACHINE) or meant == "torch.compile"
    return False


def _reads_a_value(here: View, call: ast.Call) -> bool:
    """Tell whether a call reads a setting: `.get("compile")`, `os.getenv(...)`, `bool(...)`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in (
        "get",
        "getenv",
        "lower",
        "select",
        "pop",
        "getboolean",
        "strip",
    ):
        return True
    return isinstance(call.func, ast.Name) and call.func.id in (
        "bool",
        "int",
        "getattr",
        "str",
        "any",
        "all",
        "getenv",
        "hasattr",
    )


def _function_meaning(here: View, call: ast.Call, depth: int) -> Meaning | None:
    """Return what the file's own function of no arguments asks about; unclear where unseen."""
    named = call.func
    if not isinstance(named, ast.Name):
        return "unclear" if any(_SWITCH.search(word) for word in _words(named)) else None
    for node in here.nodes:
        if isinstance(node, FUNCTIONS) and node.name == named.id:
            returned = [
                one.value for one in walk(node) if isinstance(one, ast.Return) and one.value
            ]
            kinds = {_meaning(here, value, depth - 1) for value in returned}
            return kinds.pop() if len(kinds) == 1 else "unclear"
    return "unclear" if _SWITCH.search(named.id) else None


def _constant_value(here: View, name: ast.Name) -> ast.expr | None:
    """Return the one value that a name is given in the file, None where there are others."""
    home = here.names.binding(name.id, name)
    if home is None:
        return None
    stores = [
        node
        for node in here.nodes
        if isinstance(node, ast.Name)
        and node.id == name.id
        and isinstance(node.ctx, ast.Store)
        and scope_of(here, node) is home[0]
    ]
    holder = here.above[stores[0]] if len(stores) == 1 else None
    if isinstance(holder, ast.Assign) and holder.targets == stores:
        return holder.value
    return None


def _plain_setting(test: ast.expr) -> bool:
    """Tell whether a test is the bare truth of a setting whose name says nothing of compile."""
    if isinstance(test, ast.Name):
        return bool(_SPEED.search(test.id))
    return _of_settings(test)


def _of_settings(test: ast.expr) -> bool:
    """Tell whether a value is read from something that is called like settings."""
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Attribute)
        and test.func.attr == "get"
    ):
        test = test.func.value
    return isinstance(test, ast.Attribute | ast.Subscript) and _is_settings(test.value)


def _is_settings(chain: ast.expr) -> bool:
    while isinstance(chain, ast.Attribute | ast.Subscript):
        if isinstance(chain, ast.Attribute) and _SETTINGS.match(chain.attr):
            return True
        chain = chain.value
    return isinstance(chain, ast.Name) and bool(_SETTINGS.match(chain.id))


def _gated_callers(here: View, node: ast.AST, depth: int) -> Gate | Unclear | None:
    """Return the gate that every call of the function around a node stands behind."""
    function = function_of(here, node)
    others = [] if function is None else mentioning(here, function.name)
    if function is None or depth == 0 or others is None:
        return None
    method = isinstance(here.above[function], ast.ClassDef)
    found: list[Gate | Unclear] = []
    for there in (here, *others):
        for one in there.nodes:
            if not isinstance(one, ast.Name | ast.Attribute) or _word(one) != function.name:
                continue
            # Elsewhere a function can be named through its module, too.
            named_so = isinstance(one, ast.Attribute) is method or there is not here
            if not isinstance(one.ctx, ast.Load) or not named_so:
                continue
            gate = _gate_around(there, one, depth - 1)
            if not isinstance(gate, Gate):
                return None
            found.append(gate)
    return found[0] if found else None


def _word(named: ast.Name | ast.Attribute) -> str:
    return named.id if isinstance(named, ast.Name) else named.attr
