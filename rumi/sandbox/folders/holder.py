"""Holds the mount that shows a folder with a chat's changes above it.

This is a program, not a module of Rumi: it runs as `python -I -S holder.py KEY=VALUE…` and imports nothing of
Rumi, like the keeper of a sandbox (`rumi.sandbox.bubblewrap.keeper`). It mounts an overlay file system:
`lower` is the user's folder, which nothing changes; `upper` gets the changes. The mount is at `view`.

- With `shared` empty, the mount is in a mount namespace of this process, and ends with it. Rumi reaches it
  through /proc/PID/root, and a keeper joins the namespace. An ordinary user needs a user namespace for it,
  with the only ids `uid` and `gid`.
- With `shared`, it is in the host's namespace, where Docker finds it. This process removes it at its end.

As root, commands run as the user `uid`, who has no account. An id-mapped mount of the folder shows them the
files of the folder's owner as their own.

The process writes `ready` to its output, then serves lines of its input: `refresh` drops what the kernel
remembers of the folder's names, so that changes made in the folder become visible; the answer is `fresh`. It
ends at the end of its input, which comes with the end of Rumi.
"""

import ctypes
import os
import signal
import struct
import sys

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_REC, MS_PRIVATE, MNT_DETACH = 2, 4, 32, 16384, 1 << 18, 2
AT_EMPTY_PATH, OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 0x1000, 1, os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_IDMAP = 4, 0x00100000
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
LAST_ID = 0xFFFFFFFE
LAYERS = "lowerdir=/proc/self/fd/{lower},upperdir=/proc/self/fd/{upper},workdir=/proc/self/fd/{work}"
OPTIONS = f"{LAYERS},userxattr,index=off"
"""With `userxattr`, redirects and metadata-only copies are off: a changed file is always a whole file."""
libc = ctypes.CDLL(None, use_errno=True)


def call(what: str, result: int) -> int:
    """Return the result of a libc call; raise OSError if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2)."""
    words = [os.fsencode(word) for word in (source, target, kind)]
    call(
        "overlay" if kind == "overlay" else "mount", libc.mount(*words, ctypes.c_ulong(flags), data.encode())
    )


def unmount(target: str) -> None:
    """Remove a mount; processes that use it keep it until they end."""
    libc.umount2(os.fsencode(target), MNT_DETACH)


def enter_namespaces(uid: int, gid: int) -> None:
    """Enter a mount namespace; as an ordinary user, in a user namespace with only these ids."""
    if os.geteuid() == 0:
        call("mount namespace", libc.unshare(CLONE_NEWNS))
    else:
        ids = os.geteuid(), os.getegid()
        call("user namespace", libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
        maps = {"uid_map": f"{uid} {ids[0]} 1", "gid_map": f"{gid} {ids[1]} 1"}
        for name, text in {"setgroups": "deny", **maps}.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def exchanged(inner: int, outer: int) -> str:
    """Return an id map in which the id `inner` appears as `outer`, and all others as they are."""
    first, last = sorted((inner, outer))
    lines = [f"{inner} {outer} 1"]
    if inner != outer:
        lines.append(f"{outer} {inner} 1")
    ranges = ((0, first), (first + 1, last), (last + 1, LAST_ID))
    lines += [f"{start} {start} {end - start}" for start, end in ranges if end > start]
    return "\n".join(lines)


def id_map(uid: tuple[int, int], gid: tuple[int, int]) -> int:
    """Return the descriptor of a user namespace with the id maps."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        failed = libc.unshare(CLONE_NEWUSER)
        os.write(ready[1], b"-" if failed else b"+")
        os.close(go[1])
        os.read(go[0], 1)
        os._exit(0)
    try:
        if os.read(ready[0], 1) != b"+":
            raise OSError(1, "user namespace")
        for name, ids in (("uid_map", uid), ("gid_map", gid)):
            with open(f"/proc/{child}/{name}", "w") as file:
                file.write(exchanged(*ids))
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (*ready, *go):
            os.close(fd)
        os.waitpid(child, 0)


def map_ids(folder: str, place: str, uid: int, gid: int) -> None:
    """Mount the folder at `place`, with its owner's files as those of the user."""
    owner = os.stat(folder)
    tree = call(
        "open_tree", libc.syscall(OPEN_TREE, -100, os.fsencode(folder), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
    )
    names = id_map((owner.st_uid, uid), (owner.st_gid, gid))
    attributes = struct.pack("QQQQ", MOUNT_ATTR_IDMAP, 0, 0, names)
    call("idmap", libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, len(attributes)))
    call("move_mount", libc.syscall(MOVE_MOUNT, tree, b"", -100, os.fsencode(place), MOVE_MOUNT_F_EMPTY_PATH))
    os.close(tree)
    os.close(names)


def show(settings: dict[str, str]) -> None:
    """Mount the overlay."""
    uid, gid = int(settings["uid"]), int(settings["gid"])
    if not settings["shared"]:
        enter_namespaces(uid, gid)
    lower, mapped = settings["lower"], ""
    if os.geteuid() == 0 and settings["mapped"]:
        map_ids(lower, settings["view"], uid, gid)
        lower = mapped = settings["view"]
    fds = {}
    try:
        for name, path in (("lower", lower), ("upper", settings["upper"]), ("work", settings["work"])):
            fds[name] = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        # Not every file system keeps the attribute that marks a replaced folder.
        os.setxattr(settings["upper"], "user.rumi", b"1")
        os.removexattr(settings["upper"], "user.rumi")
        # Over the mapped folder: the overlay keeps a reference to it, and nobody else sees it.
        mount("overlay", settings["view"], "overlay", MS_NOSUID | MS_NODEV, OPTIONS.format(**fds))
    except BaseException:
        if mapped:
            unmount(mapped)
        raise
    finally:
        for fd in fds.values():
            os.close(fd)


def main() -> None:
    """Mount, and serve until the input ends."""
    settings = dict(word.split("=", 1) for word in sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        show(settings)
    except OSError as error:
        os.write(1, f"failed {error.strerror}\n".encode())
        return
    try:
        os.chdir("/")
        os.write(1, b"ready\n")
        while line := sys.stdin.buffer.readline():
            if line == b"refresh\n":
                mount("none", settings["view"], "", MS_REMOUNT | MS_NOSUID | MS_NODEV)
                os.write(1, b"fresh\n")
    except (OSError, BrokenPipeError):
        pass
    finally:
        if settings["shared"]:
            unmount(settings["view"])
            unmount(settings["view"])  # the mapped folder beneath


if __name__ == "__main__":
    main()
