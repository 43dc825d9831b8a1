"""The words of a command line as a tool's input, and a tool's input as words of a command line. Pure."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
# A reference leads to a definition, which may be one again; schemas of servers may go in a circle.
MAX_REFERENCES: Final = 8
# The one field of a tool whose input is no object.
INPUT: Final = "input"
_SAMPLES: Final[dict[str, object]] = {"number": 1, "boolean": True, "array": [], "object": {}, "null": None}

# Gives the command line of a call with these words as its input.
WriteCall = Callable[..., str]


class ShellInputError(Exception):
    """The words of the command line are no input."""


def input_json(words: Sequence[str], schema: object, write: WriteCall, *, piped: str | None = None) -> str | None:
    """Read the words, or the text that was `piped`, as the JSON of an input; None where there are none.

    A tool whose input is a string takes one word as it is. Raises `ShellInputError`, with an example.
    """
    said = words if piped is None else [piped]
    if len(said) == 1 and is_text(schema):
        return json.dumps({INPUT: _text(said[0], may_be_named=piped is None)})
    given = named_values(words)
    if given is not None:
        return json.dumps(typed(given, schema))
    return _json_text(said, schema, write)


def is_text(schema: object) -> bool:
    """Tell whether a tool takes a string and nothing else."""
    return [*_properties(schema)] == [INPUT] and _kinds(_properties(schema)[INPUT], schema, MAX_REFERENCES) == {
        "string"
    }


def ways(schema: object, write: WriteCall) -> Iterator[str]:
    """Write the ways in which a tool with this schema is called on a command line, with samples as values."""
    if is_text(schema):
        yield write("TEXT")
        yield f"{write('-')} < FILE"
        return
    sample = _sample(schema)
    if not sample:
        yield write()
    fields = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in sample.items()]
    if sample and all(map(NAMED.fullmatch, fields)):
        yield write(*fields)
    if _properties(schema):
        # Most commands write no example.
        import shlex

        whole = json.dumps(sample, ensure_ascii=False)
        yield write(whole)
        yield f"echo {shlex.quote(whole)} | {write('-')}"


def _sample(schema: object) -> dict[str, object]:
    """Fields that a tool needs, else the first it has, each with a value of its type."""
    properties = _properties(schema)
    required = schema.get("required") if isinstance(schema, dict) else None
    needed = [key for key in required if key in properties] if isinstance(required, list) else []
    return {key: _sample_of(properties[key], schema) for key in needed or [*properties][:1]}


def _sample_of(node: object, root: object) -> object:
    if isinstance(node, dict):
        for value in (node.get("const"), node.get("default"), *(node.get("enum") or ()), node.get("minimum")):
            if value is not None:
                return value
    kinds = sorted(_kinds(node, root, MAX_REFERENCES))
    return _SAMPLES.get(kinds[0], "TEXT") if kinds and "string" not in kinds else "TEXT"


def _properties(schema: object) -> dict[str, object]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _text(word: str, *, may_be_named: bool) -> str:
    """The string that a word stands for: itself, or JSON of a string, or the field by its name."""
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise ShellInputError("the input is not UTF-8") from error
    if may_be_named and word.startswith(f"{INPUT}="):
        return word.removeprefix(f"{INPUT}=")
    with suppress(ValueError, RecursionError):
        value = _parse(word)
        value = value[INPUT] if isinstance(value, dict) and [*value] == [INPUT] else value
        if isinstance(value, str):
            return value
    return word


def named_values(words: Sequence[str]) -> dict[str, str] | None:
    """The words as texts by their keys; None where they are not of this kind. Raises `ShellInputError`."""
    matches = [NAMED.fullmatch(word) for word in words]
    if not words or not all(matches):
        return None
    values: dict[str, str] = {}
    for key, value in (match.groups() for match in matches if match):
        if key in values:
            raise ShellInputError(f"{key} is given twice; a list is JSON: '{key}=[1, 2]'")
        values[key] = value
    return values


def _json_text(words: Sequence[str], schema: object, write: WriteCall) -> str | None:
    """The one JSON text that the words are; None where there are none. Raises `ShellInputError`, with an example."""
    if not words or not "".join(words).strip():
        return None
    why = "the shell made several words of it"
    try:
        _parse(words[0])
    except (ValueError, RecursionError) as error:
        why = why if len(words) > 1 else str(error)
    else:
        if len(words) == 1:
            return words[0]
    example = _example(words, schema, write)
    raise ShellInputError(f"the input is not JSON: {why}{example and chr(10)}{example}")


def _example(words: Sequence[str], schema: object, write: WriteCall) -> str:
    """Say how the words could have been meant: the quotes of JSON have to pass the shell."""
    sample, first = _sample(schema), words[0]
    if NAMED.fullmatch(first):
        return f"a value with blanks stands in quotes: {write(*_whole_fields(words))}"
    if is_text(schema):
        return f"a text with blanks stands in quotes: {write(' '.join(words))}"
    if first in _properties(schema):
        return f"a field has its value after a =: {write(f'{first}=VALUE')}"
    kinds = _kinds(_properties(schema).get(INPUT), schema, MAX_REFERENCES)
    if not first.startswith(("{", "[")) and [*sample] == [INPUT] and (not kinds or "string" in kinds):
        meant = json.dumps(" ".join(words), ensure_ascii=False)
        return f"a text is JSON in quotes of its own, which the shell must leave: {write(meant)}"
    return "\n".join(["in a shell JSON stands in single quotes", *ways(schema, write)] if sample else ())


def _whole_fields(words: Sequence[str]) -> list[str]:
    """Fields of which the shell made several words, the first of which is KEY=VALUE, put together again."""
    fields: list[str] = []
    for word in words:
        if NAMED.fullmatch(word):
            fields.append(word)
        else:
            fields[-1] += f" {word}"
    return fields


def typed(values: Mapping[str, str], schema: object) -> dict[str, object]:
    """The values as the properties of `schema` want them: a text stays one where a string will do."""
    properties = _properties(schema)
    found: dict[str, object] = dict(values)
    for key, text in values.items():
        wanted = _kinds(properties.get(key), schema, MAX_REFERENCES)
        if "string" in wanted:
            continue
        with suppress(ValueError, RecursionError):
            value = _parse(text)
            if not wanted or _kind(value) in wanted:
                found[key] = value
    return found


def _kinds(node: object, root: object, references: int) -> set[str]:
    """The types that a part of a schema names, "number" for every number; nothing where it does not say."""
    if not isinstance(node, dict) or not isinstance(root, dict):
        return set()
    named = node.get("type")
    kinds = {named} if isinstance(named, str) else {kind for kind in named or () if isinstance(kind, str)}
    reference = node.get("$ref")
    if isinstance(reference, str) and references:
        where, _, name = reference.rpartition("/")
        definitions = root.get(where.removeprefix("#/"))
        if isinstance(definitions, dict):
            kinds |= _kinds(definitions.get(name), root, references - 1)
    for option in [*(node.get("anyOf") or ()), *(node.get("oneOf") or ())]:
        kinds |= _kinds(option, root, references - 1) if references else set()
    kinds |= {_kind(value) for value in [*(node.get("enum") or ()), *([node["const"]] if "const" in node else [])]}
    return {"number" if kind == "integer" else kind for kind in kinds}


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "number"


def _parse(text: str) -> object:
    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is no JSON")

    text.encode()  # raises ValueError for bytes that are not UTF-8
    return json.loads(text, parse_constant=refuse)
