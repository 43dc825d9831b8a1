"""Write the tables of settings in docs/configuration.md from the Structs: `python -m docs.settings`.

Each setting is described in one place, below its field in `catalog.specs`. A table stands between two comments, the
first of which names its Struct; what stands around them is written by hand.
"""

import ast
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Final

import msgspec
from msgspec import inspect as kinds

from tooldispatchd.catalog import answerspec, auditspec, policyspec, restspecs, specs, toolboxspecs, tracesspec
from tooldispatchd.catalog.agentspec import AgentSpec
from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.hookspec import HookSpec
from tooldispatchd.catalog.httpauthspec import HttpAuthSpec
from tooldispatchd.catalog.openapispec import OpenApiSpec

DOCUMENT: Final = Path(__file__).parent / "configuration.md"
STRUCTS: Final[dict[str, type[msgspec.Struct]]] = {
    kind.__name__: kind
    for kind in (
        specs.Config,
        specs.DaemonSpec,
        specs.LimitsSpec,
        auditspec.AuditSpec,
        tracesspec.TracesSpec,
        specs.ToolSpec,
        specs.ProcessSpec,
        specs.McpSpec,
        answerspec.ServerAnswersSpec,
        specs.OAuthSpec,
        policyspec.QueueSpec,
        policyspec.SizedSpec,
        HookSpec,
        policyspec.PolicySpec,
        policyspec.BudgetSpec,
        policyspec.CacheSpec,
        HttpAuthSpec,
        OpenApiSpec,
        toolboxspecs.ToolboxSpec,
        toolboxspecs.SearchSpec,
        specs.ProfileSpec,
        AgentSpec,
        restspecs.RestSpec,
        restspecs.RestPagesSpec,
        restspecs.RestStreamSpec,
        restspecs.AnnotationsSpec,
        restspecs.RestApiSpec,
        restspecs.RestBasicSpec,
        restspecs.RestKeySpec,
        restspecs.RestOAuthSpec,
        restspecs.ForeignRestSpec,
        restspecs.ForeignStreamSpec,
        ConfinedSpec,
    )
}
TABLE: Final = re.compile(r"(<!-- settings of (\w+), .*? -->\n).*?(<!-- end of settings -->\n)", re.DOTALL)
HEAD: Final = "| key | value | default | meaning |\n|---|---|---|---|\n"
UNITS: Final = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def with_tables(document: str) -> str:
    """The document with each of its tables as its Struct says."""
    return TABLE.sub(lambda found: found[1] + table(STRUCTS[found[2]]) + found[3], document)


def table(spec: type[msgspec.Struct]) -> str:
    """A row for each field that the Struct itself declares; those that it inherits have a table of their own."""
    described = descriptions(spec)
    fields = [field for field in msgspec.structs.fields(spec) if field.name in described]
    return HEAD + "".join(_row(field, described[field.name]) for field in fields)


def descriptions(spec: type[msgspec.Struct]) -> dict[str, str]:
    """The text below each field of a class, by the field's name; empty where there is none."""
    body = ast.parse(textwrap.dedent(inspect.getsource(spec))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node, below in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            found[node.target.id] = " ".join(str(below.value.value).split()) if is_text else ""  # type: ignore[union-attr]
    return found


def _row(field: msgspec.structs.FieldInfo, text: str) -> str:
    cells = (f"`{field.encode_name}`", _value(kinds.type_info(field.type)), _default(field), text)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default in (msgspec.NODEFAULT, None, "", ()) or isinstance(field.default, msgspec.Struct):
        return ""
    if isinstance(field.default, float) and field.default.is_integer():
        return f"`{int(field.default)}`"
    return f"`{msgspec.json.encode(field.default).decode()}`"


def _value(kind: kinds.Type) -> str:
    """What may stand there, as words."""
    match kind:
        case kinds.Metadata(inner):
            return _value(inner)
        case kinds.UnionType(types):
            return " or ".join(dict.fromkeys(_value(one) for one in types if not isinstance(one, kinds.NoneType)))
        case kinds.LiteralType(values):
            return ", ".join(f'`"{value}"`' for value in values)
        case kinds.BoolType():
            return "`true`, `false`"
        case kinds.IntType() | kinds.FloatType():
            return _number(kind)
        case kinds.VarTupleType():
            return "list"
        case kinds.DictType() | kinds.StructType():
            return "table"
        case _:
            return "text"


def _number(kind: kinds.IntType | kinds.FloatType) -> str:
    if kind.le is None:
        return "number"
    low = f"more than {_amount(kind.gt)}" if kind.gt is not None else _amount(kind.ge)
    return f"{low} to {_amount(kind.le)}"


def _amount(number: float | None) -> str:
    number = int(number or 0)
    unit = next(((size, name) for size, name in UNITS if number and number % size == 0), None)
    return f"{number:,}" if unit is None else f"{number // unit[0]} {unit[1]}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{DOCUMENT.name}\n")
