"""What agents are told of failures."""

from tooldispatchd.agent.faults import without_secrets
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.wire.faults import Code, Fault


def test_no_fault_holds_a_secret_and_a_server_has_its_name() -> None:
    masker = Masker(["https://hooks.example/T0/secret-hook"])
    extras: dict[str, object] = {"server": "https://hooks.example", "stderr_tail": "cannot reach https://hooks.example"}
    told = without_secrets(Fault(Code.TOOL_FAILED, "https://hooks.example/T0/secret-hook failed", extras), masker)
    assert told.detail == "… failed"
    assert told.extras == {"server": "https://hooks.example", "stderr_tail": "cannot reach …"}
