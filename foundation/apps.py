from django.apps import AppConfig


class FoundationConfig(AppConfig):
    name = "foundation"

    def ready(self) -> None:
        from foundation.backoffice.gate import note_beginnings
        from foundation.backoffice.login import note_log_ins

        note_log_ins()
        note_beginnings()
