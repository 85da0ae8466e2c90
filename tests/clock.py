"""A clock that tests set."""


class Clock:
    """Gives `now`, in seconds, until a test changes it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
