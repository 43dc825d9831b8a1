"""The blocking client: `TOOLDISPATCHD_SOCKET=PATH python3 with_blocking.py`."""
# ruff: noqa: T201  # what an agent does with an answer, an example prints

from tooldispatchd.client import Call, FaultError, connect

with connect() as client:
    for tool in client.hello("default").tools:
        print(tool.name, "-", tool.description)

    answer = client.call("greet", {"name": "Ada"}, deadline_ms=5000)
    print(answer.content, answer.is_error)  # an error that the tool itself reports is an answer

    try:
        client.call("greet", {"nom": "Ada"})
    except FaultError as fault:  # one that the daemon reports is a fault
        print(fault.code, fault.category, fault.retryable)

    for number, found in client.as_completed(Call("echo", word) for word in ("one", "two", "three")):
        print(number, found if isinstance(found, FaultError) else found.content)
    client.bye()
