"""What is told of a value that breaks its schema."""

from tooldispatchd.catalog.schemas import Check
from tooldispatchd.wire.faults import Code, Fault


def fault_of(code: Code, check: Check, value: object) -> Fault:
    """`invalid_input` or `invalid_output`, with what is wrong in `violations`."""
    violations = [{"path": violation.path, "message": violation.message} for violation in check.violations(value)]
    first = violations[0] if violations else {"path": "", "message": "does not match"}
    detail = f"{first['path']}: {first['message']}" if first["path"] else first["message"]
    return Fault(code, detail, {"violations": violations})
