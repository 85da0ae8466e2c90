"""How the workers' broker connection behaves."""

import base64
import json
import uuid
from datetime import datetime
from typing import Any

import pytest
import redis
from kombu import Consumer, Queue
from kombu.exceptions import OperationalError

from config.celery import app
from config.local.servers import free_port
from foundation import workers


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


def read(message: bytes) -> tuple[list[Any], dict[str, Any]]:
    """The body of a message in the broker, and everything else of it."""
    envelope = json.loads(message)
    return json.loads(base64.b64decode(envelope.pop("body"))), envelope


def test_a_task_is_published_as_celery_itself_would(redis_url: str) -> None:
    """Every field but those that are new in each message, and the queue of results, which nobody waits for."""
    task, arguments, queue = "foundation.tasks.pong", ("work", "question"), f"test-{uuid.uuid4().hex}"
    app.send_task(task, args=arguments, expires=60, ignore_result=True, argsrepr="", kwargsrepr="", queue=queue)
    with redis.Redis.from_url(redis_url) as server:
        [message] = server.lrange(queue, 0, -1)
        server.delete(queue)
    body, expected = read(message)
    found_queue, ours = workers.task_message(task, arguments, 60)
    found_body, found = read(ours)
    assert found_queue == "banks"
    assert found["properties"]["delivery_info"].pop("routing_key") == found_queue
    assert expected["properties"]["delivery_info"].pop("routing_key") == queue
    assert found_body == body
    expires = [datetime.fromisoformat(each["headers"].pop("expires")) for each in (expected, found)]
    assert abs((expires[1] - expires[0]).total_seconds()) < 10
    keys = {found["headers"]["id"], found["properties"]["delivery_tag"], found["properties"]["correlation_id"]}
    assert len(keys) == 1
    for each in (expected, found):
        for name in ("id", "root_id"):
            uuid.UUID(each["headers"].pop(name))
        for name in ("correlation_id", "delivery_tag"):
            uuid.UUID(each["properties"].pop(name))
    expected["properties"]["reply_to"] = ""
    for name in ("argsrepr", "kwargsrepr", "expiration"):  # told by the headers, and read by no broker of ours
        expected["properties"].pop(name)
    assert found == expected
