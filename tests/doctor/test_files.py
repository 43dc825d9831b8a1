"""Who may change a configuration, and where it is written to."""

from pathlib import Path

import pytest

from tooldispatchd.doctor.diagnosis import Health
from tooldispatchd.doctor.files import examine_directory, examine_file


@pytest.mark.parametrize(
    ("file_mode", "directory_mode", "health", "said"),
    [
        (0o644, 0o755, Health.FINE, "mode 0644"),
        (0o666, 0o755, Health.WRONG, "anyone may change it (mode 0666)"),
        (0o644, 0o777, Health.WRONG, "anyone may put another file in its place"),
        (0o644, 0o1777, Health.FINE, "mode 0644"),
    ],
)
def test_a_configuration_that_others_may_change_is_wrong(
    file_mode: int, directory_mode: int, health: Health, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "t.toml"
    file.touch()
    file.chmod(file_mode)
    tmp_path.chmod(directory_mode)
    found = examine_file(file)
    assert found.health is health
    assert found.said.startswith(said)


def test_the_directory_of_a_store_must_be_there_and_that_of_state_is_made(tmp_path: Path) -> None:
    missing = tmp_path / "a" / "b"
    assert examine_directory(missing).advice == f"mkdir -p {missing}"
    assert examine_directory(missing, is_made=True).health is Health.FINE
    assert not missing.exists()
