from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.providers.mcp.oauth.challenge import Challenge, missing_scopes, read_challenge, union


def test_a_challenge_says_what_is_wanted_and_where_to_get_it() -> None:
    header = 'Bearer realm="x", error="insufficient_scope", scope="a b", resource_metadata="https://a/.well-known/x"'
    challenge = read_challenge(403, header)
    assert challenge == Challenge(403, "insufficient_scope", "a b", "https://a/.well-known/x")
    assert challenge.asks_for_more


def test_words_without_quotes_are_read_too() -> None:
    assert read_challenge(401, "Bearer error=invalid_token, scope=a").scope == "a"


def test_a_401_asks_for_no_more() -> None:
    assert not read_challenge(401, 'Bearer error="insufficient_scope"').asks_for_more


def test_of_two_that_contradict_each_other_the_first_counts() -> None:
    assert read_challenge(401, 'Bearer scope="a", Bearer scope="b"').scope == "a"


def test_a_scope_that_is_none_is_left_out() -> None:
    assert read_challenge(401, 'Bearer scope="a\\"').scope is None


def test_no_header_says_nothing() -> None:
    assert read_challenge(401, "") == Challenge(401)


@given(
    st.one_of(
        st.text(max_size=5000),
        st.lists(
            st.sampled_from(
                ["Bearer ", "scope", "error", "=", '"', ", ", "é", "\\", "a", "\n", " ", "resource_metadata"]
            ),
            max_size=60,
        ).map("".join),
    )
)
def test_any_text_gives_a_challenge_that_reads_the_same_again(header: str) -> None:
    challenge = read_challenge(401, header)
    assert read_challenge(401, challenge.header()) == challenge
    assert challenge.header().isascii()
    assert challenge.header().isprintable()


def test_scopes_are_joined_in_order_and_each_once() -> None:
    assert union("a b", None, "b c", "") == "a b c"
    assert union(None, "") is None


def test_a_scope_is_missing_where_it_was_not_granted() -> None:
    assert missing_scopes("a b", "b") == ()
    assert missing_scopes("a", "c a b c") == ("c", "b")
    assert missing_scopes(None, "a") == ("a",)
    assert missing_scopes("a", None) == ()
