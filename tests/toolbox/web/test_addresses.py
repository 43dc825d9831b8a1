from contextlib import suppress
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.toolbox.web.sites import Names
from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError
from tooldispatchd.toolbox.web.addresses import AllowedHosts, addresses_of, is_internet, parsed_url

CLOSED = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("100.64.0.1", "100.100.100.200", "169.254.169.254", "168.63.129.16", "192.0.0.192", "192.0.2.1", "192.88.99.1"),
    *("198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::1"),
    *("3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1"),
]


@pytest.mark.parametrize("address", CLOSED)
def test_an_address_that_is_not_of_the_internet_is_closed(address: str) -> None:
    assert not is_internet(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_an_address_of_the_internet_is_open(address: str) -> None:
    assert is_internet(address)


@given(st.ip_addresses(v=4))
def test_an_address_within_another_is_judged_as_it_is_alone(address: IPv4Address) -> None:
    assert is_internet(f"::ffff:{address}") == is_internet(f"64:ff9b::{address}") == is_internet(str(address))


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.1", "http://0x7f000001", "http://2130706433", "http://017700000001", "http://0x7f.1", "http://0"),
        *("http://127.0.0.1", "http://[::1]", "http://[::ffff:127.0.0.1]", "http://[::]", "http://[::ffff:7f00:1]"),
        *("http://127。0。0。1", "http://localhost", "http://LOCALHOST", "http://@127.0.0.1", "http://h.nip.io"),
        *("http://127.0.0.1:80#@example.com", "http://127.0.0.1?@example.com", "https://169.254.169.254/latest/"),
    ],
)
async def test_no_spelling_of_a_private_address_is_connected_to(url: str) -> None:
    Names(h_nip_io=[["127.0.0.1"]], localhost=[["127.0.0.1"]])
    with pytest.raises(ToolFailedError, match="has an address that this tool may not connect to"):
        await addresses_of(parsed_url(url), AllowedHosts(), is_proxied=False)


async def test_the_dot_at_the_end_of_a_name_makes_it_no_other_name() -> None:
    names = Names(localhost=[["127.0.0.1"]])
    with pytest.raises(ToolFailedError, match=r"localhost has an address that"):
        await addresses_of(parsed_url("http://localhost./"), AllowedHosts(), is_proxied=False)
    assert names.asked == ["localhost"]


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "ftp://example.com", "file:///etc/passwd", "javascript:1", "gopher://127.0.0.1", "//h/"),
        *("http://", "http:///127.0.0.1", "http:/\\127.0.0.1", "http:\\\\127.0.0.1", "http:127.0.0.1"),
        *("http://user:pw@example.com", "http://user@example.com", "http://example.com\\@127.0.0.1/", "http://:@h/"),
        *("http://h\\.example.com/", "http://[fe80::1%25eth0]/", "http://%31%32%37.0.0.1/", "http://127.0.0.1%00.h/"),
        *("http://①②⑦.⓪.⓪.①/", "http://\uff11\uff12\uff17.0.0.1/", "http://0177.0.0.1", "http://h\n/", "http://h\0/"),
        *("http://h:0/", "http://h:65536/", "http://h:80:80/", "http://[127.0.0.1]/", "http://" + "a" * 70_000),
        "http://h/\ud800",
    ],
)
def test_what_is_no_plain_url_of_a_page_is_an_invalid_input(url: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parsed_url(url)
    assert raised.value.field == "url"


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(InvalidInputError) as raised:
        parsed_url("http://user:pa55word@example.com/")
    assert "pa55" not in str(raised.value)


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_an_invalid_input(text: str) -> None:
    with suppress(InvalidInputError):
        assert parsed_url(f"http://{text}").raw_host


async def test_one_private_address_among_others_closes_the_name() -> None:
    Names(both_test=[["93.184.216.34", "10.0.0.1"]])
    with pytest.raises(ToolFailedError, match=r"has an address that"):
        await addresses_of(parsed_url("http://both.test"), AllowedHosts(), is_proxied=False)


async def test_private_addresses_are_open_where_the_operator_says_so() -> None:
    found = await addresses_of(parsed_url("http://127.1"), AllowedHosts(private=True), is_proxied=False)
    assert found == ["127.0.0.1"]


async def test_a_name_without_an_address_is_one_sentence() -> None:
    Names()
    with pytest.raises(
        ToolFailedError, match=r"^cannot fetch http://no\.test: cannot resolve no\.test: Name or service not known$"
    ):
        await addresses_of(parsed_url("http://no.test"), AllowedHosts(), is_proxied=False)


async def test_a_name_that_no_resolver_takes_is_one_sentence() -> None:
    Names()
    with pytest.raises(ToolFailedError, match="cannot resolve"):
        await addresses_of(parsed_url("http://" + "a" * 300 + ".test"), AllowedHosts(), is_proxied=False)


async def test_a_name_that_only_the_proxy_knows_is_left_to_it() -> None:
    Names()
    assert await addresses_of(parsed_url("http://no.test"), AllowedHosts(), is_proxied=True) == []


async def test_a_name_that_is_private_here_is_closed_through_a_proxy_too() -> None:
    Names(in_test=[["10.0.0.1"]])
    with pytest.raises(ToolFailedError, match="may not connect"):
        await addresses_of(parsed_url("http://in.test"), AllowedHosts(), is_proxied=True)


@pytest.mark.parametrize(
    ("url", "is_open"),
    [
        ("http://example.com/", True),
        ("http://EXAMPLE.com./", True),
        ("http://docs.example.org/", True),
        ("http://a.b.example.org/", True),
        ("http://example.org/", False),
        ("http://badexample.org/", False),
        ("http://secret.example.org/", False),
        ("http://example.com.evil.test/", False),
        ("http://93.184.216.34/", False),
    ],
)
async def test_only_listed_hosts_are_fetched_from(url: str, is_open: bool) -> None:
    Names(**{host.replace(".", "_"): [["1.1.1.1"]] for host in ("example.com", "docs.example.org", "a.b.example.org")})
    allowed = AllowedHosts(hosts=("Example.com", "*.example.org"), deny_hosts=("secret.example.org",))
    if is_open:
        assert await addresses_of(parsed_url(url), allowed, is_proxied=False) == ["1.1.1.1"]
    else:
        with pytest.raises(ToolFailedError, match="is not one that this tool may fetch from"):
            await addresses_of(parsed_url(url), allowed, is_proxied=False)


async def test_an_empty_list_of_hosts_allows_none() -> None:
    with pytest.raises(ToolFailedError, match="is not one that this tool may fetch from"):
        await addresses_of(parsed_url("http://1.1.1.1"), AllowedHosts(hosts=()), is_proxied=False)


@pytest.mark.parametrize("denied", ["1.1.1.9", "::ffff:1.1.1.9", "::FFFF:101:109"])
@pytest.mark.parametrize("address", ["1.1.1.9", "::ffff:1.1.1.9", "64:ff9b::101:109"])
async def test_a_denied_address_is_closed_under_any_name_and_in_any_form(denied: str, address: str) -> None:
    Names(alias_test=[[address]])
    with pytest.raises(ToolFailedError, match=r"has an address that this tool may not connect to"):
        await addresses_of(parsed_url("http://alias.test"), AllowedHosts(deny_hosts=(denied,)), is_proxied=False)
