import pytest

from tooldispatchd.doctor.apis import unreachable


@pytest.mark.parametrize(
    ("url", "health"),
    [
        ("https://api.example.com/", "warning"),
        ("https://login.example", "warning"),
        ("https://example.com.evil.net/", "wrong"),
        ("https://myexample.com/", "wrong"),
    ],
)
def test_a_host_that_stands_in_an_example_is_no_more_than_a_warning(url: str, health: str) -> None:
    found = unreachable(url, "cannot connect to it port 443: Name or service not known")
    assert found.health == health
    assert found.advice
