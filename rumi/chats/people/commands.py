"""Which chat commands a role allows: the one place that says it."""

from rumi.agent.permissions.rights import NOBODY, Rights


def may_do(
    rights: Rights, name: str, rest: str = "", *, group: bool = False, has_handler: bool = False
) -> bool:
    """Return True if a role allows a command, by its name and what stands behind it.

    `group`: more people share the chat, its history and its files. `room`: a room serves the command, so a
    `/stop` is one of a task, of a bot, or of everything. A command that is unknown here needs a role that
    may use all tools. `/allow` and `/stop all` also ask if the sender is an admin.
    """
    if rights == NOBODY:
        return False
    match name:
        case "start" | "help" | "status" | "retry" | "usage" | "whoami" | "allow":
            return True
        case "stop":
            return not has_handler or rights.leaves_work or rights.may_use("research")
        case "forget_everything":
            return not group or rights.tools is None
        case "new" | "reset" | "undo":
            return rights.changes_files or not (group or rest)
        case "memory":
            return not (group and rest) or rights.may_use("forget")
        case "skills":
            return rights.may_use("use_skill")
        case "research" | "recall":
            return rights.may_use(name)
        case "tasks":
            return rights.leaves_work or rights.may_use("research")
        case "bots" | "bot" | "wake":
            return rights.bots != 0
        case "remind" | "schedules" | "timezone":
            return rights.schedules != 0
        case "yes" | "no":
            return rights.leaves_work
        case "share" | "unshare":
            return rights.may_use("remember")
        case "model":
            return rights.models is None or not rest or rest in rights.models
        case _:
            return rights.tools is None
