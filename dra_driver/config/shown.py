"""Values of users in messages."""


def shown(value: object) -> str:
    """A user's value, short enough for an event."""
    return repr(value)[:64] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
