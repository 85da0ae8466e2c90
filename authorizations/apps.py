from django.apps import AppConfig


class AuthorizationsConfig(AppConfig):
    name = "authorizations"
    verbose_name = "Autorizações"

    def ready(self) -> None:
        from authorizations import codes
        from authorizations.phone_code import PhoneCode
        from foundation import later

        later.register(codes.SEND, PhoneCode)
