"""The embedded PostgreSQL and Redis that `make run` and the tests start."""

from __future__ import annotations

import pytest
import redis
from django.db import connection


@pytest.mark.django_db
def test_the_tests_run_on_a_real_postgresql_18():
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        (version,) = cursor.fetchone()
    assert version.startswith("18.")


def test_redis_never_evicts_and_times_blocking_reads_finely(redis_url):
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert client.config_get("hz") == {"hz": "100"}
    client.close()
