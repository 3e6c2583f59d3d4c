"""Lets work finish after a cancellation, within a time limit."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def with_grace(work: Callable[[], Awaitable[T]], grace_s: float) -> T:
    """Do `work`. When the caller is cancelled meanwhile, the work may continue for `grace_s` seconds.

    Some work cannot be undone halfway, so it is better to learn its result. Cancelled, this function leaves
    when the work has ended or its grace period is over, with a plain `Cancelled`; the result or exception of
    the work is lost.
    """
    error = None
    async with trio.open_nursery() as nursery:
        shielded = trio.CancelScope(shield=True)
        nursery.start_soon(_limit, shielded, grace_s)
        with shielded:
            try:
                done = await work()
            except Exception as raised:  # noqa: BLE001  # raised below: outside of the nursery it stays as it is
                error = raised
        nursery.cancel_scope.cancel()
    await trio.lowlevel.checkpoint_if_cancelled()
    if error is not None:
        raise error
    return done


async def _limit(scope: trio.CancelScope, grace_s: float) -> None:
    """Wait for a cancellation from outside, and give the scope its deadline."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:  # the caller meets the cancellation as well, and alone: after the nursery
        scope.deadline = min(scope.deadline, trio.current_time() + grace_s)
