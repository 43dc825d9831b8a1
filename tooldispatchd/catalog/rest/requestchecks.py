"""What may be wrong with a tool's request, told when the configuration is read.

A text of a request may hold a secret: of a placeholder that means nothing the report shows that alone, with a caret.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.rest.bodies import KINDS
from tooldispatchd.catalog.rest.declared import RestApi
from tooldispatchd.catalog.rest.placeholders import (
    Parameters,
    excerpt_of,
    lone_slot,
    parameters_of,
    parse_parts,
    slots_of,
)
from tooldispatchd.catalog.rest.requests import RequestTemplate, assemble, named_in, split_target, target_of, texts_of
from tooldispatchd.catalog.rest.styles import OF_PLACE, Place, style_of
from tooldispatchd.catalog.restspecs import RestSpec

# What frames a message, or belongs to the connection (RFC 9110, 7.6.1): two of one would be two truths.
_OWNED: Final = frozenset(
    {
        *("host", "connection", "keep-alive", "upgrade", "te", "trailer", "transfer-encoding", "content-length"),
        *("expect", "proxy-authorization", "proxy-connection", "accept-encoding"),
    }
)
# Parameters that a message names.
_MAX_NAMED: Final = 10


def compile_template(
    spec: RestSpec, api: RestApi, schema: Mapping[str, object], path: Path
) -> tuple[RequestTemplate | None, list[Problem]]:
    """The template of a tool's request, whose table stands at `path`, or what is wrong with it."""
    parameters = parameters_of(schema)
    problems = [*_problems(spec, parameters, path)]
    if problems:
        return None, problems
    return assemble(spec, parameters, "" if spec.path is None else api.base), []


def _problems(spec: RestSpec, parameters: Parameters, path: Path) -> Iterator[Problem]:
    for place, text in texts_of(spec):
        for slot in dict.fromkeys(slots_of(parse_parts(text))):
            if slot.name not in parameters.names:
                why = f"the tool takes no parameter {slot.name}"
                named = ", ".join(parameters.names[:_MAX_NAMED]) or 'none: a "type" or an "input_schema" says them'
                yield Problem(
                    (*path, *place),
                    why,
                    allowed=None if parameters.nearest(slot.name) else named,
                    nearest=parameters.nearest(slot.name),
                    excerpt=excerpt_of(text, slot.name),
                )
    yield from _target_problems(spec, parameters, path)
    yield from header_problems((*path, "headers"), spec.headers)
    bodies = [key for key in KINDS if getattr(spec, key) not in (None, {})]
    for key in bodies[1:]:
        yield Problem((*path, key), f'"{bodies[0]}" says already what the body is')
    if spec.octets is not None and lone_slot(parse_parts(spec.octets)) is None:
        yield Problem((*path, "octets"), "it is one placeholder, whose parameter holds the bytes in base64")
    yield from _style_problems(spec, parameters, path)
    yield from _answer_problems(spec, path)


def header_problems(path: Path, names: Iterable[str]) -> Iterator[Problem]:
    """Which headers of a table nobody may set, and which stand there twice."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in _OWNED:
            yield Problem((*path, name), "the connection sets this header itself")
        if name.lower() in seen:
            yield Problem((*path, name), "this header stands here twice: capitals make no difference")
        seen.add(name.lower())


def _target_problems(spec: RestSpec, parameters: Parameters, path: Path) -> Iterator[Problem]:
    key = "url" if spec.path is None else "path"
    text = target_of(spec)
    literal = "".join(part for part in parse_parts(text) if isinstance(part, str))
    if "#" in literal:
        yield Problem((*path, key), 'what stands behind a "#" is never sent', allowed='"%23" for the sign itself')
        return
    if not text.startswith(("/", "?")):
        yield Problem((*path, key), "a path begins with a slash")
        return
    segments, _ = split_target(text)
    for parts in segments:
        if parts in {(".",), ("..",)}:
            yield Problem((*path, key), 'a segment of the path cannot be "." or ".."')
        for slot in slots_of(parts):
            if slot.name in parameters.names and slot.name not in parameters.required:
                why = f"{slot.name} is a part of the path, and so it must be required"
                yield Problem((*path, key), why, allowed="a query entry, for one that may be left out")


def _style_problems(spec: RestSpec, parameters: Parameters, path: Path) -> Iterator[Problem]:
    if not spec.styles:
        return
    segments, query = split_target(target_of(spec))
    of_path = {slot.name for parts in segments for slot in slots_of(parts)}
    places: dict[Place, set[str]] = {
        "path": of_path,
        "header": _slots_in(spec.headers.values()),
        "cookie": _slots_in(spec.cookies.values()),
        "query": _slots_in([*spec.query.values(), *spec.form.values()])
        | {slot.name for entry in query for slot in slots_of((*entry.name, *(entry.value or ())))}
        | (set(parameters.names) - named_in(spec)),
    }
    for name, text in spec.styles.items():
        if name not in parameters.names:
            why = f"the tool takes no parameter {name}"
            yield Problem((*path, "styles", name), why, nearest=parameters.nearest(name))
            continue
        stands = [place for place, names in places.items() if name in names]
        style = style_of(text, "query")
        for place in stands:
            if style.name not in OF_PLACE[place]:
                why = f"this is no style of what stands in a {place}"
                yield Problem((*path, "styles", name), why, value=text, allowed=", ".join(OF_PLACE[place]))
        if style.reserved and stands != ["query"]:
            yield Problem((*path, "styles", name), '"+" means something in a query alone', value=text)


def _slots_in(texts: Iterable[str]) -> set[str]:
    return {slot.name for text in texts for slot in slots_of(parse_parts(text))}


def _answer_problems(spec: RestSpec, path: Path) -> Iterator[Problem]:
    if spec.pick is not None and spec.map is not None:
        yield Problem((*path, "map"), '"pick" says already what the model sees')
    pages = spec.paginate
    if pages is None:
        return
    if spec.stream is not None:
        yield Problem((*path, "stream"), "what comes in pages does not come bit by bit")
    if spec.map is not None:
        yield Problem((*path, "map"), "what is on all pages is one list", allowed='"pick", for where it is on each')
    if (pages.by == "cursor") != (pages.cursor is not None):
        why = "a cursor stands somewhere in each page" if pages.cursor is None else f'by = "{pages.by}" has no cursor'
        yield Problem((*path, "paginate", "cursor") if pages.cursor else (*path, "paginate"), why)
    if pages.by == "link" and pages.query is not None:
        yield Problem((*path, "paginate", "query"), "a link says the whole URL")
