"""What makes tools of other tables than those of `[tools]`, each imported where a configuration has such a table."""

from collections.abc import Mapping

from tooldispatchd.config.key_patterns import Table, places
from tooldispatchd.config.made_tools import MadeTools


def make_tools(table: Table, secrets: Mapping[tuple[str, str], str], environ: Mapping[str, str]) -> MadeTools:
    """Write out, in place, whatever of a table that is well formed means tools; `secrets` are what was read for it."""
    made: list[MadeTools] = []
    # Few configurations have any of these.
    if "toolbox" in table or _has(table, ("tools", "*", "builtin")):
        from tooldispatchd.config.toolboxes import take_toolboxes  # noqa: PLC0415  # as above

        made.append(take_toolboxes(table, secrets))
    if "openapi" in table or _has(table, ("agents", "*", "openapi")):
        from tooldispatchd.config.openapis import take_openapis  # noqa: PLC0415  # as above

        made.append(take_openapis(table, environ))
    if "hooks" in table:
        from tooldispatchd.config.hooks import take_hooks  # noqa: PLC0415  # as above

        made.append(take_hooks(table))
    if "restTools" in table:
        from tooldispatchd.config.foreign_requests import take_requests  # noqa: PLC0415  # as above

        made.append(take_requests(table))
    return MadeTools(
        {path: place for each in made for path, place in each.places.items()},
        tuple(problem for each in made for problem in each.problems),
        tuple(warning for each in made for warning in each.warnings),
        {name: api for each in made for name, api in each.apis.items()},
    )


def _has(table: Table, pattern: tuple[str, ...]) -> bool:
    return any(True for _ in places(table, pattern))
