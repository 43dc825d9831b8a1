"""A private daemon in which each server of a configuration can be started by itself: `python -m … FILE DIRECTORY`.

It serves one channel on stdin and stdout, with a profile for each server, of the server's name, and nothing else: no
tool, no audit, no cache, no other place to listen. What a server needs of a session's workspace it finds in DIRECTORY.
"""

import sys
from pathlib import Path

import msgspec
import trio

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.profiles import Profile, ServerUse
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.catalog.specs import Config
from tooldispatchd.children.descriptors import occupy_standard, raise_limit
from tooldispatchd.config.configuration import ConfigError
from tooldispatchd.daemon.logs import open_log
from tooldispatchd.daemon.reload.source import ConfigurationSource, Reading
from tooldispatchd.daemon.start import DaemonStart, serve
from tooldispatchd.daemon.systemd import Notifier


def main(config: str, directory: str) -> int:
    """Serve until stdin ends; the exit code, as that of `serve`."""
    occupy_standard()
    raise_limit()
    try:
        source = TrialSource(Path(config), directory)
        reading = source.read()
    except ConfigError as error:
        # Only what it runs or reads can have changed since the doctor read it.
        print(error, file=sys.stderr)  # noqa: T201  # to the doctor
        return 2
    masker = reading.catalog.masker
    log = open_log("error", masker)
    return trio.run(serve, DaemonStart(source, reading, (), Notifier({}), None, log, masker))


class TrialSource(ConfigurationSource):
    """A configuration, of which the trial makes its own."""

    def __init__(self, path: Path, directory: str) -> None:
        super().__init__(path, listen=("stdio",), standing="stdio")
        self._directory = directory

    def read(self) -> Reading:
        """As of any configuration."""
        reading = super().read()
        return msgspec.structs.replace(reading, catalog=trial_catalog(reading.catalog, self._directory))


def trial_catalog(catalog: Catalog, directory: str) -> Catalog:
    """A catalog with a profile for each server that is enabled, and no tools."""
    servers = {name: _eager(binding) for name, binding in catalog.servers.items()}
    profiles = {
        name: _profile(name, catalog, directory) for name, binding in catalog.servers.items() if binding.spec.enabled
    }
    # What else the configuration has, such as an audit, is the running daemon's.
    own = catalog.config
    config = Config(mcp=own.mcp, limits=own.limits, queues=own.queues)
    trial = Catalog(config, {}, profiles, {}, servers, (), rules=catalog.rules, masker=catalog.masker)
    return msgspec.structs.replace(trial, enforceable=catalog.enforceable)


def _eager(binding: Binding) -> Binding:
    """A server that is started at once, and once; its session offers nothing beside its tools."""
    spec = msgspec.structs.replace(binding.spec, lazy=False, restart="never", max_output=None, overflow=None)
    return msgspec.structs.replace(binding, spec=spec)


def _profile(name: str, catalog: Catalog, directory: str) -> Profile:
    """The profile that one server is started under, bounded as the first one that has it."""
    users = (profile for profile in catalog.profiles.values() if any(use.server == name for use in profile.servers))
    bounds = next((profile.confinement for profile in users), None)
    profile = Profile(name, (), (ServerUse(name),), jobs=False, workspace=directory)
    return profile if bounds is None else msgspec.structs.replace(profile, confinement=bounds)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
