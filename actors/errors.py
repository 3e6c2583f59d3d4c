"""What the runtime raises on purpose."""
# they say what happened: most of them are no faults


class ActorError(Exception):
    """Base of the runtime's errors. `path` names the child's node: "root/branch/leaf"."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path = path


class MailboxFull(ActorError):
    """The mailbox has no room and the sender does not wait. The message was not taken."""

    def __init__(self, path: str, capacity: int) -> None:
        super().__init__(path, f"the mailbox is full ({capacity} messages)")
        self.capacity = capacity


class ActorStopped(ActorError):
    """The actor has stopped for good.

    A `tell` that raises this was never taken. An `ask` that raises it was refused, or was still queued at
    the final stop, or was cut off in the middle because the actor had to stop.
    """

    def __init__(self, path: str, text: str = "the actor has stopped") -> None:
        super().__init__(path, text)


class ActorCrashed(ActorError):
    """The actor crashed while it worked on this ask. `__cause__` is what it crashed with."""

    def __init__(self, path: str, cause: BaseException) -> None:
        super().__init__(path, f"the actor crashed: {type(cause).__name__}: {cause}")
        self.__cause__ = cause


class Refused(Exception):
    """Raised by a handler: the asker gets `error` raised, and the actor goes on. That is not a crash.

    For errors that are expected. Of a message that was told, nothing is left: there is no asker. Raised
    anywhere else in an actor, it is a crash like any other error.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error


class RestartLimitExceeded(ActorError):
    """A restart more than `max_restarts` within `within` seconds was due. `__cause__` is the last crash."""

    def __init__(self, path: str, max_restarts: int, within: float, cause: BaseException | None) -> None:
        reason = f", last {type(cause).__name__}: {cause}" if cause is not None else ""
        super().__init__(path, f"more than {max_restarts} restarts within {within:g} s{reason}")
        self.max_restarts = max_restarts
        self.within = within
        self.__cause__ = cause


class AskedItself(ActorError, RuntimeError):
    """An actor would wait for itself: it asked, stopped or looked for itself from its own handler."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "the actor would wait for itself forever")


class TooManyChildren(ActorError):
    """The supervisor holds `max_children` keyed children already; none was started."""

    def __init__(self, path: str, max_children: int) -> None:
        super().__init__(path, f"there are {max_children} children already")
        self.max_children = max_children
