"""The simulator as an HTTP client sees it, and its controls."""

from __future__ import annotations

from typing import Any

import requests

from tests.processes import Simulator


class HttpSimulator(Simulator):
    """`request`, `get` and `post` send a plain request to a path, or to a whole URL, of the simulator."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token, shows_turned_away=True)
        self.control_headers = {"X-Control-Token": token}
        self._session = requests.Session()
        self._session.trust_env = False

    def request(self, method: str, path: str, timeout: float = 10, **kwargs: Any) -> requests.Response:
        return self._session.request(method, self.url + path.removeprefix(self.url), timeout=timeout, **kwargs)

    def get(self, path: str, **kwargs: Any) -> requests.Response:
        return self.request("GET", path, **kwargs)

    def post(self, path: str, **kwargs: Any) -> requests.Response:
        return self.request("POST", path, **kwargs)

    def close(self) -> None:
        super().close()
        self._session.close()
