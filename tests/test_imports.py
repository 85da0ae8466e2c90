"""The structure of the code: which package may import which, where a bank's name may appear, how long an adapter may
be, which module names are forbidden.

Imports inside functions and under `TYPE_CHECKING` count like any other. Foreign keys and migrations obey the same
order, because they connect tables as imports connect modules.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from django.apps import apps
from django.db.migrations.loader import MigrationLoader

from providers import registry

ROOT = Path(__file__).resolve().parent.parent
#: A module imports from its own floor and from lower ones.
FLOORS = {
    "foundation": 0,
    "providers": 1,
    "partners": 2,
    "webhooks": 3,
    "authorizations": 4,
    "consultas": 5,
    "proposals": 6,
    "backoffice": 7,
    "config": 8,
}
TEMPLATES = sorted(
    str(file.relative_to(ROOT / "templates")) for file in (ROOT / "templates").rglob("*") if file.is_file()
)
#: The owner of each folder of templates that has another name than its package: the back office's kit, with the
#: theme's template that it replaces; and the pages that show data of all packages.
TEMPLATE_OWNERS = {"backoffice": "foundation", "unfold": "foundation", "admin": "backoffice", "figures": "backoffice"}
#: The package of each app that has another name.
PACKAGES = {"figures": "backoffice"}
#: These packages belong to no floor, and no floor imports them. All but the simulator may import all floors.
OUTSIDE = ("tests", "bench", "simulator")
#: Forbidden names of modules and folders: they collect unrelated code, or hide the order of what happens.
NAMELESS = {"core", "common", "utils", "helpers", "services", "repositories", "managers", "signals"}
#: In lines, blank ones not counted. What makes an adapter longer belongs to what all banks share.
LONGEST_ADAPTER = 250


def modules(*packages: str) -> Iterator[tuple[str, Path]]:
    """Every module of `packages`, as its dotted name and its file."""
    for package in packages:
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def imported_modules(name: str, file: Path, known: Mapping[str, Path]) -> set[str]:
    """The other modules among `known` that the module `name` imports."""
    named = {each if each in known else each.rpartition(".")[0] for each in imports(name, file)}
    return (named & known.keys()) - {name}


@cache
def imports(name: str, file: Path) -> tuple[str, ...]:
    """Dotted names of all that the module `name` imports; of `from a import b`, `a.b`."""
    return tuple(_imports(name, file))


def _imports(name: str, file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # For relative imports a package's own `__init__` counts as one of its modules.
            inside = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
            base = inside[: len(inside) + 1 - node.level] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def package(app: str) -> str:
    return PACKAGES.get(app, app)


def climbs(lower: str, upper: str) -> bool:
    """True if `upper` is on a higher floor than `lower`, or outside of the floors."""
    return upper in OUTSIDE or FLOORS.get(upper, 0) > FLOORS[lower]


def test_every_package_has_its_floor() -> None:
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")}
    assert packages == {*FLOORS, *OUTSIDE}


@pytest.mark.control("V15")
def test_imports_go_down() -> None:
    upward = [
        f"{name} imports {imported}"
        for name, file in modules(*FLOORS)
        for imported in imports(name, file)
        if climbs(name.partition(".")[0], imported.partition(".")[0])
    ]
    assert upward == []


def test_no_two_files_import_each_other() -> None:
    """Not even for types, and not by way of others."""
    known = dict(modules(*FLOORS, *OUTSIDE))
    try:
        TopologicalSorter({name: imported_modules(name, file, known) for name, file in known.items()}).prepare()
    except CycleError as circle:
        pytest.fail(" imports ".join(reversed(circle.args[1])))


def test_foreign_keys_go_down() -> None:
    upward = [
        f"{model._meta.label}.{field.name} points to {field.related_model._meta.label}"
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.get_fields()
        if package(model._meta.app_label) in FLOORS
        if not field.auto_created and field.is_relation and field.related_model
        if climbs(package(model._meta.app_label), package(field.related_model._meta.app_label))
    ]
    assert upward == []


def test_migrations_depend_on_lower_ones() -> None:
    upward = [
        f"{app}.{name} needs {needed}"
        for (app, name), migration in MigrationLoader(None).disk_migrations.items()
        for needed, _ in migration.dependencies
        if package(app) in FLOORS and climbs(package(app), package(needed))
    ]
    assert upward == []


def template_names(text: str) -> set[str]:
    """The files of `templates/` that `text` names; the whole folder if `text` builds a name from parts."""
    return {name for name in TEMPLATES if name in text or f'f"{name.partition("/")[0]}/{{' in text}


def owner(template: str) -> str:
    folder = template.partition("/")[0]
    return TEMPLATE_OWNERS.get(folder, folder)


def test_templates_are_named_by_their_own_floor_or_a_higher_one() -> None:
    modules_that_name = [(name.partition(".")[0], str(file), file.read_text()) for name, file in modules(*FLOORS)]
    templates_that_name = [(owner(name), name, (ROOT / "templates" / name).read_text()) for name in TEMPLATES]
    assert {owner(name) for name in TEMPLATES} <= set(FLOORS)
    upward = [
        f"{where} names {template}"
        for lower, where, text in (*modules_that_name, *templates_that_name)
        for template in template_names(text)
        if climbs(lower, owner(template))
    ]
    assert upward == []
    named = {template for _, _, text in modules_that_name for template in template_names(text)}
    assert "backoffice/confirm.html" in named, "no template was found in any module"


def test_the_simulator_imports_nothing_of_the_project() -> None:
    """A mapping shared by an adapter and its simulated bank would make the same mistake twice, and pass."""
    bridges = [
        f"{name} imports {imported}"
        for name, file in modules("simulator")
        for imported in imports(name, file)
        if imported.partition(".")[0] in {*FLOORS, *OUTSIDE} - {"simulator"}
    ]
    assert bridges == []


@pytest.mark.parametrize("bank", registry.names())
def test_a_banks_name_stands_in_its_own_files_only(bank: str) -> None:
    """Its adapter, its simulated bank, the registry, and examples in the API reference.

    Data files, tests and documents are not checked. Every other difference between banks is a fact in the
    adapter's class.
    """
    allowed = {
        f"providers/banks/{bank}.py",
        f"simulator/banks/{bank}.py",
        "providers/registry.py",
        "consultas/schema.py",
        "consultas/shapes.py",
        "proposals/shapes.py",
        "proposals/schema.py",
    }
    named = re.compile(rf"(?<![a-z]){bank}(?![a-z])", re.IGNORECASE)
    sources = [
        file
        for folder in (*FLOORS, "simulator", "bench", "templates")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in {".py", ".html", ".js"}
    ]
    strays = {str(file.relative_to(ROOT)) for file in sources if named.search(file.read_text())} - allowed
    assert strays == set()


@pytest.mark.parametrize("bank", registry.names())
def test_an_adapter_is_short(bank: str) -> None:
    lines = (ROOT / "providers" / "banks" / f"{bank}.py").read_text().splitlines()
    assert sum(1 for line in lines if line.strip()) <= LONGEST_ADAPTER


def test_forbidden_module_names_do_not_exist() -> None:
    found = [name for name, _ in modules(*FLOORS) if NAMELESS & set(name.split("."))]
    assert found == []
    assert not (ROOT / "config/settings").exists(), "the settings are one file"


def test_log_events_are_snake_case() -> None:
    """One expression can then find them: `webhook_attempt`, never `webhook attempt`."""
    events = [
        (f"{name}:{call.lineno}", call.args[0].value)
        for name, file in modules(*FLOORS)
        for call in ast.walk(ast.parse(file.read_bytes(), str(file)))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "log"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]
    assert len(events) > 30, "the log calls were not found"
    assert [(where, event) for where, event in events if not re.fullmatch(r"[a-z][a-z0-9_]*", str(event))] == []


def test_rows_that_others_have_locked_are_left_out_in_one_place() -> None:
    """Claims and short transactions that leave out locked rows are written in `foundation/later.py` alone."""
    words = re.compile(r"skip_locked|SKIP\s+LOCKED", re.IGNORECASE)
    writing = [name for name, file in modules(*FLOORS) if words.search(file.read_text())]
    assert writing == ["foundation.later"]
