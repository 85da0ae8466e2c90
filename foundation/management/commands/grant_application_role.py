import os
from typing import Any

from django.core.management.base import CommandError
from django.db import connection
from psycopg import sql

from foundation.audit import AuditedCommand

#: Granted by the tables' owner to the serving processes' role: access to rows, of later tables too, and no more.
GRANTS = (
    "ALTER ROLE {role} NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN",
    "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}",
    "REVOKE CREATE ON SCHEMA public FROM PUBLIC, {role}",
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {role}",
    # Only the owner records migrations.
    "REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {role}",
)


def grant(cursor: Any, role: str, password: str) -> None:
    """Give `role` what GRANTS says, and this password. The role is created if it does not exist. An empty password
    changes none; CommandError if the role would have none."""
    name = sql.Identifier(role)
    cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", [role])
    if cursor.fetchone() is None:
        if not password:
            raise CommandError(f"O papel {role} não existe: defina APPLICATION_DATABASE_PASSWORD.")
        cursor.execute(sql.SQL("CREATE ROLE {}").format(name))
    if password:
        cursor.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, sql.Literal(password)))
    for each in GRANTS:
        cursor.execute(sql.SQL(each).format(role=name))


class Command(AuditedCommand):
    """Run as the tables' owner after each `migrate`. Idempotent."""

    help = (
        "Dá ao papel da aplicação o direito de ler e gravar linhas, e nenhum outro. Cria o papel se ele não existe, "
        "com a senha da variável APPLICATION_DATABASE_PASSWORD."
    )
    arguments = {"role": {"help": "o papel com que os processos se conectam"}}

    def handle(self, *args: Any, role: str, **options: Any) -> None:
        password = os.environ.get("APPLICATION_DATABASE_PASSWORD", "")
        with self.audited({**options, "role": role}), connection.cursor() as cursor:
            cursor.execute("SELECT current_user = %s", [role])
            if cursor.fetchone() == (True,):
                raise CommandError("Este comando é do dono das tabelas, não do papel da aplicação.")
            grant(cursor, role, password)
        self.stdout.write(f"O papel {role} lê e grava linhas, e nada mais.")
