import json
import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from proposals import compe

_CODE = re.compile(r"\d{3}", re.ASCII)


class Command(BaseCommand):
    """Writes `proposals/compe.json` from the `bancos.json` of the package `bancos-brasileiros`.

    Review and commit the change like any other: `npm pack bancos-brasileiros`, unpack, then `manage.py
    refresh_bank_list package/bancos.json --source "bancos-brasileiros 6.3.38"`.
    """

    requires_system_checks: list[str] = []  # the command only writes a file
    help = "Renova a lista de bancos (COMPE) a partir do bancos.json do pacote bancos-brasileiros."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--source", required=True, help="pacote e versão, como fica escrito na lista")

    def handle(self, *args: Any, file: Path, source: str, **options: Any) -> None:
        try:
            rows = json.loads(file.read_text("utf-8-sig"))  # the package's file begins with a BOM
            banks = _with_code(rows)
            date = max(row["DateUpdated"] for row in rows if row.get("DateUpdated"))[:10]
        except (OSError, ValueError, LookupError, TypeError) as fault:
            raise CommandError(f"{file} não é a lista esperada: {fault}") from None
        lines = ",\n".join("  " + json.dumps(bank, ensure_ascii=False) for bank in banks)
        head = f' "source": {json.dumps(source, ensure_ascii=False)},\n "date": "{date}"'
        compe.FILE.write_text(f'{{\n{head},\n "banks": [\n{lines}\n ]\n}}\n', "utf-8")
        self.stdout.write(json.dumps({"banks": len(banks), "date": date}))


def _with_code(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """`[{code, name}]` of the rows with a COMPE code, by code; others hold no accounts. Raises ValueError for a
    repeated code or an empty result: the file no longer has the expected form."""
    listed = [row for row in rows if _CODE.fullmatch(row["COMPE"] or "") and row["COMPE"] != "000"]
    names = {row["COMPE"]: " ".join(row["LongName"].split()) for row in listed}
    if not listed or len(names) != len(listed):
        raise ValueError("no bank list, or a code stands in it twice")
    return [{"code": code, "name": name} for code, name in sorted(names.items())]
