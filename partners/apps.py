from django.apps import AppConfig


class PartnersConfig(AppConfig):
    name = "partners"
    verbose_name = "Parceiros"

    def ready(self) -> None:
        import partners.failed_calls  # noqa: F401  (its model)
        from partners.models import names_of
        from providers.health import find_names_with

        find_names_with(names_of)
