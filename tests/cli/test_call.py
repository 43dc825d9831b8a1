import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.forking import run_forked
from tests.daemon.spawned import PATIENCE_S, Daemon, daemon_on, server, without_places

CONFIG = f"""
[tools.echo]
type = "json -> json"
inline = "id"
[tools.fails]
command = ["sh", "-c", "exit 3"]
[tools.wordcount]
command = ["wc", "-w"]
input_mode = "text"
type = "string -> int"
[tools.says]
command = ["sh", "-c", '''printf 'one\\ntwo\\033[31m\\n' >&2; exit 3''']
[tools.stuck]
command = ["sleep", "86398"]
[tools.later]
command = ["sh", "-c", "sleep 2; cat"]
[tools.steps]
command = ["sh", "-c", '''echo '{{"__port":"tool_update","progress":1,"total":2,"message":"half way"}}' >&3; cat''']
[tools.told]
command = ["sh", "-c", '''echo '{{"__port":"tool_update","message":"running"}}' >&3; exec sleep 86396''']
[tools.typed]
type = "Fields -> Fields"
inline = "id"
[types]
Fields = "{{text: string, count: int, ratio?: number, deep?: bool, tags?: [int], maybe?: int | string, also?: json}}"
{server("steady", "echo")}
{server("broken", "dies_at_start")}
[agents.default]
tools = ["echo", "fails", "stuck", "later", "steps", "told", "typed", "wordcount", "says"]
[agents.served]
mcp = ["steady", "broken"]
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("call"), CONFIG) as daemon:
        yield daemon


def call(*words: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return tooldispatchd("call", *words, stdin=stdin, **environ)


def tooldispatchd(*words: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return run_forked(*words, stdin=stdin.encode(), env=without_places() | environ)


def on_terminal(*words: str) -> str:
    """What a terminal shows on stdout."""
    master, slave = os.openpty()
    command = [sys.executable, "-m", "tooldispatchd", *words]
    subprocess.run(command, env=without_places() | {"NO_COLOR": "1"}, stdout=slave, timeout=20, check=False)
    os.close(slave)
    with os.fdopen(master, "rb", buffering=0) as terminal:
        return terminal.read(65_536).decode()


def test_the_content_is_printed_and_the_exit_code_is_0(daemon: Daemon) -> None:
    ended = call("echo", '{"a": [1, "é"]}', "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, '{"a":[1,"é"]}\n', "")


def test_the_socket_is_found_in_the_environment(daemon: Daemon) -> None:
    assert call("echo", "1", TOOLDISPATCHD_SOCKET=str(daemon.path)).stdout == "1\n"


def test_the_input_comes_from_stdin(daemon: Daemon) -> None:
    ended = call("echo", "-", "--socket", str(daemon.path), stdin='{\n  "a": 1\n}\n')
    assert (ended.returncode, ended.stdout) == (0, '{"a":1}\n')


def test_a_long_answer_is_printed_whole(daemon: Daemon) -> None:
    text = json.dumps("x" * 200_000)
    ended = call("echo", "-", "--socket", str(daemon.path), stdin=text)
    assert (ended.stdout, ended.returncode) == (f"{text}\n", 0)


def test_an_error_is_printed_and_the_exit_code_is_1(daemon: Daemon) -> None:
    ended = call("fails", "1", "--socket", str(daemon.path))
    assert ended.returncode == 1
    assert ended.stdout.startswith('{"error":"tool_failed"')


def test_an_unknown_tool_is_an_error(daemon: Daemon) -> None:
    ended = call("ecco", "1", "--socket", str(daemon.path))
    assert ended.returncode == 1
    assert ended.stdout.startswith('{"error":"unknown_tool"')
    assert '"did_you_mean":"echo"' in ended.stdout
    assert ended.stderr == ""


def test_a_name_that_none_is_near_to_is_told_with_where_all_are_listed(daemon: Daemon) -> None:
    ended = call("zzzz", "1", "--socket", str(daemon.path))
    assert ended.stdout.startswith('{"error":"unknown_tool"')
    listing = f"tooldispatchd tools --socket {daemon.path}"
    assert ended.stderr == f"tooldispatchd: {listing} lists all tools; a server's are called SERVER:TOOL\n"


def test_a_name_that_is_written_as_a_servers_is_not_told_how_that_is_written(daemon: Daemon) -> None:
    ended = call("nobody:zzzz", "1", "--socket", str(daemon.path))
    assert (ended.stdout[:23], ended.stderr) == ('{"error":"unknown_tool"', "")


def test_an_input_that_is_no_json_is_a_mistake_of_usage(daemon: Daemon) -> None:
    ended = call("echo", "{", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("tooldispatchd: the input is not JSON: ")


def test_an_unknown_profile_is_a_mistake_of_usage(daemon: Daemon) -> None:
    ended = call("echo", "1", "--profile", "nobody", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "tooldispatchd: unknown_profile: no such profile: nobody\n"


def test_a_socket_that_is_not_there_has_exit_code_3(tmp_path: Path) -> None:
    ended = call("echo", "1", "--socket", str(tmp_path / "none"))
    assert (ended.returncode, ended.stdout) == (3, "")
    told, helps = ended.stderr.splitlines()
    assert told == f"tooldispatchd: cannot reach the daemon at {tmp_path}/none: No such file or directory"
    assert helps.startswith("tooldispatchd serve starts one; ")


def test_a_tool_of_a_server_is_called_without_a_word_of_the_others(daemon: Daemon) -> None:
    ended = call("steady:echo", '{"text": "hi"}', "--profile", "served", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "hi\n", "")


def test_a_server_that_does_not_come_up_is_the_answer_to_its_call(daemon: Daemon) -> None:
    ended = call("broken:echo", "--profile", "served", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stderr) == (1, "")
    assert json.loads(ended.stdout)["error"] == "server_unavailable"
    assert not {"__port", "agent", "line"} & json.loads(ended.stdout).keys()


@pytest.mark.parametrize("where", ["socket", "config"])
def test_a_call_starts_no_server_that_it_does_not_need(tmp_path: Path, where: str) -> None:
    touches = "\n".join(
        f'[mcp.slow{n}]\ncommand = "sh"\nargs = ["-c", "touch {tmp_path}/started{n}; exec sleep 60"]' for n in range(6)
    )
    with daemon_on(tmp_path, f'[tools.echo]\ntype = "json -> json"\ninline = "id"\n{touches}\n') as daemon:
        words = ["--socket", str(daemon.path)] if where == "socket" else ["--config", str(tmp_path / "config.toml")]
        ended = call("echo", "1", *words)
    assert (ended.returncode, ended.stdout) == (0, "1\n")
    assert list(tmp_path.glob("started*")) == []


@pytest.mark.parametrize("given", ["1", "number=1"])
def test_a_name_that_there_is_not_is_told_before_slow_servers_have_answered(tmp_path: Path, given: str) -> None:
    slow = '[mcp.slow]\ncommand = "sleep"\nargs = ["86397"]\nhandshake_s = 3600\n'
    with daemon_on(tmp_path, f'[tools.echo]\ntype = "json -> json"\ninline = "id"\n{slow}') as daemon:
        ended = call("ecco", given, "--socket", str(daemon.path))
    assert json.loads(ended.stdout)["did_you_mean"] == "echo"


def test_a_tool_of_a_server_without_a_prefix_is_found(tmp_path: Path) -> None:
    with daemon_on(tmp_path, server("raw", "echo", 'prefix = ""')) as daemon:
        ended = call("echo", "text=hi", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (0, "hi\n")


# --- inputs ---


def test_fields_are_typed_by_the_tools_schema(daemon: Daemon) -> None:
    words = ["text=12", "count=12", "ratio=0.5", "deep=true", "tags=[1, 2]", "maybe=3", "also=x"]
    ended = call("typed", *words, "--socket", str(daemon.path))
    assert (ended.returncode, json.loads(ended.stdout)) == (
        0,
        {"text": "12", "count": 12, "ratio": 0.5, "deep": True, "tags": [1, 2], "maybe": "3", "also": "x"},
    )


def test_a_field_of_the_wrong_type_is_told_by_the_daemon(daemon: Daemon) -> None:
    ended = call("typed", "text=a", "count=many", "--socket", str(daemon.path))
    assert json.loads(ended.stdout)["error"] == "invalid_input"
    assert "/count" in ended.stdout


def test_an_input_on_several_lines_is_sent_as_it_is(daemon: Daemon) -> None:
    ended = call("echo", '{\r\n"a":\n1.10,"a\u2028b":"x\u2028y"}', "--socket", str(daemon.path))
    assert json.loads(ended.stdout) == {"a": 1.1, "a\u2028b": "x\u2028y"}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["{name:", "Ada}"], 'tooldispatchd call echo \'{"input": "TEXT"}\' --socket {socket}'),
        (["{name:Ada}"], "tooldispatchd call echo input=TEXT --socket {socket}"),
        (["hello"], "tooldispatchd call echo '\"hello\"' --socket {socket}"),
        (["it's", "late"], "call echo '\"it'\"'\"'s late\"'"),
        (["NaN"], "NaN is no JSON"),
        (["a=1", "a=2"], "a is given twice"),
        (
            ["a=1", "2", "b=3"],
            "a value with blanks stands in quotes: tooldispatchd call echo 'a=1 2' b=3 --socket {socket}\n",
        ),
        (["[" * 100_000], "the input is not JSON: "),
    ],
)
def test_a_mistake_in_quoting_is_explained_by_an_example(daemon: Daemon, words: list[str], hint: str) -> None:
    ended = call("echo", *words, "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert hint.replace("{socket}", str(daemon.path)) in ended.stderr


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["one two three"], 3),
        (["-"], 2),
        (['"a\\nb c"'], 3),
        (["12"], 1),
        (['{"a": 1}'], 2),
        (["a=b c"], 2),
        (["input=a b c d"], 4),
        (['{"input": "a b"}'], 2),
        ([""], 0),
    ],
)
def test_a_tool_that_takes_a_string_takes_the_word_as_it_is(daemon: Daemon, words: list[str], count: int) -> None:
    ended = call("wordcount", *words, "--socket", str(daemon.path), stdin="of stdin\n")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{count}\n", "")


def test_a_text_for_a_tool_that_there_is_not_is_told_that(daemon: Daemon) -> None:
    ended = call("wrdcount", "one two", "--socket", str(daemon.path))
    assert (ended.returncode, '"did_you_mean":"wordcount"' in ended.stdout) == (1, True)


def test_a_workspace_that_cannot_be_made_is_the_answer_and_names_its_path(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[tools.echo]\ntype = "string -> string"\ninline = "id"\n'
        '[agents.default]\ntools = ["echo"]\nworkspace = "work/${agent}"\nmake = true\n'
    )
    ended = call("echo", "a b", "--config", str(file))
    said = f"its workspace cannot be had: {tmp_path}/work: No such file or directory (make = true makes only what is"
    assert (ended.returncode, said in ended.stdout) == (1, True)
    warned = tooldispatchd("check", "--config", str(file))
    assert f"agents.default.workspace: there is no directory {tmp_path}/work; make = true makes" in warned.stderr


def test_a_hint_proposes_no_key_that_the_tool_has_not(daemon: Daemon) -> None:
    ended = call("typed", "{name:Ada}", "--profile", "default", "--socket", str(daemon.path))
    assert ended.stderr.splitlines()[2] == (
        f"tooldispatchd call typed text=TEXT count=1 --socket {daemon.path} --profile default"
    )
    assert "name=" not in ended.stderr
    ended = call("typed", "count", "3", "--socket", str(daemon.path))
    assert "a field has its value after a =: tooldispatchd call typed count=VALUE --socket " in ended.stderr


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_failed_program_is_read_on_a_terminal_as_people_read_it(daemon: Daemon, option: tuple[str, ...]) -> None:
    shown = on_terminal("call", "says", "1", *option, "--socket", str(daemon.path))
    if option:
        assert json.loads(shown)["error"] == "tool_failed"
    else:
        assert shown == "tool_failed: 'sh' exited with code 3\r\none\r\ntwo [31m\r\n"


def test_a_wrong_input_is_told_with_where_the_schema_is_shown(daemon: Daemon) -> None:
    ended = call("typed", "text=a", "--socket", str(daemon.path))
    assert ended.returncode == 1
    assert ended.stderr == f"tooldispatchd: tooldispatchd tools typed --socket {daemon.path} shows what it takes\n"


# --- how it runs ---


def test_a_text_is_printed_as_text(daemon: Daemon) -> None:
    assert call("echo", '"a\\nb"', "--raw", "--socket", str(daemon.path)).stdout == "a\nb\n"
    assert call("echo", '{"a":1}', "--raw", "--socket", str(daemon.path)).stdout == '{"a":1}\n'
    unknown = call("ecko", "1", "--raw", "--socket", str(daemon.path))
    assert unknown.stdout.startswith("unknown_tool: ecko is an unknown tool")


def test_an_image_is_named_with_its_size_and_a_job_of_a_text_is_printed_as_text(tmp_path: Path) -> None:
    image = '[tools.dot]\ncommand = ["printf", "dot"]\noutput_mode = "image/png"\n'
    words = '[tools.words]\ncommand = ["printf", "one\\ntwo"]\noutput_mode = "text"\n'
    config = tmp_path / "config.toml"
    config.write_text(image + words)
    assert call("dot", "{}", "--raw", "--config", str(config)).stdout == "[image/png, 3 B]\n"
    assert call("words", "{}", "--raw", "--background", "--config", str(config)).stdout == "one\ntwo\n"


def test_a_deadline_ends_a_call(daemon: Daemon) -> None:
    ended = call("stuck", "1", "--deadline", "0.2", "--socket", str(daemon.path))
    assert (ended.returncode, json.loads(ended.stdout)["error"]) == (1, "timeout")


def test_updates_are_told_on_stderr(daemon: Daemon) -> None:
    ended = call("steps", '"done"', "--updates", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, '"done"\n', "1/2 half way\n")


def test_a_background_job_is_waited_for(daemon: Daemon) -> None:
    ended = call("fails", "1", "--background", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stderr) == (1, "tooldispatchd: waiting for job-1\n")
    assert ended.stdout.startswith('{"error":"tool_failed"')
    assert call("echo", "1", "--background", "--socket", str(daemon.path)).stdout == "1\n"


def test_options_may_stand_between_the_words_of_a_call(daemon: Daemon) -> None:
    words = ["--socket", str(daemon.path), "typed", "--raw", "text=a", "--deadline", "5", "count=2"]
    assert call(*words).stdout == '{"text":"a","count":2}\n'
    assert call("echo", "--socket", str(daemon.path), "-5").stdout == "-5\n"
    assert call("--socket", str(daemon.path), "--", "echo", "-5").stdout == "-5\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: NAME\n"),
        (["greet", "--name", "Ada"], "usage: tooldispatchd call [options] NAME [KEY=VALUE ... | JSON | -]\n"),
        (["greet", "--deadline", "soon"], "argument --deadline: soon is no number of seconds over 0\n"),
    ],
)
def test_a_mistake_of_usage_says_how_a_call_is_written(words: list[str], said: str) -> None:
    ended = call(*words)
    assert said in ended.stderr
    assert ended.returncode == 2


@pytest.mark.parametrize("words", [["--deadline", "0"], ["--timeout", "soon"], ["--updates", "--background"]])
def test_an_option_that_means_nothing_is_a_mistake_of_usage(words: list[str]) -> None:
    assert call("echo", "1", *words).returncode == 2


# --- a daemon that does not answer ---


@pytest.mark.parametrize("command", [["call", "echo", "1"], ["tools"], ["run"]])
def test_a_daemon_that_does_not_answer_is_given_up(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        words = [*command, "--timeout", "0.5", "--socket", str(path), *(["--", "true"] if command == ["run"] else [])]
        ended = tooldispatchd(*words)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "did not answer within 0.5 s" in ended.stderr


def test_a_tool_may_take_longer_than_a_daemon_may_be_silent(daemon: Daemon) -> None:
    assert call("later", "1", "--timeout", "0.6", "--socket", str(daemon.path)).stdout == "1\n"


# --- ends ---


@pytest.mark.parametrize("where", ["socket", "config"])
def test_an_interrupt_ends_it_without_a_traceback_and_its_call_with_it(daemon: Daemon, where: str) -> None:
    config = daemon.path.with_name("config.toml")
    words = ["--socket", str(daemon.path)] if where == "socket" else ["--config", str(config)]
    # A session of its own, as the foreground of a terminal is: the interrupt is everybody's in it.
    command = [sys.executable, "-m", "tooldispatchd", "call", "told", "1", "--updates", *words]
    with subprocess.Popen(
        command, env=without_places(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert said == b"running\n"
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_reader_who_has_gone_ends_it_silently(daemon: Daemon) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "tooldispatchd", "call", "echo", "1", "--socket", str(daemon.path)]
    with os.fdopen(writing, "wb") as stdout:
        ended = subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, env=without_places(), timeout=20, check=False
        )
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("words", [("call", "echo", "1"), ("--version",), ("call", "--help")])
def test_an_output_that_cannot_be_written_is_told_in_a_line(daemon: Daemon, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tooldispatchd", *words]
    environment = without_places() | {"TOOLDISPATCHD_SOCKET": str(daemon.path)}
    with Path("/dev/full").open("wb") as stdout:
        ended = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment, timeout=20, check=False)
    told = b"tooldispatchd: cannot write the output: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, told)


def test_a_private_daemon_answers_with_a_configuration(daemon: Daemon) -> None:
    ended = call("echo", "1", "--config", str(daemon.path.with_name("config.toml")))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")


def test_a_private_daemon_that_cannot_start_says_why_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[limits]\ncall_ss = 1\n")
    ended = call("echo", "1", "--config", str(tmp_path / "c.toml"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert 'did you mean "call_s"?' in ended.stderr
