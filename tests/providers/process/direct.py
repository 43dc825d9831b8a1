"""Starts children from the test's own process, with no policy."""

from collections.abc import Mapping, Sequence

from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child
from tooldispatchd.providers.process.running import ChildStarter


def directly(family: Family, cwd: str | None = None) -> ChildStarter:
    """Starts children from the daemon itself, in `cwd`."""

    async def launch(argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool) -> Child:  # noqa: ASYNC124  # others wait
        return family.spawn(argv, env=env, cwd=cwd, with_updates=with_updates)

    return launch
