import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.confinement import (
    NOTHING,
    SIZE_ALLOWED,
    Confinement,
    SizeError,
    asked_keys,
    confinement_of,
    is_below,
    merge,
    problems_of,
    size_of,
)
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.speckinds import TIB, Size


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("1K", 1024),
        ("512M", 512 * 1024 * 1024),
        ("1 GiB", 1024**3),
        ("2GB", 2 * 1024**3),
        ("1T", TIB),
    ],
)
def test_a_size_is_a_number_of_bytes_with_or_without_a_binary_unit(written: Size, means: int) -> None:
    assert size_of(written) == means


@pytest.mark.parametrize("written", ["", "M", "1.5G", "1 gigabyte", "-1", "1KK", "٣", "1M ", "9999999999999999"])
def test_other_text_is_no_size(written: str) -> None:
    with pytest.raises(SizeError, match="not a size"):
        size_of(written)


@pytest.mark.parametrize("written", [0, -1, "0", TIB + 1, "2T"])
def test_a_size_has_bounds(written: Size) -> None:
    with pytest.raises(SizeError, match="out of range: at least 1 bytes"):
        size_of(written)


def test_the_least_is_the_callers() -> None:
    assert size_of(0, least=0) == 0
    with pytest.raises(SizeError, match="at least 1024 bytes"):
        size_of("1000", least=1024)


numbers = st.none() | st.integers(1, 5)
places = st.none() | st.lists(st.sampled_from(["/", "/a", "/a/b", "/ab", "/c"]), max_size=3).map(tuple)
confinements = st.builds(
    Confinement,
    cpu_s=numbers,
    memory=numbers,
    processes=numbers,
    nice=numbers,
    network=st.booleans(),
    read=places,
    write=places,
    sandbox=st.sampled_from([None, "required", "landlock", "bubblewrap", "best-effort"]),
)


def allows(confinement: Confinement, path: str) -> tuple[bool, bool]:
    """Whether a path may be read, and changed."""
    read = confinement.read is None or any(is_below(path, place) for place in confinement.read)
    return read, confinement.write is None or any(is_below(path, place) for place in confinement.write)


@given(confinements, confinements)
def test_two_tables_allow_what_each_of_them_does(one: Confinement, other: Confinement) -> None:
    both = one.tightened(other)
    for path in ("/", "/a", "/a/b", "/a/b/c", "/ab", "/c/x"):
        expected = [a and b for a, b in zip(allows(one, path), allows(other, path), strict=True)]
        assert list(allows(both, path)) == expected
    assert both.network == (one.network and other.network)
    for key in ("cpu_s", "memory", "processes"):
        given_ = [value for value in (getattr(one, key), getattr(other, key)) if value is not None]
        assert getattr(both, key) == min(given_, default=None)


@given(confinements)
def test_nothing_asked_changes_nothing(one: Confinement) -> None:
    assert one.tightened(NOTHING) == NOTHING.tightened(one) == merge([one])


@given(confinements, confinements)
def test_a_best_effort_of_one_table_does_not_weaken_what_another_requires(one: Confinement, other: Confinement) -> None:
    both = one.tightened(other)
    if both.sandbox == "best-effort":
        assert {one.sandbox, other.sandbox} <= {None, "best-effort"}


def test_a_profile_says_who_its_programs_run_as() -> None:
    tool = Confinement(user=1, group=2)
    assert tool.tightened(Confinement(user=3)) == Confinement(user=3)
    assert tool.tightened(Confinement(user=3, group=4)) == Confinement(user=3, group=4)
    assert tool.tightened(NOTHING) == tool


def test_what_may_be_changed_may_be_read_and_a_reader_changes_nothing() -> None:
    assert confinement_of(ConfinedSpec(read=("/a",))) == Confinement(read=("/a",), write=())
    assert confinement_of(ConfinedSpec(read=("/a",), write=("/b",))) == Confinement(read=("/a", "/b"), write=("/b",))
    assert confinement_of(ConfinedSpec(write=("/b",))) == Confinement(write=("/b",))


def test_sizes_become_bytes() -> None:
    spec = ConfinedSpec(memory="64M", file_size=0, output_bytes="1K")
    assert confinement_of(spec) == Confinement(memory=64 * 1024 * 1024, file_size=0, output_bytes=1024)


def test_the_keys_that_ask_for_anything_are_named() -> None:
    assert asked_keys(ConfinedSpec()) == ()
    assert asked_keys(ConfinedSpec(network=False, nice=0, sandbox="landlock")) == ("nice", "network", "sandbox")


def test_an_empty_list_shuts_out_everything() -> None:
    confinement = confinement_of(ConfinedSpec(read=()))
    assert confinement.is_sandboxed
    assert confinement.tightened(Confinement(read=("/a",))).read == ()


def test_a_size_that_is_none_is_a_problem_with_its_place() -> None:
    problems = problems_of(ConfinedSpec(memory="1M", output_bytes="x"), ("tools", "t"))
    assert problems == [
        Problem(
            ("tools", "t", "memory"),
            "out of range: at least 16777216 bytes, at most 1099511627776",
            value="1M",
            allowed=SIZE_ALLOWED,
        ),
        Problem(("tools", "t", "output_bytes"), "not a size", value="x", allowed=SIZE_ALLOWED),
    ]


@pytest.mark.parametrize("key", ["user", "group"])
def test_a_name_that_nobody_looked_up_is_a_problem(key: str) -> None:
    spec = msgspec.convert({key: "nobody"}, ConfinedSpec)
    assert [problem.path for problem in problems_of(spec, ("agents", "a"))] == [("agents", "a", key)]
