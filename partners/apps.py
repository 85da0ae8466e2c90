from django.apps import AppConfig


class PartnersConfig(AppConfig):
    name = "partners"
    verbose_name = "Parceiros"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import partners.failed_calls  # noqa: F401  (its model)
