"""The flight recorder: the last turns of each chat as they were on the wire, and ways to run them again.

`recording` is the file, `recorder` writes it while a turn runs, `replaying` runs a turn again with everything
recorded, or forks it onto another model, and `report` packs one for a bug report.
"""
