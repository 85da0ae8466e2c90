"""What a new bank begins with (`manage.py new_bank`). A line that says FILL IN fails a test until it is replaced."""

from pathlib import Path

TEMPLATES = Path(__file__).parent
#: What a new bank has not filled in yet.
GAP = "FILL IN"
#: A bank's own files, and the template of each.
FILES = {
    "docs/banks/$name.md": "manual.md.txt",
    "providers/banks/$name.json": "data.json.txt",
    "providers/banks/$name.py": "adapter.py.txt",
    "simulator/banks/$name.py": "simulated.py.txt",
    "tests/providers/test_$name.py": "test_adapter.py.txt",
    "tests/simulator/test_$name.py": "test_simulated.py.txt",
    "tests/providers/bodies/$name.json": "bodies.json.txt",
}
