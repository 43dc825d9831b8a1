"""What Python functions take and give, as they were read from their annotations; and what a tool may say beside that.

A tool may state a type or schemas of its own, which models are shown: they must have the structure of the function's,
as far as the stated ones say anything, but may leave out what the function need not be given.
"""

import re
from typing import Final

import msgspec

from tooldispatchd.catalog.fromschema import structure_of
from tooldispatchd.catalog.meanings import Declared
from tooldispatchd.catalog.relations import Relation
from tooldispatchd.catalog.types import Type

# Marks of names in a type's text, where a field's colon follows its name.
_MARKS: Final = re.compile(r"(?<!\w)::?(?=\w)")

Schema = dict[str, object]


class Signature(msgspec.Struct, frozen=True):
    """One function: the schemas of its input (an object always) and of its result, and how it is called.

    `interpreter` is the Python that it was read in, and `place` the directory that stood behind that one's own in the
    search for modules; the function must be called in the same way.
    """

    input_schema: Schema
    output_schema: Schema
    description: str = ""
    takes_ctx: bool = False
    is_async: bool = False
    gives_parts: bool = False
    """Whether its result is a list of typed parts, and no value of `output_schema`."""
    interpreter: str = ""
    place: str = ""
    code: str = ""
    """The digest of its module and of all that this imports, in so far as it is not installed."""
    parent: str = ""
    """The digest of the code of all functions that share a warm parent with it."""


def stated_misfit(stated: Type | Schema, own: Schema, rule: Relation, declared: Declared) -> str | None:
    """Why a tool cannot say `stated` where its function's schema is `own`; None where it can.

    `rule` is `STATED_INPUT` or `STATED_OUTPUT`. Raises `TypeNameError`.
    """
    type_, names = structure_of(own)
    said, others = structure_of(stated, "::") if isinstance(stated, dict) else (stated, {})
    why = rule.difference(said, type_, {**declared, **names, **others})
    return why and _MARKS.sub("", why)
