"""The order in which tests look for a seed that shows something."""

from collections.abc import Sequence


def by_promise(seeds: Sequence[int], first: int) -> list[int]:
    """Return the seeds from the first promising one on, and then those before it."""
    return [*(seed for seed in seeds if seed >= first), *(seed for seed in seeds if seed < first)]
