"""Whether what an expression makes can be of a type: told only where it surely is not."""

from typing import Final

from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.types import ListOf, Primitive, Product, Record, Stream, Type, Union, show

# Records within records that are still looked into; what is deeper is left to the check of each result.
MAX_DEPTH: Final = 16


def misfit(made: Type, wanted: Type, declared: Declared, depth: int = 0) -> str | None:
    """Why no value of type `made` is of type `wanted`, in words; None where one may be.

    `made` says what is known: json is anything, and a record is what it lists. An int is a number.
    """
    made, wanted = resolve(made, declared), resolve(wanted, declared)
    if depth > MAX_DEPTH or isinstance(made, Union | Stream):
        return None
    match wanted:
        case Primitive("json") | Stream():
            return None
        case Union(options):
            found = [misfit(made, option, declared, depth + 1) for option in options]
            return f"{show(made)} is none of {show(wanted)}" if None not in found else None
        case Record() if isinstance(made, Record):
            return _misfit_of_records(made, wanted, declared, depth)
        case ListOf(item) if isinstance(made, ListOf):
            inner = misfit(made.item, item, declared, depth + 1)
            # A list may be empty, but nobody writes an expression for that.
            return inner and f"items: {inner}"
        case Product() if isinstance(made, ListOf):
            return None
        case _:
            return None if _is_word(made, wanted) else f"{show(made)[:80]} is not {show(wanted)[:80]}"


def _is_word(made: Type, wanted: Type) -> bool:
    if made in {wanted, Primitive("json")}:
        return True
    return made == Primitive("int") and wanted == Primitive("number")


def _misfit_of_records(made: Record, wanted: Record, declared: Declared, depth: int) -> str | None:
    fields = {field.name: field for field in wanted.fields}
    for field in made.fields:
        if field.name not in fields:
            return f"there is no field {field.name} in {show(wanted)[:80]}"
        inner = misfit(field.type, fields[field.name].type, declared, depth + 1)
        if inner is not None:
            return f"field {field.name}: {inner}"
    there = {field.name for field in made.fields}
    lacking = next((field.name for field in wanted.fields if not field.optional and field.name not in there), None)
    return None if lacking is None else f"field {lacking} is missing"
