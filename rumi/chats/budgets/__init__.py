"""Budgets: what model calls cost, what they may cost, and what they have cost.

A `Budgets` is the meter of all model calls: it reserves before each attempt and settles after it, in
state.db. `prices` knows what tokens cost, `amounts` reads and writes amounts, `periods` knows days and
months. `report` answers what was used, `serving` serves chats and other processes.
"""
