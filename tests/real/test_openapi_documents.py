"""Real documents of OpenAPI: each is loaded whole, and its operations are requests that the document admits."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.daemon.spawned import daemon_on
from tests.real.apidocs import (
    CALLED,
    DOCUMENTS,
    builder_of,
    call_each,
    describing,
    json_of,
    made_of,
    needs_documents,
    operations_in,
)
from tooldispatchd.catalog.openapi.adapter import AdaptedApi
from tooldispatchd.catalog.schemas import compile_check

pytestmark = needs_documents
# All of them in `make soak`; else not those that are large and have little that others have not.
LOADED = [name for name in DOCUMENTS if "SOAK" in os.environ or name not in {"Autotask", "Kubernetes"}]
SAMPLED = [*CALLED] if "SOAK" in os.environ else ["GitHub", "Stripe", "Twilio", "ReadMe (3.1)", "Petstore"]
# With more a validator takes minutes for one document; `make documents` calls each operation.
SAMPLE = 40
# How many operations a document has, as far as that is worth knowing.
LARGE = {"GitHub": 1_223, "Kubernetes 1.13 (2.0)": 1_014, "Autotask": 2_958}


class Document(NamedTuple):
    """A document as JSON, and all that it makes: made once for the tests of it."""

    name: str
    text: bytes
    made: AdaptedApi


@pytest.fixture(scope="module")
def document(request: pytest.FixtureRequest) -> Document:
    text = json_of(DOCUMENTS[request.param])
    return Document(request.param, text, made_of(text))


@pytest.mark.parametrize("document", LOADED, indirect=True)
def test_each_operation_of_a_document_is_a_tool_or_left_out_with_a_reason(document: Document) -> None:
    name, text, made = document
    assert made.problems == ()
    assert len(made.tools) + len(made.left_out) == operations_in(text)
    assert operations_in(text) >= LARGE.get(name, 1)
    # None is left out for a reason that nobody has thought of.
    assert sum(not each.is_deprecated for each in made.left_out) <= len(made.tools) / 8
    for tool, table in made.tools.items():
        builder_of(tool, table)
        for key in ("input_schema", "output_schema"):
            if key in table:
                compile_check(msgspec.convert(table[key], dict[str, object]))


@pytest.mark.parametrize("document", SAMPLED, indirect=True)
def test_a_sample_of_a_document_is_requested_as_it_says(document: Document, tmp_path: Path) -> None:
    with describing(tmp_path, document.text) as connection:
        report = call_each(document.made, connection, SAMPLE)
    assert report.invalid == {}
    assert report.counts["valid"] >= report.counts.total() * 0.9


def test_a_daemon_offers_and_calls_the_operations_of_a_document(tmp_path: Path) -> None:
    text = json_of(DOCUMENTS["GitHub"])
    with describing(tmp_path, text) as described:
        config = (
            f'[openapi.github]\nspec = "described.json"\nbase_url = "http://127.0.0.1:{described.port}"\n'
            '[agents.default]\nopenapi = ["github#issues"]\n'
        )
        with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
            listed = agent.hello("default")["tools"]
            assert Counter(str(tool["name"]).split("_")[1] for tool in listed if tool["name"] != "info")["issues"] > 40
            value = {"owner": "a/b", "repo": "c d", "state": "closed", "labels": "x,y", "per_page": 5}
            # The server says what is wrong with a request, and nothing is.
            answer = agent.ask("github_issues_list-for-repo", value)
            assert (json.loads(answer["content"]), answer["is_error"]) == ([], False)
            body = {"labels": ["a", "b/c"]}
            value = {"owner": "o", "repo": "r", "issue_number": 5, "body": body}
            answer = agent.ask("github_issues_add-labels", value)
            assert (json.loads(answer["content"]), answer["is_error"]) == ([], False)
            wrong = agent.ask("github_issues_create", {"owner": "o", "repo": "r", "body": {"title": None}, "x": 1})
            assert json.loads(wrong["content"])["error"] == "invalid_input"
            told = json.loads(agent.ask("info", {"name": "github_issues_create"})["content"])
            assert "Any user with pull access to a repository can create an issue." in told


WEIGHING = """\
import os, sys, time
from pathlib import Path
import tooldispatchd.catalog.rest.requestchecks, tooldispatchd.config.openapis
from tooldispatchd.config.configuration import load
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
load(Path(sys.argv[1]), {})
before = resident()
loaded = load(Path(sys.argv[2]), {})
print((resident() - before) / len(loaded.catalog.tools))
"""


def test_a_thousand_operations_take_less_than_twenty_megabytes(tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text('[tools.a]\nrest = { url = "https://a.example" }\n')
    (tmp_path / "all.toml").write_text(f'[openapi.github]\nspec = "{DOCUMENTS["GitHub"]}"\n')
    words = [sys.executable, "-c", WEIGHING, str(tmp_path / "none.toml"), str(tmp_path / "all.toml")]
    weighed = subprocess.run(words, capture_output=True, text=True, check=True)
    assert float(weighed.stdout) < 20_000
