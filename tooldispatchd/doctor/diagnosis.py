"""A `Diagnosis`: the finding of one look at a thing, in words for a person and in fields for a program."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from inspect import iscoroutinefunction
from typing import Final, cast

import msgspec
import trio

from tooldispatchd.catalog.masker import Masker

# A hung file system, a name server that is silent: what takes longer is wrong, and told so.
EXAMINE_S: Final = 15.0


class Health(StrEnum):
    """The health of one thing, best first."""

    FINE = "fine"
    WARNING = "warning"
    """It works, and somebody should look at it."""
    WRONG = "wrong"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One thing of a configuration or of the machine, and how it is with it.

    `part` is its kind (`server`, `api`, `tool`), `said` a clause about it, `advice` what to do. `facts` are JSON. Part
    and name are given by its examiner.
    """

    part: str = ""
    name: str = ""
    health: Health = Health.FINE
    said: str
    advice: str | None = None
    took_ms: float | None = None
    facts: dict[str, object] = {}


class Examiner(msgspec.Struct, frozen=True):
    """One thing to look at, the way to do it, and its limit: what does not answer by then is wrong."""

    part: str
    name: str
    look: Callable[[], Diagnosis] | Callable[[], Awaitable[Diagnosis]]
    """A plain function runs in a thread."""
    limit_s: float = EXAMINE_S

    async def run(self) -> Diagnosis:
        """Look, and name what was seen."""
        if iscoroutinefunction(self.look):
            return self.named(await self.look())
        # Abandoned where it hangs: in a file system, as a rule.
        look = cast("Callable[[], Diagnosis]", self.look)
        return self.named(await trio.to_thread.run_sync(look, abandon_on_cancel=True))

    def named(self, found: Diagnosis) -> Diagnosis:
        """A diagnosis of this thing."""
        return msgspec.structs.replace(found, part=self.part, name=self.name)


def fine(said: str, advice: str | None = None, **facts: object) -> Diagnosis:
    """A thing that works."""
    return Diagnosis(said=said, advice=advice, facts=facts)


def warning(said: str, advice: str | None = None, **facts: object) -> Diagnosis:
    """A thing that works, and that somebody should look at."""
    return Diagnosis(health=Health.WARNING, said=said, advice=advice, facts=facts)


def wrong(said: str, advice: str | None = None, **facts: object) -> Diagnosis:
    """A thing that does not work."""
    return Diagnosis(health=Health.WRONG, said=said, advice=advice, facts=facts)


def masked_diagnosis(found: Diagnosis, masker: Masker) -> Diagnosis:
    """A diagnosis without known secrets, which a server may have written to its stderr; of that the end is told."""
    facts = masker.mask_value(found.facts, is_cut=True)
    assert isinstance(facts, dict)
    return msgspec.structs.replace(found, name=masker.mask(found.name), said=masker.mask_cut(found.said), facts=facts)


def worst(diagnoses: Sequence[Diagnosis]) -> Health:
    """The health of the worst of them."""
    order = list(Health)
    return max((each.health for each in diagnoses), key=order.index, default=Health.FINE)
