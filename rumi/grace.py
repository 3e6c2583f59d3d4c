"""Work that is not cut off in the middle, and does not hold anyone up for ever either."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def with_grace(work: Callable[[], Awaitable[T]], grace_s: float) -> T:
    """Do `work`. When the caller is cancelled meanwhile, it may go on for `grace_s` seconds more.

    What is under way cannot always be called back: better to hear what became of it. Cancelled, this leaves
    when the work has ended or its grace is over, by a plain `Cancelled`; what it returned or raised is lost.
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
    except trio.Cancelled:  # which the caller meets as well, and alone: behind the nursery
        scope.deadline = min(scope.deadline, trio.current_time() + grace_s)
