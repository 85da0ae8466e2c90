import os
import re
import resource
from pathlib import Path

from foundation import memory


def test_the_table_of_open_files_has_room_for_all_connections() -> None:
    """Before the fix, all requests of a process stood still when it opened its 256th file, its 512th, and so on."""
    open_before = len(os.listdir("/proc/self/fd"))
    memory.make_room_for_connections()
    size = int(re.findall(r"FDSize:\t(\d+)", Path("/proc/self/status").read_text())[0])
    assert size >= min(memory.OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    assert len(os.listdir("/proc/self/fd")) == open_before
