"""The laws of the catalog, on tools and processes as a configuration declares them, over random types and values."""

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.catalog.random_types import JSON_VALUES, TYPES, declarations, values_of
from tests.examples import examples
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config
from tooldispatchd.catalog.types import Type, show
from tooldispatchd.providers.inline import compile_inline
from tooldispatchd.wire.faults import Fault

SLOW = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def built(declared: dict[str, Type], **tables: object) -> Catalog:
    types = {name: show(type_) for name, type_ in declared.items()}
    catalog = build_catalog(msgspec.convert({"types": types, **tables}, Config))
    assume(isinstance(catalog, Catalog))  # a random type may be nested deeper than a schema may be
    assert isinstance(catalog, Catalog)
    return catalog


def call(catalog: Catalog, name: str, value: object) -> object:
    """What an agent is told, as far as the catalog decides it: the result, or the fault's code."""
    tool = catalog.tools[name]
    if not tool.input.is_valid(value):
        return "invalid_input"
    result = compile_inline(tool)(value)
    if isinstance(result, Fault):
        return result.code.value
    return result if tool.output.is_valid(result) else "invalid_output"


@SLOW
@given(st.data(), declarations(), TYPES)
def test_lowering_what_was_lifted_is_the_tool(data: st.DataObject, declared: dict[str, Type], type_: Type) -> None:
    text = show(type_)
    tools: dict[str, object] = {
        "id": {"inline": "id", "type": f"({text}) -> ({text})"},
        "copy": {"inline": "copy", "type": f"({text}) -> (({text}), ({text}))"},
        "discard": {"inline": "discard", "type": f"({text}) -> unit"},
    }
    processes = {f"p-{name}": {"kind": "plumb", "chain": [f"lift({name})"]} for name in tools}
    again = {f"again-{name}": {"process": f"p-{name}"} for name in tools}
    catalog = built(declared, tools={**tools, **again}, processes=processes)
    values = values_of(type_, declared)
    value = data.draw(JSON_VALUES if values.is_empty else values | JSON_VALUES)
    for name in tools:
        assert call(catalog, f"again-{name}", value) == call(catalog, name, value)
        assert catalog.tools[f"again-{name}"].input_schema == catalog.tools[name].input_schema


@SLOW
@given(st.data(), declarations(), TYPES)
def test_a_copy_of_which_one_side_is_discarded_is_the_identity(
    data: st.DataObject, declared: dict[str, Type], type_: Type
) -> None:
    text = show(type_)
    processes: dict[str, object] = {"copy": {"kind": "copy"}}
    for side in (0, 1):
        processes[f"side-{side}"] = {"kind": "project", "project": side}
        chain = {"kind": "plumb", "type": f"!({text}) -> !({text})", "chain": ["copy", f"side-{side}"]}
        processes[f"chain-{side}"] = chain
    tools = {f"t-{side}": {"process": f"chain-{side}"} for side in (0, 1)}
    catalog = built(declared, processes=processes, tools=tools)
    values = values_of(type_, declared)
    assume(not values.is_empty)
    value = data.draw(values)
    assert call(catalog, "t-0", value) == call(catalog, "t-1", value) == value


@given(st.integers(-100, 100), st.integers(-100, 100), st.integers(-(2**62), 2**62))
def test_composing_expressions_is_evaluating_one_after_the_other(factor: int, offset: int, value: int) -> None:
    maps = {"times": f"x * {factor}", "plus": f"x + ({offset})"}
    tools: dict[str, object] = {name: {"map": source, "type": "int -> int"} for name, source in maps.items()}
    processes: dict[str, object] = {name: {"kind": "map", "map": source} for name, source in maps.items()}
    processes["staged"] = {"kind": "plumb", "chain": ["times", "plus"]}
    processes["lifted"] = {"kind": "plumb", "chain": ["lift(times)", "lift(plus)"]}
    processes["bracketed"] = {"kind": "plumb", "chain": ["id", "inner", "id"]}
    processes |= {"id": {"kind": "id"}, "inner": {"kind": "plumb", "chain": ["times", "plus"]}}
    chains = {name: {"process": name, "type": "int -> int"} for name in ("staged", "lifted", "bracketed")}
    catalog = built({}, tools={**tools, **chains}, processes=processes)
    first = call(catalog, "times", value)
    wanted = call(catalog, "plus", first) if isinstance(first, int) else first
    assert [call(catalog, name, value) for name in chains] == [wanted] * 3
