"""Prove that with the switch off the branch is what it was made from, file by file.

Every Python file is read with the switch off (`fold`) and compared with onto's (`compare`), the
learned rules undone. What cannot be shown is not proven: the first place that stands in the way is
named, with both texts. No code is run, and nothing that made the branch is trusted: rules are
matched, classes and helpers compared, by code of this side alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Literal

from porttool.errors import NeedsPerson, PortError, UnparsableSource
from porttool.frozen import dataclass
from porttool.gating.settings import declared_values, plain_values, same_values
from porttool.learning.lesson import Lesson
from porttool.plan.switch import FlatSwitch, Switch, SwitchPlan
from porttool.plan.types import fits
from porttool.proving.additions import Additions
from porttool.proving.compare import Comparison, Difference
from porttool.proving.declared import objection_on, undeclared
from porttool.proving.fold import Folded, fold
from porttool.proving.reach import imports, loads, module_names, new_file_objection
from porttool.source.scopes import Function, bound_names
from porttool.source.syntax import Source, parse_source, text_of

Verdict = Literal[
    "identical tree",
    "added, unreachable from onto",
    "declaration only",
    "data only",
    "text only",
    "not proven",
]
_TEXT = (".md", ".rst", ".txt")
_MAX_SHOWN = 160


@dataclass(frozen=True)
class FileProof:
    """What is proven of one changed file and by what, or the first place that stands against it."""

    path: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True)
class Proof:
    """What is proven of a branch, and on which assumptions."""

    holds: bool
    tier: Literal["none", "syntax", "run"]
    files: tuple[FileProof, ...]
    assumes: tuple[str, ...]


def prove_off(
    onto: Mapping[str, bytes],
    branch: Mapping[str, bytes | None],
    lesson: Lesson,
    switch: Switch | None,
) -> Proof:
    """Prove every changed file of a branch.

    `onto` holds the files from before: the changed ones, and all that hold one of `search_words`.
    `branch` holds the changed paths only: None where a file is deleted.
    """
    case = _Case(onto, branch, lesson, switch)
    files = tuple(case.file(path) for path in sorted(branch))
    holds = all(file.verdict != "not proven" for file in files)
    assumes = tuple(dict.fromkeys(case.assumes)) if holds else ()
    return Proof(holds, "syntax" if holds else "none", files, assumes)


def search_words(
    onto: Mapping[str, bytes], branch: Mapping[str, bytes | None], switch: Switch | None = None
) -> tuple[str, ...]:
    """Return the words by which a file of onto could get at what the branch adds.

    Both arguments hold the changed files only. A proof has to see every file of onto, settings and
    packaging included, that holds one of these as a whole word. What imports a changed file may be
    what hands it the settings that hold a flat switch.
    """
    words: set[str] = set()
    if isinstance(switch, FlatSwitch):
        stems = [PurePosixPath(path) for path in branch if path.endswith(".py")]
        words |= {n.parent.name if n.stem == "__init__" else n.stem for n in stems} - {""}
        words |= {switch.root.rpartition(".")[2]} if switch.root else set()
    for path, data in branch.items():
        name = PurePosixPath(path)
        if path not in onto:
            words.add(name.stem if name.suffix == ".py" else name.name)
        elif name.suffix in _TEXT:
            words.add(name.name)
        elif name.suffix == ".py" and data is not None:
            old, new = _defined(path, onto[path]), _defined(path, data)
            words |= {
                method
                for owner, methods in new.items()
                if owner and owner in old
                for method in methods - old[owner]
            }
            if any(not added.startswith("_") for added in new.get("", set()) - old.get("", set())):
                words.add(name.stem)  # a star import of the module would take the name over
    return tuple(sorted(words))


def _defined(path: str, data: bytes) -> dict[str, set[str]]:
    """Return the top-level names of a file under "", and the methods of each of its classes."""
    try:
        tree = parse_source(path, data).tree
    except UnparsableSource:
        return {}
    found = {"": bound_names(tree.body)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {part.name for part in node.body if isinstance(part, Function)}
    return found


class _Case:
    """One branch under proof; holds what its files have in common."""

    def __init__(
        self,
        onto: Mapping[str, bytes],
        branch: Mapping[str, bytes | None],
        lesson: Lesson,
        switch: Switch | None,
    ) -> None:
        self._onto = onto
        self._branch = branch
        self._lesson = lesson
        self._switch = switch
        self._new = [path for path in branch if path not in onto]
        self._new_modules = {
            path: module_names(path, onto) for path in self._new if path.endswith(".py")
        }
        self._old_trees: dict[str, ast.Module] | None = None
        self._folded: dict[str, Folded] = {}
        self.assumes: list[str] = []

    def file(self, path: str) -> FileProof:
        """Prove one file."""
        after = self._branch[path]
        before = self._onto.get(path)
        suffix = PurePosixPath(path).suffix
        if after is None:
            return FileProof(path, "not proven", "it is deleted")
        if before is None:
            return self._added(path)
        if before == after:
            return FileProof(path, "identical tree", "no byte is changed")
        if suffix == ".py":
            return self._python(path, before, after)
        if suffix in (".yaml", ".yml"):
            return self._settings(path, before, after)
        if suffix in _TEXT:
            return self._text(path)
        return FileProof(path, "not proven", f"what reads a {suffix or path} file is not known")

    def _added(self, path: str) -> FileProof:
        why = new_file_objection(path, self._onto, self._trees())
        if why is not None:
            return FileProof(path, "not proven", why)
        self.assumes.append(f"nothing of onto loads files by pattern from {_folder(path)}")
        return FileProof(path, "added, unreachable from onto", "nothing of onto names it")

    def _trees(self) -> Mapping[str, ast.Module]:
        """Return the Python files that existed, as the branch leaves them with the switch off."""
        if self._old_trees is None:
            stems = {PurePosixPath(path).stem.encode() for path in self._new_modules}
            self._old_trees = {}
            for path in self._onto:
                data = self._branch.get(path, self._onto[path])
                if path.endswith(".py") and data and any(stem in data for stem in stems):
                    try:
                        source = parse_source(path, data)
                    except UnparsableSource:
                        continue  # Python could not load it either
                    changed = path in self._branch
                    folded = self._fold(source) if changed else None
                    self._old_trees[path] = folded.tree if folded else source.tree
        return self._old_trees

    def _text(self, path: str) -> FileProof:
        name = PurePosixPath(path).name.encode()
        for other, data in self._onto.items():
            if other.endswith(".py") and name in data:
                return FileProof(path, "not proven", f"{other} names it, so code may read it")
        return FileProof(path, "text only", "no code of onto names it")

    def _python(self, path: str, before: bytes, after: bytes) -> FileProof:
        try:
            onto, branch = parse_source(path, before), parse_source(path, after)
            # Parsing lets pass what compiling refuses, such as a late `from __future__`.
            compile(after, path, "exec", dont_inherit=True)
        except (UnparsableSource, SyntaxError, ValueError) as error:
            return FileProof(path, "not proven", f"it does not parse: {error}".split("\n")[0])
        folded = self._fold(branch)
        before_tree = self._off_before(onto)
        config = None
        label = None
        if isinstance(self._switch, FlatSwitch) and self._switch.module == path:
            try:
                why = objection_on(self._before, self._switch)
                without = undeclared(folded.tree, branch, self._switch, self._after)
            except PortError as error:
                return FileProof(path, "not proven", error.what)
            if why:
                return FileProof(path, "not proven", f"the switch changes more than it says: {why}")
            if why is None:
                label = without.label
                folded = replace(folded, tree=without.tree)
                self.assumes += without.assumes
        elif isinstance(self._switch, SwitchPlan) and self._switch.module == path:
            config = self._switch
        additions = Additions(
            path=path,
            onto=before_tree,
            branch=folded,
            config=config,
            mentioned=self._mentioned,
            new_module=lambda dotted, level: any(
                loads(dotted, level, path, new, names) for new, names in self._new_modules.items()
            ),
            old_module=lambda dotted, level: self._old_module(dotted, level, path),
        )
        comparison = Comparison(
            onto=before_tree,
            branch=folded,
            lesson=self._lesson,
            additions=additions,
            find_helper=self._helper_finder(path),
        )
        difference = comparison.run()
        if folded.problems:
            problem = folded.problems[0]
            return FileProof(path, "not proven", f"{path}:{problem.line}: {problem.text}")
        if difference is not None:
            return FileProof(path, "not proven", _told(onto, branch, difference))
        public = [name for name in additions.new_names if not name.startswith("_")]
        spread = self._star_importer(path) if public else None
        if spread is not None:
            return FileProof(path, "not proven", f"{spread} takes all its names, {public[0]} too")
        if label is not None:
            additions.accepted.append(label)
            additions.declared = True
        self._assume(path, additions, comparison, folded.roots)
        return FileProof(path, *_found(additions, comparison, folded.roots))

    def _fold(self, source: Source) -> Folded:
        """Return a file of the branch with the switch off."""
        if source.path not in self._folded:
            flat = isinstance(self._switch, FlatSwitch)
            sources = {**self._after, source.path: source} if flat else None
            self._folded[source.path] = fold(source, self._switch, sources)
        return self._folded[source.path]

    def _off_before(self, onto: Source) -> ast.Module:
        """Return a file of onto, with the switch off where onto has that very switch already."""
        if not isinstance(self._switch, FlatSwitch):
            return onto.tree
        folded = fold(onto, self._switch, {**self._before, onto.path: onto})
        return onto.tree if folded.problems else folded.tree

    @cached_property
    def _before(self) -> Mapping[str, Source]:
        """The Python files of onto that can be read."""
        return _parsed(self._onto)

    @cached_property
    def _after(self) -> Mapping[str, Source]:
        """The same, and those of the branch over them."""
        return _parsed({**self._onto, **self._branch})

    def _old_module(self, dotted: str, level: int, importer: str) -> ast.Module | None:
        """Return the file of onto that an import loads, as the branch leaves it."""
        last = dotted.rpartition(".")[2]
        for path in self._modules.get(last, ()) if last else self._onto:
            data = self._branch.get(path, self._onto[path])
            if data is None or not path.endswith(".py"):
                continue
            names = module_names(path, self._onto)
            exact = level > 0 or dotted in names
            if exact and loads(dotted, level, importer, path, names):
                return parse_source(path, data).tree
        return None

    @cached_property
    def _modules(self) -> Mapping[str, Sequence[str]]:
        """Map a word to the files that an import ending in it can mean.

        It names the file, or the folder of a package.
        """
        found: dict[str, list[str]] = {}
        for path in self._onto:
            place = PurePosixPath(path)
            if place.suffix == ".py":
                for word in {place.stem, place.parent.name}:
                    found.setdefault(word, []).append(path)
        return found

    def _assume(
        self, path: str, additions: Additions, comparison: Comparison, roots: tuple[str, ...]
    ) -> None:
        if isinstance(self._switch, SwitchPlan):
            self.assumes += [f"{root} is a {self._switch.root}" for root in roots]
        elif self._switch is not None:
            self.assumes += [f"{root} reads {_home(self._switch)}" for root in roots]
        self.assumes += additions.assumes
        self.assumes += [
            f"`{rule.after}` gives what `{rule.before}` gives where nothing is wrapped"
            for rule in comparison.used.values()
        ]
        if additions.declared and isinstance(self._switch, SwitchPlan):
            self.assumes.append(
                f"nothing depends on the number of fields of {self._switch.root}; "
                f"its dumps gain `{self._switch.key}`"
            )

    def _mentioned(self, word: str) -> bool:
        pattern = re.compile(rb"\b" + re.escape(word.encode()) + rb"\b")
        return any(
            pattern.search(data)
            for path, data in self._onto.items()
            if path.endswith(".py") and word.encode() in data
        )

    def _star_importer(self, path: str) -> str | None:
        names = module_names(path, self._onto)
        for other, data in self._onto.items():
            if not other.endswith(".py") or b"import *" not in data:
                continue
            try:
                tree = parse_source(other, data).tree
            except UnparsableSource:
                continue  # Python could not load it either
            for dotted, level, line in imports(tree):
                star = dotted.endswith("*")
                if star and loads(dotted.rstrip("*").rstrip("."), level, other, path, names):
                    return f"{other}:{line}"
        return None

    def _helper_finder(self, importer: str) -> Callable[[str, ast.ImportFrom], ast.stmt | None]:
        """Return what finds the definition behind an import, among the files that are known."""

        def find(name: str, statement: ast.ImportFrom) -> ast.stmt | None:
            for helper in self._lesson.helpers:
                data = self._branch.get(helper.path, self._onto.get(helper.path))
                if helper.name != name or data is None:
                    continue
                names = module_names(helper.path, self._onto)
                module = statement.module or ""
                if loads(module, statement.level, importer, helper.path, names):
                    for node in parse_source(helper.path, data).tree.body:
                        if getattr(node, "name", None) == name:
                            return node
            return None

        return find

    def _settings(self, path: str, before: bytes, after: bytes) -> FileProof:
        try:
            old, new = plain_values(before), plain_values(after)
        except NeedsPerson as error:
            return FileProof(path, "not proven", f"it cannot be compared: {error.why}")
        if same_values(old, new):
            return FileProof(path, "data only", "the same values")
        key = self._switch.key if self._switch else None
        section = new.get(key) if isinstance(new, dict) else None
        flat = isinstance(self._switch, FlatSwitch)
        if flat and isinstance(new, dict) and isinstance(old, dict) and key is not None:
            rest = {name: value for name, value in new.items() if name != key}
            if section is False and key not in old and same_values(old, rest):
                return FileProof(path, "data only", f"`{key}: false` is added")
        if not isinstance(self._switch, SwitchPlan):
            return FileProof(path, "not proven", _first_value(path, old, new, ()))
        if not isinstance(section, dict) or not isinstance(old, dict):
            return FileProof(path, "not proven", _first_value(path, old, new, ()))
        rest = {name: value for name, value in new.items() if name != key}
        if key in old or not same_values(old, rest):
            return FileProof(path, "not proven", _first_value(path, old, rest, ()))
        why = _section_objection(section, self._switch)
        if why is not None:
            return FileProof(path, "not proven", f"{path}: {why}")
        return FileProof(path, "data only", f"`{key}` is added, with every switch off")


def _parsed(files: Mapping[str, bytes | None]) -> Mapping[str, Source]:
    found = {}
    for path, data in files.items():
        if path.endswith(".py") and data is not None:
            try:
                found[path] = parse_source(path, data)
            except UnparsableSource:
                continue  # Python could not load it either
    return found


def _home(switch: FlatSwitch) -> str:
    if switch.idiom == "env":
        return f"the environment variable {switch.variable}, which is not 1 when it is off"
    if switch.module is None:
        return f"`{switch.name}` of the settings, which is false or not there"
    return f"`{switch.name}` as {switch.module} declares it"


def _section_objection(section: Mapping[str, Any], switch: SwitchPlan) -> str | None:
    """Return why a settings file's section turns something on, or would not be read."""
    declared = declared_values(switch)
    types = {s.key: {f.name: f.type for f in s.fields} for s in switch.sections}
    for key, options in section.items():
        if key not in declared or not isinstance(options, dict):
            return f"`{switch.key}.{key}` is not a section that the plan declares"
        for name, value in options.items():
            if name not in declared[key]:
                return f"`{switch.key}.{key}.{name}` is not an option that the plan declares"
            if not fits(value, types[key][name]):
                return f"`{switch.key}.{key}.{name}` is {value!r}, expected {types[key][name]}"
            gate = name == switch.enabled.name
            if gate and value is not declared[key][name]:
                return f"`{switch.key}.{key}.{name}` is {value!r}, expected it to be off"
    return None


def _first_value(path: str, old: Any, new: Any, at: tuple[str, ...]) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in old or key not in new:
                side = "the branch" if key in new else "onto"
                return f"{path}: `{'.'.join((*at, str(key)))}` is only in {side}"
            if not same_values(old[key], new[key]):
                return _first_value(path, old[key], new[key], (*at, str(key)))
        return f"{path}: the keys of `{'.'.join(at)}` have another order"
    return f"{path}: `{'.'.join(at)}` is {old!r} on onto and {new!r} on the branch"


def _folder(path: str) -> str:
    parent = str(PurePosixPath(path).parent)
    return "the top folder" if parent == "." else parent


def _found(additions: Additions, comparison: Comparison, roots: tuple[str, ...]) -> Iterator[Any]:
    """Give the verdict and the detail of a Python file that is proven."""
    yield "declaration only" if additions.declared else "identical tree"
    facts = []
    if roots:
        facts.append(f"{len(roots)} read{'s' * (len(roots) != 1)} of the switch folded")
    if comparison.used:
        facts.append(f"undone: {', '.join(comparison.used)}")
    if additions.accepted:
        facts.append(f"added: {'; '.join(additions.accepted)}")
    yield ". ".join(facts) or "only layout or comments differ"


def _told(onto: Source, branch: Source, difference: Difference) -> str:
    """Return the first difference with its places and both texts."""
    left = _shown(onto, difference.onto)
    right = _shown(branch, difference.branch)
    sides = f"onto has {left}, the branch has {right}"
    return f"{sides}; {difference.why}" if difference.why else sides


def _shown(source: Source, node: ast.AST | None) -> str:
    if node is None or not hasattr(node, "lineno"):
        return "nothing" if node is None else f"`{ast.unparse(node)}`"
    text = " ".join(text_of(source, node).split())
    text = text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
    return f"`{text}` ({source.path}:{node.lineno})"
