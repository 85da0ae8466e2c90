from django.apps import AppConfig


class ConsultasConfig(AppConfig):
    name = "consultas"
    verbose_name = "Consultas"

    def ready(self) -> None:
        from consultas import pending
        from consultas.models import Query, Step
        from foundation import later

        later.register("consultas.tasks.take_over", Query)
        later.register(pending.CHECK, Step)
