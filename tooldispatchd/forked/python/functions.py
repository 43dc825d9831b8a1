"""Find the function of a Python tool: import its module and look its name up, or say in a sentence why not.

Runs in the tool's own interpreter, where the module's code runs too: any exception of that is told, and ends nothing.
"""

import difflib
import importlib
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Iterable

# Of what a module said when it failed, and of the sentence that says so.
MAX_LINE = 400
MAX_WORDS = 800
# How much a name is like the one that was meant: difflib's own measure; and of one letter in seven.
LIKENESS = 0.6
ONE_SLIP = 0.85


class FunctionError(Exception):
    """A function that cannot be a tool: `why` says so in a sentence, `nearest` is the name that was probably meant."""

    def __init__(self, why: str, nearest: str | None = None) -> None:
        self.why = why if len(why) <= MAX_WORDS else why[: MAX_WORDS - 1] + "…"
        super().__init__(self.why)
        self.nearest = nearest


def find_function(path: str) -> object:
    """The object that `package.module:function` or `package.module:Class.method` names; raises FunctionError.

    A method must be static or of the class: there is no object for another one.
    """
    module_name, _, names = path.partition(":")
    found: object = _import(module_name, names)
    holder = f"the module {module_name}"
    steps = names.split(".")
    for place, name in enumerate(steps):
        # A plain function of a class would be given an object first.
        if isinstance(found, type) and inspect.isfunction(inspect.getattr_static(found, name, None)):
            raise FunctionError(f"{names} is a method of an object; only static and class methods can be tools")
        try:
            found = getattr(found, name)
        except AttributeError:
            prefix = f"{module_name}:{''.join(f'{step}.' for step in steps[:place])}"
            known = (other for other in dir(found) if not other.startswith("_"))
            meant = _nearest(name, (one for one in known if callable(inspect.getattr_static(found, one, None))))
            raise FunctionError(f"{holder} has no {name}", None if meant is None else prefix + meant) from None
        holder = f"{module_name}:{'.'.join(steps[: place + 1])}"
    return found


def last_line(error: BaseException) -> str:
    """The last line that is printed of an exception: its class and its message in one line, cut at 400 characters."""
    words = " ".join("".join(traceback.format_exception_only(type(error), error)).splitlines()[-1:])
    return words if len(words) <= MAX_LINE else words[: MAX_LINE - 1] + "…"


def _import(name: str, names: str) -> object:
    """The module `name`, to look for `names` in; raises FunctionError, which says what part of it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name
        # A module that the tool's own one lacks is another matter.
        if missing is None or not f"{name}.".startswith(f"{missing}."):
            raise FunctionError(f"cannot import {name}: {last_line(error)}") from error
        parent, _, last = missing.rpartition(".")
        places = getattr(sys.modules.get(parent), "__path__", None) if parent else None
        if parent and places is None:
            raise FunctionError(f"{parent} is a module and no package, so that there is no {missing}") from error
        # Among hundreds of installed modules one that is a little alike is always found.
        likeness = LIKENESS if parent else ONE_SLIP
        meant = _nearest(last, {module.name for module in pkgutil.iter_modules(places)}, likeness)
        above, below = f"{parent}." if parent else "", name[len(missing) :]
        nearest = None if meant is None else f"{above}{meant}{below}:{names}"
        raise FunctionError(f"there is no module {missing}", nearest) from error
    # The module is a user's: it may raise anything, and end the interpreter that asks.
    except (Exception, SystemExit) as error:
        raise FunctionError(f"cannot import {name}: {last_line(error)}") from error


def _nearest(name: str, known: Iterable[str], likeness: float = LIKENESS) -> str | None:
    return next(iter(difflib.get_close_matches(name, sorted(known), 1, likeness)), None)
