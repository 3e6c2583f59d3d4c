"""How all benchmarks print: medians with their spread, and ratios of rounds that were run side by side."""

import math
import statistics
from collections.abc import Sequence


def spread(values: Sequence[float], unit: str = "", scale: float = 1.0) -> str:
    """`median (lowest … highest)`."""
    low, mid, high = (v * scale for v in (min(values), statistics.median(values), max(values)))
    return f"{mid:.3g} ({low:.3g} … {high:.3g}){f' {unit}' if unit else ''}"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours over theirs, round by round."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def row(name: str, figure: str, aim: str = "") -> None:
    """One line of a benchmark's report."""
    print(f"{name:<46} {figure:<34} {f'aim: {aim}' if aim else ''}".rstrip(), flush=True)
