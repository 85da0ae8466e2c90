"""How the web processes run, here and in production: `gunicorn -c config/gunicorn.py config.wsgi`."""

import os
from pathlib import Path

bind = f"{os.environ.get('HOST', '127.0.0.1')}:{os.environ.get('PORT', '8000')}"
workers = int(os.environ.get("WEB_CONCURRENCY", min(2, os.cpu_count() or 1)))
# A request waits for banks most of its time: greenlets hold thousands of them.
worker_class = "gevent"
worker_connections = 2000
# The kernel spreads connections over the workers; a shared listener leaves most of them with one.
reuse_port = True
# Longer than the deadline of an aggregated query, which a deployment must not cut off.
graceful_timeout = 40
timeout = 60
keepalive = 75
# Heartbeat files belong in memory, not on a disk that may stall.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - gunicorn makes its own unlinked file
# Only these may say that a request came in by https.
forwarded_allow_ips = os.environ.get("TRUSTED_PROXIES", "")
control_socket_disable = True
# An oversized header is the application's to refuse, with the contract's error object, not with a page of HTML.
limit_request_field_size = 64 * 1024
