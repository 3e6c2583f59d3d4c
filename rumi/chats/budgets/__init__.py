"""Budgets: the prices of model calls, limits on the cost of these calls, and records of usage.

`Budgets` meters all model calls: before each attempt it reserves the estimated cost in state.db, and
afterwards it replaces this reservation with the actual cost (settles it). `prices` has the prices of tokens,
`amounts` parses and formats amounts, `periods` calculates days and months, and `report` reports usage.
"""
