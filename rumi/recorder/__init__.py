"""The flight recorder: the last turns of each chat as they were on the wire, and ways to run them again.

`recording` is the file, `recorder` writes it while a turn runs, `replaying` runs a turn again with everything
recorded, or forks it onto another model, and `report` packs one for a bug report.
"""

from rumi.recorder.recorder import Recorder, Recording, delete_recordings, recorded
from rumi.recorder.recording import RecordedTurn, RecordingError, find_recording, read_recording
from rumi.recorder.replaying import Difference, Forked, Now, Replayed, fork, replay
from rumi.recorder.report import contents, pack

__all__ = [
    "Difference",
    "Forked",
    "Now",
    "RecordedTurn",
    "Recorder",
    "Recording",
    "RecordingError",
    "Replayed",
    "contents",
    "delete_recordings",
    "find_recording",
    "fork",
    "pack",
    "read_recording",
    "recorded",
    "replay",
]
