"""The declarations of the notation and the tables that they mean."""

import msgspec
import pytest

from tests.catalog.notation.reading import read, table, wrong
from tooldispatchd.catalog.agentspec import AGENT_KEYS
from tooldispatchd.catalog.notation.places import NotationError, SourcePosition
from tooldispatchd.catalog.notation.reader import read_notation
from tooldispatchd.catalog.specs import Config, McpSpec, OAuthSpec, ProcessSpec, ToolSpec


def test_the_issues_double_is_a_map_tool() -> None:
    text = "@tool true\nlet double : int -> int = map(score * 2)"
    assert read(text).table == {
        "types": {},
        "mcp": {},
        "tools": {"double": {"type": "int -> int", "map": "score * 2"}},
        "processes": {},
    }


def test_the_issues_echo_is_an_inline_tool() -> None:
    text = "let echo : string -> string = id"
    assert table(text, "tools") == {"echo": {"type": "string -> string", "inline": "id", "expose": "named"}}


def test_the_issues_search_is_a_tool_made_of_a_process() -> None:
    text = "let search : Query -> Results = tool { process: searcher }"
    assert table(text, "tools") == {"search": {"type": "Query -> Results", "process": "searcher"}}


def test_the_issues_search_on_a_server_has_its_binding_as_a_server() -> None:
    text = """
        let ldc = { url: "…", token_env: "LDC_TOKEN" }
        let search : Query -> Results = tool { mcp: ldc, name: "search" }
    """
    assert table(text, "tools") == {"search": {"type": "Query -> Results", "mcp": "ldc", "name": "search"}}
    assert table(text, "mcp") == {"ldc": {"url": "…", "token_env": "LDC_TOKEN"}}


def test_the_issues_writer_needs_no_comma() -> None:
    text = 'let writer : !string -> !string = agent { prompt: "…" tools: [search, double] }'
    assert table(text, "processes") == {
        "writer": {"kind": "agent", "type": "!string -> !string", "prompt": "…", "tools": ["search", "double"]}
    }


def test_the_issues_servers_of_an_agent_are_bindings_and_tables() -> None:
    text = """
        let ldc = { url: "…" }
        let writer : !string -> !string = agent {
          mcp: [ldc, { command: "npx", args: ["-y", "x"], tools: ["a"] }]
        }
    """
    assert table(text, "processes", "writer", "mcp") == [
        "ldc",
        {"command": "npx", "args": ["-y", "x"], "tools": ["a"]},
    ]
    assert table(text, "mcp") == {"ldc": {"url": "…"}}


@pytest.mark.parametrize("kind", ["id", "copy", "discard"])
def test_a_bare_structural_process_is_a_tool(kind: str) -> None:
    assert table(f"@tool true let f : A -> B = {kind}", "tools") == {"f": {"type": "A -> B", "inline": kind}}


def test_a_bare_let_without_an_annotation_is_offered_only_where_it_is_named() -> None:
    assert table("let f : A -> B = id", "tools", "f", "expose") == "named"
    assert table('let f : A -> B = agent { command: "x" }', "tools", "f", "expose") == "named"
    assert table("@tool true let f : A -> B = map(x)", "tools") == {"f": {"type": "A -> B", "map": "x"}}
    assert table('let f : A -> B = tool { command: "x" }', "tools") == {"f": {"type": "A -> B", "command": ["x"]}}


@pytest.mark.parametrize(
    ("implementation", "keys"),
    [
        ("merge", {"kind": "merge"}),
        ("barrier", {"kind": "barrier"}),
        ("project(1)", {"kind": "project", "project": 1}),
        ("filter(ok)", {"kind": "filter", "filter": "ok"}),
        ('agent { command: "x" }', {"kind": "agent", "command": ["x"]}),
        ("plumb { g ; h }", {"kind": "plumb", "chain": ["g", "h"]}),
    ],
)
def test_another_bare_process_is_a_process_and_a_tool_of_it(implementation: str, keys: dict[str, object]) -> None:
    read_table = read(f"@tool true let f : A -> B = {implementation}").table
    assert read_table["processes"] == {"f": {**keys, "type": "A -> B"}}
    assert read_table["tools"] == {"f": {"type": "A -> B", "process": "f"}}


@pytest.mark.parametrize("kind", ["id", "copy", "discard", "merge", "barrier"])
def test_a_type_that_is_left_out_is_left_to_be_inferred(kind: str) -> None:
    assert read(f"let f = {kind}").table == {"types": {}, "mcp": {}, "tools": {}, "processes": {"f": {"kind": kind}}}


def test_a_stream_process_is_no_tool() -> None:
    text = "let f : !int -> !int = map(x * 2)"
    assert table(text, "processes") == {"f": {"kind": "map", "type": "!int -> !int", "map": "x * 2"}}
    assert table(text, "tools") == {}


@pytest.mark.parametrize("type_", ["!A -> unit", "(!A, !B) -> !(A, B)", "!A -> (!A, !A)", "unit -> !A"])
def test_a_stream_on_either_side_makes_a_stream_process(type_: str) -> None:
    assert table(f"let f : {type_} = id", "processes") == {"f": {"kind": "id", "type": type_}}


def test_a_name_for_a_stream_is_a_stream() -> None:
    assert table("type S = T type T = !int let f : S -> S = id", "tools") == {}


def test_a_stream_within_a_message_makes_no_stream_process() -> None:
    # The catalog refuses it: it knows where a stream may stand.
    assert table("let f : [!int] -> int = id", "processes") == {}


def test_a_type_that_is_itself_ends_the_search_for_streams() -> None:
    assert table("type A = (A, A) @tool true let f : A -> A = id", "tools") == {"f": {"type": "A -> A", "inline": "id"}}


def test_annotations_go_to_the_tool() -> None:
    text = """
        @tool true @description "Doubles." @title "Double" @hint "Use it." @doc "All of it." @call_s 2.5
        let double : int -> int = map(x * 2)
    """
    assert table(text, "tools", "double") == {
        "type": "int -> int",
        "map": "x * 2",
        "description": "Doubles.",
        "title": "Double",
        "hint": "Use it.",
        "doc": "All of it.",
        "call_s": 2.5,
    }


def test_tool_true_makes_a_tool_of_a_stream_process() -> None:
    text = '@tool true @description "Writes." let w : !A -> !B = agent { command: ["w", "-q"] }'
    assert table(text, "tools") == {"w": {"process": "w", "description": "Writes."}}
    assert table(text, "processes") == {"w": {"kind": "agent", "type": "!A -> !B", "command": ["w", "-q"]}}


def test_tool_false_keeps_a_tool_for_chains() -> None:
    assert table("@tool false let f : A -> A = id", "tools", "f", "expose") is False
    assert table("@tool false let f : A -> A = merge", "tools", "f", "expose") is False


def test_tool_false_says_of_a_stream_process_what_is_so_anyway() -> None:
    assert table("@tool false let f : !A -> !A = id", "tools") == {}


def test_a_description_of_a_process_stays_with_it() -> None:
    text = '@description "Drops the empty ones." let f : !A -> !A = filter(text != "")'
    assert table(text, "processes", "f", "description") == "Drops the empty ones."


def test_a_description_between_the_braces_is_the_tools_too() -> None:
    text = 'let w : A -> B = agent { description: "Writes." }'
    assert table(text, "tools", "w", "description") == "Writes."
    assert table(text, "processes", "w", "description") == "Writes."


def test_an_annotated_tool_may_be_described_otherwise_than_its_agent() -> None:
    text = '@description "For models." let w : A -> B = agent { description: "For the agent." }'
    assert table(text, "tools", "w", "description") == "For models."
    assert table(text, "processes", "w", "description") == "For the agent."


def test_a_tool_may_state_schemas_in_the_place_of_a_type() -> None:
    text = 'let f = tool { command: "wc" input_schema: { type: "string", "$comment": "text" } }'
    assert table(text, "tools") == {"f": {"command": ["wc"], "input_schema": {"type": "string", "$comment": "text"}}}


def test_what_model_apis_know_is_an_option() -> None:
    text = 'let w : !A -> !B = agent { prompts: ["a.md"] temperature: 0.5 options: { seed: 1 } }'
    assert table(text, "processes", "w", "options") == {"prompts": ["a.md"], "temperature": 0.5, "seed": 1}


def test_the_names_of_all_files_are_one_namespace() -> None:
    sources = [
        ("a.plumb", "let search : Query -> [Hit] = tool { mcp: ldc }"),
        ("b.plumb", 'type Query = string type Hit = string let ldc = { url: "u" }'),
    ]
    assert read_notation(sources).table == {
        "types": {"Query": "string", "Hit": "string"},
        "mcp": {"ldc": {"url": "u"}},
        "tools": {"search": {"type": "Query -> [Hit]", "mcp": "ldc"}},
        "processes": {},
    }


def test_a_module_comes_before_every_name_in_it() -> None:
    text = """
        module Fs
        type Path = string
        let disk = { command: "fs" }
        let read : Path -> Text = tool { mcp: disk }
        let tail = map(input)
        let main : !Path -> !string = plumb { lift(read) ; tail ; Other.f ; other }
        let w : !Path -> !string = agent { tools: [read, write] }
    """
    assert read(text).table == {
        "types": {"Fs.Path": "string"},
        "mcp": {"Fs.disk": {"command": "fs"}},
        "tools": {"Fs.read": {"type": "Fs.Path -> Text", "mcp": "Fs.disk"}},
        "processes": {
            "Fs.tail": {"kind": "map", "map": "input"},
            "Fs.main": {
                "kind": "plumb",
                "type": "!Fs.Path -> !string",
                "chain": ["lift(Fs.read)", "Fs.tail", "Other.f", "other"],
            },
            "Fs.w": {"kind": "agent", "type": "!Fs.Path -> !string", "tools": ["Fs.read", "write"]},
        },
    }


def test_a_module_is_for_its_own_file_only() -> None:
    sources = [("a", "module A let f = id"), ("b", "let f = plumb { f ; A.f }")]
    assert read_notation(sources).table["processes"] == {
        "A.f": {"kind": "id"},
        "f": {"kind": "plumb", "chain": ["f", "A.f"]},
    }


def test_a_module_in_a_module_looks_outwards() -> None:
    sources = [("a", "module A.B let f = plumb { g ; h ; i }  let g = id"), ("b", "let A.h = id let i = id")]
    processes = read_notation(sources).table["processes"]
    assert isinstance(processes, dict)
    assert processes["A.B.f"]["chain"] == ["A.B.g", "A.h", "i"]


def test_the_types_of_a_file_are_shown_as_the_catalog_reads_them() -> None:
    text = "type A = { a: int b?: [string | unit] type: (int, !(int | json)) } | ((bool))"
    assert table(text, "types", "A") == "{a: int, b?: [string | unit], type: (int, !(int | json))} | bool"


def test_the_words_of_the_notation_are_keys_and_fields_as_well() -> None:
    text = """
        type T = { type: int, let: int, tool?: int, map: int, filter: int, true: bool, module: int }
        let o = { type: 1 agent: 2 plumb: 3 map: 4 filter: 5 id: 6 channel: 7 }
        let w : T -> T = agent { options: o }
    """
    assert table(text, "processes", "w", "options") == {
        "type": 1, "agent": 2, "plumb": 3, "map": 4, "filter": 5, "id": 6, "channel": 7,
    }  # fmt: skip


def test_every_kind_of_comment_may_stand_between_any_two_words() -> None:
    bare = "@tool true let f : { a : int } -> [ int ] = map ( a ) let x = { k : [ 1 , 2 ] } type T = ( int )"
    commented = bare.replace(" ", " (* one (* in * ) another *) *) # rest }\n // rest [\n ")
    assert read(commented).table == read(bare).table


def test_places_say_where_everything_stands() -> None:
    places = read('type A = int\nlet s = { url: "u" }\n@call_s 5\nlet f : A -> A = tool { mcp: s,\n name: "x" }').places
    assert places["types", "A"] == SourcePosition("f.plumb", 1, 6)
    assert places["mcp", "s", "url"] == SourcePosition("f.plumb", 2, 11)
    assert places["tools", "f"] == SourcePosition("f.plumb", 4, 5)
    assert places["tools", "f", "type"] == SourcePosition("f.plumb", 4, 9)
    assert places["tools", "f", "mcp"] == SourcePosition("f.plumb", 4, 25)
    assert places["tools", "f", "name"] == SourcePosition("f.plumb", 5, 2)
    assert places["tools", "f", "call_s"] == SourcePosition("f.plumb", 3, 1)


def test_the_place_of_what_has_none_is_that_of_what_is_around_it() -> None:
    notation = read("let f : A -> A = id")
    assert notation.place_of(("tools", "f", "no such key", 3)) == SourcePosition("f.plumb", 1, 5)
    assert notation.place_of(("limits",)) is None


def test_a_character_of_an_expression_is_found_in_the_file() -> None:
    notation = read("let f : A -> B =\n  map({verdict, b: not # rest\n   . = 3})")
    assert table("let f : A -> B =\n  map({verdict, b: not # rest\n   . = 3})", "tools", "f", "map") == (
        '{"verdict": verdict, "b": !\n   input == 3}'
    )
    assert notation.place_in(("tools", "f", "map"), 1, 1) == SourcePosition("f.plumb", 2, 7)
    assert notation.place_in(("tools", "f", "map"), 2, 10) == SourcePosition("f.plumb", 3, 6)
    assert notation.place_in(("tools", "f", "type"), 1, 1) == SourcePosition("f.plumb", 1, 9)


def test_a_name_in_a_type_is_found_in_the_file() -> None:
    notation = read("type B = {a: [int],\n b: Foo | !(Bar | A)}\nlet f : (Q) -> !R = id")
    assert notation.table["types"] == {"B": "{a: [int], b: Foo | !(Bar | A)}"}
    assert notation.place_in(("types", "B"), 1, 1) == SourcePosition("f.plumb", 1, 10)
    assert notation.place_in(("types", "B"), 1, 15) == SourcePosition("f.plumb", 2, 5)
    assert notation.place_in(("types", "B"), 1, 21) == SourcePosition("f.plumb", 2, 11)
    assert notation.place_in(("types", "B"), 1, 23) == SourcePosition("f.plumb", 2, 13)
    assert notation.place_in(("types", "B"), 1, 29) == SourcePosition("f.plumb", 2, 19)
    assert notation.place_in(("processes", "f", "type"), 1, 1) == SourcePosition("f.plumb", 3, 10)
    assert notation.place_in(("processes", "f", "type"), 1, 7) == SourcePosition("f.plumb", 3, 17)


def test_what_is_wrong_is_left_out_and_the_rest_is_there() -> None:
    notation = read('let f : int -> int = tool { nmae: 5 title: "x" doc: nobody }\n@tool true let g : int -> int = id')
    assert len(notation.problems) == 2
    assert notation.table["tools"] == {
        "f": {"type": "int -> int", "title": "x"},
        "g": {"type": "int -> int", "inline": "id"},
    }
    assert ("tools", "f") in notation.lacking
    assert ("tools", "g") not in notation.lacking


def test_one_wrong_file_is_told_before_names_are_looked_at() -> None:
    assert wrong("let", "let f = tool { doc: nobody }", "let x") == [
        "1:4: expected a name, found the end of the file",
        '1:6: expected ":" or "=", found the end of the file',
    ]


def test_all_that_is_wrong_with_names_is_told_in_the_order_of_the_files() -> None:
    assert wrong("let f = tool { doc: a }\n@tol 5 let g = id", "let f = id") == [
        '1:21: no value is named "a"',
        "2:1: there is no annotation @tol [tool]",
        '1:5: "f" is declared already, in f.plumb, line 1',
    ]


def test_a_file_is_read_once() -> None:
    with pytest.raises(NotationError, match="this file is named twice"):
        read_notation([("a", ""), ("a", "")])


def test_no_file_and_an_empty_one_mean_empty_tables() -> None:
    empty: dict[str, object] = {"types": {}, "mcp": {}, "tools": {}, "processes": {}}
    assert read_notation([]).table == read("").table == read("\ufeff (* nothing *) ").table == empty


def test_a_text_over_its_bound_is_refused() -> None:
    assert wrong("#" * (1024 * 1024)) == []
    assert wrong("#" * (1024 * 1024 + 1)) == ["1:1: a file has at most 1048576 characters, and this one has 1048577"]


def test_what_is_read_is_a_configuration() -> None:
    text = """
        let ldc = { command: "npx", args: ["-y"] tools: [a, b] env: { KEY: "v" } }
        @hint "h" let s : {q: string} -> json = tool { mcp: ldc name: "search" call_s: 3 }
        let w : !json -> !json = agent { mcp: ["http://x", ldc] model: "m" options: { k: { a: [1, -2.5, true] } } }
        let m : !json -> !json = plumb(input, output) { input ; w ; lift(s) ; filter(true) ; output }
    """
    config = msgspec.convert(read(text).table, Config)
    assert config.processes["m"].chain == ("w", "lift(s)", "m.filter1")
    assert config.mcp["ldc"].tools == ("a", "b")


def test_an_agent_has_every_key_that_it_has_in_a_configuration() -> None:
    text = """
        let w : !A -> !B = agent {
          prompt: "p" model: "m" tools: [] mcp: [] command: "x" args: [] env: {} cwd: "." description: "d"
          input_mode: "text" output_mode: "text" exit_codes: [0, 1] ports: "stdio" stop_s: 5
          cpu_s: 1 memory: "64M" processes: 2 files: 9 file_size: "1M" output_bytes: "1M" nice: 1 user: 1 group: 1
          network: false read: ["."] write: [] sandbox: "required" temperature: 0.5
        }
    """
    agent = table(text, "processes", "w")
    assert isinstance(agent, dict)
    own = set(ProcessSpec.__struct_fields__) - AGENT_KEYS.keys()
    assert set(agent) == own - {"map", "filter", "project", "chain"}
    assert agent["options"] == {"temperature": 0.5}
    assert msgspec.convert(agent, ProcessSpec).stop_s == 5


def test_each_key_of_a_profile_is_one_of_an_agent_and_none_is_an_option() -> None:
    keys = " ".join(f"{key}: x" for key in AGENT_KEYS)
    agent = table(f"let x = 1 let w : !A -> !B = agent {{ {keys} }}", "processes", "w")
    assert isinstance(agent, dict)
    assert set(agent) == {"kind", "type", *AGENT_KEYS}


def test_a_tool_has_every_key_that_it_has_in_a_configuration() -> None:
    text = """
        let f = tool {
          command: "x" stop_s: 1 exit_codes: "result" state: true aliases: ["g"] mode: "background" cwd: "workspace"
          output_mode: "image/png"
        }
    """
    tool = msgspec.convert(table(text, "tools", "f"), ToolSpec)
    assert (tool.stop_s, tool.exit_codes, tool.state, tool.aliases, tool.mode) == (
        1,
        "result",
        True,
        ("g",),
        "background",
    )


def test_a_server_has_every_key_that_it_has_in_a_configuration() -> None:
    text = """
        let docs = {
          url: "https://docs.example/mcp" transport: "http" headers: { "X-Team": "docs" } hosts: ["login.example"]
          token: "t" token_env: "T" token_file: "t" auth: "oauth" ca: "ca.pem" cert: "c.pem" key: "c.key" private: true
          oauth: { grant: "client_credentials" client_id: "x" client_secret_env: "S" scopes: ["read"] }
          output_check: "warn" reset_timeout_on_progress: true max_call_s: 600 repair: false
          protocol: "2025-06-18" on_timeout: "cancel" restart: "backoff" shared: true lazy: true trace: true
          mcp_resources: true command: "x" args: [] env: {} cwd: "." tools: [a] allow: [a] deny: [b] prefix: "d"
          enabled: false meta: true handshake_s: 5 call_s: 5
          cpu_s: 1 memory: "64M" processes: 2 files: 9 file_size: "1M" output_bytes: "1M" nice: 1 user: 1 group: 1
          network: false read: ["."] write: [] sandbox: "required"
          queue: "q" priority: "low" exclusive: "docs" breaker: "5 in 30s, rest 10s" read_only: [a] idempotent: [a]
          cache: { get_a: "5m" } cache_scope: "shared" single_flight: true tags: ["a"]
          redact: true when: "size(input) < 9" approve: "always" max_output: 4096 overflow: "store" keep_s: 9 spare: 1
        }
        let s : {q: string} -> json = tool { mcp: docs }
    """
    docs = table(text, "mcp", "docs")
    assert isinstance(docs, dict)
    assert set(docs) == set(McpSpec.__struct_fields__)
    config = msgspec.convert(read(text).table, Config)
    assert config.mcp["docs"].oauth == OAuthSpec(
        grant="client_credentials", client_id="x", client_secret_env="S", scopes=("read",)
    )
