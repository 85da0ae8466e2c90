from foundation.memory import collect_seldom

collect_seldom()

from config.celery import app as celery_app  # noqa: E402 - loads most of the code

__all__ = ["celery_app"]
