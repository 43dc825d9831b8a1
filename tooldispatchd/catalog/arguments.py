"""How a program gets its input and gives its answer: modes and argument templates, compiled and checked against types.

    template = { "$$" | "${" field "}" | "${" field "...}" | "${" field "?" text "}" | any other text }

A template is one argument, whatever its fields hold, and a dollar before anything else is itself. With `...` it is one
for each item of a list; with `?` it is there where a boolean is true, or a field that may be left out is given.
`compile_modes` gives what is wrong as problems; to run a program takes no more than its `Feed` and its `Output`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tooldispatchd.catalog.meanings import Declared, options_of
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.problems import Path, Problem, cut
from tooldispatchd.catalog.specs import InputMode, ProcessSpec, ToolSpec
from tooldispatchd.catalog.templates import take_apart
from tooldispatchd.catalog.types import JSON, UNIT, Field, ListOf, Primitive, Product, Record, Type, show

STRING: Final = Primitive("string")
BOOL: Final = Primitive("bool")

WHOLE: Final = "input"
"""What a template calls an input that is no record."""
WHOLE_VARIABLE: Final = "INPUT"
"""The variable of an input that is no record."""

# Characters of a type's text in a message.
MAX_SHOWN: Final = 80
# Fields that a message names.
MAX_NAMED: Final = 10

_SIGNS: Final = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<field>[^{}?]*?)(?P<each>\.\.\.)?(?P<flag>\?(?P<text>[^{}]*))?\}|(?P<broken>\{))"
)
_FORMS: Final = '"${FIELD}", "${LIST...}", "${FIELD?--text}", or "$$" for a dollar'
# POSIX, Base Definitions 8.1; a shell can use no other.
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The loader's and the daemon's own.
_RESERVED: Final = ("LD_", "TOOLDISPATCHD_")
# What has a shell, an interpreter or the C library run or load something else than the tool's author wrote. The value
# of a field is an agent's, so that none of them may be one.
_STEERING: Final = frozenset(
    [
        *("PATH", "HOME", "SHELL", "TMPDIR", "EDITOR", "VISUAL", "PAGER"),
        *("IFS", "ENV", "BASH_ENV", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND"),
        *("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH"),
        *("NODE_OPTIONS", "NODE_PATH", "RUBYLIB", "RUBYOPT", "PERLLIB", "PHPRC", "PHP_INI_SCAN_DIR", "AWKPATH"),
        *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "LESSOPEN", "LESSCLOSE"),
    ]
)
_STEERING_PREFIXES: Final = ("PYTHON", "PERL5", "LUA_", "BASH_FUNC_", "GIT_", "OPENSSL_", "DYLD_")


class Slot(msgspec.Struct, frozen=True):
    """A place in a template where a field's value goes; `WHOLE` is an input that is no record."""

    name: str


class Each(msgspec.Struct, frozen=True):
    """A place where each item of a list goes, in an argument of its own."""

    name: str


class Flag(msgspec.Struct, frozen=True):
    """A text that is there where the field `name` is given, and neither false nor null."""

    name: str
    text: str


class Template(msgspec.Struct, frozen=True):
    """An argument, as the texts and fields that it is made of, in order; at most one is a list's.

    For a field whose value may begin with "-", "--" stands in an argument before it, or it is `--name=${field}`.
    """

    parts: tuple[str | Slot | Each | Flag, ...]

    @property
    def slots(self) -> Iterator[Slot | Each | Flag]:
        """The places in it that name fields, in order."""
        return (part for part in self.parts if not isinstance(part, str))


class TemplateError(ValueError):
    """A text that is no template; the message says why."""


class Feed(msgspec.Struct, frozen=True):
    """How a program gets its input.

    `templates` are its arguments in the mode `args`. `variables` are the fields that the mode `env` passes on, in the
    order of the type. Where the input `is_record`, both take its fields, and the input itself where it is none.
    """

    mode: InputMode = "json"
    templates: tuple[Template, ...] = ()
    variables: tuple[str, ...] = ()
    is_record: bool = False


JSON_FEED: Final = Feed()
TRANSCRIBED: Final = "result"
"""The `exit_codes` of a program of which each end is an answer."""

Moded = ToolSpec | ProcessSpec
"""What says how a program is run."""


def parse_template(text: str) -> Template:
    """The template that `text` says. Raises `TemplateError`."""
    parts = take_apart(text, _SIGNS, _place_of)
    if sum(isinstance(part, Each) for part in parts) > 1:
        raise TemplateError('an argument has one list at most, and "..." stands here more than once')
    return Template(parts or ("",))


def _place_of(sign: re.Match[str]) -> Slot | Each | Flag:
    name = sign["field"]
    if sign["broken"] or not name or (sign["each"] and sign["flag"]):
        raise TemplateError('"${" begins no field that can be read')
    if sign["flag"] == "?":
        raise TemplateError(f'"${{{name}?}}" says no text that is to stand there')
    return Flag(name, sign["text"]) if sign["flag"] else Each(name) if sign["each"] else Slot(name)


def untyped_source(spec: Moded) -> Type:
    """What a tool takes that says no type."""
    return STRING if spec.input_mode == "text" else JSON


def untyped_target(spec: Moded) -> Type:
    if spec.exit_codes == TRANSCRIBED:
        return STRING
    match spec.output_mode:
        case "text":
            return STRING
        case "lines":
            return ListOf(STRING)
        case _:
            return JSON


def compile_modes(
    spec: Moded, source: Type, target: Type, declared: Declared, path: Path
) -> tuple[Feed, Output, list[Problem]]:
    """How a program is spoken to that takes `source` and gives `target`, and what is wrong with that."""
    feed, wrong = compile_feed(spec, source, declared, path)
    output, wrong_output = compile_output(spec, target, declared, path)
    return feed, output, [*wrong, *wrong_output]


def compile_feed(spec: Moded, source: Type, declared: Declared, path: Path) -> tuple[Feed, list[Problem]]:
    """How a program gets an input of type `source`, and what is wrong with that; `path` is where `spec` stands.

    The names in `source` must be declared; of a schema it is what `outline_of` gives. Where there is a problem
    the feed is as near as can be, and must not be used.
    """
    if spec.input_mode == "json":
        return JSON_FEED, []
    options = options_of(source, declared)
    if spec.input_mode == "text":
        is_text = all(option in {STRING, UNIT, JSON} for option in options)
        return Feed("text"), [] if is_text else [_misfit("input", "text", "takes a string", source, path)]
    if JSON in options:
        why = f'input_mode = "{spec.input_mode}" needs a type that says what the input holds, and it is json'
        return Feed(spec.input_mode), [Problem((*path, "input_mode"), why, allowed='a "type" or an "input_schema"')]
    record = options[0] if len(options) == 1 and isinstance(options[0], Record) else None
    if spec.input_mode == "env":
        names = [WHOLE_VARIABLE] if record is None else [field.name for field in record.fields]
        problems = [
            Problem((*path, "input_mode"), f'input_mode = "env": the field {name} cannot be a variable: {reason}')
            for name in names
            if (reason := _variable_problem(name, spec)) is not None
        ]
        return Feed("env", variables=tuple(names), is_record=record is not None), problems
    # Of an input that says nothing nothing can be lost.
    must_use = options != [UNIT] and (record is None or record.fields != ())
    fields = (Field(WHOLE, source),) if record is None else record.fields
    return _compile_arguments(spec, fields, declared, path, is_record=record is not None, must_use=must_use)


def compile_output(spec: Moded, target: Type, declared: Declared, path: Path) -> tuple[Output, list[Problem]]:
    """What a program writes that gives `target`, and what is wrong with that; the rest is as in `compile_feed`."""
    options = options_of(target, declared)
    is_any, is_text = JSON in options, not {STRING, JSON}.isdisjoint(options)
    mode = spec.output_mode
    if spec.exit_codes == TRANSCRIBED:
        return Output.TRANSCRIPT, _problems_of_transcript(spec, target, path, is_text=is_text)
    if mode == "json":
        return Output.NULL if options == [UNIT] else Output.JSON, []
    if mode == "text":
        return Output.TEXT, [] if is_text else [_misfit("output", mode, "gives a string", target, path)]
    if mode != "lines":
        wrong = [] if is_any else [_misfit("output", mode, "gives typed parts, for which there is json", target, path)]
        return Output.PARTS if mode == "blocks" else Output.FILE, wrong
    lists = [option for option in options if isinstance(option, ListOf)]
    if not lists:
        return Output.LINES, [] if is_any else [_misfit("output", "lines", "gives a list", target, path)]
    items = [item for each in lists for item in options_of(each.item, declared)]
    return Output.LINES if all(item == STRING for item in items) else Output.JSON_LINES, []


def _problems_of_transcript(spec: Moded, target: Type, path: Path, *, is_text: bool) -> list[Problem]:
    if spec.output_mode not in {"json", "text"}:
        why = f'exit_codes = "result" gives a text, and output_mode = "{spec.output_mode}" something else'
        return [Problem((*path, "output_mode"), why, value=spec.output_mode, allowed='"text"')]
    if is_text:
        return []
    why = f'exit_codes = "result" gives a string, and the output is {cut(show(target), MAX_SHOWN)}'
    return [Problem((*path, "exit_codes"), why, value=spec.exit_codes)]


def _misfit(side: str, mode: str, does: str, type_: Type, path: Path) -> Problem:
    key = f"{side}_mode"
    return Problem(
        (*path, key), f'{key} = "{mode}" {does}, and the {side} is {cut(show(type_), MAX_SHOWN)}', value=mode
    )


# --- arguments ---


def _compile_arguments(
    spec: Moded, fields: tuple[Field, ...], declared: Declared, path: Path, *, is_record: bool, must_use: bool
) -> tuple[Feed, list[Problem]]:
    templates: list[Template] = []
    problems: list[Problem] = []
    known = {field.name: field for field in fields}
    for place, text in enumerate(spec.args):
        where: Path = (*path, "args", place)
        try:
            template = parse_template(text)
        except TemplateError as error:
            problems.append(Problem(where, str(error), value=text, allowed=_FORMS))
            continue
        templates.append(template)
        # Each once, and in order.
        for slot in dict.fromkeys(template.slots):
            if slot.name not in known:
                why = f"the input {'has' if is_record else 'is no record and has'} no field {slot.name}"
                close = nearest(slot.name, known) if is_record else WHOLE
                allowed = None if is_record and close else _named(known)
                problems.append(Problem(where, why, value=text, allowed=allowed, nearest=close))
            elif misfit := _slot_problem(slot, known[slot.name], declared):
                problems.append(Problem(where, misfit, value=text))
    is_used = problems or any(True for template in templates for _ in template.slots)
    if must_use and not is_used:
        why = 'input_mode = "args", and no argument names a field of the input, which would be lost'
        problems.append(Problem((*path, "args"), why, allowed=_named(known)))
    return Feed("args", templates=tuple(templates), is_record=is_record), problems


def _slot_problem(slot: Slot | Each | Flag, field: Field, declared: Declared) -> str | None:
    """Why a field cannot stand where it does, or None where it can."""
    options = options_of(field.type, declared)
    is_flag = all(option in {BOOL, UNIT} for option in options) or field.optional
    if isinstance(slot, Each) and not all(isinstance(option, ListOf | Product) for option in options):
        needed = '"..." needs a list'
    elif isinstance(slot, Flag) and not is_flag:
        needed = '"?" needs a bool or a field that may be left out'
    else:
        return None
    return f"{needed}, and {field.name} is {cut(show(field.type), MAX_SHOWN)}"


def _named(fields: Iterable[str]) -> str:
    names = [f'"${{{name}}}"' for name in fields]
    shown = names if len(names) <= MAX_NAMED else [*names[:MAX_NAMED], "…"]
    return ", ".join(shown)


def _variable_problem(name: str, spec: Moded) -> str | None:
    """Why no variable of a program may have a field's name, or None where one may."""
    if not _VARIABLE.fullmatch(name):
        return "a variable's name is letters, digits and _ after a letter or _"
    for prefix in _RESERVED:
        if name.startswith(prefix):
            return f"names that begin with {prefix} are reserved"
    if name in _STEERING or name.startswith(_STEERING_PREFIXES):
        return "setting it can have another program run"
    if name in spec.env:
        return f"env.{name} sets it too"
    return None
