"""What a report shows of what a server said: nothing that may be a secret of its configuration, and the rest."""

from pathlib import Path

import pytest

from tooldispatchd.config.configuration import load
from tooldispatchd.doctor.bundle import report_of
from tooldispatchd.doctor.diagnosis import Diagnosis

# The keys of one server, what it said, and what the report shows of that.
SAID = {
    "a value of an option": ('args = ["--token", "s3cretword"]', "bad token s3cretword!", "bad token …!"),
    "a short one, which stands in other words too": ('args = ["--token", "in"]', "in vain", "… vain"),
    "the value of an option in one word": ('args = ["--password=p4ss"]', "p4ss or p4ssage", "… or p4ssage"),
    "options within one text": ('args = ["-c", "serve --api-key \'k3y\' --dir /srv"]', "no k3y", "no …"),
    "a header among the arguments": ('args = ["-H", "Authorization: Bearer t0k"]', "t0k expired", "… expired"),
    "an argument as a whole": ('args = ["/home/ada"]', "cannot read /home/ada/x", "cannot read …/x"),
    "what is no secret by its name": ('args = ["run", "--port", "in"]', "run in vain", "run in vain"),
    "a scheme before a token": ('headers = { X-More = "Bearer abcd1234" }', "abcd1234 is bad", "… is bad"),
    "a short header": ('headers = { X-Api-Key = "4711" }', "4711 is not 47112", "… is not 47112"),
    "the user in a URL": ('args = ["http://t0k@h.invalid/"]', "t0k@h.invalid", "…@h.invalid"),
    "a password in a URL": ('args = ["http://me:p%40ss@h.invalid/"]', "p@ss, me", "…, me"),
    "a query": ('url = "http://h.invalid/?key=k3y&page=17&user=abcd1234"', "17 k3y abcd1234", "17 … …"),
    "a long part of a path": ('url = "http://h.invalid/hook/T0123456789abcdefghij"', "T0123456789abcdefghij", "…"),
    "a database among the variables": ('env = { DB = "postgres://me:p4ss@db/x" }', "user me, p4ss", "user me, …"),
    "a variable": ('env = { LEVEL = "verbose", TOKEN = "in" }', "verbose: in the end", "…: … the end"),
}


def reported(tmp_path: Path, keys: str, said: str) -> str:
    ways = {"url": "", "headers": 'url = "http://h.invalid/x"\n'}
    way = ways.get(keys.split(maxsplit=1)[0], 'command = "sh"\n')
    (tmp_path / "t.toml").write_text(f"[mcp.one]\n{way}{keys}\n")
    loaded = load(tmp_path / "t.toml", {})
    report = report_of(loaded, [Diagnosis(part="server", name="one", said=said, facts={"tail": said})])
    findings = report["findings"]
    assert isinstance(findings, list)
    assert findings[0]["facts"] == {"tail": findings[0]["said"]}
    shown: str = findings[0]["said"]
    return shown


@pytest.mark.parametrize("what", SAID)
def test_what_may_be_a_secret_is_masked_where_a_server_says_it(tmp_path: Path, what: str) -> None:
    keys, said, shown = SAID[what]
    assert reported(tmp_path, keys, said) == shown


def test_a_short_secret_of_a_file_is_masked_where_it_is_a_word(tmp_path: Path) -> None:
    (tmp_path / "pin").write_text("47x\n")
    keys = f'args = ["${{file:{tmp_path}/pin}}"]'
    assert reported(tmp_path, keys, "47x, 47xy") == "…, 47xy"


def test_a_value_that_may_be_a_secret_stands_nowhere_in_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(
        '[mcp.one]\nurl = "http://h.invalid/?key=k3y"\nheaders = { X = "ab" }\nhandshake_s = 7\n'
    )
    report = report_of(load(tmp_path / "t.toml", {}), [])
    assert report["configuration"] == {"mcp": {"one": {"url": "…", "headers": {"X": "…"}, "handshake_s": 7}}}
