"""A grace period: after a cancellation, work may finish within a time limit."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def with_grace(work: Callable[[], Awaitable[T]], grace_s: float) -> T:
    """Run `work` and return its result. On cancellation, the work may continue for `grace_s` seconds.

    Use this function for work that must not stop halfway. After a cancellation, the function raises only
    `Cancelled`, as soon as the work has ended or the grace period is over. The work's result or error is
    lost.
    """
    error = None
    async with trio.open_nursery() as nursery:
        shielded = trio.CancelScope(shield=True)
        nursery.start_soon(_limit, shielded, grace_s)
        with shielded:
            try:
                done = await work()
            except Exception as raised:  # noqa: BLE001  # raised below, where no nursery wraps it in a group
                error = raised
        nursery.cancel_scope.cancel()
    await trio.lowlevel.checkpoint_if_cancelled()  # a cancelled caller gets `Cancelled`, never the error
    if error is not None:
        raise error
    return done


async def _limit(scope: trio.CancelScope, grace_s: float) -> None:
    """Wait until the caller is cancelled; then give the shielded scope `grace_s` more seconds."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:  # swallowed here: `with_grace` raises it after the nursery, as a plain `Cancelled`
        scope.deadline = min(scope.deadline, trio.current_time() + grace_s)
