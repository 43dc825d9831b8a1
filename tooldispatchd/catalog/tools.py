"""Declared tools, built from the configuration: types and schemas compiled, expressions checked, all problems told.

Nothing here knows how a tool is run; it says what one takes, what it gives, and how it is shown to a model.
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from tooldispatchd.catalog.celsource import ExpressionError
from tooldispatchd.catalog.celtypes import type_of_schema
from tooldispatchd.catalog.expressions import Expression, compile_expression
from tooldispatchd.catalog.meanings import Declared, check_names, has_stream, same, to_schema
from tooldispatchd.catalog.names import declared_name_problem, nearest
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.schemas import Check, SchemaError, compile_check
from tooldispatchd.catalog.shown import is_object, show_schema
from tooldispatchd.catalog.specs import Config, ToolSpec
from tooldispatchd.catalog.types import (
    JSON,
    UNIT,
    WORDS,
    Product,
    Type,
    TypeNameError,
    TypeTextError,
    column_of,
    parse_arrow,
    show,
    show_arrow,
)
from tooldispatchd.catalog.typetable import build_types

WAYS: Final = ("inline", "map", "command")
# What says how a command runs, and means nothing to any other tool.
COMMAND_ONLY: Final = ("args", "env", "cwd")


class DeclaredTool(msgspec.Struct, frozen=True):
    """One tool of the configuration, ready to be planned and shown.

    `input_schema` and `output_schema` are what is checked; `shown_schema` is the input as a model sees it: an object
    always, so that a `wrapped` tool shows `{"input": …}`. `missing_input` is what a request without input means
    (UNSET: nothing, it is an error). `type_text` is for people: `A -> B`, with `schema` for what is given as a schema.
    """

    name: str
    title: str | None
    description: str
    spec: ToolSpec
    input_schema: dict[str, object]
    output_schema: dict[str, object]
    shown_schema: dict[str, object]
    wrapped: bool
    input: Check
    output: Check
    missing_input: dict[str, object] | UnsetType | None
    expression: Expression | None
    type_text: str


class _Half(msgspec.Struct, frozen=True):
    """What a tool takes, or what it gives."""

    schema: dict[str, object]
    check: Check
    type: Type
    text: str


def build_tools(config: Config) -> tuple[dict[str, DeclaredTool], list[Problem]]:
    """The tools without a problem by name, and every problem of `[types]` and `[tools]`, in the file's order."""
    declared, problems = build_types(config.types)
    tools: dict[str, DeclaredTool] = {}
    for name, spec in config.tools.items():
        builder = _ToolBuilder(name, spec, declared)
        tool = builder.build()
        problems.extend(builder.problems)
        if tool is not None and not builder.problems:
            tools[name] = tool
    return tools, problems


class _ToolBuilder:
    """Builds one tool, or collects what is wrong with it."""

    def __init__(self, name: str, spec: ToolSpec, declared: Declared) -> None:
        self._name = name
        self._spec = spec
        self._declared = declared
        self.problems: list[Problem] = []

    def build(self) -> DeclaredTool | None:
        """The tool; None where a problem leaves nothing to build."""
        spec = self._spec
        refused = declared_name_problem(self._name)
        if refused:
            self._refuse(refused, value=self._name)
        self._check_way()
        halves = self._halves_of_schemas() if spec.type is None else self._halves_of_type(spec.type)
        if halves is None:
            return None
        source, target = halves
        shown, wrapped = show_schema(source.schema)
        return DeclaredTool(
            name=self._name,
            title=spec.title,
            description=spec.description,
            spec=spec,
            input_schema=source.schema,
            output_schema=target.schema,
            shown_schema=shown,
            wrapped=wrapped,
            input=source.check,
            output=target.check,
            missing_input=_missing(source.schema),
            expression=self._compile_map(source.type, target.type),
            type_text=f"{source.text} -> {target.text}",
        )

    def _refuse(self, why: str, *keys: str, value: object = UNSET, allowed: str | None = None) -> None:
        path: Path = ("tools", self._name, *keys)
        self.problems.append(Problem(path, why, value=value, allowed=allowed))

    def _check_way(self) -> None:
        spec = self._spec
        ways = [way for way in WAYS if getattr(spec, way) is not None]
        if len(ways) != 1:
            found = f"this one has {' and '.join(ways)}" if ways else "this one has none"
            self._refuse(f"a tool has exactly one way to run, {found}", allowed=", ".join(WAYS))
        if ways and "command" not in ways:
            for key in COMMAND_ONLY:
                if getattr(spec, key):
                    self._refuse(f"only a tool with command has {key}", key)

    def _halves_of_schemas(self) -> tuple[_Half, _Half] | None:
        spec = self._spec
        if spec.input_schema is None and spec.output_schema is None:
            return self._halves(JSON, _result_of_inline(spec, JSON), "type")
        source = self._half_of_schema(spec.input_schema, "input_schema")
        target = self._half_of_schema(spec.output_schema, "output_schema")
        return None if source is None or target is None else (source, target)

    def _half_of_schema(self, schema: dict[str, object] | None, key: str) -> _Half | None:
        if schema is None:
            return self._half(JSON, key)
        try:
            check = compile_check(schema)
        except SchemaError as error:
            self._refuse(f"cannot use this schema: {error}", key)
            return None
        return _Half(schema, check, type_of_schema(schema), "schema")

    def _halves_of_type(self, text: str) -> tuple[_Half, _Half] | None:
        for key in ("input_schema", "output_schema"):
            if getattr(self._spec, key) is not None:
                self._refuse(f"type and {key} exclude each other", key)
        try:
            source, target = parse_arrow(text)
            check_names(source, self._declared)
            check_names(target, self._declared)
        except TypeTextError as error:
            self._refuse(str(error), "type", value=text, allowed='"A -> B"')
            return None
        except TypeNameError as error:
            self._refuse_name(text, error)
            return None
        if self._refuse_streams(text, source, target):
            return None
        self._check_inline(source, target)
        return self._halves(source, target, "type")

    def _refuse_name(self, text: str, error: TypeNameError) -> None:
        why = f"column {column_of(text, error.name)}: {error}"
        meant = nearest(error.name, [*WORDS, *self._declared])
        self.problems.append(Problem(("tools", self._name, "type"), why, value=text, nearest=meant))

    def _refuse_streams(self, text: str, source: Type, target: Type) -> bool:
        for side, verb in ((source, "takes"), (target, "gives")):
            if has_stream(side, self._declared):
                column = text.find("!") + 1 or column_of(text, show(side))
                why = f"column {column}: a tool {verb} one message at a time, and {show(side)} is or holds a stream"
                self._refuse(why, "type", value=text, allowed="the type without !")
                return True
        return False

    def _check_inline(self, source: Type, target: Type) -> None:
        if self._spec.inline is None:
            return
        right = source if self._spec.inline == "id" else _result_of_inline(self._spec, source)
        if not same(target, right, self._declared):
            why = f"{self._spec.inline} of {show(source)} gives {show(right)}, not {show(target)}"
            self._refuse(why, "type", value=self._spec.type, allowed=f'"{show_arrow(source, right)}"')

    def _halves(self, source: Type, target: Type, key: str) -> tuple[_Half, _Half] | None:
        taken, given = self._half(source, key), self._half(target, key)
        return None if taken is None or given is None else (taken, given)

    def _half(self, type_: Type, key: str) -> _Half | None:
        schema = to_schema(type_, self._declared)
        try:
            return _Half(schema, compile_check(schema), type_, show(type_))
        except SchemaError as error:
            self._refuse(f"cannot use the type {show(type_)[:80]}: {error}", key)
            return None

    def _compile_map(self, source: Type, target: Type) -> Expression | None:
        if self._spec.map is None:
            return None
        try:
            return compile_expression(self._spec.map, input_type=source, output_type=target, declared=self._declared)
        except ExpressionError as error:
            self._refuse(str(error), "map", value=self._spec.map)
            return None


def _result_of_inline(spec: ToolSpec, source: Type) -> Type:
    """What an inline tool gives for what it takes; json for every other tool."""
    if spec.inline == "copy":
        return Product((source, source))
    return UNIT if spec.inline == "discard" else JSON


def _missing(schema: dict[str, object]) -> dict[str, object] | UnsetType | None:
    """What a missing input means: {} for a record, null for unit, nothing for the rest."""
    if is_object(schema):
        return {}
    return None if schema.get("type") == "null" else UNSET
