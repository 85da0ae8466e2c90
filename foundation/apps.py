from django.apps import AppConfig


class FoundationConfig(AppConfig):
    name = "foundation"
    verbose_name = "Segurança"

    def ready(self) -> None:
        from foundation import earlier_database  # noqa: F401 - these receive signals
        from foundation.backoffice import gate, login  # noqa: F401
