"""One stage of each kind that is no chain: the types that it has where it stands, and what it does.

A stage that promises more than its parts give, since `json` goes with every type, looks at what it gives.
"""

from collections.abc import Callable

import msgspec

from tooldispatchd.catalog import morphisms
from tooldispatchd.catalog.compatible import compatible
from tooldispatchd.catalog.expressions.door import Expression, ExpressionError, compile_expression, compile_predicate
from tooldispatchd.catalog.meanings import Declared, resolve, same, strip_stream
from tooldispatchd.catalog.morphisms import StreamMorphism
from tooldispatchd.catalog.schemas import Check, SchemaError
from tooldispatchd.catalog.specs import ProcessSpec
from tooldispatchd.catalog.types import JSON, Product, Stream, Type, show
from tooldispatchd.catalog.wiring import WiringError, check_of, checked, guarded, promised

Arrow = tuple[Type, Type]


class PipelineStage:
    """A process that is to be compiled at the streams `source`, or at its own type `arrow`; raises `WiringError`."""

    def __init__(self, name: str, spec: ProcessSpec, declared: Declared, *, arrow: Arrow | None, is_bare: bool) -> None:
        self._name = name
        self._spec = spec
        self._declared = declared
        self._arrow = arrow
        self._is_bare = is_bare

    def compile(self, upstream: Type | None) -> StreamMorphism:
        """What it does to streams of type `upstream` (None: of any, where it says no type itself)."""
        any_json = Stream(JSON)
        source, target = self._arrow or (any_json if upstream is None else upstream, None)
        match self._spec.kind:
            case "agent":
                made = self._agent(*(self._arrow or (any_json, any_json)))
            case "map":
                made = self._map(source, target)
            case "filter":
                made = self._filter(source)
            case _:
                made = self._structural(source, target)
        return made if target is None else self._promised(made, target)

    def _wrong(self, why: str, *keys: str, value: object = msgspec.UNSET) -> WiringError:
        return WiringError(why, ("processes", self._name, *keys), value)

    def _promised(self, made: StreamMorphism, wanted: Type) -> StreamMorphism:
        """The stage at its declared type; what it gives is looked at where it promises less by itself."""
        wanted = self._shaped(wanted, made.target)
        if not compatible(made.target, wanted, self._declared):
            assert self._arrow is not None
            sides = [self._arrow[0], made.target, self._arrow[1]]
            shown = [show(strip_stream(side, self._declared) if self._is_bare else side) for side in sides]
            why = f"{self._spec.kind} of {shown[0]} gives {shown[1]}, not {shown[2]}"
            raise self._wrong(why, "type", value=self._spec.type)
        if same(made.target, wanted, self._declared):
            return made
        return msgspec.structs.replace(promised(made, wanted, self._declared), kind=made.kind)

    def _shaped(self, wanted: Type, made: Type) -> Type:
        """A type of the base category as the streams that the kind gives: `(A, B)` as `(!A, !B)`, `unit` as itself."""
        if not self._is_bare or isinstance(resolve(made, self._declared), Stream):
            return wanted
        bare = resolve(strip_stream(wanted, self._declared), self._declared)
        return Product(tuple(Stream(item) for item in bare.items)) if isinstance(bare, Product) else bare

    # --- the kinds that move messages and do not look at them ---

    def _structural(self, source: Type, target: Type | None) -> StreamMorphism:
        match self._spec.kind:
            case "id":
                return morphisms.identity(self._name, source)
            case "discard":
                return morphisms.discarding(self._name, source)
            case "copy":
                pairs = None if target is None or self._is_bare else resolve(target, self._declared)
                as_pairs = isinstance(pairs, Stream) and isinstance(resolve(pairs.item, self._declared), Product)
                return morphisms.copying(self._name, source, as_pairs=as_pairs)
        streams = self._streams(source)
        if self._spec.kind == "project":
            return self._project(streams)
        items = tuple(resolve(item, self._declared) for item in streams.items)
        inner = [item.item for item in items if isinstance(item, Stream)]
        if len(inner) < len(items):
            raise self._wrong(f"{self._spec.kind} takes streams of messages, and not {show(source)}")
        if self._spec.kind == "barrier":
            return morphisms.synchronising(self._name, streams, Stream(Product(tuple(inner))))
        return self._merge(streams, inner)

    def _streams(self, source: Type) -> Product:
        streams = resolve(source, self._declared)
        if self._is_bare and isinstance(streams, Stream):
            item = resolve(streams.item, self._declared)
            streams = Product(tuple(Stream(part) for part in item.items)) if isinstance(item, Product) else streams
        if not isinstance(streams, Product):
            raise self._wrong(f"{self._spec.kind} takes several streams, (!A, !B), and not {show(source)}")
        return streams

    def _project(self, streams: Product) -> StreamMorphism:
        place = self._spec.project or 0
        if place >= len(streams.items):
            why = f"there is no stream {place} in {show(streams)}: they are counted from 0"
            raise self._wrong(why, "project", value=place)
        return morphisms.projecting(self._name, streams, place)

    def _merge(self, streams: Product, inner: list[Type]) -> StreamMorphism:
        first = inner[0]
        if not all(compatible(first, other, self._declared) for other in inner):
            raise self._wrong(f"merge takes streams of one type, and not {show(streams)}")
        made = morphisms.merging(self._name, streams, Stream(first))
        if all(same(first, other, self._declared) for other in inner):
            return made
        # Of the others it is only known that they may be.
        looking = guarded(made, Product(tuple(Stream(first) for _ in inner)), self._declared)
        return msgspec.structs.replace(looking, source=streams)

    # --- the kinds that look at each message ---

    def _message(self, source: Type) -> Type:
        meaning = resolve(source, self._declared)
        if not isinstance(meaning, Stream):
            raise self._wrong(f"{self._spec.kind} takes one stream, and not {show(source)}")
        return meaning.item

    def _map(self, source: Type, target: Type | None) -> StreamMorphism:
        taken = self._message(source)
        wanted = None if target is None else resolve(target, self._declared)
        if wanted is not None and not isinstance(wanted, Stream):
            raise self._wrong(f"map gives one stream, and not {show(wanted)}", "type")
        given = None if wanted is None else wanted.item
        expression = self._expression(compile_expression, taken, {"output_type": given})
        run = checked(self._name, expression.evaluate, None if given is None else self._check(given))
        base = morphisms.function(self._name, taken, expression.output, run)
        return msgspec.structs.replace(morphisms.lift(base), name=self._name, kind="map")

    def _filter(self, source: Type) -> StreamMorphism:
        expression = self._expression(compile_predicate, self._message(source), {})
        run = checked(self._name, expression.evaluate, None)
        return morphisms.filtering(self._name, source, lambda message: run(message) is True)

    def _expression(
        self, compile_: Callable[..., Expression], taken: Type, wanted: dict[str, Type | None]
    ) -> Expression:
        key = self._spec.kind
        text = getattr(self._spec, key)
        try:
            return compile_(text, input_type=taken, declared=self._declared, **wanted)
        except ExpressionError as error:
            at = f" (where it takes {show(Stream(taken))})" if self._arrow is None else ""
            raise self._wrong(f"{error}{at}", key, value=text) from error

    def _agent(self, source: Type, target: Type) -> StreamMorphism:
        taken, given = self._message(source), self._message(target)
        base = morphisms.asking(self._name, taken, given, is_tool=False, output=self._check(given))
        return msgspec.structs.replace(morphisms.lift(base), name=self._name, kind="agent")

    def _check(self, type_: Type) -> Check:
        try:
            return check_of(type_, self._declared)
        except SchemaError as error:
            raise self._wrong(f"cannot use the type {show(type_)[:80]}: {error}", "type") from error
