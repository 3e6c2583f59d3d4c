"""Moving in: reads the homes of other assistants, and stores what they hold in Rumi's home (`rumi import`).

One module per program reads its home, and returns a `ForeignHome` of `records.py`. `reading.py` and
`databases.py` open files and databases that may be hostile, within limits. `writing.py` is the one writer.
Nothing in the foreign home is changed or locked.
"""
