"""How tests are distributed over the workers of pytest-xdist: by file, so that all its tests share its fixtures.

At most half of the workers take files that need the service's processes, while there is other work: each such worker
starts its own processes, which costs as much as a hundred tests. docs/decisions/0005-tests-in-parallel.md has the
figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

#: Beginnings of the names of slow files that would come last, and go first instead, so that no worker waits at the end.
FIRST = (
    "tests/local/test_run.py",
    "tests/backoffice/test_in_browser.py",
    "tests/webhooks/test_process.py",
    "tests/faults/test_submission.py",
    "tests/faults/test_queries_end.py",
    "tests/flows/test_samples.py",
    "tests/test_",
)
#: Files whose tests need the service's processes. Tests elsewhere can use these processes, too.
SERVICE = (
    "tests/clients/",
    "tests/consultas/",
    "tests/faults/",
    "tests/flows/",
    "tests/proposals/test_actions.py",
    "tests/proposals/test_privacy.py",
    "tests/proposals/test_reconcile.py",
    "tests/proposals/test_submit.py",
    "tests/partners/test_failed_calls.py",
    "tests/test_health.py",
    "tests/test_metrics.py",
    "tests/webhooks/test_process.py",
)


def rank(nodeid: str) -> int:
    """The position of a test among the first; after all of them if it is not listed."""
    return next((place for place, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))


class Sharing(LoadFileScheduling):  # type: ignore[misc]
    """The scheduler of a run with workers. Files keep the order of the collection, sorted by `rank`."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Move the file that suits `node` best to the front, from where it is taken."""
        for_service = self.nodes.index(node) < (len(self.nodes) + 1) // 2
        first = next((file for file in self.workqueue if file.startswith(SERVICE) == for_service), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
