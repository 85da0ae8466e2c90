from django.apps import AppConfig


class FiguresConfig(AppConfig):
    name = "backoffice.figures"
    verbose_name = "Números"
    default_auto_field = "django.db.models.BigAutoField"
