"""How long something took and how much it is, for a line that has little room. The same in every language."""


def short_duration(seconds: float) -> str:
    """`12 ms`, `3.2 s`, `2 min 05 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def short_size(count: float) -> str:
    """Bytes in the unit that fits: `812 B`, `4.1 MB`."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
