"""What a tool is given on the command line: one JSON text, or `key=value` words typed by the tool's schema."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
# A reference leads to a definition, which may be one again; schemas of servers may go in a circle.
MAX_REFERENCES: Final = 8


class ShellInputError(Exception):
    """The words are no input."""


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


def json_text(words: Sequence[str], tool: str) -> str | None:
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
    raise ShellInputError(f"the input is not JSON: {why}\n{_example(words, tool)}")


def typed(values: Mapping[str, str], schema: object) -> dict[str, object]:
    """The values as the properties of `schema` want them: a text stays one where a string will do."""
    return {key: _typed(value, schema, key) for key, value in values.items()}


def _typed(text: str, schema: object, key: str) -> object:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    wanted = _kinds(properties.get(key) if isinstance(properties, dict) else None, schema, MAX_REFERENCES)
    if "string" in wanted:
        return text
    try:
        value = _parse(text)
    except (ValueError, RecursionError):
        return text
    return value if not wanted or _kind(value) in wanted else text


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
    text.encode()  # bytes that are no UTF-8 cannot be told
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _example(words: Sequence[str], tool: str) -> str:
    """How it could have been meant: the quotes of JSON have to pass the shell."""
    call = f"tooldispatchd call {tool}"
    if words[0].startswith(("{", "[")):
        return f"""in a shell JSON stands in single quotes: {call} '{{"name": "Ada"}}', or for short: {call} name=Ada"""
    import shlex

    meant = shlex.quote(json.dumps(" ".join(words), ensure_ascii=False))
    field = f"; a field has its value after a =: {call} {words[0]}=VALUE" if NAMED.fullmatch(f"{words[0]}=") else ""
    return f"a text is JSON in quotes of its own, which the shell must leave: {call} {meant}{field}"
