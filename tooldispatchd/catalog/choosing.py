"""Which declared tools the entries of `tools` and `allow` stand for: names, aliases and patterns. Pure."""

from collections.abc import Mapping

from tooldispatchd.catalog.globs import NameList, is_glob
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config


def aliases_of(config: Config) -> dict[str, str]:
    """The tool that each alias means."""
    return {alias: name for name, spec in config.tools.items() for alias in spec.aliases}


def alias_problems(config: Config) -> list[Problem]:
    """A problem for each alias that another tool has, as its name or as an alias too."""
    problems: list[Problem] = []
    owners: dict[str, str] = {}
    for name, spec in config.tools.items():
        for index, alias in enumerate(spec.aliases):
            path = ("tools", name, "aliases", index)
            other = owners.setdefault(alias, name)
            if alias in config.tools:
                problems.append(Problem(path, f"{alias} cannot mean {name}: it is the name of tools.{alias}"))
            elif other != name:
                problems.append(Problem(path, f"{alias} cannot mean {name}: it is an alias of tools.{other}"))
    return problems


def declared_names(entry: str, config: Config, aliases: Mapping[str, str]) -> list[str]:
    """The declared tools that an entry of `tools` stands for; of a pattern those that need not be named."""
    if is_glob(entry):
        return NameList([entry]).of(name for name, spec in config.tools.items() if spec.expose is True)
    name = aliases.get(entry, entry)
    return [name] if name in config.tools else []
