"""What agents send, beside an honest agent.

`make attack` makes them one by one; `make soak` briefly and in a row too. `stage.Figures.wrongs` and `stage.end` say
what is promised beside each of them.
"""

from typing import Final

import pytest

from tests.attack.stage import Attack, best_of, scenes

LINES: Final = (
    Attack("small lists"),
    Attack("small numbers", is_twin=True),
    Attack("fractions", is_twin=True),
    Attack("small records", is_twin=True),
    Attack("small texts", is_twin=True),
    Attack("small lists for no tool"),
    Attack("small lists that break off"),
    Attack("names"),
    Attack("escapes", is_twin=True),
    Attack("no ASCII", is_twin=True),
    Attack("hellos of 8 MiB"),
    Attack("pings of 8 MiB", is_twin=True),
    Attack("fields that nobody knows", is_twin=True),
    Attack("answers to no question", is_twin=True),
    Attack("nested requests"),
    Attack("ids of 8 MiB", is_twin=True),
    Attack("lines of 8 MiB", 4),
    Attack("half a line of 8 MiB", 200),
    Attack("floods", 16),
    Attack("wrong tokens", 50),
)
SCHEMAS: Final = (
    Attack("an enum of 2,000 pairs"),
    Attack("enum of numbers and texts", is_twin=True),
    Attack("dependent names"),
    Attack("long allOf"),
    Attack("long anyOf", is_twin=True),
    Attack("unique values", is_twin=True),
    Attack("integers over 64 bits", is_twin=True),
    Attack("large exponents", is_twin=True),
    Attack("patterns"),
    Attack("repeated patterns", is_twin=True),
)
INPUTS: Final = (
    Attack("copies"),
    Attack("inputs of a program"),
    Attack("inputs as text"),
    Attack("inputs as arguments", is_twin=True),
    Attack("inputs of a function", is_twin=True),
    Attack("inputs of echo"),
    Attack("inputs of http_echo"),
    Attack("inputs of ws_echo"),
)
SCENES: Final = scenes({"lines": LINES, "schemas": SCHEMAS, "inputs": INPUTS})


@pytest.mark.parametrize("scene", SCENES)
def test_others_are_served_and_nothing_is_left(scene: str) -> None:
    wrongs = best_of(SCENES[scene])
    assert not wrongs, "\n".join(wrongs)
