"""The generations of a daemon: what is made of each reading of the configuration, and for how long.

    reading ──▶ PreparedSetup ──▶ Runtime: the latest ──▶ followed by another ──▶ its last session ends ──▶ closed

A reading that says the same as the one before makes no generation.

What a generation needs of the daemon's equipment is kept as long as it lives, by the value of what it is made of: so a
warm parent, a kept connection or a queue that two generations say alike is one.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

import msgspec

from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.log import Log
from tooldispatchd.agent.runtime import Runtime, Services
from tooldispatchd.agent.session.administration import ReadConfiguration
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.tools.accounts import accounts_of
from tooldispatchd.agent.tools.declaredplans import plan_ahead
from tooldispatchd.agent.tools.servers import preload_ways
from tooldispatchd.agent.tools.warming import renew_servers
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.config.difference import are_same
from tooldispatchd.daemon.equipment import Equipment, open_agent_specs
from tooldispatchd.daemon.heap import Heap
from tooldispatchd.daemon.reload.source import Reading
from tooldispatchd.front.front import Front

# Whose the secrets are that the masker has learned of the generations that live.
CONFIGURATION: Final = "configuration"
# Each takes memory, some 0.1 MB for each of its tools; where there are more, sessions were forgotten.
MAX_LIVING: Final = 8


class PreparedSetup(msgspec.Struct, frozen=True):
    """A configuration, read and right; `specs` holds the files that its agents are told of.

    `secrets` are the values that it names, which the masker of the daemon is still to learn.
    """

    reading: Reading
    setup: Setup
    specs: ExitStack
    secrets: frozenset[str]
    changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def prepare(reading: Reading, log: Log, masker: Masker, *, changed: Iterable[str] = ()) -> PreparedSetup:
    """The setup of a reading, with the files that its agents are told of. Raises `EquipmentError`.

    Every generation masks with the one `masker` of the daemon: what one of them knows no other one tells.
    """
    catalog = msgspec.structs.replace(reading.catalog, masker=masker)
    with ExitStack() as specs:
        # What is imported now is imported before anybody waits for it.
        preload_ways(catalog)
        paths = specs.enter_context(open_agent_specs(catalog, os.environ))
        setup = Setup(catalog, log, uid=os.geteuid(), agent_specs=paths)
        return PreparedSetup(
            reading, setup, specs.pop_all(), reading.catalog.masker.secrets, tuple(changed), reading.warnings
        )


def parts_of(catalog: Catalog) -> Iterator[object]:
    """The parts of a catalog: each tool, server and profile, as it was written and as it was built."""
    for whole in (catalog.config, catalog):
        for name in whole.__struct_fields__:
            part = getattr(whole, name)
            if isinstance(part, dict):
                yield from part.values()


class HeldGeneration(NamedTuple):
    """What a generation holds that lives: the files that its agents are told of, and its secrets."""

    specs: ExitStack
    secrets: frozenset[str]


class Generations:
    """The generations of a daemon that live: the latest, and those before it that have sessions."""

    def __init__(
        self,
        first: Runtime,
        prepared: PreparedSetup,
        equipment: Equipment,
        *,
        masker: Masker,
        front: Front,
        heap: Heap,
    ) -> None:
        self.latest = first
        self.number = 1
        self._front = front
        self._heap = heap
        self._equipment = equipment
        self._masker = masker
        self._reading = prepared.reading
        self._living: dict[Runtime, HeldGeneration] = {first: HeldGeneration(prepared.specs, prepared.secrets)}
        self._suit(first.services, prepared.setup)
        self._keep()

    def __len__(self) -> int:
        return len(self._living)

    def configuration(self) -> ReadConfiguration:
        """What the latest was read from."""
        reading = self._reading
        told = (str(reading.path), reading.sha256, reading.loaded_at, self.number)
        return ReadConfiguration(*told, reading.origin_of)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the reading that the latest was made of."""
        return self._reading.warnings

    @property
    def are_full(self) -> bool:
        """Whether one more would be too many; the latest makes room for it where it has no sessions."""
        return len(self) - self.latest.is_empty >= MAX_LIVING

    def says_the_same(self, prepared: PreparedSetup) -> bool:
        """Whether this would be the same generation as the latest. It takes its time."""
        is_known = self._living[self.latest].secrets == prepared.secrets
        return is_known and are_same(self.latest.setup.catalog, prepared.setup.catalog)

    def renew(self, prepared: PreparedSetup) -> None:
        """The latest was read again, as it is."""
        prepared.specs.close()
        self._take(msgspec.structs.replace(prepared.reading, catalog=self.latest.setup.catalog))
        self._heap.take_apart(parts_of(prepared.setup.catalog))

    async def add(self, prepared: PreparedSetup) -> Runtime:
        """A generation of this, which is to `follow`; profiles that have plans in the latest have them in it."""
        services = self.latest.services
        self._suit(services, prepared.setup)
        runtime = Runtime(prepared.setup, services, self.latest.state)
        self._living[runtime] = HeldGeneration(prepared.specs, prepared.secrets)
        try:
            for key in self.latest.planned:
                if key in prepared.setup.catalog.profiles:
                    await plan_ahead(runtime, key)
        except BaseException:
            self.drop(runtime)
            raise
        return runtime

    def drop(self, runtime: Runtime) -> None:
        """One that was added is not to follow after all."""
        runtime.retire(partial(self._left, runtime))

    def follow(self, runtime: Runtime, reading: Reading) -> None:
        """From now on sessions that open are of the one that was added; that before it goes with its last session."""
        before, self.latest = self.latest, runtime
        self.number += 1
        self._take(reading)
        self._keep()
        renew_servers(runtime)
        before.retire(partial(self._left, before))

    def close(self) -> None:
        """Remove the files of all; no session is left."""
        for held in self._living.values():
            held.specs.close()

    def _take(self, reading: Reading) -> None:
        """What was written is kept for the latest alone: with its secrets, and as large as the files."""
        self._reading.origin_of.forget()
        self._reading = reading

    def _suit(self, services: Services, setup: Setup) -> None:
        """Give what runs calls the equipment that is there now."""
        equipment = self._equipment
        services.programs.equip(equipment.bounds)
        services.python, services.rest = equipment.python, equipment.rest
        services.accounts = services.accounts or accounts_of(setup.catalog, os.environ, setup.log)
        if equipment.tool_lists is not None and services.lender is None:
            # Few daemons have agents among their tools.
            from tooldispatchd.agent.subagents import SubAgents  # noqa: PLC0415  # a wing

            services.lender = SubAgents(self._front, equipment.tool_lists)

    def _left(self, runtime: Runtime, plans: list[Plan]) -> None:
        self._living.pop(runtime).specs.close()
        self._keep()
        self._heap.take_apart([*parts_of(runtime.setup.catalog), *plans])

    def _keep(self) -> None:
        setups = [each.setup for each in self._living]
        for planner in (self._equipment.python, self._equipment.rest):
            if planner is not None:
                planner.keep(setups)
        # Sessions of an old one may still say what no other knows.
        self._masker.learn(CONFIGURATION, frozenset().union(*(each.secrets for each in self._living.values())))
