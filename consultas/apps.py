from django.apps import AppConfig


class ConsultasConfig(AppConfig):
    name = "consultas"
    verbose_name = "Consultas"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from consultas import pending
        from consultas.models import Query, Step
        from foundation import later

        later.register("consultas.tasks.take_over", Query)
        later.register(pending.CHECK, Step)
