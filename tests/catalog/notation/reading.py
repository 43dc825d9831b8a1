"""What the tests of the notation share: one text read, and what is wrong with one."""

from tooldispatchd.catalog.notation.places import NotationError
from tooldispatchd.catalog.notation.reader import Notation, read_notation


def read(text: str) -> Notation:
    """The text as the only file."""
    return read_notation([("f.plumb", text)])


def table(text: str, *keys: str) -> object:
    """What stands at these keys."""
    found: object = read(text).table
    for key in keys:
        assert isinstance(found, dict)
        found = found[key]
    return found


def wrong(*texts: str) -> list[str]:
    """Every problem as `LINE:COLUMN: why [nearest]`."""
    try:
        problems = read_notation(
            [(f"f{number or ''}.plumb", text) for number, text in enumerate(texts)], ("A", "B")
        ).problems
    except NotationError as error:
        problems = error.problems
    return [
        f"{each.line}:{each.column}: {each.why}" + (f" [{each.nearest}]" if each.nearest else "") for each in problems
    ]
