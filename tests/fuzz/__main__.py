"""`python -m tests.fuzz`: search for inputs that break an invariant, or play those that did again."""

import argparse
import random
import sys
from pathlib import Path

from tests.fuzz.search import Finding, search, shrink, try_input


def main() -> int:
    """0 where nothing was found, 1 where something was."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="*", type=Path, help="play these files, and search nothing")
    parser.add_argument("--seconds", type=float, default=600, help="how long to search (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="search as another run did (default: another each time)")
    args = parser.parse_args()
    if args.inputs:
        return replay(args.inputs)
    seed = random.SystemRandom().randrange(2**32) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    kinds: set[str] = set()
    count = 0
    for count, found in search(args.seconds, seed):  # the last count is told
        if count % 1000 == 0:
            print(f"{count} inputs", flush=True)
        if found is not None and (kind := str(found.error)[:20]) not in kinds:
            kinds.add(kind)
            print(shrink(found, seconds=20).tell(), flush=True)
    print(f"{count} inputs, {len(kinds)} findings", flush=True)
    return 1 if kinds else 0


def replay(paths: list[Path]) -> int:
    """Play files again and say what came of each."""
    findings = 0
    for path in paths:
        result = try_input(path.read_bytes())
        if isinstance(result, Finding):
            findings += 1
            print(f"{path}: {type(result.error).__name__}: {result.error}")
        else:
            print(f"{path}: nothing found")
            for line in result:
                print(f"  {line}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
