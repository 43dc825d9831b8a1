"""Foreign JSON Schemas, read leniently: a slip with one meaning is repaired, a keyword with none is left unchecked.

    read_foreign(schema) ──▶ shown     what its author meant, in 2020-12, whatever draft it was written in; one that
                                       named a draft names this one
                         ──▶ checked   the same without the patterns that no linear engine takes
                         ──▶ unchecked  the keywords that are not checked, each with its place and the reason

One walk visits the schemas, of which each keyword has one rule. Where a keyword is left out under `not`, `if` or
`oneOf`, fewer values would pass than the author meant, so that these go, too. Only a root that is no object, a document
elsewhere, and a bound make a schema unusable.
"""

import re
from typing import Final

import msgspec

from tooldispatchd.catalog.matching import NO_PATTERN, TOO_LARGE, why_unmatched
from tooldispatchd.catalog.olderdrafts import DIALECT, Schema, modernize, named_draft
from tooldispatchd.catalog.pointers import at, escape, escape_fragment, unescape, unescape_fragment
from tooldispatchd.catalog.problems import cut
from tooldispatchd.catalog.schemakeywords import (
    ANNOTATIONS,
    ANY,
    DROP,
    HOLDING,
    LISTS,
    RULES,
    URL,
    held,
    schema_of,
    subschemas,
)
from tooldispatchd.catalog.schemas import (
    ACCEPT,
    MAX_PATTERN,
    MAX_PATTERNS,
    Check,
    ExternalReferenceError,
    SchemaBoundError,
    SchemaError,
    compile_check,
)

# Keywords that are named in the warning of one tool.
MAX_TOLD: Final = 5
MAX_PLACE: Final = 120

_SLIP: Final = "not what the keyword takes"

_encode: Final = msgspec.json.Encoder().encode

_TUPLE_STEP: Final = re.compile(r"/items/(?=\d+(?:/|$))")


class ForeignSchema(msgspec.Struct, frozen=True):
    """A schema as it is shown, and `reduced` to what is checked; None where all of it is."""

    shown: Schema
    reduced: Schema | None = None
    unchecked: tuple[str, ...] = ()

    @property
    def checked(self) -> Schema:
        """The schema that values are held to."""
        return self.shown if self.reduced is None else self.reduced


class NoObjectError(SchemaError):
    """A schema of an input that no object fits."""


def read_foreign(schema: object, *, is_input: bool) -> tuple[ForeignSchema, Check]:
    """Read a decoded schema, which is changed in place, and compile what is checked of it.

    An input's root is an object. Raises `SchemaBoundError`, and of an input's schema `NoObjectError`, and
    `ExternalReferenceError` where it refers to another document.
    """
    root = DROP if isinstance(schema, str) else schema_of(schema)
    if root is DROP or root is False:
        if is_input:
            raise NoObjectError("it is no object itself")
        return ForeignSchema({}, None, ("its root (no schema)",)), ACCEPT
    start: Schema = root if isinstance(root, dict) else {}
    try:
        made = _Repair(start, is_input=is_input).run()
        return made, compile_check(made.checked)
    except (ExternalReferenceError, SchemaBoundError, NoObjectError):
        raise
    except (ValueError, OverflowError) as error:
        made = _outline(start, cut(str(error), MAX_PLACE), is_input=is_input)
        return made, compile_check(made.checked)


def read_own(schema: Schema) -> tuple[ForeignSchema, Check] | None:
    """Read an operator's schema that does not compile; None where more is wrong with it than what cannot be matched."""
    text = _encode(schema)
    bare = msgspec.json.decode(text)
    for node in subschemas(bare):
        by_pattern = node.pop("patternProperties", None)
        patterns = [node.pop("pattern", None), *(by_pattern if isinstance(by_pattern, dict) else ())]
        if any(each is not None and why_unmatched(str(each)) == NO_PATTERN for each in patterns):
            return None
    try:
        compile_check(bare)
    except SchemaError:
        return None
    return read_foreign(msgspec.json.decode(text), is_input=False)


def _outline(root: Schema, why: str, *, is_input: bool) -> ForeignSchema:
    """Make a schema of the names and types of a root's properties, for one that the compiler refuses all the same."""
    made: Schema = {"type": "object"} if is_input else {}
    properties = root.get("properties")
    if is_input and isinstance(properties, dict):
        made["properties"] = {
            name: {key: part[key] for key in ("type", "description") if key in part} if isinstance(part, dict) else {}
            for name, part in properties.items()
        }
        made["required"] = root.get("required", [])
    return ForeignSchema(made, None, (f"its root, but for the names and types of its properties ({why})",))


class _Place:
    """Where a schema stands: the place around it, and the step from there."""

    __slots__ = ("around", "step")

    def __init__(self, around: "_Place | None", step: str) -> None:
        self.around = around
        self.step = step

    def pointer(self) -> str:
        steps: list[str] = []
        place: _Place | None = self
        while place is not None and place.around is not None:
            steps.append(place.step)
            place = place.around
        return "".join(f"/{step}" for step in reversed(steps))


class _Repair:
    """One walk over a schema, which it changes in place."""

    def __init__(self, root: Schema, *, is_input: bool) -> None:
        self._root = root
        self._is_input = is_input
        self._draft = named_draft(root)
        # The places of what is not checked, by the reason; so many in all.
        self._unchecked: dict[str, list[str]] = {}
        self._count = 0
        # Every schema that was visited, held so that no other has its id.
        self._nodes: dict[int, Schema] = {}
        self._places: dict[int, _Place] = {}
        # Of a schema, the ones that hold it or refer to it, each with the keyword by which.
        self._uppers: dict[int, list[tuple[Schema, str]]] = {}
        self._references: list[tuple[Schema, str]] = []
        self._anchors: dict[str, Schema] = {}
        self._identifiers: set[str] = set()
        # By draft 4's word, which is none of a schema that names no draft.
        self._ids: dict[str, _Place] = {}
        self._weak: list[Schema] = []
        self._patterns: list[tuple[Schema, str, str | None]] = []
        self._characters = 0

    def run(self) -> ForeignSchema:
        root, named = self._root, self._root.get("$schema")
        start = _Place(None, "")
        if named is not None and self._draft == 0:
            self._tell(start, "$schema", "no draft that is known")
        self._walk(root, start)
        if self._draft:
            root["$schema"] = DIALECT
        self._resolve()
        if self._is_input:
            self._root_object()
        self._weaken()
        shown = root
        if self._patterns:
            shown = msgspec.json.decode(_encode(root))
            self._leave_patterns()
            self._weaken()
        unchecked = [f"{', '.join(places)} ({why})" for why, places in self._unchecked.items()]
        unchecked += [f"{self._count - MAX_TOLD} more places"] if self._count > MAX_TOLD else []
        return ForeignSchema(shown, root if self._patterns else None, tuple(unchecked))

    def _tell(self, place: _Place, keyword: str, why: str) -> None:
        self._count += 1
        if self._count <= MAX_TOLD:
            pointer = cut(f"{place.pointer()}/{escape(keyword)}", MAX_PLACE)
            self._unchecked.setdefault(why, []).append(pointer)

    def _pass_over(self, node: Schema, keyword: str, place: _Place, why: str = _SLIP) -> None:
        """Leave a keyword unchecked; an annotation checks nothing."""
        self._tell(place, keyword, why)
        if keyword not in ANNOTATIONS:
            self._weak.append(node)

    # --- the walk ---

    def _walk(self, start: Schema, start_place: _Place) -> None:
        waiting = [(start, start_place)]
        # Grows while it is walked.
        for node, place in waiting:
            if id(node) in self._nodes:
                continue
            self._nodes[id(node)], self._places[id(node)] = node, place
            modernize(node, self._draft)
            for keyword in [*node]:
                self._apply_rule(node, keyword, place)
            self._note_names(node)
            for keyword in node.keys() & HOLDING.keys():
                for steps, part in held(keyword, node[keyword]):
                    if isinstance(part, dict):
                        inner = place
                        for step in (keyword, *steps):
                            inner = _Place(inner, escape(step))
                        self._uppers.setdefault(id(part), []).append((node, keyword))
                        waiting.append((part, inner))

    def _apply_rule(self, node: Schema, keyword: str, place: _Place) -> None:
        rule = RULES.get(keyword)
        if rule is None or keyword not in node:
            return
        value = node[keyword]
        if keyword == "const" and value is None and "type" in node:
            # Who writes each keyword of a class writes null for those that say nothing.
            types = node["type"] if isinstance(node["type"], list) else [node["type"]]
            if "null" not in types:
                del node[keyword]
                return
        if value is None and keyword not in {"const", "default"}:
            del node[keyword]
            return
        kept = rule(value)
        if kept is ANY:
            del node[keyword]
        elif kept is DROP:
            del node[keyword]
            self._pass_over(node, keyword, place)
        elif kept is not value:
            node[keyword] = self._mend_parts(node, keyword, place, kept)
        elif keyword == "pattern":
            self._try_pattern(node, str(value), place)

    def _mend_parts(self, node: Schema, keyword: str, place: _Place, kept: object) -> object:
        """Give a keyword's new value, with an open schema for each part of it that is none."""
        inner, said = _Place(place, keyword), node[keyword]
        if isinstance(kept, list) and keyword not in LISTS:
            if DROP in kept:
                self._pass_over(node, keyword, place)
            return [part for part in kept if part is not DROP]
        if isinstance(kept, list):
            return [self._opened(None, inner, str(step)) if part is DROP else part for step, part in enumerate(kept)]
        if isinstance(kept, dict) and isinstance(said, dict):
            return {
                name: self._opened(said[name], inner, name) if part is DROP else part for name, part in kept.items()
            }
        return kept

    def _opened(self, said: object, place: _Place, step: str) -> Schema:
        """Make an open schema in the place of a part that is none; a text becomes its description."""
        opened: Schema = {"description": said} if isinstance(said, str) else {}
        self._tell(place, step, "no schema")
        self._weak.append(opened)
        return opened

    def _try_pattern(self, node: Schema, pattern: str, place: _Place, *, is_name: bool = False) -> None:
        self._characters += min(len(pattern), MAX_PATTERN)
        why = TOO_LARGE if self._characters > MAX_PATTERNS else why_unmatched(pattern)
        if why is not None:
            self._patterns.append((node, "patternProperties" if is_name else "pattern", pattern if is_name else None))
            self._tell(_Place(place, "patternProperties") if is_name else place, pattern if is_name else "pattern", why)

    def _note_names(self, node: Schema) -> None:
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in node:
                self._references.append((node, keyword))
        for keyword in ("$anchor", "$dynamicAnchor"):
            if keyword in node:
                self._anchors.setdefault(str(node[keyword]), node)
        if isinstance(node.get("id"), str):
            self._ids.setdefault(str(node["id"]), self._places[id(node)])
        if "$id" in node:
            self._identifiers.add(str(node["$id"]).partition("#")[0].rpartition("/")[2])
        by_pattern = node.get("patternProperties")
        for pattern in by_pattern if isinstance(by_pattern, dict) else ():
            self._try_pattern(node, pattern, self._places[id(node)], is_name=True)

    # --- references ---

    def _resolve(self) -> None:
        """Lead each reference to its schema, and leave those out that lead nowhere."""
        is_whole = not any("$id" in node for node in self._nodes.values() if node is not self._root)
        is_at_home = True
        # Grows while it is walked: a reference may lead to a schema that stands under no keyword.
        for node, keyword in self._references:
            reference = str(node[keyword])
            url, _, fragment = reference.partition("#")
            named = self._defined(reference) if url else None
            if url and named is None:
                is_at_home = is_at_home and not self._leads_away(node, keyword, url)
                continue
            fragment = unescape_fragment(fragment) if named is None else named
            target = self._target(fragment)
            if target is None and (moved := self._moved(fragment)) is not None:
                fragment, target = moved, at(self._root, moved)
            if isinstance(target, dict | bool):
                node[keyword] = f"#{escape_fragment(fragment)}"
            elif is_whole:
                del node[keyword]
                self._pass_over(node, keyword, self._places[id(node)], f"{cut(reference, 60)} leads nowhere")
            if isinstance(target, dict):
                self._uppers.setdefault(id(target), []).append((node, keyword))
                if id(target) not in self._nodes:
                    self._walk(target, _Place(_Place(None, ""), fragment[1:]))
        if is_at_home and is_whole:
            # Nothing asks for it, and it may be no identifier at all.
            self._root.pop("$id", None)

    def _target(self, fragment: str) -> object:
        return at(self._root, fragment) if fragment[:1] in {"", "/"} else self._anchors.get(fragment)

    def _leads_away(self, node: Schema, keyword: str, url: str) -> bool:
        """Leave out a reference to another document, but an input's; whether it is kept."""
        # A bare word is a definition that is not there.
        is_url = URL.fullmatch(url) is not None and not {"/", ".", ":"}.isdisjoint(url)
        if url.rpartition("/")[2] in self._identifiers or (is_url and self._is_input):
            return True
        del node[keyword]
        why = "which is never fetched" if is_url else "which is no address"
        self._pass_over(node, keyword, self._places[id(node)], f"it refers to {cut(url, 60)}, {why}")
        return False

    def _defined(self, name: str) -> str | None:
        """Find the pointer of a definition by its bare name, its path or its `id`; None for none."""
        if name in self._ids:
            return self._ids[name].pointer()
        if isinstance(at(self._root, f"/{name}"), dict):
            return f"/{name}"
        for table in ("$defs", "definitions"):
            definitions = self._root.get(table)
            if isinstance(definitions, dict) and name in definitions:
                return f"/{table}/{escape(name)}"
        return None

    def _moved(self, pointer: str) -> str | None:
        """Find the new place of what a pointer meant: rewritten, or defined elsewhere; None for nowhere."""
        written = _TUPLE_STEP.sub("/prefixItems/", pointer).replace("/additionalItems", "/items")
        written = written.replace("/dependencies/", "/dependentSchemas/")
        if isinstance(self._target(written), dict | bool):
            return written
        return self._defined(unescape(pointer.rpartition("/")[2]))

    # --- what is left out ---

    def _root_object(self) -> None:
        root = self._root
        said = root.get("type", "object")
        if "object" not in (said if isinstance(said, list) else [said]):
            raise NoObjectError(f"its root is of type {cut(_encode(said).decode(), MAX_PLACE)}")
        root["type"] = "object"

    def _leave_patterns(self) -> None:
        for node, keyword, name in self._patterns:
            by_pattern = node.get(keyword)
            if name is None:
                node.pop(keyword, None)
            elif isinstance(by_pattern, dict):
                # Properties of these names would be refused as additional ones, here or around.
                by_pattern.pop(name, None)
                node.pop("additionalProperties", None)
            self._weak.append(node)
        if any(name is not None for _, _, name in self._patterns):
            for node in self._nodes.values():
                node.pop("unevaluatedProperties", None)

    def _weaken(self) -> None:
        """Leave out each keyword that refuses more where a schema below it takes more."""
        seen: set[int] = set()
        while self._weak:
            node = self._weak.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            for upper, keyword in self._uppers.get(id(node), ()):
                match keyword:
                    case "not":
                        upper.pop("not", None)
                    case "if":
                        for each in ("if", "then", "else"):
                            upper.pop(each, None)
                    case "oneOf" if "oneOf" in upper and "anyOf" not in upper:
                        upper["anyOf"] = upper.pop("oneOf")
                    case "oneOf" if "oneOf" in upper:
                        several = upper.setdefault("allOf", [])
                        assert isinstance(several, list)
                        several.append({"anyOf": upper.pop("oneOf")})
                    case "contains":
                        upper.pop("maxContains", None)
                self._weak.append(upper)
