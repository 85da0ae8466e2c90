from django.apps import AppConfig


class FiguresConfig(AppConfig):
    name = "backoffice.figures"
    verbose_name = "Números"

    def ready(self) -> None:
        from backoffice import roles  # noqa: F401 - receives a signal
        from backoffice.figures import sweep  # noqa: F401 - receives a signal
