"""The rows for measurements are kept out of production."""

from typing import Any

import pytest

from bench.fill import main as fill


def test_nothing_is_seeded_in_production(settings: Any) -> None:
    settings.PRODUCTION = True
    with pytest.raises(SystemExit, match="production"):
        fill([])
