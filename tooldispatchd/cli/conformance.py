"""`tooldispatchd conformance`: the runner of `protocol/conformance`, which is a program of its own."""

import argparse
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

HERE: Final = Path(__file__).parent.parent
# A wheel has it in the package; in the project's own directory it lies beside that.
PLACES: Final = (HERE / "protocol", HERE.parent / "protocol")
# Without a command of another daemon it plays against this one, which can all but these.
CANNOT: Final = frozenset({"approval", "slow"})


@cache
def _runner() -> ModuleType:
    path = next(place for place in (each / "conformance" / "run.py" for each in PLACES) if place.exists())
    spec = spec_from_file_location("conformance", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Its dataclasses look up their module by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.description = "Hold a daemon, or an agent, to the protocol; without further words, this daemon."
    _runner().add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Play, and give the exit code: 0 where nothing failed, 1 where something did, 2 where nothing could be played."""
    runner = _runner()
    if not any((arguments.start, arguments.socket, arguments.stdio, arguments.pair, arguments.agent, arguments.list)):
        serve = f"{sys.executable} -m tooldispatchd serve --config {{directory}}/{{name}}.toml --listen unix:{{socket}}"
        arguments.start = serve
        arguments.level = arguments.level or list(runner.LEVELS)
        arguments.can += sorted(runner.UNSAID - CANNOT)
    code: int = runner.run(arguments)
    return code
