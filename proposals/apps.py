from django.apps import AppConfig


class ProposalsConfig(AppConfig):
    name = "proposals"
    verbose_name = "Propostas"

    def ready(self) -> None:
        import proposals.erasing  # noqa: F401  (its model)
