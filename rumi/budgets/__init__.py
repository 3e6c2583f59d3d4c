"""Budgets: what model calls cost, what they may cost, and what they have cost.

A `Budgets` is the meter of all model calls: it reserves before each attempt and settles after it, in
state.db. `prices` knows what tokens cost, `amounts` reads and writes amounts, `periods` knows days and
months. `report` answers what was used, `serving` serves chats and other processes.
"""

from rumi.budgets.amounts import Amount, amount_text, as_usd, nano_of, parse_amount
from rumi.budgets.keeping import Budgets, Ledger, Rules, SharedLedger, WriteNow
from rumi.budgets.periods import days_of, renewal
from rumi.budgets.prices import OWN_PRICES, PRICES_OF, Price, price_of
from rumi.budgets.report import report
from rumi.budgets.serving import BudgetCommands, usage_calls

__all__ = [
    "OWN_PRICES",
    "PRICES_OF",
    "Amount",
    "BudgetCommands",
    "Budgets",
    "Ledger",
    "Price",
    "Rules",
    "SharedLedger",
    "WriteNow",
    "amount_text",
    "as_usd",
    "days_of",
    "nano_of",
    "parse_amount",
    "price_of",
    "renewal",
    "report",
    "usage_calls",
]
