"""What is said of programs: their modes, their bounds, and how they are shut in on this machine or another."""

from tooldispatchd.catalog.enforcement import Enforceable
from tooldispatchd.catalog.programlines import bound_lines, program_lines
from tooldispatchd.catalog.specs import ProcessSpec, ProfileSpec, ToolSpec

ALL = Enforceable()


FREE = "bounds: none; not shut in"


def test_a_program_that_nothing_is_asked_of_is_said_to_be_free() -> None:
    assert list(program_lines(ToolSpec(command=("cat",)), ALL)) == [FREE]


def test_modes_are_said_where_one_is_not_json() -> None:
    spec = ToolSpec(command=("find",), input_mode="args", output_mode="lines")
    assert list(program_lines(spec, ALL)) == ["input: in its arguments; answer: lines", FREE]
    spec = ToolSpec(command=("wc",), input_mode="text")
    assert list(program_lines(spec, ALL)) == ["input: text on stdin; answer: one JSON value", FREE]


def test_bounds_are_said_as_a_configuration_writes_them() -> None:
    spec = ToolSpec(command=("x",), cpu_s=5, memory="1024M", file_size=1000, output_bytes="3K", nice=0, user=65534)
    assert list(program_lines(spec, ALL)) == [
        "bounds: cpu_s 5, memory 1G, file_size 1000, output_bytes 3K, nice 0, user 65534"
    ]


def test_a_sandbox_is_said_with_the_means_that_enforces_it() -> None:
    spec = ToolSpec(command=("x",), network=False, read=("/srv",), write=("/var/x",))
    walls = "shut in: no network, reads only /srv and /var/x, changes only /var/x"
    assert list(program_lines(spec, ALL)) == [f"{walls}; by landlock"]
    old = Enforceable({"landlock.write": "the kernel is too old"})
    assert list(program_lines(spec, old)) == [f"{walls}; by bubblewrap"]


def test_who_may_read_little_and_change_nothing_is_said_to() -> None:
    spec = ProcessSpec(kind="agent", command=("x",), read=())
    assert list(program_lines(spec, ALL)) == [
        "shut in: reads only what every program may, changes only what every program may; by landlock"
    ]


def test_what_a_best_effort_cannot_do_is_said() -> None:
    spec = ToolSpec(command=("x",), processes=5, sandbox="best-effort")
    lines = list(program_lines(spec, Enforceable({"processes": "no", "processes_cgroup": "no"})))
    assert lines == ["bounds: processes 5", "sandbox: best-effort", "not enforced on this machine: processes"]


def test_a_function_says_what_is_forked_ahead_and_when_its_parent_is_replaced() -> None:
    spec = ToolSpec(python="a:b", prefork=2, max_forks=50, max_rss="512M")
    assert list(program_lines(spec, ALL)) == [
        "forked ahead: 2",
        "its warm parent is replaced after 50 calls, or at 512M",
        FREE,
    ]


def test_a_resident_function_says_when_a_worker_is_replaced() -> None:
    spec = ToolSpec(python="a:b", resident=True)
    assert list(program_lines(spec, ALL)) == ["a worker is replaced after 10000 calls, or at 1G", FREE]


def test_a_profile_says_its_bounds_without_means() -> None:
    assert list(bound_lines(ProfileSpec(memory="64M", network=False))) == ["bounds: memory 64M", "shut in: no network"]
