"""Places for MCP clients: how they are written, and what they mean with a configuration."""

from pathlib import Path

import pytest

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.config.configuration import ConfigError, load_catalog
from tooldispatchd.config.expansion import expand
from tooldispatchd.config.http_places import admitted_profiles, open_profile
from tooldispatchd.config.listen_values import ListenAddress, ListenKind, parse_place, parse_places

AGENTS = """
[agents.default]
tools = []
[agents.safe]
tools = []
token = "secret"
[agents.ours]
tools = []
uid = 0
[http_auth.company]
issuer = "https://login.example"
audience = "https://tools.example/mcp"
[http_auth.plain]
issuer = "http://login.example"
audience = "x"
"""


def problem_of(value: str) -> Problem:
    problem = parse_place(value)
    assert isinstance(problem, Problem)
    return problem


def place_of(value: str) -> ListenAddress:
    place = parse_place(value)
    assert isinstance(place, ListenAddress)
    return place


def complaint(directory: Path, place: str) -> str:
    file = directory / "config.toml"
    file.write_text(f'[daemon]\nlisten = ["{place}"]\n{AGENTS}')
    with pytest.raises(ConfigError) as raised:
        load_catalog(file, {})
    return str(raised.value)


# --- as they are written ---


@pytest.mark.parametrize(
    ("value", "kind", "name", "port", "path"),
    [
        ("http://127.0.0.1:8321/mcp", ListenKind.HTTP, "127.0.0.1", 8321, "/mcp"),
        ("http://127.0.0.1:8321", ListenKind.HTTP, "127.0.0.1", 8321, "/mcp"),
        ("http://localhost:1/", ListenKind.HTTP, "127.0.0.1", 1, "/"),
        ("http://[::1]:8321/a/b", ListenKind.HTTP, "::1", 8321, "/a/b"),
        ("https://0.0.0.0:443/mcp?cert=/c", ListenKind.HTTPS, "0.0.0.0", 443, "/mcp"),
        ("http+unix:/run/x.sock?mode=0600", ListenKind.HTTP_UNIX, "/run/x.sock", 0, "/mcp"),
        ("http+unix:/run/x.sock?path=/a", ListenKind.HTTP_UNIX, "/run/x.sock", 0, "/a"),
    ],
)
def test_a_place_is_a_url_or_a_path(value: str, kind: ListenKind, name: str, port: int, path: str) -> None:
    place = place_of(value)
    assert (place.kind, place.name, place.port, place.path) == (kind, name, port, path)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("http:8321", "no URL to listen on"),
        ("http://u:p@127.0.0.1:1/mcp", "no URL to listen on"),
        ("http://127.0.0.1:8321/m cp", "no URL to listen on"),
        ("http://tools.example:1/mcp", "a place for HTTP has an address, and no name"),
        ("http://:1/mcp", "a place for HTTP has an address, and no name"),
        ("http://127.0.0.1/mcp", "a place for HTTP has a port"),
        ("http://127.0.0.1:0/mcp", "a place for HTTP has a port"),
        ("http://127.0.0.1:65536/mcp", "a place for HTTP has a port"),
        ("https://127.0.0.1:1/mcp", "https has a certificate"),
        ("https://127.0.0.1:1/mcp?key=/k", "https has a certificate"),
        ("http://127.0.0.1:1?cert=/c", "cert and key are for https"),
        ("http://127.0.0.1:1?uid=any", "HTTP knows no users"),
        ("http://127.0.0.1:1?mode=0600", "mode and owner are for a socket that has a path"),
        ("http://127.0.0.1:1?host=x", "unknown option of a place"),
        ("http://127.0.0.1:1?hosts=https://x", "hosts is no list of hosts"),
        ("http://127.0.0.1:1?origins=app.example", "origins is no list of origins, which have no path"),
        ("http://127.0.0.1:1?origins=https://a.example/x", "origins is no list of origins, which have no path"),
        ("http+unix:@x", "an abstract socket has no mode that could keep anyone out"),
        ("unix:/x?origins=https://a", "origins is for HTTP"),
        ("http+unix:/x?path=metrics", 'path is no path of letters, digits, "-._~/"'),
        (
            "http://127.0.0.1:1/metrics?profile=a",
            "/metrics is where metrics are read, without a profile, a token or TLS",
        ),
        (
            "https://127.0.0.1:1/metrics?cert=/c",
            "/metrics is where metrics are read, without a profile, a token or TLS",
        ),
        ("http+unix:/x?path=/metrics&auth=a", "/metrics is where metrics are read, without a profile, a token or TLS"),
    ],
)
def test_what_is_wrong_with_a_place_is_told(value: str, why: str) -> None:
    assert problem_of(value).why == why


def test_an_address_and_its_port_belong_to_one_place() -> None:
    _, problems = parse_places(["http://127.0.0.1:1/a", "http://localhost:1/b"], [])
    assert [problem.why for problem in problems] == ["another place has this address and port"]


def test_somebody_must_be_able_to_come_in() -> None:
    _, problems = parse_places(["http://127.0.0.1:9464/metrics"], [])
    assert [problem.why for problem in problems] == ["no agent can come in: there are places for metrics alone"]
    assert parse_places(["http://127.0.0.1:9464/metrics", "stdio"], [])[1] == []


def test_hosts_and_origins_are_compared_in_lower_case() -> None:
    place = place_of("http://127.0.0.1:1?hosts=Tools.example,b:2&origins=HTTPS://App.example")
    assert (place.hosts, place.origins) == (("tools.example", "b:2"), ("https://app.example",))


# --- what they mean ---


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("http://0.0.0.0:1/mcp", 'a network reaches this place, and profile "default" has no token'),
        ("http://10.0.0.1:1/mcp?profiles=safe,default", 'profile "default" has no token'),
        ("http://127.0.0.1:1/mcp?profile=ours", 'profile "ours" is for certain users, and HTTP knows no users'),
        ("http://127.0.0.1:1/mcp?profile=nobody", "unknown profile"),
        ("http://127.0.0.1:1/mcp?profile=default&auth=compny", "unknown authorization server"),
        ("http://127.0.0.1:1/mcp?profile=safe&auth=company", 'profile "safe" has a token, so that no other opens it'),
        ("http://127.0.0.1:1/mcp?auth=company", "with auth a place says which profile its tokens open"),
        ("http://127.0.0.1:1/mcp?profile=default&auth=plain", "its authorization server has https"),
        ("https://127.0.0.1:1/mcp?cert=missing.pem", "cert: "),
    ],
)
def test_what_cannot_be_served_safely_is_a_mistake(tmp_path: Path, place: str, why: str) -> None:
    assert why in complaint(tmp_path, place)


def test_a_network_without_tls_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[daemon]\nlisten = ["http://0.0.0.0:1/mcp?profile=safe"]\n{AGENTS}')
    assert any("without TLS" in warning for warning in load_catalog(file, {}).warnings)


@pytest.mark.parametrize(
    ("value", "is_metrics"),
    [
        ("http://127.0.0.1:9464/metrics", True),
        ("http://127.0.0.1:9464/metrics?hosts=prometheus.example", True),
        ("http+unix:/run/x.sock?path=/metrics&mode=0660", True),
        ("http://127.0.0.1:9464/metrics/", False),
        ("http://127.0.0.1:9464/a/metrics", False),
        ("http+unix:/metrics", False),
        ("unix:/metrics", False),
    ],
)
def test_the_path_says_whether_metrics_are_read_there_or_mcp_clients_come_in(value: str, is_metrics: bool) -> None:
    place = place_of(value)
    assert (place.is_metrics, place.is_mcp) == (is_metrics, not is_metrics and place.kind is not ListenKind.UNIX)


def test_metrics_need_no_profile_and_a_network_that_reaches_them_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[daemon]\nlisten = ["stdio", "http://0.0.0.0:9464/metrics"]\n[agents.ours]\nuid = 0\n')
    (warning,) = load_catalog(file, {}).warnings
    assert warning.endswith("http://0.0.0.0:9464/metrics: whoever reaches it reads the names of tools and servers")


@pytest.mark.parametrize(
    ("value", "admitted", "opened"),
    [
        ("http://127.0.0.1:1", ("default", "safe"), "default"),
        ("http://127.0.0.1:1?profiles=safe", ("safe",), None),
        ("http://127.0.0.1:1?profile=default&profiles=safe", ("default", "safe"), "default"),
    ],
)
def test_a_place_admits_profiles_and_opens_one_of_them(
    tmp_path: Path, value: str, admitted: tuple[str, ...], opened: str | None
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(AGENTS)
    catalog = load_catalog(file, {})
    assert admitted_profiles(place_of(value), catalog) == admitted
    assert open_profile(place_of(value), catalog) == opened


def test_the_files_of_a_place_start_at_the_configuration(tmp_path: Path) -> None:
    listen = ["https://127.0.0.1:1/mcp?cert=a.pem&key=/b.pem&profile=default"]
    assert expand({"daemon": {"listen": listen}}, {}, tmp_path) == []
    assert listen == [f"https://127.0.0.1:1/mcp?cert={tmp_path}/a.pem&key=/b.pem&profile=default"]
