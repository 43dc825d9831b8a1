"""The catalog: every declared tool, every profile and every server's prefix, built from one configuration. Pure.

A configuration gives a catalog or its problems, never a part of each.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.profiles import (
    Profile,
    assign_prefixes,
    build_profiles,
    digest_of,
    disabled_uses,
    token_problem,
)
from tooldispatchd.catalog.specs import Config
from tooldispatchd.catalog.tools import DeclaredTool, build_tools

_NO_TOKENS: Final[Mapping[str, bytes]] = MappingProxyType({})


class Catalog(msgspec.Struct, frozen=True):
    """What sessions share: they read it and never change it.

    `tools` by declared name, `profiles` by name, `prefixes` by binding (each unique, or empty where the server offers
    raw names); `warnings` are whole sentences for the log. `tokens` holds the SHA-256 of each profile's token, where it
    has one; `config` holds none.
    """

    config: Config
    tools: dict[str, DeclaredTool]
    profiles: dict[str, Profile]
    prefixes: dict[str, str]
    warnings: tuple[str, ...]
    tokens: dict[str, bytes] = {}

    @property
    def is_protected(self) -> bool:
        """Whether any profile asks for a token, a user or a group."""
        return bool(self.tokens) or any(profile.is_bound for profile in self.profiles.values())


def build_catalog(config: Config, tokens: Mapping[str, bytes] = _NO_TOKENS) -> Catalog | list[Problem]:
    """The catalog, or every problem of its tools and profiles, in the order tools, profiles, tokens.

    `tokens` are the digests of those that stand outside of `config`, by profile.
    """
    wrong = _wrong_tokens(config, tokens)
    own = {name: digest_of(spec.token) for name, spec in config.agents.items() if spec.token is not None}
    config = _without_tokens(config) if own else config
    tools, problems = build_tools(config)
    profiles, unknown = build_profiles(config)
    problems = [*problems, *unknown, *wrong]
    if problems:
        return problems
    prefixes, warnings = assign_prefixes(config.mcp)
    warnings = [*warnings, *disabled_uses(config)]
    return Catalog(config, tools, profiles, prefixes, tuple(warnings), {**tokens, **own})


def _without_tokens(config: Config) -> Config:
    agents = {name: msgspec.structs.replace(spec, token=None) for name, spec in config.agents.items()}
    return msgspec.structs.replace(config, agents=agents)


def _wrong_tokens(config: Config, tokens: Mapping[str, bytes]) -> list[Problem]:
    problems: list[Problem] = []
    for name, spec in config.agents.items():
        if spec.token is not None:
            why = token_problem(spec.token)
            problems += [Problem(("agents", name, "token"), why)] if why else []
        elif (spec.token_env is not None or spec.token_file is not None) and name not in tokens:
            # Its profile would be open to everyone.
            problems.append(Problem(("agents", name), "its token has not been read"))
    return problems
