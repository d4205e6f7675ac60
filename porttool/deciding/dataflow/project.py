"""The analysed files together: modules by name, classes and their families, uses of a name."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope, index_of
from porttool.deciding.dataflow.puts import Put, puts_in
from porttool.source.syntax import Source

# Bases from here have no method that hands back what an object was given, but containers have.
_KNOWN_ROOTS = frozenset({"torch", "abc", "enum", "typing", "threading", "collections"})


@dataclass(eq=False)
class ClassInfo:
    """A class of the analysed files; `outside` names the bases that are not among them."""

    scope: Scope
    bases: list[ClassInfo] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    derived: list[ClassInfo] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.scope.name

    @property
    def node(self) -> ast.ClassDef:
        """The class statement."""
        assert isinstance(self.scope.node, ast.ClassDef)
        return self.scope.node

    def ancestors(self) -> list[ClassInfo]:
        """Return the class and what it derives from, nearest first."""
        return _closure(self, "bases")

    def descendants(self) -> list[ClassInfo]:
        """Return the class and what derives from it."""
        return _closure(self, "derived")

    def family(self) -> list[ClassInfo]:
        """Return every class whose methods may run on an object of this one.

        A descendant's other bases are among them: a mixin finds what its siblings set.
        """
        below = self.descendants()
        beside = [cls for derived in below[1:] for cls in derived.ancestors()]
        return list(dict.fromkeys([*self.ancestors(), *below, *beside]))

    @property
    def has_unknown_bases(self) -> bool:
        """Tell whether it inherits more than torch modules and the standard library give."""
        names = [name for cls in self.ancestors() for name in cls.outside]
        return any(name.partition(".")[0] not in _KNOWN_ROOTS for name in names)

    @property
    def is_module(self) -> bool:
        """Tell whether objects of it are torch modules, with a `state_dict()` of their own."""
        names = [name for cls in self.ancestors() for name in cls.outside]
        return any(name.startswith("torch.nn.") or name.endswith("Module") for name in names)


def _closure(start: ClassInfo, relation: str) -> list[ClassInfo]:
    found: dict[ClassInfo, None] = {}
    waiting = [start]
    while waiting:
        cls = waiting.pop(0)
        if cls not in found:
            found[cls] = None
            waiting += getattr(cls, relation)
    return list(found)


class Project:
    """Index of a set of files; files are found by module name, whatever folder the roots are."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.files = {path: index_of(source) for path, source in sources.items()}
        self._by_tail: dict[str, list[FileIndex]] = defaultdict(list)
        last_parts = Counter(path.rpartition("/")[2] for path in self.files)
        for path, file in self.files.items():
            parts = path.removesuffix(".py").split("/")
            name = path.rpartition("/")[2]
            file.shown = name if last_parts[name] == 1 else path
            if parts[-1] == "__init__" and len(parts) > 1:
                parts.pop()
            self._by_tail[parts[-1]].append(file)
        self.classes: dict[ast.AST, ClassInfo] = {
            scope.node: ClassInfo(scope)
            for file in self.files.values()
            for scope in file.scopes.values()
            if scope.kind == "class"
        }
        self._owners: dict[str, list[ClassInfo]] = {}
        self._stores: dict[str, list[Binding]] = {}
        self._added: dict[tuple[Scope, str], list[tuple[Binding, ast.stmt | None]]] = {}
        self._calls: dict[str, list[tuple[ast.Call, FileIndex]]] = {}
        self._puts: dict[str | None, list[Put]] | None = None
        # Names that were looked for and that the files do not define, by the importer's path.
        self.missed: dict[tuple[str, str], None] = {}
        for cls in self.classes.values():
            self._find_bases(cls)

    def class_of(self, scope: Scope | None) -> ClassInfo | None:
        """Return the class that a class scope belongs to."""
        return self.classes.get(scope.node) if scope is not None else None

    def module(self, dotted: str, importer: FileIndex | None = None) -> FileIndex | None:
        """Return the file that a module name means, the one nearest to the importer."""
        parts = dotted.split(".")
        folder = importer.path.split("/")[:-1] if importer is not None else []
        found = []
        for file in self._by_tail.get(parts[-1], []):
            path = file.path.removesuffix(".py").removesuffix("/__init__").split("/")
            if path[-len(parts) :] == parts and is_root(path[: -len(parts)], folder, parts):
                found.append(file)
        if len(found) > 1:
            found.sort(key=lambda file: (file.path.split("/")[:-1] != folder, len(file.path)))
        return found[0] if found else None

    def absolute(self, node: ast.ImportFrom, file: FileIndex) -> str:
        """Return the dotted module that a `from` import names, relative ones resolved by path."""
        if not node.level:
            return node.module or ""
        parts = file.path.split("/")[: -node.level]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def definition(self, dotted: str, importer: FileIndex) -> Scope | FileIndex | Binding | None:
        """Find what a dotted name means: a binding at the top of a file, or a file itself.

        A package whose `__init__` is not among the files still gives what one of its modules
        defines under that name.
        """
        module = self.module(dotted, importer)
        if module is not None:
            return module
        package, _, name = dotted.rpartition(".")
        if not package:
            self.missed[dotted, importer.path] = None
            return None
        home = self.module(package, importer)
        if home is not None:
            bindings = home.module.bindings.get(name)
            if bindings:
                return bindings[-1]
            for star in home.stars:
                found = self.definition(f"{self.absolute(star, home)}.{name}", home)
                if found is not None:
                    return found
            self.missed[dotted, importer.path] = None
            return None
        self.missed[dotted, importer.path] = None
        folder = "/" + package.replace(".", "/") + "/"
        inside = [
            bindings[-1]
            for path, file in self.files.items()
            if folder in "/" + path and (bindings := file.module.bindings.get(name))
            if bindings[-1].kind in ("function", "class")
        ]
        return inside[0] if len(inside) == 1 else None

    def stores(self, attribute: str) -> Iterator[Binding]:
        """Yield every assignment to an attribute of that name."""
        if attribute not in self._stores:
            files = self.files.values()
            self._stores[attribute] = [b for file in files for b in file.stores.get(attribute, ())]
        yield from self._stores[attribute]

    def add(self, binding: Binding, behind: ast.stmt | None) -> None:
        """Count in what a statement binds that is still to be added behind another one.

        None: as the first statement of its function. Attributes are everybody's at any time.
        """
        target = binding.target
        if isinstance(target, ast.Attribute):
            self._stores[target.attr] = [*self.stores(target.attr), binding]
        elif isinstance(target, ast.Name):
            self._added.setdefault((binding.scope, target.id), []).append((binding, behind))

    def added(self, scope: Scope, name: str) -> list[tuple[Binding, ast.stmt | None]]:
        """Return what added statements bind a name to in a scope, and behind which statement."""
        return self._added.get((scope, name), [])

    def added_in(self, scope: Scope) -> list[tuple[Binding, ast.stmt | None]]:
        """Return what added statements bind in a scope, and behind which statement."""
        return [one for (at, _), found in self._added.items() if at is scope for one in found]

    def puts(self, attribute: str | None) -> Iterator[Put]:
        """Yield what gives an attribute of that name by a call; None for computed names."""
        yield from self._puts_by_name().get(attribute, ())

    def all_puts(self) -> Iterator[Put]:
        """Yield what gives an attribute by a call, whatever its name."""
        for puts in self._puts_by_name().values():
            yield from puts

    def _puts_by_name(self) -> dict[str | None, list[Put]]:
        if self._puts is None:
            self._puts = defaultdict(list)
            for file in self.files.values():
                for put in puts_in(file):
                    self._puts[put.name].append(put)
        return self._puts

    def own_class(self, node: ast.expr, file: FileIndex) -> ClassInfo | None:
        """Return the class whose method calls its object by this name (`self`)."""
        if not isinstance(node, ast.Name):
            return None
        scope = file.scope_at.get(node)
        while scope is not None and node.id not in scope.bindings:
            scope = scope.above
        if scope is None or scope.owner is None or len(scope.bindings[node.id]) > 1:
            return None
        function = scope.node
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        first = [*function.args.posonlyargs, *function.args.args][:1]
        if not first or first[0].arg != node.id or "staticmethod" in decorators(scope):
            return None
        return self.class_of(scope.owner)

    def owners(self, name: str) -> list[ClassInfo]:
        """Return the classes that have a method or set an attribute of that name."""
        if name not in self._owners:
            found: dict[ClassInfo, None] = {}
            for binding in self.stores(name):
                assert isinstance(binding.target, ast.Attribute)
                cls = self.own_class(binding.target.value, binding.scope.file)
                if cls is not None:
                    found[cls] = None
            for cls in self.classes.values():
                bindings = cls.scope.bindings.get(name, [])
                if any(binding.kind == "function" for binding in bindings):
                    found[cls] = None
            self._owners[name] = list(found)
        return self._owners[name]

    def uses(self, name: str) -> Iterator[tuple[ast.Name | ast.Attribute, FileIndex]]:
        """Yield every read of a name, of an alias that an import gives it, or of an attribute."""
        for file in self.files.values():
            for node in file.names.get(name, ()):
                yield node, file
            for attribute in file.attributes.get(name, ()):
                yield attribute, file
            for alias in file.aliases.get(name, ()):
                for node in file.names.get(alias, ()):
                    yield node, file

    def calls(self, name: str) -> Iterator[tuple[ast.Call, FileIndex]]:
        """Yield every call whose callee ends in that name."""
        if name not in self._calls:
            files = self.files.values()
            self._calls[name] = [(call, f) for f in files for call in f.calls.get(name, ())]
        yield from self._calls[name]

    def _find_bases(self, cls: ClassInfo) -> None:
        for expression in cls.node.bases:
            base = expression.value if isinstance(expression, ast.Subscript) else expression
            dotted = _dotted(base)
            if dotted is None:
                cls.outside.append("?")
                continue
            found = self.look_up(dotted, cls.scope.above or cls.scope.file.module)
            if isinstance(found, ClassInfo):
                cls.bases.append(found)
                found.derived.append(cls)
            elif found not in ("object", "typing.Generic", "typing.Protocol", "abc.ABC"):
                cls.outside.append(found)

    def look_up(self, dotted: str, scope: Scope) -> ClassInfo | str:
        """Return the class that a name means, or its full dotted name when it is not analysed."""
        first, _, rest = dotted.partition(".")
        here: Scope | None = scope
        while here is not None:
            bindings = here.bindings.get(first)
            if bindings:
                return self._meaning(bindings[-1], rest)
            here = here.above
        for star in scope.file.stars:
            found = self.definition(f"{self.absolute(star, scope.file)}.{first}", scope.file)
            if isinstance(found, Binding):
                return self._meaning(found, rest)
        return dotted

    def _meaning(self, binding: Binding, rest: str, depth: int = 0) -> ClassInfo | str:
        if binding.kind == "class" and not rest:
            return self.classes[binding.node]
        if binding.kind != "import" or depth > 20:  # re-exports in a circle
            return "?"
        file = binding.scope.file
        dotted = imported(binding, self)
        found = self.definition(f"{dotted}.{rest}" if rest else dotted, file)
        if isinstance(found, Binding):
            return self._meaning(found, "", depth + 1)
        if isinstance(found, FileIndex):
            return "?"
        return f"{dotted}.{rest}" if rest else dotted


def imported(binding: Binding, project: Project) -> str:
    """Return the dotted name of what an import binding binds."""
    alias = binding.target
    assert isinstance(alias, ast.alias)
    if isinstance(binding.node, ast.ImportFrom):
        module = project.absolute(binding.node, binding.scope.file)
        return f"{module}.{alias.name}" if module else alias.name
    return alias.name if alias.asname else alias.name.partition(".")[0]


def is_root(head: list[str], folder: list[str], parts: list[str]) -> bool:
    """Tell whether imports may start below a folder; one part alone is soon a false friend."""
    if len(parts) > 1 or not head or head[-1] in ("src", "lib", "python"):
        return True
    return head == folder and parts[0] not in sys.stdlib_module_names


def _dotted(node: ast.expr) -> str | None:
    tail: list[str] = []
    while isinstance(node, ast.Attribute):
        tail.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(tail)])


def decorators(scope: Scope) -> set[str]:
    """Return the last names of a function's decorators."""
    names = set()
    for decorator in getattr(scope.node, "decorator_list", []):
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
    return names
