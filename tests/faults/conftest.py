from tests.consultas.conftest import client, partner

__all__ = ["client", "partner"]
