"""Finds what the operator's source can pass for one parameter, by following it to every call.

It stands for running every path: a reason that no test brings about is found, too. What it can't follow it raises, so
that nothing is missed in silence.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import tsoperator

PACKAGE: Final = Path(tsoperator.__file__).parent
_LEFT_OUT: Final = "tsoperator.kube"
"""Whose reasons are those of the API server's answers."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


class NotFollowedError(Exception):
    """An argument is given in a way that this module doesn't know."""


@dataclass(slots=True)
class Module:
    """A module's names at its top: expressions, functions and classes, and what is imported."""

    name: str
    tree: ast.Module
    constants: dict[str, ast.expr] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Module and name by local name; without a name it is a module."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call, the functions that it stands in, from the outermost, and the module."""

    node: ast.Call
    inside: tuple[Function, ...]
    module: Module


class Source:
    """The operator's modules."""

    def __init__(self) -> None:
        paths = {path: _module_name(path) for path in sorted(PACKAGE.rglob("*.py"))}
        kept = {path: name for path, name in paths.items() if not name.startswith(_LEFT_OUT)}
        self._modules = {name: _read(name, path, set(kept.values())) for path, name in kept.items()}
        self._methods: dict[str, list[Definition]] = {}
        for module in self._modules.values():
            for method in _methods_of(module):
                self._methods.setdefault(method.name, []).append(method)

    def values(self, parameter: str) -> dict[str, str]:
        """Return the strings that are passed for *parameter* of any function or class, with a place where each is."""
        found: dict[str, str] = {}
        for call in self._calls():
            argument = self._argument(call, parameter)
            if argument is not None:
                place = f"{call.module.name}:{call.node.lineno}"
                found |= dict.fromkeys(self._strings(argument, call, parameter), place)
        return found

    def _calls(self) -> Iterator[Call]:
        for module in self._modules.values():
            yield from _calls_in(module.tree, (), module)

    def _argument(self, call: Call, parameter: str) -> ast.expr | None:
        for keyword in call.node.keywords:
            if keyword.arg == parameter:
                return keyword.value
        names = next((each for each in map(_parameters, self._called(call)) if parameter in each), None)
        if names is None:
            return None
        given = call.node.args[: names.index(parameter) + 1]
        starred = any(isinstance(each, ast.Starred) for each in given)  # fields of what was called with a reason itself
        return None if starred or len(given) <= names.index(parameter) else given[-1]

    def _called(self, call: Call) -> list[Definition]:
        """Return what may be called: what the package has under that name; of methods all with the name."""
        match call.node.func:
            case ast.Name(name):
                return self._resolve(call.module, name)
            case ast.Attribute(ast.Name(where), name) if call.module.imports.get(where, ("", "-"))[1] == "":
                return self._resolve(self._modules[call.module.imports[where][0]], name)
            case ast.Attribute(_, name):
                return self._methods.get(name, [])
        return []

    def _resolve(self, module: Module, name: str) -> list[Definition]:
        if name in module.definitions:
            return [module.definitions[name]]
        where, original = module.imports.get(name, ("", ""))
        return self._resolve(self._modules[where], original) if where in self._modules and original else []

    def _strings(self, node: ast.expr, call: Call, parameter: str) -> set[str]:
        """Return the values that *node* can have; what came in by *parameter* or a field of its name is found where
        that was given.
        """
        match node:
            case ast.Constant(str(value)):
                return {value} - {""}
            case ast.IfExp(_, body, orelse):
                return self._strings(body, call, parameter) | self._strings(orelse, call, parameter)
            case ast.BoolOp(_, values):
                return set().union(*(self._strings(each, call, parameter) for each in values))
            case ast.Dict(_, values):
                return set().union(*(self._strings(each, call, parameter) for each in values))
            case ast.Subscript(container, _):
                return self._strings(container, call, parameter)
            case ast.Attribute(ast.Name(where), name) if call.module.imports.get(where, ("", "-"))[1] == "":
                return self._constant(self._modules[call.module.imports[where][0]], name, parameter)
            case ast.Attribute(_, name) if name == parameter:
                return set()
            case ast.Name(name):
                return self._named(name, call, parameter)
        raise NotFollowedError(f"{call.module.name}:{node.lineno}: {ast.unparse(node)}")

    def _named(self, name: str, call: Call, parameter: str) -> set[str]:
        for function in reversed(call.inside):
            if assigned := list(_assigned(function, name)):
                return set().union(*(self._strings(each, call, parameter) for each in assigned))
            if name in _parameters(function) and name == parameter:
                return set()
        return self._constant(call.module, name, parameter)

    def _constant(self, module: Module, name: str, parameter: str) -> set[str]:
        if name in module.constants:
            call = Call(ast.Call(ast.Name(name), [], []), (), module)
            return self._strings(module.constants[name], call, parameter)
        where, original = module.imports.get(name, ("", ""))
        if where in self._modules and original:
            return self._constant(self._modules[where], original, parameter)
        raise NotFollowedError(f"{module.name}: {name}")


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, known: set[str]) -> Module:
    module = Module(name, ast.parse(path.read_text()))
    for node in module.tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                module.definitions[node.name] = node
            case ast.Assign([ast.Name(target)], value) | ast.AnnAssign(ast.Name(target), _, ast.expr() as value):
                module.constants[target] = value
            case ast.ImportFrom(str(source), names):
                for each in names:
                    local, whole = each.asname or each.name, f"{source}.{each.name}"
                    module.imports[local] = (whole, "") if whole in known else (source, each.name)
    return module


def _methods_of(module: Module) -> Iterator[Function]:
    for each in ast.walk(module.tree):
        if isinstance(each, ast.ClassDef):
            yield from (member for member in each.body if isinstance(member, Function))


def _calls_in(node: ast.AST, inside: tuple[Function, ...], module: Module) -> Iterator[Call]:
    if isinstance(node, ast.Call):
        yield Call(node, inside, module)
    below = (*inside, node) if isinstance(node, Function) else inside
    for child in ast.iter_child_nodes(node):
        yield from _calls_in(child, below, module)


def _parameters(definition: Definition) -> list[str]:
    """Return the positional parameters of a function, without self, or the fields of a class."""
    if isinstance(definition, ast.ClassDef):
        made = next((each for each in definition.body if isinstance(each, Function) and each.name == "__init__"), None)
        fields = [
            each.target.id
            for each in definition.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        ]
        return _parameters(made) if made else fields
    names = [each.arg for each in (*definition.args.posonlyargs, *definition.args.args)]
    return names[1:] if names[:1] == ["self"] else names


def _assigned(function: Function, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        match node:
            case ast.Assign([ast.Name(target)], value) | ast.NamedExpr(ast.Name(target), value) if target == name:
                yield value
            case ast.comprehension(ast.Tuple(targets), rows) | ast.For(ast.Tuple(targets), rows):
                names = [each.id if isinstance(each, ast.Name) else "" for each in targets]
                if name in names:
                    yield from _column(function, rows, names.index(name))


def _column(function: Function, rows: ast.expr, number: int) -> Iterator[ast.expr]:
    """Yield one column of a table that is written out where it is gone through, or under a name of *function*."""
    match rows:
        case ast.Tuple(table) | ast.List(table):
            yield from (row.elts[number] for row in table if isinstance(row, ast.Tuple))
        case ast.Name(name):
            for written in _assigned(function, name):
                yield from _column(function, written, number)
