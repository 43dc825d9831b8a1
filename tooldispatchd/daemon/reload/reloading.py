"""Reading the configuration anew while the daemon runs.

    asked ─▶ read and checked in a thread ─▶ new places opened ─▶ equipment added ─▶ in one step: the new generation
                        │                           │                   │
                        └───────── what is wrong, and nothing has changed

Sessions that open from then on are of the new generation, living ones stay of theirs unless they are to be moved. An
old one is closed when its last session has ended. What only a start can change keeps its value, which is told.
"""

import gc
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec
import trio

from tooldispatchd.agent.log import Log
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.specs import Config
from tooldispatchd.children.family import Family
from tooldispatchd.config.config_report import MAX_SHOWN, rest_of
from tooldispatchd.config.configuration import ConfigError
from tooldispatchd.config.difference import differences
from tooldispatchd.config.stamps import Stamp
from tooldispatchd.daemon.equipment import Equipment, EquipmentError
from tooldispatchd.daemon.places.listeners import ListenError
from tooldispatchd.daemon.places.openplaces import AFTER_START, OpenPlaces
from tooldispatchd.daemon.reload.generations import MAX_LIVING, Generations, PreparedSetup, prepare
from tooldispatchd.daemon.reload.readingthread import EndlessReadingError, ReadingThread
from tooldispatchd.daemon.reload.source import ConfigurationSource
from tooldispatchd.daemon.systemd import Notifier
from tooldispatchd.daemon.webside import WebSide
from tooldispatchd.wire.faults import Code, Fault

# Of `[limits]` those of which the daemon has one account, gate or buffer for all generations.
FIXED_LIMITS: Final = (
    "processes",
    "mcp_opening",
    "buffered_bytes",
    "out_buffer_bytes",
    "stalled_s",
    "all_stored_bytes",
    "max_line_bytes",
)
FIXED_TABLES: Final = ("audit", "cache", "traces")
# While a thread reads, the loop gets the interpreter's lock back after this long, and not after Python's own 5 ms.
SWITCH_S: Final = 0.000_5
# So many collections of what is young before one of all that is older.
NEVER: Final = 2**31 - 1
EMPTY: Final = Config()


class ReloadError(Exception):
    """The configuration was not taken, and nothing has changed. `problems` have the form of `ConfigError.fields`."""

    def __init__(self, summary: str, problems: Sequence[dict[str, object]]) -> None:
        super().__init__(summary)
        self.problems = problems


TOO_MANY: Final = (
    f"sessions are open that began under {MAX_LIVING} different configurations, each of which is kept for them: end "
    "the old ones, or have all go on under the new configuration (tooldispatchd reload --apply)"
)


class TooManyGenerationsError(Exception):
    """Old generations must go before there can be another one."""


class Reloaded(msgspec.Struct, frozen=True):
    """What a reload has changed, and what takes more than that."""

    changed: tuple[str, ...]
    warnings: tuple[str, ...]


class Watch(Protocol):
    """A `watching.FileWatch`."""

    def follow(self, stamps: Mapping[Path, Stamp], *, may_write: bool) -> None: ...


class Reloader:
    """Reads the configuration anew when it is asked to, one reading at a time."""

    def __init__(
        self,
        source: ConfigurationSource,
        generations: Generations,
        equipment: Equipment,
        listening: OpenPlaces,
        *,
        move_sessions: Callable[[], Awaitable[None]],
        web: WebSide,
        family: Family,
        log: Log,
        notifier: Notifier,
    ) -> None:
        self._source = source
        self._generations = generations
        self._equipment = equipment
        self._listening = listening
        self._move_sessions = move_sessions
        self._web = web
        self._family = family
        self._log = log
        self._notifier = notifier
        self._thread = ReadingThread(self._prepare, lambda read: read[0].specs.close())
        self._one = trio.Lock()
        self._wanted = trio.Event()
        self._watch: Watch | None = None

    def ask(self) -> None:
        """Have it read soon; asked again before it has begun, it is read once."""
        self._wanted.set()

    async def run(self) -> None:
        """Read it whenever that was asked for; what is wrong is in the log. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._watch_files(nursery)
                await self._wanted.wait()
                self._wanted = trio.Event()
                with suppress(ReloadError):
                    await self.reload(applies=self._source.for_author)

    def _watch_files(self, nursery: trio.Nursery) -> None:
        """Watch the files that were read last, where the configuration says so."""
        is_wanted = self._generations.latest.setup.catalog.config.daemon.watch
        if is_wanted and self._watch is None:
            from tooldispatchd.daemon.reload.watching import FileWatch  # noqa: PLC0415  # few daemons watch theirs

            try:
                self._watch = FileWatch(self._log, self.ask)
            except OSError as error:
                self._log.warning("files not watched", why=error.strerror)
                return
            nursery.start_soon(self._watch.run)
        if self._watch is not None:
            noted = self._source.noted
            self._watch.follow(noted.stamps if is_wanted else {}, may_write=noted.ran_commands)

    async def reload(self, *, applies: bool = False) -> Reloaded:
        """Take what the files say now. Raises `ReloadError`, with what is wrong in the log too.

        If it `applies` to sessions that are open, these go on under it.
        The loop goes on meanwhile; it waits for a reload that is under way.
        """
        async with self._one:
            self._notifier.reloading()
            collecting = gc.get_threshold()
            # A collection keeps the interpreter's lock to its end, and what is made here makes one of everything due.
            # Those of what was made last take a tenth of a millisecond.
            gc.set_threshold(collecting[0], NEVER)
            try:
                reloaded = await self._taken(applies=applies)
                if applies:
                    await self._move_sessions()
                # What was made is set apart, as at the start, and freed without a collection. What a reading leaves
                # that failed has cycles, which only a collection frees.
                gc.freeze()
            finally:
                gc.set_threshold(*collecting)
                self._notifier.reloaded()
            return reloaded

    async def _taken(self, *, applies: bool) -> Reloaded:
        """As `reload`, but for the sessions that are open."""
        try:
            return await self._reload(applies=applies)
        except ReloadError:
            raise
        except (ConfigError, EndlessReadingError, ListenError, EquipmentError, TooManyGenerationsError) as error:
            problems = problems_of(error)
            self._log.error("configuration not reloaded", why=str(error).partition("\n")[0], problems=problems)
            raise ReloadError(str(error), problems) from error
        except Exception as error:  # guard: whatever a reading stumbles over, the generation of before goes on
            incident = self._log.incident("reload failed", error)
            why = f"a defect of the daemon, incident {incident}"
            raise ReloadError(why, [{"why": why, "incident": incident}]) from error

    async def answer(self, applies: bool) -> dict[str, object] | Fault:  # noqa: FBT001  # as administrators ask
        """As `reload`, for an administrator: what has changed, or what is wrong."""
        try:
            return msgspec.structs.asdict(await self.reload(applies=applies))
        except ReloadError as error:
            return Fault(Code.INVALID_REQUEST, str(error), {"problems": error.problems})

    async def _reload(self, *, applies: bool) -> Reloaded:
        with self._family.strangers():
            prepared, is_same = await self._thread.make()
        generations, runtime = self._generations, self._generations.latest
        with ExitStack() as undo:
            undo.callback(prepared.specs.close)
            if not is_same:
                await self._make_room(applies=applies)
            self._check_serving()
            catalog = runtime.setup.catalog if is_same else prepared.setup.catalog
            change = self._listening.prepare(prepared.reading.places, catalog)
            undo.callback(change.drop)
            if not is_same:
                await self._equipment.suit(prepared.setup)
                runtime = await generations.add(prepared)
                undo.callback(generations.drop, runtime)
                self._check_serving()
            undo.pop_all()
        # From here on nothing fails and nothing is waited for. An author saves again and again.
        known = generations.warnings if self._source.for_author else ()
        if is_same:
            generations.renew(prepared)
        else:
            generations.follow(runtime, prepared.reading)
        self._listening.take(change)
        self._web.renew(self._listening.web, catalog)
        told = Reloaded((*prepared.changed, *change.changed), (*prepared.warnings, *change.warnings))
        for warning in (warning for warning in told.warnings if warning not in known):
            self._log.warning("configuration", detail=warning)
        self._log.info("configuration reloaded", generation=generations.number, changed=told.changed)
        return told

    async def _make_room(self, *, applies: bool) -> None:
        """See that there may be one more generation. Raises `TooManyGenerationsError`."""
        if applies and self._generations.are_full:
            # These would leave theirs in a moment: for what is the latest until then.
            await self._move_sessions()
        if self._generations.are_full:
            raise TooManyGenerationsError(TOO_MANY)

    def _check_serving(self) -> None:
        """Raise `ReloadError` where the daemon lets nobody in any more: its places would be opened again."""
        if self._listening.is_over:
            why = "the daemon drains"
            raise ReloadError(why, [{"why": why}])

    def _prepare(self) -> tuple[PreparedSetup, bool]:
        """Read it, in a thread; and whether it says the same as before."""
        usual_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        try:
            before = self._generations.latest.setup
            reading = self._source.read()
            self._check_complete(before.catalog.config, reading.catalog.config)
            catalog, fixed = with_fixed(reading.catalog, before.catalog)
            changed = differences(before.catalog, catalog)
            prepared = prepare(
                msgspec.structs.replace(reading, catalog=catalog, warnings=(*reading.warnings, *fixed)),
                self._log,
                before.catalog.masker,
                changed=changed,
            )
            return prepared, not changed and self._generations.says_the_same(prepared)
        finally:
            sys.setswitchinterval(usual_s)

    def _check_complete(self, before: Config, config: Config) -> None:
        """Raise `ConfigError` for what may be the beginning of a file: it ends the daemon for all who could mend it."""
        path = self._source.path
        if config == EMPTY and before != EMPTY:
            raise ConfigError(f"cannot use {path}: it says nothing, no tools, no agents and no places", path)
        if before.daemon.listen and not (config.daemon.listen or self._source.has_own_places):
            why = "daemon.listen is gone, and with it every place where the daemon can be reached"
            raise ConfigError(f"cannot use {path}: {why}; that takes another start", path)


def problems_of(error: Exception) -> list[dict[str, object]]:
    """What is wrong, as `ConfigError.fields` has it; of very much only the first."""
    problems = error.fields() if isinstance(error, ConfigError) else [{"why": str(error)}]
    return [*problems[:MAX_SHOWN], *({"why": why} for why in rest_of(problems))]


def with_fixed(catalog: Catalog, before: Catalog) -> tuple[Catalog, list[str]]:
    """The catalog with the old value of all that only a start can change; and a sentence for each that was changed."""
    config, old = catalog.config, before.config
    limits = {name: getattr(old.limits, name) for name in FIXED_LIMITS}
    changed = [f"limits.{name}" for name, value in limits.items() if getattr(config.limits, name) != value]
    tables = {name: getattr(old, name) for name in FIXED_TABLES}
    changed += [f"[{name}]" for name, value in tables.items() if getattr(config, name) != value]
    if not changed:
        return catalog, []
    config = msgspec.structs.replace(config, limits=msgspec.structs.replace(config.limits, **limits), **tables)
    sentences = [f"{each} stays as it was: what has changed of it {AFTER_START}" for each in changed]
    return msgspec.structs.replace(catalog, config=config), sentences
