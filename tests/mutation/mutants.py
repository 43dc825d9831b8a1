"""Small defects of a module, one at a time: a comparison turned round, a constant changed, a statement left out."""

import ast
import copy
from collections.abc import Callable, Container, Iterator
from typing import Final

import msgspec

SWAPPED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


class Mutant(msgspec.Struct, frozen=True):
    """A module's source with one defect, and where and what that is; `text` is the line that was changed, as it was."""

    line: int
    text: str
    what: str
    source: str


def all_of(source: str, texts: Container[str] | None = None) -> list[Mutant]:
    """Every mutant of a module; of the lines that read so alone, where `texts` are given."""
    return [*mutants(source, texts), *statements(source, texts)]


def mutants(source: str, texts: Container[str] | None) -> Iterator[Mutant]:
    """All of a module, from its first line to its last."""
    tree = ast.parse(source)
    _forget_annotations(tree)
    for place, node in enumerate(ast.walk(tree)):
        if texts is not None and _text(source, getattr(node, "lineno", 0)) not in texts:
            continue
        for what, change in _changes(node):
            copied = copy.deepcopy(tree)
            changed = next(one for at, one in enumerate(ast.walk(copied)) if at == place)
            change(changed)
            if ast.dump(copied) == ast.dump(tree):
                continue
            line = getattr(node, "lineno", 0)
            yield Mutant(line, _text(source, line), what, ast.unparse(copied))


def _forget_annotations(tree: ast.Module) -> None:
    """Types of functions and docstrings are no behaviour."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in (*node.args.args, *node.args.kwonlyargs):
                argument.annotation = None
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]


def _changes(node: ast.AST) -> list[tuple[str, Callable[[ast.AST], None]]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            return [(f"{type(op).__name__} turned", _turn)]
        case ast.BoolOp():
            return [("and and or swapped", _swap)]
        case ast.UnaryOp(op=ast.Not()):
            return [("not left out", _affirm)]
        case ast.If() | ast.IfExp():
            return [("the condition is true", _fix(True)), ("the condition is false", _fix(False))]
        case ast.Constant(value=bool() | int()):
            return [(f"{node.value!r} changed", _change)]
        # None and False are the same to all who ask.
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and not value.value):
            return [("returns None", _return_none)]
    return []


def statements(source: str, texts: Container[str] | None) -> Iterator[Mutant]:
    """The same with one statement left out: a call, an assignment to an attribute or an item."""
    tree = ast.parse(source)
    _forget_annotations(tree)
    for place, node in enumerate(ast.walk(tree)):
        body = getattr(node, "body", None)
        if not isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.match_case) or not isinstance(body, list):
            continue
        for at, one in enumerate(body):
            if not _is_effect(one) or (texts is not None and _text(source, one.lineno) not in texts):
                continue
            copied = copy.deepcopy(tree)
            changed = next(each for number, each in enumerate(ast.walk(copied)) if number == place)
            changed.body[at] = ast.Pass()  # type: ignore[attr-defined]
            yield Mutant(one.lineno, _text(source, one.lineno), "left out", ast.unparse(copied))


def _text(source: str, line: int) -> str:
    return source.split("\n")[line - 1].strip()


def _is_effect(one: ast.stmt) -> bool:
    if isinstance(one, ast.Expr):
        return isinstance(one.value, ast.Call)
    targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AugAssign) else []
    return bool(targets) and all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)


def _turn(node: ast.AST) -> None:
    assert isinstance(node, ast.Compare)
    node.ops = [SWAPPED[type(node.ops[0])]()]


def _swap(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _affirm(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    # Twice is once.
    node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _fix(value: bool) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.If | ast.IfExp)
        node.test = ast.Constant(value)

    return change


def _change(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant)
    node.value = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1


def _return_none(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)
