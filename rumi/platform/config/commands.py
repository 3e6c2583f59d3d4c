"""Runs each configured command that prints an API key, such as a password manager, once at startup.

Logs and errors never show a command or its output.
"""

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from rumi.errors import ConfigError
from rumi.platform.config.secrets import Secret, key_setting
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.platform.config.cascade import Loaded

COMMAND_S: Final = 30.0
"""Maximum run time of a command, in seconds: a person may have to unlock the password manager."""

MOST_BYTES: Final = 16_384
END_S: Final = 2.0
"""Maximum wait for the end of a killed command, in seconds."""

_ADVICE: Final = Text("Run it in a shell: it prints the key, and nothing else.")


async def read_keys(loaded: "Loaded") -> "Loaded":
    """Run the commands, and return the configuration with the keys that they print.

    A command that fails is recorded in `faults` of the secrets. On cancellation, running commands are killed.
    """
    left = {name: text for name, text in loaded.secrets.commands.items() if name not in loaded.secrets.keys}
    if not left:
        return loaded
    keys, faults = dict(loaded.secrets.keys), dict(loaded.secrets.faults)

    async def read(name: str, command: str) -> None:
        try:
            keys[name] = Secret(await printed(command, key_setting(name)))
        except ConfigError as error:
            faults[name] = error

    async with trio.open_nursery() as nursery:
        for name, command in left.items():
            nursery.start_soon(read, name, command)
    secrets = replace(loaded.secrets, keys=keys, faults=faults)
    return replace(loaded, secrets=secrets, plugins=loaded.plugins.with_secrets(secrets))


async def printed(command: str, setting: str) -> str:
    """Run a command and return the key that it prints.

    Raises:
        ConfigError: The command fails, prints nothing or too much, or takes too long.
    """
    # A session of its own, so that `killpg` also ends the processes that the shell has started.
    process = await trio.lowlevel.open_process(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    data = bytearray()
    try:
        with trio.move_on_after(COMMAND_S) as bound:
            while len(data) <= MOST_BYTES and (more := await process.stdout.receive_some(MOST_BYTES + 1)):
                data += more
            if len(data) <= MOST_BYTES:
                await process.wait()
    finally:
        with trio.move_on_after(END_S, shield=True):
            # Until it is waited for, its process id cannot belong to another process.
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            await trio.aclose_forcefully(process.stdout)
    if bound.cancelled_caught:
        raise ConfigError(
            "The command of {setting} took longer than {command_s} s.",
            _ADVICE,
            setting=setting,
            command_s=f"{COMMAND_S:g}",
        )
    if len(data) > MOST_BYTES:
        raise ConfigError(
            "The command of {setting} printed more than {most_bytes} bytes.",
            _ADVICE,
            setting=setting,
            most_bytes=MOST_BYTES,
        )
    if process.returncode:
        raise ConfigError(
            "The command of {setting} ended with exit code {returncode}.",
            _ADVICE,
            setting=setting,
            returncode=process.returncode,
        )
    key = data.decode("utf-8", "replace").strip()
    if not key:
        raise ConfigError("The command of {setting} printed nothing.", _ADVICE, setting=setting)
    return key
