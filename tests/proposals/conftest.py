from tests.consultas.conftest import client, partner, stranger

__all__ = ["client", "partner", "stranger"]
