"""The catalog: every declared tool, every profile and every server's prefix, built from one configuration. Pure.

A configuration gives a catalog or its problems, never a part of each.
"""

import msgspec

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.profiles import Profile, assign_prefixes, build_profiles, disabled_uses
from tooldispatchd.catalog.specs import Config
from tooldispatchd.catalog.tools import DeclaredTool, build_tools


class Catalog(msgspec.Struct, frozen=True):
    """What sessions share: they read it and never change it.

    `tools` by declared name, `profiles` by name, `prefixes` by binding (each unique, or empty where the server offers
    raw names); `warnings` are whole sentences for the log.
    """

    config: Config
    tools: dict[str, DeclaredTool]
    profiles: dict[str, Profile]
    prefixes: dict[str, str]
    warnings: tuple[str, ...]


def build_catalog(config: Config) -> Catalog | list[Problem]:
    """The catalog, or every problem of its tools and profiles, in the order tools, profiles."""
    tools, problems = build_tools(config)
    profiles, unknown = build_profiles(config)
    problems = [*problems, *unknown]
    if problems:
        return problems
    prefixes, warnings = assign_prefixes(config.mcp)
    return Catalog(config, tools, profiles, prefixes, (*warnings, *disabled_uses(config)))
