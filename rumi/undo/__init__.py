"""The files of chats as they were before their last turns: snapshots, and their way back.

A snapshot is made before the first call of a turn that may change files, so that other turns cost nothing.
"""

from rumi.undo.manifest import Cause
from rumi.undo.restoring import Restoring
from rumi.undo.snapshots import Snapshots, UndoLimits, Unrestorable

__all__ = ["Cause", "Restoring", "Snapshots", "UndoLimits", "Unrestorable"]
