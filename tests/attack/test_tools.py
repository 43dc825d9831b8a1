"""What programs and servers say, and agents make of it, beside an honest agent.

`make attack` makes them one by one; `make soak` briefly and in a row too. `stage.Figures.wrongs` and `stage.end` say
what is promised beside each of them.
"""

from typing import Final

import pytest

from tests.attack.stage import PROGRAM_MS, Attack, best_of, scenes

PROGRAMS: Final = (
    Attack("a chain"),
    Attack("60 MB of a program"),
    Attack("answers of functions", is_twin=True),
    Attack("answers read slowly", 4),
    Attack("answers never read", 4, is_twin=True),
    Attack("unread jobs"),
    Attack("jobs read again and again"),
    Attack("sleeps", 1, "cat", PROGRAM_MS),
    Attack("zombies"),
)
SERVERS: Final = (
    Attack("enum"),
    Attack("large_text"),
    Attack("large_structure"),
    Attack("large_blocks", is_twin=True),
    Attack("half_line", 4),
    Attack("changing"),
    Attack("pinging"),
    Attack("noting", is_twin=True),
    Attack("post"),
    Attack("get", is_twin=True),
    Attack("half_events"),
    Attack("ws"),
    Attack("shown to openai"),
    Attack("shown to google", is_twin=True),
    Attack("lists for google", is_twin=True),
    Attack("schemas that differ", 4),
)
SCENES: Final = scenes({"programs": PROGRAMS, "servers": SERVERS})


@pytest.mark.parametrize("scene", SCENES)
def test_others_are_served_and_nothing_is_left(scene: str) -> None:
    wrongs = best_of(SCENES[scene])
    assert not wrongs, "\n".join(wrongs)
