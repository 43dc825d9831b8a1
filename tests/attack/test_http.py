"""What MCP clients send over HTTP, beside an honest one and an honest agent; as in `test_agents`."""

from typing import Final

import pytest

from tests.attack.stage import Attack, best_of, scenes

KINDS: Final = (
    Attack("lists over HTTP", 2, is_http=True),
    Attack("refused", 4, is_http=True),
    Attack("no HTTP", 4, is_http=True, is_twin=True),
    Attack("two lengths", 4, is_http=True, is_twin=True),
    Attack("many headers", 2, is_http=True, is_twin=True),
    Attack("ids of 8 MiB over HTTP", 2, is_http=True),
    Attack("names of 8 MiB", 2, is_http=True, is_twin=True),
    Attack("cursors of 8 MiB", 2, is_http=True, is_twin=True),
    Attack("states of 8 MiB", 2, is_http=True, is_twin=True),
    Attack("small lists over HTTP", 2, is_http=True),
    Attack("depth", 2, is_http=True, is_twin=True),
    Attack("batches", 2, is_http=True, is_twin=True),
    Attack("chunks of one byte", 2, is_http=True, is_twin=True),
    Attack("chunks with much beside them", 2, is_http=True, is_twin=True),
    Attack("answers that nobody reads over HTTP", 8, is_http=True),
    Attack("sleeps over HTTP", 16, is_http=True, is_twin=True),
)
SCENES: Final = scenes({"http": KINDS})


@pytest.mark.parametrize("scene", SCENES)
def test_others_are_served_and_nothing_is_left(scene: str) -> None:
    wrongs = best_of(SCENES[scene])
    assert not wrongs, "\n".join(wrongs)
