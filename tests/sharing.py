"""How tests are distributed over the workers of pytest-xdist.

The unit is a file, so that all its tests share its fixtures. The longest units go first, so that no worker waits at the
end. At most half of the workers take units that need the service's processes, while there is other work: each such
worker starts its own processes, which costs as much as a hundred tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

#: Files whose tests are so slow that each test is a unit of its own. These tests share nothing of their module.
BY_TEST = ("tests/faults/test_webhooks_chaos.py", "tests/faults/test_submission.py")
#: The slowest tests, the slowest first. Beginnings of test ids.
LONGEST = (
    "tests/faults/test_webhooks_chaos.py::test_every_query",
    "tests/local/test_run.py",
    "tests/backoffice/test_in_browser.py",
    "tests/authorizations/test_page_in_browser.py",
    "tests/consultas/test_faults.py",
    "tests/consultas/test_callbacks.py",
    "tests/faults/test_frozen_redis.py",
    "tests/consultas/test_restarts.py",
    "tests/consultas/test_sweep.py",
    "tests/proposals/test_actions.py",
    "tests/consultas/test_pending.py",
    "tests/flows/test_chat_query.py",
    "tests/test_admin.py",
    "tests/test_admin_in_browser.py",
    "tests/authorizations/test_code_in_browser.py",
    "tests/backoffice/test_roles.py",
    "tests/proposals/test_reconcile.py",
    "tests/partners/test_over_http.py",
    "tests/faults/",
    "tests/authorizations/test_accept.py",
    "tests/consultas/test_auction.py",
    "tests/flows/test_samples.py",
    "tests/authorizations/test_races.py",
    "tests/consultas/test_overload.py",
    "tests/proposals/test_submit.py",
    "tests/backoffice/figures/test_volume.py",
    "tests/providers/contract/",
    "tests/foundation/test_login.py",
    "tests/partners/test_admin.py",
    "tests/consultas/",
    "tests/flows/",
    "tests/webhooks/test_process.py",
    "tests/test_guide.py",
    "tests/local/",
    "tests/authorizations/",
    "tests/foundation/test_json.py",
    "tests/proposals/",
)
#: Files whose tests need the service's processes. Tests elsewhere can use these processes, too.
SERVICE = (
    "tests/consultas/",
    "tests/faults/test_database_away.py",
    "tests/faults/test_frozen_redis.py",
    "tests/faults/test_queries_end.py",
    "tests/faults/test_submission.py",
    "tests/flows/",
    "tests/proposals/test_actions.py",
    "tests/proposals/test_dead_workers.py",
    "tests/proposals/test_own_reference.py",
    "tests/proposals/test_privacy.py",
    "tests/proposals/test_reconcile.py",
    "tests/proposals/test_resubmission.py",
    "tests/proposals/test_submit.py",
    "tests/proposals/test_translations.py",
    "tests/partners/test_failed_calls.py",
    "tests/providers/test_maintenance.py",
    "tests/test_health.py",
    "tests/test_metrics.py",
    "tests/test_processes.py",
)


def rank(nodeid: str) -> int:
    """The position of a test among the longest; after all of them if it is not listed."""
    return next((place for place, start in enumerate(LONGEST) if nodeid.startswith(start)), len(LONGEST))


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """The scheduler of a run with workers. Units keep the order of the collection, sorted by `rank`."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        """The unit of a test."""
        file = nodeid.split("::", 1)[0]
        return nodeid if file in BY_TEST else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Move the unit that suits `node` best to the front, from where it is taken."""
        nodes = self.nodes
        for_service = nodes.index(node) < (len(nodes) + 1) // 2
        first = next((unit for unit in self.workqueue if unit.startswith(SERVICE) == for_service), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
