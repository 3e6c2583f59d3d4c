"""English and Spanish words for numbers, months and weekdays, without capitals and accents."""

from typing import Final

_MONTHS: Final = (
    "january enero jan ene",
    "february febrero feb",
    "march marzo mar",
    "april abril apr abr",
    "may mayo",
    "june junio jun",
    "july julio jul",
    "august agosto aug ago",
    "september septiembre setiembre sept sep",
    "october octubre oct",
    "november noviembre nov",
    "december diciembre dec dic",
)
_WEEKDAYS: Final = (
    "monday lunes",
    "tuesday martes",
    "wednesday miercoles",
    "thursday jueves",
    "friday viernes",
    "saturday sabado",
    "sunday domingo",
)
_NUMBERS: Final = (
    "a an un una one uno",
    "two dos",
    "three tres",
    "four cuatro",
    "five cinco",
    "six seis",
    "seven siete",
    "eight ocho",
    "nine nueve",
    "ten diez",
)

SMALL_NUMBERS: Final = {word: number for number, words in enumerate(_NUMBERS, 1) for word in words.split()}
"""The numbers from 1 to 10."""

MONTHS: Final = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
"""The months from 1, by name or abbreviation. A month's English and Spanish names come first."""

WEEKDAYS: Final = {name: number for number, names in enumerate(_WEEKDAYS) for name in names.split()}
"""The weekdays from 0, which is Monday."""
