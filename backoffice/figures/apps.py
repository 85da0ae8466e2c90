from django.apps import AppConfig


class FiguresConfig(AppConfig):
    name = "backoffice.figures"
    verbose_name = "Números"
