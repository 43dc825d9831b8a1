"""`tooldispatchd audit` as its users see it, without a daemon: the store is enough."""

import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.audit.test_record import recorded
from tests.servers.postgres import PASSWORD, PostgresServer
from tooldispatchd.__main__ import main
from tooldispatchd.audit.postgresstore import PostgresStore
from tooldispatchd.audit.record import StoreNote
from tooldispatchd.audit.sqlitestore import SqliteStore
from tooldispatchd.installation import needs

NOW = time.time()


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a store in which there are some records."""
    directory = tmp_path_factory.mktemp("audit")
    file = directory / "config.toml"
    # Nothing but the table of the audit is looked at.
    file.write_text('[audit]\nstore = "sqlite:audit.db"\n[mcp.docs]\nurl = "http://x"\ntoken_env = "NOT_THERE"\n')
    store = SqliteStore(str(directory / "audit.db"), keep_s=1e9, max_bytes=2**30)
    store.write(
        [
            recorded(id="old", at=NOW - 7200.0),
            recorded(id="bad", at=NOW - 30.0, code="timeout", total_s=60.0),
            recorded(id="odd", at=NOW - 20.0, tool="od\x1b[31md", is_error=True),
            recorded(id="new", at=NOW - 10.0, bytes_out=401),
        ],
        [
            StoreNote(event="lost", at=NOW, run="run", pid=1, count=12),
            StoreNote(event="removed", at=NOW, run="run", pid=1, count=3),
            StoreNote(event="removed", at=NOW, run="run", pid=1, count=5),
        ],
    )
    store.close()
    return file


Said = pytest.CaptureFixture[str]


def audit(said: Said, configuration: Path, *words: str) -> tuple[int, str, str]:
    """The exit code, and what is printed."""
    code = main(["audit", "--config", str(configuration), *words])
    printed = said.readouterr()
    return code, printed.out, printed.err


def listed(said: Said, configuration: Path, *words: str) -> list[str]:
    """The ids of the calls that are printed."""
    lines = [json.loads(line) for line in audit(said, configuration, "--json", *words)[1].splitlines()]
    return [line["call"] for line in lines if "call" in line]


def test_the_table_shows_the_last_calls_and_what_is_missing(configuration: Path, capsys: Said) -> None:
    code, out, err = audit(capsys, configuration)
    assert code == 0
    assert [line.split()[2:6] for line in out.splitlines()] == [
        ["agent", "tool", "ended", "waited"],
        ["7", "ada", "search", "ok"],
        ["7", "ada", "search", "timeout"],
        ["7", "ada", "od", "[31md"],
        ["7", "ada", "search", "ok"],
    ]
    assert "\x1b" not in out
    assert "12 records were lost" in err
    assert "oldest 5 records" in err
    assert "oldest 3" not in err


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ((), ["old", "bad", "odd", "new"]),
        (("--limit", "1"), ["new"]),
        (("--since", "1h"), ["bad", "odd", "new"]),
        (("--failed",), ["bad", "odd"]),
        (("--slow", "2000"), ["bad"]),
        (("--tool", "se*", "--agent", "ada", "--limit", "0"), ["old", "bad", "new"]),
        (("--agent", "bob"), []),
        (("--profile", "coder", "--session", "7", "--limit", "1"), ["new"]),
        (("--profile", "other"), []),
        (("--session", "8"), []),
    ],
)
def test_records_are_chosen(configuration: Path, words: tuple[str, ...], calls: list[str], capsys: Said) -> None:
    assert listed(capsys, configuration, *words) == calls


def test_totals_are_summed_by_agent_and_by_tree(configuration: Path, capsys: Said) -> None:
    total = json.loads(audit(capsys, configuration, "--totals", "--json")[1].splitlines()[-1])
    assert (total["agent"], total["calls"], total["failed"]) == ("ada", 4, 2)
    # 2 bytes are a token, and 401 are 101.
    assert (total["bytes_out"], total["tokens"]) == (407, 104)
    table = audit(capsys, configuration, "--totals", "tree")[1].splitlines()
    assert [line.split()[:3] for line in table] == [["run", "root", "calls"], ["run", "5", "4"]]


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("tool", [["tool", "calls"], ["search", "3"], ["od", "[31md"]]),
        ("provider,session", [["provider", "run", "session", "calls"], ["process", "run", "7", "4"]]),
        ("outcome", [["outcome", "code", "calls"], ["ok", "2"], ["fault", "timeout", "1"], ["error", "1"]]),
    ],
)
def test_totals_are_summed_by_any_field(configuration: Path, by: str, rows: list[list[str]], capsys: Said) -> None:
    table = audit(capsys, configuration, "--totals", "--by", by)[1].splitlines()
    assert [line.split()[: len(row)] for line, row in zip(table, rows, strict=True)] == rows
    # --by alone means sums too.
    assert audit(capsys, configuration, "--by", by)[1].splitlines() == table


def test_sums_are_by_what_a_record_has_and_are_not_followed(configuration: Path, capsys: Said) -> None:
    with pytest.raises(SystemExit) as ended:
        audit(capsys, configuration, "--totals", "--by", "tool,colour")
    assert ended.value.code == 2
    assert "there is no 'colour': agent, tree, tool," in capsys.readouterr().err
    assert audit(capsys, configuration, "--by", "tool", "--follow")[0] == 2


def test_calls_are_printed_as_they_come(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "a.db"), keep_s=1e9, max_bytes=2**30)
    words = [sys.executable, "-m", "tooldispatchd", "audit", "--store", f"sqlite:{tmp_path / 'a.db'}"]
    store.write([recorded(id="before")], [])
    with subprocess.Popen([*words, "--follow", "--json"], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["call"] == "before"
        store.write([recorded(id="after")], [])
        assert json.loads(following.stdout.readline())["call"] == "after"
        following.terminate()
    store.close()


def test_a_database_is_read_likewise(postgres: PostgresServer, tmp_path: Path, capsys: Said) -> None:
    url = postgres.schema("shown")
    store = PostgresStore(url, keep_s=1e9, max_bytes=2**30)
    store.write(
        [recorded(id="bad", at=NOW - 30.0, code="timeout", total_s=60.0), recorded(id="new", at=NOW - 10.0)],
        [StoreNote(event="unclosed", at=NOW, run="dead", pid=1)],
    )
    store.close()
    (tmp_path / "password").write_text(PASSWORD)
    named = url.replace(quote(PASSWORD), "${file:password}")
    (tmp_path / "c.toml").write_text(f'[audit]\nstore = "{named}"\n')
    file = tmp_path / "c.toml"
    assert listed(capsys, file) == ["bad", "new"]
    assert listed(capsys, file, "--failed", "--slow", "2000", "--tool", "se*", "--agent", "ada") == ["bad"]
    assert "the run dead was killed: its last records are missing" in audit(capsys, file)[2]
    assert json.loads(audit(capsys, file, "--totals", "--json")[1].splitlines()[-1])["calls"] == 2


@pytest.mark.parametrize(("word", "code"), [("check", 2), ("audit", 1)])
def test_a_database_without_what_it_needs_is_told_how_to_get_that(word: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[audit]\nstore = "postgresql://ada:s3cret@host/calls"\n')
    program = "import sys; sys.modules['psycopg'] = None; from tooldispatchd.__main__ import program; program()"
    words = [sys.executable, "-c", program, word, "--config", str(tmp_path / "c.toml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code
    told = f"a PostgreSQL store {needs('postgres')}"
    assert told in done.stdout + done.stderr


def test_a_store_that_is_not_there_is_told(tmp_path: Path, capsys: Said) -> None:
    assert main(["audit", "--store", f"sqlite:{tmp_path / 'none'}"]) == 1
    assert "cannot open" in capsys.readouterr().err
    (tmp_path / "c.toml").write_text("")
    assert audit(capsys, tmp_path / "c.toml")[::2] == (2, "tooldispatchd: the configuration has no audit.store\n")
