from django.apps import AppConfig


class FoundationConfig(AppConfig):
    name = "foundation"
    verbose_name = "Segurança"

    def ready(self) -> None:
        from foundation.backoffice.gate import note_beginnings
        from foundation.backoffice.login import note_log_ins
        from foundation.backoffice.roles import keep_after_migrate
        from foundation.earlier_database import refuse_before_migrating

        note_log_ins()
        note_beginnings()
        keep_after_migrate()
        refuse_before_migrating()
