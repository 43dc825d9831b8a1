"""What is remembered of servers."""

from tooldispatchd.providers.mcp.eras import MAX_ORIGINS, Era, Eras


def test_what_was_learnt_of_an_origin_is_known_until_it_is_forgotten() -> None:
    eras = Eras()
    assert eras.of("https://docs.example") is None
    eras.learn("https://docs.example", Era.MODERN)
    assert eras.of("https://docs.example") is Era.MODERN
    eras.forget("https://docs.example")
    assert eras.of("https://docs.example") is None


def test_what_was_learnt_last_holds() -> None:
    eras = Eras()
    eras.learn(("npx", "docs"), Era.LEGACY)
    eras.learn(("npx", "docs"), Era.MODERN)
    assert eras.of(("npx", "docs")) is Era.MODERN


def test_forgetting_what_is_not_known_is_nothing() -> None:
    Eras().forget("https://docs.example")


def test_the_origin_that_was_not_asked_for_longest_leaves_first() -> None:
    eras = Eras(limit=2)
    eras.learn("a", Era.LEGACY)
    eras.learn("b", Era.SSE)
    eras.of("a")
    eras.learn("c", Era.MODERN)
    assert [eras.of(origin) for origin in "abc"] == [Era.LEGACY, None, Era.MODERN]


def test_learning_an_origin_anew_makes_none_leave() -> None:
    eras = Eras(limit=2)
    eras.learn("a", Era.LEGACY)
    eras.learn("b", Era.LEGACY)
    eras.learn("a", Era.MODERN)
    assert [eras.of(origin) for origin in "ab"] == [Era.MODERN, Era.LEGACY]


def test_no_more_than_so_many_origins_are_remembered() -> None:
    eras = Eras()
    for number in range(MAX_ORIGINS + 1):
        eras.learn(number, Era.LEGACY)
    assert eras.of(0) is None
    assert eras.of(1) is Era.LEGACY
