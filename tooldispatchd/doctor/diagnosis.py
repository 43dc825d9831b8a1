"""A `Diagnosis`: the finding of an examiner, in words for a person and in fields for a program. Pure."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from tooldispatchd.catalog.masker import Masker


class Health(StrEnum):
    """The health of one thing, best first."""

    FINE = "fine"
    WARNING = "warning"
    """It works, and somebody should look at it."""
    WRONG = "wrong"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One thing of a configuration or of the machine, and how it is with it.

    `part` is its kind (`server`, `api`, `tool`), `said` a clause about it, `advice` what to do. `facts` are JSON.
    """

    part: str
    name: str
    health: Health = Health.FINE
    said: str
    advice: str | None = None
    took_ms: float | None = None
    facts: dict[str, object] = {}


def masked_diagnosis(found: Diagnosis, masker: Masker) -> Diagnosis:
    """A diagnosis without known secrets, which a server may have written to its stderr; of that the end is told."""
    facts = masker.mask_value(found.facts, is_cut=True)
    assert isinstance(facts, dict)
    return msgspec.structs.replace(found, name=masker.mask(found.name), said=masker.mask_cut(found.said), facts=facts)


def worst(diagnoses: Sequence[Diagnosis]) -> Health:
    """The health of the worst of them."""
    order = list(Health)
    return max((each.health for each in diagnoses), key=order.index, default=Health.FINE)
