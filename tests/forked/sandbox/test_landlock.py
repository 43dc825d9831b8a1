from pathlib import Path

import pytest

from tests.forked.sandbox.confined import need_means, run_python
from tooldispatchd.forked.sandbox import landlock


@pytest.mark.parametrize(
    ("version", "bits"),
    [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (6, 16), (7, 16), (8, 16), (9, 17), (12, 17)],
)
def test_the_rights_are_those_that_the_kernel_knows(version: int, bits: int) -> None:
    assert landlock.known_rights(version) == (1 << bits) - 1


def test_reading_and_writing_restricted_take_every_right() -> None:
    what = landlock.handled(7, read=True, write=True, network=False)

    assert what == landlock.Handled(files=0xFFFF, ports=3, scopes=3)


def test_reading_alone_leaves_files_to_be_moved_and_changed() -> None:
    what = landlock.handled(7, read=True, write=False, network=True)

    assert what.files == landlock.READ | landlock.MAKE_DEVICES | landlock.REFER
    assert what.ports == 0


def test_an_old_kernel_is_asked_for_nothing_that_it_does_not_know() -> None:
    what = landlock.handled(1, read=True, write=True, network=False)

    assert what == landlock.Handled(files=0x1FFF, ports=0, scopes=0)


def test_a_domain_keeps_what_its_rules_give_and_no_more(tmp_path: Path) -> None:
    need_means("landlock", "read", "write")
    (tmp_path / "file").write_text("file")
    (tmp_path / "other").write_text("other")

    said = run_python(
        """
import pathlib
here = pathlib.Path(sys.argv[2])
libc.forbid_privileges()
with landlock.Ruleset(landlock.handled(landlock.abi(), read=True, write=True, network=True)) as rules:
    # Of a file's rule only what a file can have is taken.
    rules.allow_path(str(here / "file"), landlock.READ | 1 << 7)
    rules.restrict_self()
print((here / "file").read_text(), os.access(here, os.R_OK))
for action in ((here / "other").read_text, lambda: (here / "file").write_text("changed"), lambda: os.listdir(here)):
    try:
        print(action())
    except OSError as error:
        print(error.strerror)
""",
        str(tmp_path),
    )

    assert said.splitlines() == ["file True", "Permission denied", "Permission denied", "Permission denied"]


def test_a_ruleset_leaves_no_descriptor(tmp_path: Path) -> None:
    need_means("landlock", "read")
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())

    with landlock.Ruleset(landlock.handled(landlock.abi(), read=True, write=False, network=True)) as rules:
        rules.allow_path(str(tmp_path), landlock.READ)
        with pytest.raises(FileNotFoundError):
            rules.allow_path(str(tmp_path / "missing"), landlock.READ)

    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before


def test_places_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    said = run_python(
        "print([is_directory for _, is_directory in landlock.open_places(sys.argv[2:])])",
        str(tmp_path),
        str(tmp_path / "missing"),
        "/dev/null",
    )

    assert said == "[True, False]"
