"""How the workers' broker connection behaves."""

from __future__ import annotations

import pytest
from kombu.exceptions import OperationalError

from config.celery import app
from config.local.servers import free_port


def test_a_broker_that_went_away_is_looked_for_every_second_and_for_ever():
    waits = []
    connection = app.connection_for_read(f"redis://127.0.0.1:{free_port()}/0")
    with connection, pytest.raises(OperationalError):
        connection.ensure_connection(lambda fault, wait: waits.append(wait), 2)
    assert waits == [1, 1]
    assert app.conf.broker_connection_max_retries is None
