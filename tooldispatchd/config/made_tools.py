"""Tools that are made of other tables than those of `[tools]`: of toolboxes, of documents of OpenAPI, of other forms.

It is remembered of which table each was made, so that whatever is wrong with one is told of that.
"""

import msgspec

from tooldispatchd.catalog.catalog import DescribedApi
from tooldispatchd.catalog.problems import Path, Problem


class MadeTools(msgspec.Struct, frozen=True):
    """What was made: for the place of each table, and of its keys, that of what it was made of.

    `apis` are those that documents describe.
    """

    places: dict[Path, Path] = {}
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    apis: dict[str, DescribedApi] = {}
