"""Paths of which no part may be a symbolic link."""

import errno
import os
from pathlib import Path

import pytest

from tests.conftest import open_descriptors
from tests.forked.sandbox.confined import need_means, run_python
from tooldispatchd.forked.nolinks import open_straight


def test_a_path_without_links_is_opened(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    (place / "file").write_text("text")

    for path in (place, place / "file", Path("/")):
        fd = open_straight(str(path))
        try:
            assert os.path.samestat(os.fstat(fd), path.stat())
        finally:
            os.close(fd)


@pytest.mark.parametrize("name", ["link", "link/below", "absent", "real/below/absent"])
def test_a_path_with_a_link_is_refused(tmp_path: Path, name: str) -> None:
    place = tmp_path.resolve()
    (place / "real" / "below").mkdir(parents=True)
    (place / "link").symlink_to("real")
    before = open_descriptors()

    with pytest.raises(OSError, match=name) as refused:
        os.close(open_straight(f"{place}/{name}"))

    assert refused.value.errno == (errno.ENOENT if "absent" in name else errno.ELOOP)
    assert open_descriptors() == before


@pytest.mark.parametrize("field", ["read", "write"])
def test_a_place_that_has_become_a_link_is_not_followed(tmp_path: Path, field: str) -> None:
    need_means("landlock", "read", "write")
    place = tmp_path.resolve()
    (place / "elsewhere" / "below").mkdir(parents=True)
    (place / "above").symlink_to("elsewhere")

    said = run_python(
        """
try:
    confine.prepare(Policy(**{sys.argv[2]: (sys.argv[3],)}))
except confine.ConfineError as error:
    print(error.strerror)
""",
        field,
        f"{place}/above/below",
    )

    assert said == f"cannot let a program use '{place}/above/below': Too many levels of symbolic links"


def test_a_place_that_becomes_a_link_once_it_is_prepared_is_not_made_writable(tmp_path: Path) -> None:
    need_means("landlock", "read", "write")
    place = tmp_path.resolve()
    (place / "above" / "below").mkdir(parents=True)
    (place / "elsewhere" / "below").mkdir(parents=True)

    said = run_python(
        """
policy = Policy(write=(sys.argv[2] + "/above/below",))
confine.prepare(policy)
os.rename(sys.argv[2] + "/above", sys.argv[2] + "/before")
os.symlink("elsewhere", sys.argv[2] + "/above")
try:
    confine.confine(policy, program=None, scratch=None, leaf=None)
    os.mkdir(sys.argv[2] + "/above/below/made")
except OSError:
    print("refused")
""",
        str(place),
    )

    assert said == "refused"
    assert list((place / "elsewhere" / "below").iterdir()) == []
