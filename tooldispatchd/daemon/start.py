"""From the start of a daemon to its end: what it is made of, and the nurseries that this lives in.

background ── timer, front, signals, reloads
home ─────── sessions (each with its own nursery), channels on streams
"""

import gc
import os
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import msgspec
import trio

from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.tools.introductionfile import LAST_S, IntroductionFile
from tooldispatchd.agent.tools.warming import renew_servers
from tooldispatchd.calls.memory import Memory
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.children.descriptors import raise_limit, require_free
from tooldispatchd.children.family import Family, open_family
from tooldispatchd.daemon.adminside import AdminDoor
from tooldispatchd.daemon.daemon import Daemon, LongestTurn
from tooldispatchd.daemon.equipment import Equipment, EquipmentError, open_equipment
from tooldispatchd.daemon.heap import Heap
from tooldispatchd.daemon.logs import DaemonLog
from tooldispatchd.daemon.places.inheritance import Handed
from tooldispatchd.daemon.places.opening import Opening
from tooldispatchd.daemon.reload.generations import Generations, PreparedSetup, prepare
from tooldispatchd.daemon.reload.reloading import Reloader
from tooldispatchd.daemon.reload.source import ConfigurationSource, Reading
from tooldispatchd.daemon.systemd import Notifier, open_pulse
from tooldispatchd.daemon.webside import WebSide, open_web_side
from tooldispatchd.forked.signals import IGNORED, STOPPING
from tooldispatchd.front.front import Front
from tooldispatchd.front.timer import Timer


class DaemonStart(msgspec.Struct, frozen=True):
    """What a daemon is started with.

    `reading` is the first one of `source`, `handed` are the sockets of its unit that a service manager gave, `left` the
    sockets and locks that it kept of a daemon before this one, and `masker` is that of the log. `take_over` says that
    the daemon which runs is to be taken over, and as which profile; "" is none.
    """

    source: ConfigurationSource
    reading: Reading
    handed: Handed
    notifier: Notifier
    watchdog_s: float | None
    log: DaemonLog
    masker: Masker
    left: Handed = ()
    take_over: str | None = None


async def serve(start: DaemonStart) -> int:
    """Run the daemon until it is stopped, or the last of its places is gone; the exit code.

    Raises `ListenError` for a place that cannot be listened on, `EquipmentError` where its programs cannot be run as
    they should be.
    """
    descriptors = raise_limit()
    log = start.log
    # SIGHUP is that of a closed terminal: with nohup it is ignored, and stays so.
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    with ExitStack() as bound, trio.open_signal_receiver(*STOPPING, *hung_up, *IGNORED) as signals:
        # Signals drain from here on: whoever reads that the daemon is ready may stop it at once.
        opening = Opening(
            start.reading.places,
            start.reading.catalog,
            start.handed,
            store=start.notifier,
            log=log,
            take_over=start.take_over,
        )
        bound.callback(opening.close)
        await opening.begin(start.left)
        prepared = prepare(start.reading, log, start.masker)
        # After the last agent has ended, which needs them.
        bound.callback(prepared.specs.close)
        try:
            require_free()
        except OSError as error:
            raise EquipmentError(f"cannot serve: {error.strerror}") from error
        async with (
            open_family() as family,
            open_equipment(family, os.environ, log, start.masker) as equipment,
            open_web_side(prepared.setup, family) as web,
            trio.open_nursery() as background,
        ):
            await equipment.suit(prepared.setup)
            background.start_soon(family.keep_guarded, partial(log.warning, "guardian replaced"))
            background.start_soon(family.end_orphans)
            ground = _Ground(start, prepared, family, equipment, web, descriptors, background)
            daemon = await _live(ground, opening, signals, bound)
            background.cancel_scope.cancel()
    log.info("daemon stopped", forced=daemon.is_forced, **daemon.turns.fields())
    return 1 if daemon.is_forced else 0


class _Ground(NamedTuple):
    """What a daemon stands on; its services run in `background`."""

    start: DaemonStart
    prepared: PreparedSetup
    family: Family
    equipment: Equipment
    web: WebSide
    descriptors: int
    background: trio.Nursery


async def _live(ground: _Ground, opening: Opening, signals: AsyncIterator[int], bound: ExitStack) -> Daemon:
    """Make the daemon, run it to its end, and give it; `bound` closes what outlives its agents."""
    start, equipment, web, background = ground.start, ground.equipment, ground.web, ground.background
    limits = start.reading.catalog.config.limits
    timer, heap = Timer(start.log), Heap()
    front = Front(timer, start.log, out_buffer_bytes=limits.out_buffer_bytes, stalled_s=limits.stalled_s)
    for service in (timer.run, front.run, heap.run, heap.free):
        background.start_soon(service)
    async with trio.open_nursery() as home:
        memory = Memory(limits.buffered_bytes, ebbed=heap.ebbed, let_go=heap.let_go)
        runtime = _runtime(ground, front, home, memory)
        generations = Generations(runtime, ground.prepared, equipment, masker=start.masker, front=front, heap=heap)
        bound.callback(generations.close)
        daemon = Daemon(
            runtime,
            front,
            start.log,
            start.notifier,
            web=web,
            latest=lambda: generations.latest,
            handed=start.handed,
            descriptors=ground.descriptors,
        )
        reloader = Reloader(
            start.source,
            generations,
            equipment,
            daemon.places,
            move_sessions=daemon.move_sessions,
            web=web,
            family=ground.family,
            log=start.log,
            notifier=start.notifier,
        )
        background.start_soon(reloader.run)
        receive = partial(daemon.receive_signals, reload=reloader.ask, kill_children=ground.family.kill_all)
        background.start_soon(receive, signals)
        daemon.reload, daemon.configuration = reloader.answer, generations.configuration
        runtime.services.admin = AdminDoor(daemon, daemon.latest)
        memory.short = runtime.services.sharing.shed
        web.cold = lambda: runtime.services.sharing.cold
        introductions = IntroductionFile(runtime.services.sharing.introductions, os.environ)
        background.start_soon(introductions.run)
        renew_servers(runtime)
        await _run(daemon, front, start, opening)
        home.cancel_scope.cancel()
    with trio.move_on_after(LAST_S):
        await introductions.write()
    await runtime.services.checkers.close()
    return daemon


async def _run(daemon: Daemon, front: Front, start: DaemonStart, opening: Opening) -> None:
    """Let agents in, say that the daemon is ready, and run it to its end."""
    await opening.finish()
    daemon.serve(opening.opened)
    # What exists now stays: the collector need not scan it again and again while every agent waits.
    gc.collect()
    gc.freeze()
    # `tooldispatchd serve` starts without it.
    gc.enable()
    with open_pulse(front, start.notifier, watchdog_s=start.watchdog_s, status=lambda: daemon.status):
        start.log.info("daemon ready", listening=[place.text for place in start.reading.places], pid=os.getpid())
        start.notifier.ready(daemon.status)
        opening.ready()
        # The start is nobody's turn.
        daemon.turns = LongestTurn()
        trio.lowlevel.add_instrument(daemon.turns)
        await daemon.run()
        trio.lowlevel.remove_instrument(daemon.turns)


def _runtime(ground: _Ground, front: Front, home: trio.Nursery, memory: Memory) -> Runtime:
    """The first generation, and what it shares with all that follow."""
    setup, equipment = ground.prepared.setup, ground.equipment
    services = Services(
        setup,
        timer=front.timer,
        home=home,
        family=ground.family,
        audit=equipment.audit,
        make_spool=equipment.make_spool,
        steps=equipment.steps,
        front=front,
    )
    return Runtime(setup, services, DaemonState(setup, cores=os.cpu_count() or 1, uid=os.geteuid(), memory=memory))
