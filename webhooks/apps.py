from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "webhooks"
    verbose_name = "Webhooks"

    def ready(self) -> None:
        from foundation import later
        from webhooks.models import DELIVER, Event

        later.register(DELIVER, Event)
