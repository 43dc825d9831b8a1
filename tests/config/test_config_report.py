"""What a report shows of a configuration: never a token, wherever it was written."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tooldispatchd.config.configuration import ConfigError, load_catalog

# Each puts the token where somebody might by mistake, or where it belongs beside a mistake.
MISTAKES = {
    "beside a wrong key": "[agents.a]\ntoken = S\ntokens = S\n",
    "beside a wrong limit": "[agents.a]\ntoken = S\n[limits]\ncall_s = 0\n",
    "in a list": "[agents.a]\ntoken = [S]\n",
    "in a table": "[agents.a]\ntoken = { value = S }\n",
    "in a table of its own": "[agents.a.token]\nvalue = S\n",
    "in the place of a profile": "[agents]\na = S\ntoken = S\n",
    "in the place of the profiles": "agents = S\n",
    "in the place of a list of profiles": "[[agents]]\ntoken = S\n",
    "as a variable's name": "[agents.a]\ntoken_env = S\n",
    "as a file's name": "[agents.a]\ntoken_file = S\n",
    "twice": "[agents.a]\ntoken = S\ntoken_env = S\n",
    "defined twice": "[agents.a]\ntoken = S\ntoken = S\n",
    "before a mistake of TOML": "[agents.a]\ntoken = S S\n",
    "in a file with a variable that is missing": "[agents.a]\ntoken_file = F\n",
    "for a server": '[mcp.a]\ncommand = "x"\ntoken = S\n',
    "for a server over HTTP": '[mcp.a]\nurl = "https://x"\ntoken = S\n',
    "in a server's URL": "[mcp.a]\nurl = S\n",
    "in a server's table in a tool": '[tools.a]\nmcp = { command = "x", args = [S], token = S, evn = { K = S } }\n',
    "in the place of a tool's server": "[tools.a]\nmcp = S\n",
    "in the place of an agent's server": '[processes.a]\nkind = "agent"\ncommand = ["x"]\nmcp = [S]\n',
    "in an agent's prompt": '[processes.a]\nkind = "agent"\nprompt = S\ncall_s = 1\n',
    "among an agent's options": '[processes.a]\nkind = "agent"\noptions = S\n',
    "in an agent's environment": '[processes.a]\nkind = "agent"\nenv = { "A=B" = S }\n',
    "in the command of all agents": 'agent_command = ["x", S, 3]\n',
    "among the limits": "[limits]\ntoken = S\n",
    "at the top": "token = S\n",
    "for the daemon": "[daemon]\ntoken = S\n",
    "in a profile whose name is wrong": "[agents.'a b']\ntoken = S\n",
    "beside tools that do not exist": '[agents.a]\ntoken = S\ntools = ["x:y"]\nmcp = ["z"]\n',
    "beside a user that does not exist": '[agents.a]\ntoken = S\nuid = "s3-nobody"\n',
    "beside a whole number": "[agents.a]\ntoken = S\nuid = 3.0\n[limits]\nin_flight = 3.0\n",
}
# Neither a word of the reports, nor a part of the directory's name; without its first character neither: that would be
# a key's name now and then.
LETTERS = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=4, max_size=10)
ORDINARY = st.tuples(LETTERS, LETTERS).map("§{0[0]}§{0[1]}".format)


@pytest.mark.parametrize("mistake", MISTAKES)
@given(ORDINARY)
@settings(max_examples=15)
def test_no_report_bears_a_token(tmp_path_factory: pytest.TempPathFactory, mistake: str, token: str) -> None:
    file = tmp_path_factory.getbasetemp() / "t.toml"
    written = {"S": json.dumps(token, ensure_ascii=False), "F": json.dumps(f"{token}${{MISSING}}", ensure_ascii=False)}
    file.write_text(re.sub(r"\b[SF]\b", lambda found: written[found[0]], MISTAKES[mistake]))
    with pytest.raises(ConfigError) as caught:
        load_catalog(file, {})
    error = caught.value
    shown = f"{error}{error!r}{error.findings!r}{error.__cause__!r}{error.__dict__}"
    assert token not in shown
    assert token[1:] not in shown
