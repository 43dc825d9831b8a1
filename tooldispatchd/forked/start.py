"""Start a program of this package by path, under any interpreter: `python -I -S start.py PROGRAM WORDS…`.

Nothing else of the interpreter's becomes visible: the package is made known under its name, without the directory that
it stands in, where the rest of what the daemon needs may lie too.
"""

import sys

PACKAGE = "tooldispatchd"


def main(program: str, words: list[str]) -> None:
    """Run `launcher POLICY [leaf]`, `warm LOAD`, `signatures FD FD` or `abilities`."""
    package = type(sys)(PACKAGE)
    package.__path__ = [__file__.rpartition("/")[0] + "/.."]
    sys.modules[PACKAGE] = package
    # Where they are needed, as another program's imports would only make this one larger.
    if program == "launcher":
        from tooldispatchd.forked.sandbox.launch import serve_launches  # noqa: PLC0415

        serve_launches(words[0], has_leaf="leaf" in words)
    elif program == "warm":
        from tooldispatchd.forked.loop import serve  # noqa: PLC0415
        from tooldispatchd.forked.python.warm import serve_warm  # noqa: PLC0415

        serve_warm(words[0], serve)
    elif program == "signatures":
        from tooldispatchd.forked.python.reading import main as read_signatures  # noqa: PLC0415

        read_signatures(words)
    elif program == "abilities":
        from tooldispatchd.forked.sandbox.abilities import main as find_abilities  # noqa: PLC0415

        find_abilities()
    else:
        sys.exit(f"there is no program '{program}'")


if __name__ == "__main__":
    # The directory of this file, where the interpreter put it there, would hide modules of others.
    if sys.path and sys.path[0] == __file__.rpartition("/")[0]:
        sys.path.pop(0)
    main(sys.argv[1], sys.argv[2:])
