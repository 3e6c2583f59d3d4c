"""The flight recorder: recordings of the last turns of each chat, and replays of these turns.

`recording` defines the file, `recorder` writes it while a turn runs, `replaying` runs a turn again with all
recorded replies or forks it onto another model, and `report` packs a recording into a file for a bug report.
"""
