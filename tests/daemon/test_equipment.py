"""What programs need, where it cannot be had."""

from pathlib import Path

import pytest
import trio

from tests.agent.fakes import Ledger
from tooldispatchd.agent.setup import Setup
from tooldispatchd.catalog.masker import NO_SECRETS
from tooldispatchd.children.family import open_family
from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.daemon.equipment import EquipmentError, open_equipment

# Directories for programs are there, in a nursery of their own, when the directory for agents cannot be made.
CONFIG = """
[tools.who]
python = "whoami:who"
[processes.helper]
kind = "agent"
type = "!int -> !int"
command = ["/bin/cat"]
[agents.helper]
[agents.default]
"""


async def test_equipment_that_fails_half_way_says_why(tmp_path: Path) -> None:
    (tmp_path / "whoami.py").write_text("def who() -> int:\n    return 1\n")
    (tmp_path / "config.toml").write_text(CONFIG)
    catalog, log = load_catalog(tmp_path / "config.toml", {}), Ledger()
    (tmp_path / "run").touch()
    async with (
        open_family() as family,
        open_equipment(family, {"RUNTIME_DIRECTORY": str(tmp_path / "run")}, log, NO_SECRETS) as equipment,
    ):
        with pytest.raises(EquipmentError, match="cannot make a directory for what programs need"):
            await equipment.suit(Setup(catalog, log, uid=1000))
        assert equipment.bounds is None


async def test_equipment_that_is_not_waited_for_any_more_is_closed(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[tools.echo]\ninline = "id"\n')
    catalog, log = load_catalog(tmp_path / "config.toml", {}), Ledger()
    async with open_family() as family, open_equipment(family, {}, log, NO_SECRETS) as equipment:
        with trio.CancelScope() as waiting:
            waiting.cancel()
            # The daemon ends only when this has: it was never told to.
            await equipment.suit(Setup(catalog, log, uid=1000))
        assert waiting.cancelled_caught
        assert equipment.bounds is None
