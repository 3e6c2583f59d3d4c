"""`rumi debug replay TURN`."""

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rumi.cli import run_async
from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import say, tr

if TYPE_CHECKING:
    from rumi.chats.recorder.recording import RecordedTurn
    from rumi.chats.recorder.replaying import Forked, Now, Replayed
    from rumi.models.build import ModelSet
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home
    from rumi.platform.redact import Redactor


@click.command()
@click.argument("turn")
@click.option("--from", "step", type=click.IntRange(min=1), help="Fork: ask another model from this call on.")
@click.option("--model", metavar="PROVIDER:NAME", help="The model of a fork; by default the configured one.")
@JSON
def command(turn: str, step: int | None, model: str | None, as_json: bool) -> None:
    """Run a recorded turn again and show the first difference between its requests and those of now.

    TURN is an id such as t12, or the file of a recording. Nothing is done or asked outside: replies and
    results come from the recording. If a request differs, the exit code is 1.
    """
    from rumi.chats.recorder.recording import find_recording, read_recording
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.platform.redact import Redactor

    if model is not None and step is None:
        raise click.UsageError(tr("--model needs --from."))
    home = Home(home_from(os.environ))
    loaded = load_settings(home.root, os.environ, {})
    recorded = read_recording(find_recording(home.root, turn, loaded.settings.record.turns))
    redact = Redactor(loaded.secrets.values())
    now = _now(home, recorded)
    if step is None:
        replayed = _replayed(recorded, now, redact)
        if as_json:
            echo_json(asdict(replayed), indent=2)
        else:
            _print_replay(replayed)
        if replayed.difference is not None:
            sys.exit(1)
    else:
        forked = _forked(recorded, now, step, _models(loaded, model))
        if as_json:
            calls = [{"call": call, "recorded": same} for call, same in forked.calls]
            echo_json({"answer": forked.finished.answer, "calls": calls}, indent=2)
        else:
            _print_fork(forked)


def _replayed(recorded: "RecordedTurn", now: "Now", redact: "Redactor") -> "Replayed":
    import trio
    from trio.testing import MockClock

    from rumi.chats.recorder.replaying import replay

    # Virtual time, which `replay` requires: the clock jumps when no task runs.
    return trio.run(replay, recorded, now, redact, clock=MockClock(autojump_threshold=0))


def _models(loaded: "Loaded", model: str | None) -> "ModelSet":
    from rumi.models.build import build_models
    from rumi.models.settings import model_settings_of
    from rumi.platform.texts.language import detect_language

    language = detect_language(loaded.settings.language, os.environ)
    return build_models(model_settings_of(loaded, language, default=model))


def _forked(recorded: "RecordedTurn", now: "Now", step: int, models: "ModelSet") -> "Forked":
    from rumi.chats.recorder.replaying import fork

    async def run() -> "Forked":
        try:
            return await fork(recorded, now, step, models.bind("replay"))
        finally:
            await models.aclose()

    return run_async(run)


def _now(home: "Home", recorded: "RecordedTurn") -> "Now":
    """Return the current code's instructions and tool specs, for the programs of the recorded sandbox."""
    from rumi.app.settings import prompts_of
    from rumi.app.toolbox import specs_now
    from rumi.chats.recorder.replaying import Now

    head = recorded.head
    return Now(prompts_of(home).instructions(head["programs"], head["command_timeout_s"]), specs_now())


def _print_replay(found: "Replayed") -> None:
    difference = found.difference
    if difference is None:
        say("The same: {requests} requests, {calls} tool calls.", requests=found.requests, calls=found.calls)
        return
    say("Request {request} differs: {where}", request=difference.request, where=difference.where)
    for line in difference.diff:
        echo(line)


def _print_fork(found: "Forked") -> None:
    for call, recorded in found.calls:
        echo(f"{'=' if recorded else '✗'} {call}")
    echo(found.finished.answer)
