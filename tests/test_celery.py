"""How the workers' broker connection behaves."""

import uuid

import pytest
import redis
from kombu import Consumer, Queue
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


def test_of_the_messages_taken_those_not_acknowledged_go_back_at_shutdown(redis_url: str):
    """Redis holds no record of them meanwhile, which would cost two round trips for each message."""
    queue = Queue(f"test-{uuid.uuid4().hex}")
    taken = []
    with redis.Redis.from_url(redis_url) as server:
        with app.connection_for_read() as connection:
            with connection.Producer() as producer:
                for text in ("first", "second"):
                    producer.publish({"text": text}, routing_key=queue.name, declare=[queue])
            with Consumer(connection, queue, on_message=taken.append):
                while len(taken) < 2:
                    connection.drain_events(timeout=5)
                assert server.llen(queue.name) == 0
                assert server.keys("unacked*") == []
                taken[0].ack()
        with app.connection_for_read() as connection:
            left = [queue(connection.default_channel).get(no_ack=True) for _ in range(2)]
        assert left[0].payload == {"text": "second"}
        assert left[1] is None
