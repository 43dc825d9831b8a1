"""Which programs one child of may serve several calls."""

from tooldispatchd.catalog.arguments import Moded
from tooldispatchd.catalog.problems import Path, Problem


def reuse_problems(spec: Moded, path: Path) -> list[Problem]:
    """What is wrong with `reuse`: only lines of JSON say where one call's input ends and the next one's begins."""
    return [
        Problem((*path, key), f'reuse takes {key} = "json": a line for each call', value=mode)
        for key, mode in (("input_mode", spec.input_mode), ("output_mode", spec.output_mode))
        if spec.reuse is not None and mode != "json"
    ]
