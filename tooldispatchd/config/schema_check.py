"""Check a parsed configuration against the schema of its Structs: every mistake, each with its whole path.

msgspec alone stops at the first one and leaves the names of tables out of its paths. Messages are our own: the
validator's quote values, and a value may be a secret.
"""

import functools
import json
import math
from collections.abc import Iterator
from typing import Final, cast

import jsonschema_rs
import msgspec

from tooldispatchd.catalog import auditspec, openapispec, restspecs, speckinds, specs, tracesspec
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.secrecy import Spec
from tooldispatchd.config.key_patterns import Table, entries

Node = dict[str, object]

_NAME_WORDS: Final = 'letters, digits, "-" and "_", a letter first, with dots between parts'
_PATTERN_WORDS: Final = {
    speckinds.PYTHON_PATTERN: 'a function, as "package.module:function"',
    speckinds.NAME_PATTERN: _NAME_WORDS,
    speckinds.BINDING_PATTERN: '1 to 32 letters, digits, ".", "-" and "_", a letter or digit first',
    speckinds.PREFIX_PATTERN: 'at most 32 letters, digits, ".", "-" and "_", a letter or digit first; or ""',
    speckinds.SERVER_TOOL_PATTERN: "a tool's name, or a pattern with * and ? alone",
    speckinds.ENV_PATTERN: 'a variable\'s name: not empty, with no "=" and no NUL',
    speckinds.WORD_PATTERN: "a string without NUL",
    speckinds.SOME_WORD_PATTERN: "a string that is not empty, without NUL",
    speckinds.HEADER_NAME_PATTERN: "a header's name: letters, digits and signs, no space and no colon",
    speckinds.HEADER_VALUE_PATTERN: f"ASCII in one line, at most {speckinds.MAX_HEADER_CHARS} characters",
    speckinds.HOST_PATTERN: "HOST or HOST:PORT",
    speckinds.RATE_PATTERN: 'so many in a second, minute or hour, as "10/s", "30/m" or "10/s burst 20"',
    speckinds.STORE_PATTERN: '"memory", or "sqlite:PATH"',
    speckinds.BREAKER_PATTERN: 'failures, in what time, and the rest after them, as "5 in 30s, rest 10s"',
    speckinds.MEDIA_TYPE_PATTERN: 'a media type such as "application/json"',
    speckinds.POINTER_PATTERN: 'a JSON Pointer such as "/data/items"',
    speckinds.MEMBER_PATTERN: "a field's name: no quotation mark, no backslash, in one line",
    speckinds.STYLE_PATTERN: (
        "simple, label, matrix, form, spaceDelimited, pipeDelimited, deepObject, brackets or json; + and * may follow"
    ),
    speckinds.ORDER_PATTERN: '"parallel", "sequential", or "batched:N"',
    speckinds.TAG_PATTERN: "1 to 128 characters, none of them * or ?",
    speckinds.ISSUER_PATTERN: 'a URL, "https://…" or "http://…", without a query',
    speckinds.SCOPE_PATTERN: "a scope: ASCII without spaces and quotes",
    auditspec.KEEP_PATTERN: 'days or hours, as "30d" or "12h"',
    openapispec.PREFIX_PATTERN: f'{_NAME_WORDS}; or ""',
    restspecs.HEADER_PATTERN: "a text in one line",
    tracesspec.URL_PATTERN: 'a URL, "http://…" or "https://…"',
    speckinds.OUTPUT_PATTERN: 'json, text, lines, blocks, or a media type such as "image/png"',
}
_TYPE_WORDS: Final = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "a table",
}
_BOUND_WORDS: Final = {
    "exclusiveMinimum": "over",
    "minimum": "at least",
    "exclusiveMaximum": "under",
    "maximum": "at most",
}
# What tells a process from a tool, and is near to no key of a tool.
_OF_PROCESSES: Final = frozenset({"kind", "chain", "filter", "project"})
# Keys of programs, which may be written as for a shell; what stands there may be a secret, and is not written anew.
_OF_PROGRAMS: Final = frozenset({"command", "agent_command"})
_AS_WORDS: Final = 'an array of the program and its arguments: ["ls", "-l"], where a shell has "ls -l"'
_WHY: Final = {
    "type": "wrong kind of value",
    "anyOf": "wrong kind of value",
    "enum": "no such choice",
    "pattern": "not well-formed",
    "maxLength": "too long",
    "minItems": "too few entries",
    "maxItems": "too many entries",
    "minimum": "too small",
    "exclusiveMinimum": "too small",
    "maximum": "too large",
    "exclusiveMaximum": "too large",
}


def check_form(table: Table) -> list[Problem]:
    """Every way in which `table` breaks the form of a configuration; what JSON does not have is replaced, in place."""
    problems = list(_without_json_form(table))
    # To make the schema takes a tenth of a start, and 9 MB: it is made to tell what is wrong.
    if _is_of_form(table):
        return problems
    excused = {problem.path for problem in problems}
    return problems + [problem for problem in _check(table, specs.Config) if problem.path not in excused]


def _is_of_form(table: Table) -> bool:
    """Whether the Structs take the table, and the schema would too; false where that is in doubt."""
    try:
        msgspec.convert(table, specs.Config)
    except msgspec.ValidationError:
        return False
    return not _is_doubtful(table)


def _is_doubtful(holder: object) -> bool:
    """Whether null stands below, or a line break after a single line, which `$` of Python's patterns lets pass."""
    for key, value in entries(holder):
        texts = [text for text in (key, value) if isinstance(text, str)]
        if value is None or any(text.partition("\n")[1:] == ("\n", "") for text in texts) or _is_doubtful(value):
            return True
    return False


def _without_json_form(holder: object, path: Path = ()) -> Iterator[Problem]:
    """Each value that a configuration cannot have; it is replaced, in place, by one of the nearest kind."""
    for key, value in entries(holder):
        if isinstance(value, (dict, list)):
            yield from _without_json_form(value, (*path, key))
        elif isinstance(value, float) and not math.isfinite(value):
            yield Problem((*path, key), "not a finite number", value=value)
            cast("dict[str | int, object]", holder)[key] = 0.0
        elif value is None and path[:1] == ("restTools",) and len(path) > 2:
            # Within a schema or a body of a JSON file.
            continue
        elif not isinstance(value, (str, int, float)):
            why = "null has no meaning here" if value is None else "a date or time has no meaning here"
            yield Problem((*path, key), why, value=value)
            cast("dict[str | int, object]", holder)[key] = str(value)


def _check(table: object, spec: type[Spec]) -> list[Problem]:
    schema, validator = validator_of(spec)
    return [problem for error in validator.iter_errors(table) for problem in _problems(error, schema)]


@functools.cache
def validator_of(spec: type[Spec]) -> tuple[Node, jsonschema_rs.Validator]:
    """The schema that tables of that kind are checked by, with all references in place, and what checks them."""
    bundled = msgspec.json.schema(spec, schema_hook=lambda _: {"description": "any JSON value"})
    schema = cast("Node", _without_null(jsonschema_rs.dereference(bundled)))
    return schema, jsonschema_rs.validator_for(schema, offline=True)


def _without_null(node: object) -> object:
    """The schema with each `X | None` as `X`: TOML has no null, and an error under `anyOf` hides its own kind."""
    if isinstance(node, list):
        return [_without_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    table = cast("Node", node)
    options = [option for option in cast("list[object]", table.get("anyOf", [])) if option != {"type": "null"}]
    if len(options) == 1:
        return _without_null(options[0])
    table = {**table, "anyOf": options} if options else table
    return {key: _without_null(item) for key, item in table.items() if key != "default"}


def _problems(error: jsonschema_rs.ValidationError, schema: Node) -> list[Problem]:
    path: Path = tuple(error.instance_path)
    found: object = schema
    for step in error.schema_path[:-1]:
        found = found[cast("int", step)] if isinstance(found, list) else cast("Node", found)[cast("str", step)]
    node, kind = cast("Node", found), error.kind
    match kind:
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=keys):
            return [_unknown_key((*path, key), list(cast("Node", node["properties"]))) for key in keys]
        case jsonschema_rs.ValidationErrorKind.Required(property=key):
            wanted = cast("Node", cast("Node", node["properties"])[key])
            return [Problem(path, f'the key "{key}" is missing', allowed=words_of(wanted))]
        case jsonschema_rs.ValidationErrorKind.PropertyNames(error=inner):
            name = cast("str", inner.instance)
            return [Problem((*path, name), "not a valid name", allowed=words_of(node))]
    if _is_server(node) and isinstance(error.instance, dict):
        # Neither option fits, and a table was meant: tell what is wrong within it.
        wrong = _check(error.instance, specs.McpSpec)
        return [msgspec.structs.replace(problem, path=(*path, *problem.path)) for problem in wrong]
    value, meant = error.instance, None
    if isinstance(value, str) and kind.name == "enum":
        meant = nearest(value, [option for option in cast("list[object]", node["enum"]) if isinstance(option, str)])
    is_shell_line = isinstance(value, str) and path[-1] in _OF_PROGRAMS and node.get("type") == "array"
    why, allowed = _WHY.get(kind.name, f"breaks {kind.name}"), _AS_WORDS if is_shell_line else words_of(node)
    return [Problem(path, why, value=value, allowed=allowed, nearest=meant)]


def _unknown_key(path: Path, known: list[str]) -> Problem:
    if len(path) == 3 and path[0] == "tools" and path[2] in _OF_PROCESSES:
        name = json.dumps(path[1], ensure_ascii=False)
        why = f"{path[-1]} is a key of [processes]; a tool is made of a process"
        return Problem(path, why, allowed=f"process = {name}, and {path[-1]} in [processes.{path[1]}]")
    gone = speckinds.GONE_KEYS.get(str(path[-1]))
    if gone is not None:
        return Problem(path, "this key is gone", allowed=gone)
    meant = nearest(str(path[-1]), known)
    allowed = None if meant else "one of " + ", ".join(sorted(known))
    return Problem(path, "unknown key", allowed=allowed, nearest=meant)


def _is_server(node: Node) -> bool:
    """Whether a table may stand there beside values of other kinds: that is so of servers alone."""
    options = cast("list[Node]", node.get("anyOf", []))
    return any(option.get("type") == "object" for option in options)


def words_of(node: Node) -> str:
    """What a schema allows, in words."""
    if "enum" in node:
        return ", ".join(f'"{option}"' for option in cast("list[object]", node["enum"]))
    if _is_server(node):
        return "a server's name in [mcp], a URL, or a table as in [mcp]"
    if {"type": "boolean"} in cast("list[object]", node.get("anyOf", [])):
        # `expose` alone.
        return " or ".join(words_of(option) for option in cast("list[Node]", node["anyOf"]))
    if "anyOf" in node:
        # Only users and groups are left.
        return "a number or a name, or a list of them"
    pattern = node.get("pattern")
    if pattern in _PATTERN_WORDS:
        return _PATTERN_WORDS[pattern]
    words = _TYPE_WORDS.get(str(node.get("type")), "any value")
    if "maxLength" in node:
        words += f" of at most {node['maxLength']} characters"
    bounds = [f"{word} {node[bound]}" for bound, word in _BOUND_WORDS.items() if bound in node]
    items = cast("Node", node.get("items", {}))
    if items:
        least = "at least one of: " if "minItems" in node else ""
        count = f"{node.get('minItems', 0)} to {node['maxItems']} of: " if "maxItems" in node else least
        words += f" of {count}{words_of(items)}"
    return f"{words}, {' and '.join(bounds)}" if bounds else words
