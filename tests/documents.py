"""`python -m tests.documents`: each operation of real documents of OpenAPI, called; and thousands of documents, loaded.

What is not as the document says is printed; the exit code is 1 where there is any of that.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.real.apidocs import CALLED, DIRECTORY, DOCUMENTS, builder_of, call_each, describing, json_of, made_of
from tooldispatchd.catalog.schemas import SchemaError, compile_check

# The two of Microsoft's Graph, which nobody offers whole: 11,000 and 22,000 operations.
MAX_BYTES: Final = 16 * 1024 * 1024


def main() -> int:
    """Load all, call some; the exit code."""
    return 1 if sum([*map(_called, CALLED), _loaded()]) else 0


def _called(name: str) -> int:
    """Call each operation of one document; how many requests are not valid."""
    text = json_of(DOCUMENTS[name])
    made = made_of(text)
    with tempfile.TemporaryDirectory() as directory, describing(Path(directory), text) as connection:
        report = call_each(made, connection, len(made.tools))
    print(f"{name}: {dict(report.counts)}", flush=True)
    for operation, (wrong, values) in report.invalid.items():
        print(f"    {operation} with {str(values)[:200]}", *(f"        {line[-200:]}" for line in wrong), sep="\n")
    return len(report.invalid)


def _loaded() -> int:
    """Load each document of the directory; how many tools of theirs could not be used."""
    counts: Counter[str] = Counter()
    wrong = 0
    for path in sorted(DIRECTORY.rglob("*.json")):
        if path.stat().st_size > MAX_BYTES:
            continue
        made = made_of(json_of(path))
        counts += Counter(documents=1, tools=len(made.tools), left_out=len(made.left_out))
        for name, tool in made.tools.items():
            builder_of(name, tool)
            try:
                compile_check(dict(tool["input_schema"]))  # type: ignore[call-overload]
            except SchemaError as error:
                wrong += 1
                print(f"{path.name}: {made.operations[name]}: {error}")
    print(dict(counts))
    return wrong


if __name__ == "__main__":
    sys.exit(main())
