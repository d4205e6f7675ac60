"""Prove that with the switch off the branch is what it was made from, file by file.

Every Python file is read with the switch off (`fold`) and compared with onto's (`compare`), the
learned rules undone. What cannot be shown is not proven: the first place that stands in the way is
named, with both texts. No code is run, and nothing that made the branch is trusted: rules are
matched, classes and helpers compared, by code of this side alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Literal

from porttool.errors import PortError, UnparsableSource
from porttool.frozen import dataclass
from porttool.learning.lesson import Lesson
from porttool.plan.switch import FlatSwitch, Switch, SwitchPlan
from porttool.proving.additions import AddedModule, Additions
from porttool.proving.compare import Comparison, Difference, Home
from porttool.proving.declared import objection_on, undeclared
from porttool.proving.fold import Folded, fold
from porttool.proving.reach import (
    TEXT,
    importing_line,
    imports,
    loads,
    module_names,
    module_word,
    new_file_objection,
)
from porttool.proving.same_settings import settings_verdict
from porttool.source.scopes import bound_names, imported_modules, imported_names
from porttool.source.syntax import Source, parse_source, text_of

Verdict = Literal[
    "identical tree",
    "added, unreachable from onto",
    "added, does nothing by itself",
    "declaration only",
    "data only",
    "text only",
    "not proven",
]
_DELETED = "it is deleted"
_MAX_SHOWN = 160
_MAX_REEXPORTS = 8  # files that import a name from one another


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
    new_folders: Collection[str] = (),
) -> Proof:
    """Prove every changed file of a branch.

    `onto` holds the files from before: the changed ones, and all that hold one of `search_words`.
    `branch` holds the changed paths only: None where a file is deleted. `new_folders` are those
    that onto does not have.
    """
    case = _Case(onto, branch, lesson, switch, new_folders)
    files = tuple(case.file(path) for path in sorted(branch))
    holds = all(file.verdict != "not proven" for file in files)
    assumes = tuple(dict.fromkeys(case.assumes)) if holds else ()
    return Proof(holds, "syntax" if holds else "none", files, assumes)


class _Case:
    """One branch under proof; holds what its files have in common."""

    def __init__(
        self,
        onto: Mapping[str, bytes],
        branch: Mapping[str, bytes | None],
        lesson: Lesson,
        switch: Switch | None,
        new_folders: Collection[str],
    ) -> None:
        self._onto = onto
        self._branch = branch
        self._lesson = lesson
        self._switch = switch
        self._new_folders = new_folders
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
            return self._text(path) if suffix in TEXT else FileProof(path, "not proven", _DELETED)
        if before is None:
            return self._added(path)
        if before == after:
            return FileProof(path, "identical tree", "no byte is changed")
        if suffix == ".py":
            return self._python(path, before, after)
        if suffix in (".yaml", ".yml"):
            return FileProof(path, *settings_verdict(path, before, after, self._switch))
        if suffix in TEXT:
            return self._text(path)
        return FileProof(path, "not proven", f"what reads a {suffix or path} file is not known")

    def _added(self, path: str) -> FileProof:
        importers: list[str] = []

        def does(importer: str) -> str | None:
            before = _readable(importer, self._onto[importer])
            names = module_names(path, self._onto)
            if importing_line(before, importer, path, names) is not None:
                return "onto has that import already, and it means something else there"
            importers.append(importer)
            loaded = imported_modules(self._trees()[importer])
            return self._loaded(path, frozenset(loaded), ()).why

        new_folder = str(PurePosixPath(path).parent) in self._new_folders
        why = new_file_objection(path, self._onto, self._trees(), does, new_folder=new_folder)
        if why is not None:
            return FileProof(path, "not proven", why)
        self.assumes.append(f"nothing of onto loads files by pattern from {_folder(path)}")
        if importers:
            detail = f"it only defines what {', '.join(importers)} may import"
            return FileProof(path, "added, does nothing by itself", detail)
        return FileProof(path, "added, unreachable from onto", "nothing of onto names it")

    def _added_modules(
        self, importer: str, loaded: Collection[str], around: tuple[str, ...] = ()
    ) -> Callable[[str, int], AddedModule | None]:
        """Return what finds the new file that an import would load, and says what that does."""

        def find(dotted: str, level: int) -> AddedModule | None:
            found = None
            for path, names in self._new_modules.items():
                exact = level > 0 or dotted in names
                # Whoever imports from a package that is being loaded does not load it again.
                loading = path in around and not exact
                if loading or not loads(dotted, level, importer, path, names):
                    continue
                added = self._loaded(path, frozenset(loaded), around)
                if added.why is not None:
                    return added
                found = added if exact or found is None else found
            return found

        return find

    def _loaded(self, path: str, loaded: frozenset[str], around: tuple[str, ...]) -> AddedModule:
        """Say what loading a new file does where these modules have been loaded as well.

        `around` are the new files that are being loaded already.
        """
        tree = self._tree(path)
        if path in around:
            return AddedModule(path, tree, "it imports itself, through others")
        additions = Additions(
            path=path,
            onto=ast.Module([], []),
            branch=Folded(tree, (), (), frozenset()),
            config=None,
            mentioned=self._mentioned,
            added_module=self._added_modules(path, loaded, (*around, path)),
            old_module=lambda dotted, level: self._old_module(dotted, level, path),
            loaded=loaded,
        )
        why = additions.objection_to_loading()
        self.assumes += additions.assumes if why is None else []
        return AddedModule(path, tree, why)

    def _trees(self) -> Mapping[str, ast.Module]:
        """Return the Python files that existed, as the branch leaves them with the switch off."""
        if self._old_trees is None:
            stems = {module_word(path).encode() for path in self._new_modules}
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
            added_module=self._added_modules(path, imported_modules(before_tree)),
            old_module=lambda dotted, level: self._old_module(dotted, level, path),
            called=_methods_called(self._lesson),
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
        for path in self._files_behind(dotted, level, importer):
            if path in self._onto:
                return self._tree(path)
        return None

    def _tree(self, path: str) -> ast.Module:
        """Return a known file as the branch leaves it; an empty one where nothing can load it."""
        return _readable(path, self._branch.get(path, self._onto.get(path)) or b"")

    def _files_behind(self, dotted: str, level: int, importer: str) -> Iterator[str]:
        """Yield the files that an import may load, but for those that the branch deletes."""
        last = dotted.rpartition(".")[2]
        for path in self._modules.get(last, ()) if last else self._files:
            if not path.endswith(".py") or self._branch.get(path, b"") is None:
                continue
            names = module_names(path, self._onto)
            exact = level > 0 or dotted in names
            if exact and loads(dotted, level, importer, path, names):
                yield path

    @cached_property
    def _files(self) -> Sequence[str]:
        """The files of onto that are known, then those that the branch adds."""
        return (*self._onto, *self._new)

    @cached_property
    def _modules(self) -> Mapping[str, Sequence[str]]:
        """Map a word to the files that an import ending in it can mean.

        It names the file, or the folder of a package.
        """
        found: dict[str, list[str]] = {}
        for path in self._files:
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

    def _helper_finder(self, importer: str) -> Callable[[str, str, int], list[Home]]:
        """Return what finds the definitions that an import may give, among the known files."""

        def find(name: str, dotted: str, level: int) -> list[Home]:
            return self._homes(name, dotted, level, importer, _MAX_REEXPORTS)

        return find

    def _homes(self, name: str, dotted: str, level: int, importer: str, depth: int) -> list[Home]:
        """Return the definitions behind an import, seen through files that import the name on."""
        found = []
        for path in self._files_behind(dotted, level, importer) if depth else ():
            tree = self._tree(path)
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and name in imported_names(node):
                    there = next(a.name for a in node.names if name in (a.asname, a.name))
                    rest = node.module or "", node.level, path, depth - 1
                    found += self._homes(there, *rest)
                elif name in bound_names([node]):
                    found.append(Home(path, tree, node))
        return found


def _methods_called(lesson: Lesson) -> frozenset[str]:
    """Return the methods of the experiment's, `Class.name`, that its rewrites call."""
    called = {name for rule in lesson.rules for name in rule.requires}
    methods = [helper for helper in lesson.helpers if "." in helper.name]
    while more := {need for h in methods if h.name in called for need in h.needs} - called:
        called |= more
    return frozenset(helper.name for helper in methods if helper.name in called)


def _readable(path: str, data: bytes) -> ast.Module:
    """Return a file's tree, an empty one where Python could not load it either."""
    try:
        return parse_source(path, data).tree
    except UnparsableSource:
        return ast.Module([], [])


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
