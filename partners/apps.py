from django.apps import AppConfig


class PartnersConfig(AppConfig):
    name = "partners"
    verbose_name = "Parceiros"
    default_auto_field = "django.db.models.BigAutoField"
