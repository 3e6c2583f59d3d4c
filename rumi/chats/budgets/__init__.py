"""Budgets: prices of model calls, limits on their cost, and their recorded usage.

`Budgets` meters all model calls: it reserves the cost before each attempt and settles it afterwards, in
state.db. `prices` has the prices of tokens, `amounts` parses and formats amounts, `periods` calculates days
and months, and `report` reports usage.
"""
