from django.apps import AppConfig


class AuthorizationsConfig(AppConfig):
    name = "authorizations"
    verbose_name = "Autorizações"
    default_auto_field = "django.db.models.BigAutoField"
