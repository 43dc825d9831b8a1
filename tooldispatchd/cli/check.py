"""`tooldispatchd check`: say whether a configuration can be used, and what is wrong with it."""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tooldispatchd.cli.jsontext import shown_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.description = (
        "Check a configuration and say all that is wrong with its form, or, once its form is right, with its meaning. "
        "The files that it names are read; "
        "of programs, working directories and roots that are not there it warns. No daemon, server or program is "
        "started, and no ${command:…} run; modules of Python tools are imported, in processes of their own, to read "
        "their signatures. "
        "Exits with 0 if it can be used, else with 2."
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the file to check; by default the one that serve would take (./tooldispatchd.toml, then "
        "$XDG_CONFIG_HOME/tooldispatchd/config.toml, then /etc/tooldispatchd/config.toml)",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print what was understood: each type, tool, process, server and profile, where it was written, how it "
        "runs, its limits, what its program is bounded by and shut in with, and who may call it",
    )
    parser.add_argument(
        "--commands",
        action="store_true",
        help="run each ${command:…}, as serve does; by default something stands in the place of what it would print",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object on stdout and nothing else: ok, problems (each with file, line, column, key, why, "
        "value, allowed, did_you_mean; null where there is none) and warnings; exit codes are the same",
    )
    parser.add_argument(
        "--sandbox",
        action="store_true",
        help="try what this machine can enforce on programs, and print it; without --config nothing else is checked",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what the configuration holds, or its report on stderr; gives the exit code."""
    from tooldispatchd.catalog.explanation import explain
    from tooldispatchd.catalog.hookspec import tools_of
    from tooldispatchd.children.descriptors import occupy_standard
    from tooldispatchd.config.config_report import printable
    from tooldispatchd.config.configuration import ConfigError, find_configuration, load
    from tooldispatchd.config.http_places import explain_places
    from tooldispatchd.config.machine import absent

    occupy_standard()
    if arguments.json and (arguments.explain or arguments.sandbox):
        print("tooldispatchd: --json goes with neither --explain nor --sandbox", file=sys.stderr)
        return 2
    if arguments.sandbox:
        code = _try_sandbox()
        if code or arguments.config is None:
            return code
    try:
        path: Path = arguments.config or find_configuration(os.environ)
        loaded = load(path, os.environ, runs_commands=arguments.commands)
    except ConfigError as error:
        if arguments.json:
            _print_json(error.fields(), [])
        else:
            print(error, file=sys.stderr)
        return 2
    catalog = loaded.catalog
    warnings = [printable(each) for each in (*catalog.warnings, *absent(catalog, os.environ))]
    if arguments.json:
        _print_json([], warnings)
        return 0
    for warning in warnings:
        print(f"{path}: warning: {warning}", file=sys.stderr)
    counts = (
        _count(len(catalog.tools) - len(tools_of(catalog.config.hooks)), "tool"),
        _count(sum(spec.enabled for spec in catalog.config.mcp.values()), "server"),
        _count(len(catalog.profiles), "profile"),
    )
    print(f"{path}: fine: {', '.join(counts)}")
    locked = catalog.locked
    # Where no profile asks for anything there is nothing to compare.
    if catalog.is_protected or locked or arguments.explain:
        for name, profile in catalog.profiles.items():
            needs = _needs(profile.uids or (), profile.gids or (), has_token=name in catalog.tokens)
            needs = "opened for its own program alone" if name in locked else needs
            table = next((path for path in catalog.config.profile_tables() if path[1] == name), None)
            at = f" ({loaded.where(table)})" if arguments.explain and table is not None else ""
            print(f"    profile {name}: {needs}{printable(at)}")
    for line in (*explain(catalog, loaded.where), *explain_places(catalog)) if arguments.explain else ():
        print(f"    {printable(line)}")
    return 0


def _needs(uids: Iterable[int], gids: Iterable[int], *, has_token: bool) -> str:
    """What somebody needs to open a profile."""
    owners = [*(f"uid {uid}" for uid in sorted(uids)), *(f"gid {gid}" for gid in sorted(gids))]
    asked = [*(["a token"] if has_token else []), *([" or ".join(owners)] if owners else [])]
    return f"needs {' and '.join(asked)}" if asked else "open to everyone who may connect"


def _print_json(problems: list[dict[str, object]], warnings: list[str]) -> None:
    found = {"ok": not problems, "problems": problems, "warnings": warnings}
    print(shown_json(found, indent=2))


def _try_sandbox() -> int:
    """Print what this machine can enforce; the exit code."""
    from tooldispatchd.children.abilities import AbilitiesError, read_abilities
    from tooldispatchd.cli.sandbox import report
    from tooldispatchd.config.machine import cgroup_lacks

    try:
        abilities = read_abilities()
    except AbilitiesError as error:
        print(f"tooldispatchd: {error}", file=sys.stderr)
        return 1
    print(*report(abilities, cgroup_lacks()), sep="\n")
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
