"""A typed function as a tool: its schemas, and its input and result between JSON and Python.

Runs in the tool's own interpreter, with the msgspec that is there; importing this module raises `NoMsgspecError` where
there is none. What the annotations say decides alike what the schema shows and what a call may be given.

    prepared = prepare(find_function("package.module:function"))     once, in the warm parent
    result = prepared.function(**prepared.decode(raw))               in each call
    line = prepared.encode(result)
"""

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tooldispatchd.forked.python.functions import FunctionError, last_line


class NoMsgspecError(ImportError):
    """The interpreter has no msgspec; the message names it, and says what to do."""


try:
    import msgspec
except ImportError as _error:
    raise NoMsgspecError(
        f"{sys.executable} has no msgspec, with which a function's types are read: "
        f"{sys.executable} -m pip install msgspec"
    ) from _error

# A model reads no more of a description than this; the rest is documentation.
MAX_DESCRIPTION = 8 * 1024
# A default that is longer than this in JSON is not shown.
MAX_DEFAULT_BYTES = 4 * 1024
# Of an annotation in a message.
MAX_SHOWN_TYPE = 120
# The parameter that is given the context of the call, and is no part of its input.
CONTEXT = "ctx"

# Marks a list that is the parts of an answer.
PARTS = "parts"

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
# The name that a resource must have, of a file that has none.
_RESULT_URI = "urn:tooldispatchd:result"
_REFERENCE = "#/$defs/"
_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class InputError(ValueError):
    """An input that is no JSON of the declared types; the message says what is wrong and where."""


class ResultError(ValueError):
    """A result that is not of the declared type, or that JSON cannot say; the message says what is wrong and where."""


class _Absent:
    """Stands for a parameter that a call leaves to its default."""


_ABSENT = _Absent()


class Parameter(typing.NamedTuple):
    """One parameter of the input: its type as it is annotated, `json` where it is not."""

    name: str
    type: object
    has_default: bool
    default: object


class PreparedFunction:
    """A function that is ready to be called with JSON, any number of times; the costly part is done when it is made.

    `takes_ctx`: it wants the keyword `ctx` beside what `decode` gives. `is_async`: its result must be awaited. `parts`:
    its result is no JSON, but typed parts, see `_parts_of`.
    """

    __slots__ = ("_decoder", "_encoder", "_names", "_result", "function", "is_async", "parts", "signature", "takes_ctx")

    def __init__(self, function: Callable[..., object], signature: "_Signature") -> None:
        self.function = function
        self.signature = signature
        self.takes_ctx = signature.takes_ctx
        self.parts = signature.parts
        self.is_async = inspect.iscoroutinefunction(_innermost(function))
        self._names = tuple(parameter.name for parameter in signature.parameters)
        # Under names of ours, since a class has attributes of its own that a parameter may be named like.
        absent = msgspec.field(default_factory=lambda: _ABSENT)
        fields = [
            (f"p{place}", parameter.type, absent) if parameter.has_default else (f"p{place}", parameter.type)
            for place, parameter in enumerate(signature.parameters)
        ]
        rename = {f"p{place}": name for place, name in enumerate(self._names)}
        input_type = msgspec.defstruct("Input", fields, rename=rename, forbid_unknown_fields=True, kw_only=True)
        self._decoder = msgspec.json.Decoder(input_type)
        self._encoder = msgspec.json.Encoder()
        # A result of any type needs no check.
        self._result = None if signature.result is Any else msgspec.json.Decoder(signature.result)

    def decode(self, raw: bytes | bytearray | memoryview | str) -> dict[str, object]:
        """The keyword arguments that a JSON object gives, without those that it leaves out; raises InputError.

        What `__post_init__` of a type raises as ValueError or TypeError is an InputError too.
        """
        try:
            values = msgspec.structs.astuple(self._decoder.decode(raw))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(str(error)) from error
        except RecursionError as error:
            raise InputError("it is nested too deep") from error
        return {name: value for name, value in zip(self._names, values) if value is not _ABSENT}  # noqa: B905

    def encode(self, result: object) -> bytes:
        """A result as one line of JSON without its newline; raises ResultError.

        The JSON is read back as the declared type: objects are not checked when they are made, and JSON is
        what counts. Of parts it is a list of them.
        """
        result = result if self.parts is None else _as_parts(result, self.parts)
        try:
            encoded = self._encoder.encode(result)
        # An object that was never filled has no attributes.
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise ResultError(f"the result cannot be written as JSON: {error}") from error
        except RecursionError as error:
            raise ResultError("the result cannot be written as JSON: it is nested too deep") from error
        if self._result is None:
            return encoded
        try:
            self._result.decode(encoded)
        except msgspec.MsgspecError as error:
            raise ResultError(f"the result is not of the declared type: {error}") from error
        except RecursionError as error:
            raise ResultError("the result is nested too deep") from error
        return encoded


def prepare(function: object) -> PreparedFunction:
    """The function, made ready to be called; raises FunctionError where it cannot be a tool."""
    if inspect.isclass(function):
        raise FunctionError("it is a class; a tool is a function, or a static or class method of one")
    if not callable(function):
        raise FunctionError(f"it cannot be called: it is of the type {type(function).__name__}")
    inner = _innermost(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise FunctionError("it is a generator; a tool gives one result, such as a list")
    signature = _read(function)
    try:
        return PreparedFunction(function, signature)
    except TypeError as error:
        # Each type is fine by itself: two classes of one name, or whatever else only shows together.
        first_line, _, _ = str(error).partition("\n")
        raise FunctionError(f"its types cannot be read from JSON: {first_line}") from error


def describe(function: object) -> dict[str, object]:
    """A function as the daemon is told of it, in JSON: `input_schema`, `output_schema`, `description`, `takes_ctx`,
    `gives_parts` and `is_async`. Raises FunctionError where it cannot be a tool.
    """
    prepared = prepare(function)
    description, described = _documented(function)
    return {
        "input_schema": _input_schema(prepared.signature.parameters, described),
        "output_schema": _output_schema(prepared.signature.result),
        "description": description,
        "takes_ctx": prepared.takes_ctx,
        "gives_parts": prepared.parts is not None,
        "is_async": prepared.is_async,
    }


class _Signature(typing.NamedTuple):
    """The parameters and the result of a function, in types that JSON can be converted to and from."""

    parameters: list[Parameter]
    result: object
    takes_ctx: bool
    parts: str | None = None


def _innermost(function: object) -> object:
    """The function that is called in the end, below decorators that say what they wrap and below partial ones."""
    inner = inspect.unwrap(function) if callable(function) else function
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    if inspect.isroutine(inner) or inspect.isclass(inner):
        return inner
    return getattr(inner, "__call__", inner)  # noqa: B004  # an object that can be called: its method is asked for


def _read(function: Callable[..., object]) -> _Signature:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise FunctionError("it has no signature that can be read; wrap it in a function of Python") from error
    except NameError as error:
        # Since Python 3.14 annotations are looked up when they are first asked for.
        raise FunctionError(f"cannot read its annotations: {last_line(error)}") from error
    hints = _hints(_innermost(function))
    parameters = []
    for name, parameter in signature.parameters.items():
        if name == CONTEXT:
            continue
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise FunctionError(f"it takes {star}{name}, and a tool says which fields its input has; name them")
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise FunctionError(f"its parameter {name} cannot be given by its name; take away the / behind it")
        type_ = _json_type(hints.get(name, Any))
        _check_type(f"its parameter {name}", type_)
        has_default = parameter.default is not inspect.Parameter.empty
        parameters.append(Parameter(name, type_, has_default, parameter.default))
    context = signature.parameters.get(CONTEXT)
    if context is not None and context.kind not in _KEYWORDS:
        raise FunctionError(f"its parameter {CONTEXT} cannot be given by its name")
    parts = _parts_of(hints.get("return"))
    result = Any if parts is not None else _json_type(hints.get("return", Any))
    _check_type("its result", result)
    return _Signature(parameters, result, context is not None, parts)


def _parts_of(result: object) -> str | None:
    """What kind of parts an annotation means: a media type for `Annotated[bytes, "image/png"]`, `PARTS` for
    `Annotated[list, "parts"]`; None for any other, whose value is JSON.
    """
    if typing.get_origin(result) is not typing.Annotated:
        return None
    kind, *marks = typing.get_args(result)
    for mark in marks:
        if mark == PARTS and list in {kind, typing.get_origin(kind)}:
            return PARTS
        if isinstance(mark, str) and kind is bytes and _MEDIA_TYPE.fullmatch(mark):
            return mark
    return None


def _as_parts(result: object, kind: str) -> list[object]:
    """A result as parts, as MCP writes content; in them bytes stand for their base64, and a string for a text."""
    if kind != PARTS:
        if not isinstance(result, (bytes, bytearray, memoryview)):
            raise ResultError(f"the result is not bytes of {kind}, but {type(result).__name__}")
        first = kind.partition("/")[0]
        if first in {"image", "audio"}:
            return [{"type": first, "data": result, "mimeType": kind}]
        return [{"type": "resource", "resource": {"uri": _RESULT_URI, "mimeType": kind, "blob": result}}]
    if not isinstance(result, (list, tuple)):
        raise ResultError(f"the result is no list of parts, but {type(result).__name__}")
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in result]
    for number, part in enumerate(parts):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise ResultError(f"a part is a string or a dict with a type - at `$[{number}]`")
    return parts


def _hints(function: object) -> Mapping[str, object]:
    """The annotations, with those that are text looked up; that of the context may mean nothing here."""
    written = {name: type_ for name, type_ in getattr(function, "__annotations__", {}).items() if name != CONTEXT}
    names = getattr(function, "__globals__", {})
    try:
        return _looked_up(written, names)
    # They are a user's expressions, and may raise anything.
    except Exception as error:
        which = "its annotations"
        for name, type_ in written.items():
            try:
                _looked_up({"alone": type_}, names)
            except Exception:  # noqa: BLE001  # as all of them
                which = "the annotation of its result" if name == "return" else f"the annotation of {name}"
                break
        raise FunctionError(f"cannot read {which}: {last_line(error)}") from error


def _looked_up(written: dict[str, object], names: dict[str, object]) -> dict[str, object]:
    def bearer() -> None:
        pass

    bearer.__annotations__ = written
    return typing.get_type_hints(bearer, globalns=names, include_extras=True)


def _json_type(type_: object) -> object:
    # `object` is what is written where anything is meant and nothing is done with it.
    return Any if type_ is object else type_


def _check_type(which: str, type_: object) -> None:
    try:
        msgspec.json.Decoder(type_)
        msgspec.json.schema_components([type_], ref_template=f"{_REFERENCE}{{name}}")
    # A type may be anything that can be written in Python, and msgspec looks into it.
    except Exception as error:
        why = str(error)
        if "custom type" in why:
            inner = why.rpartition("type <class '")[2].partition("'>")[0] if "type <class '" in why else ""
            why = f"JSON cannot be converted to {inner or 'it'}"
        shown = inspect.formatannotation(type_)[:MAX_SHOWN_TYPE]
        raise FunctionError(f"{which} has a type that no JSON is of, {shown}: {' '.join(why.split())}") from error


def _input_schema(parameters: list[Parameter], documented: Mapping[str, str]) -> dict[str, object]:
    types = [parameter.type for parameter in parameters]
    schemas, definitions = msgspec.json.schema_components(types, ref_template=f"{_REFERENCE}{{name}}")
    properties = {}
    for parameter, typed in zip(parameters, schemas, strict=True):
        said = _annotated_text(parameter.type) or documented.get(parameter.name)
        described = typed if not said or "description" in typed else {**typed, "description": said}
        properties[parameter.name] = described
        if parameter.has_default:
            # It is shown where JSON can say it, and it is of the parameter's type.
            with suppress(TypeError, ValueError, OverflowError, AttributeError, RecursionError):
                encoded = msgspec.json.encode(parameter.default)
                msgspec.json.decode(encoded, type=parameter.type)
                if len(encoded) <= MAX_DEFAULT_BYTES:
                    properties[parameter.name] = {**described, "default": msgspec.json.decode(encoded)}
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": [parameter.name for parameter in parameters if not parameter.has_default],
        "additionalProperties": False,
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _annotated_text(type_: object) -> str | None:
    """The text in `Annotated[int, "how many"]`; that of msgspec's `Meta` is in the schema already."""
    marks = typing.get_args(type_)[1:] if typing.get_origin(type_) is typing.Annotated else ()
    return next((mark for mark in marks if isinstance(mark, str)), None)


def _output_schema(type_: object) -> dict[str, object]:
    """The schema of a result; a record stands at its root, unless it is also found within itself."""
    (schema,), definitions = msgspec.json.schema_components([type_], ref_template=f"{_REFERENCE}{{name}}")
    reference = schema.get("$ref")
    if schema.keys() == {"$ref"} and isinstance(reference, str) and not _refers(definitions, reference):
        schema = definitions.pop(reference[len(_REFERENCE) :])
    return {**schema, "$defs": definitions} if definitions else schema


def _refers(node: object, reference: object) -> bool:
    """Whether a reference stands anywhere in a schema; schemas of types are no deeper than the types were written."""
    if isinstance(node, dict):
        return node.get("$ref") == reference or any(_refers(part, reference) for part in node.values())
    return isinstance(node, list) and any(_refers(part, reference) for part in node)


def _documented(function: object) -> tuple[str, dict[str, str]]:
    """The description of a function and those of its parameters, from its docstring; each is cut at 8 KiB."""
    text = inspect.getdoc(_innermost(function)) or ""
    try:
        # Imported here: only the process that describes functions reads docstrings.
        from docstring_parser import ParseError, parse  # noqa: PLC0415

        said = parse(text)
    # An interpreter of its own need not have the library, and a docstring may be of no known form: all of it is shown.
    except (ImportError, ParseError):
        return _cut(text), {}
    described = {each.arg_name.lstrip("*"): _cut(each.description or "") for each in said.params}
    return _cut(said.description or ""), described


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"
