from django.apps import AppConfig


class ConsultasConfig(AppConfig):
    name = "consultas"
    verbose_name = "Consultas"
    default_auto_field = "django.db.models.BigAutoField"
