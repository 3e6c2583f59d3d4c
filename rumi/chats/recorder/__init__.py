"""The flight recorder: recordings of the last turns of each chat, and replays of these turns.

`recording` defines the format of a recording, and `recorder` writes one while a turn runs. `replaying` runs a
turn again with the recorded replies of the model, or with another model from some step on (a fork). `report`
packs a recording into a file for a bug report.
"""
