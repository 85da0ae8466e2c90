"""The only settings file. All values that differ between deployments come from the environment (see `.env.example`).

Without DATABASE_URL and REDIS_URL, the URLs of the embedded servers are read from the files that `make run` keeps in
DATA_DIR, so that `manage.py` uses the running service's database.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from celery.schedules import crontab
from django.core.exceptions import ImproperlyConfigured

from backoffice.menu import BACK_OFFICE
from config.api_reference import API_REFERENCE, laboratory_tags
from config.environment import (
    BASE_DIR,
    ENVIRONMENT,
    PRODUCTION,
    address,
    credentials_keys,
    encryption_keys,
    env,
    flag,
    is_local,
    list_required_in_production,
    local_services,
    networks,
    no_address,
    not_guessable,
    required_in_production,
    whole,
)
from config.logs import logging_config

DATA_DIR = Path(env.str("DATA_DIR", str(BASE_DIR / "var"))).resolve()
_services = {} if PRODUCTION else local_services(DATA_DIR)
_DEVELOPMENT_KEY = "development-only-key-that-production-refuses"

SECRET_KEY = required_in_production("SECRET_KEY", _DEVELOPMENT_KEY)
not_guessable("SECRET_KEY", SECRET_KEY, least=32)
_DEVELOPMENT_FIELD_KEY = base64.urlsafe_b64encode(hashlib.sha256(_DEVELOPMENT_KEY.encode()).digest()).decode()
FIELD_ENCRYPTION_KEYS = encryption_keys("FIELD_ENCRYPTION_KEYS", _DEVELOPMENT_FIELD_KEY)


def _derived(label: str) -> str:
    return hmac.new(SECRET_KEY.encode(), label.encode(), hashlib.sha256).hexdigest()


# X25519 keys, 32 bytes in hex. Processes that call banks have the private keys, the current one first. All others have
# the public key of the current one: they can encrypt credentials but not decrypt them.
BANK_CREDENTIALS_KEYS, BANK_CREDENTIALS_PUBLIC_KEY = credentials_keys(_derived("bank-credentials"))

# Set both before SECRET_KEY is ever rotated, because stored digests depend on them.
API_KEY_PEPPER = env.str("API_KEY_PEPPER", "") or _derived("api-key-pepper")
BLIND_INDEX_KEY = env.str("BLIND_INDEX_KEY", "") or _derived("blind-index")
not_guessable("API_KEY_PEPPER", API_KEY_PEPPER, least=32)
not_guessable("BLIND_INDEX_KEY", BLIND_INDEX_KEY, least=32)

# The Ed25519 seed that signs evidence, 32 bytes in hex. Set it, too, before SECRET_KEY is rotated. When it is replaced,
# its public key (printed by `verify_evidence`) must be added to the retired ones, so that old evidence can still be
# verified. Production needs a separate key: an acceptance's proof must not depend on the key of sessions.
EVIDENCE_SIGNING_KEY = required_in_production("EVIDENCE_SIGNING_KEY", "") or _derived("evidence-signing")
if not re.fullmatch(r"[0-9A-Fa-f]{64}", EVIDENCE_SIGNING_KEY):  # otherwise the first acceptance would fail
    raise ImproperlyConfigured("EVIDENCE_SIGNING_KEY must be 32 bytes in hex")
not_guessable("EVIDENCE_SIGNING_KEY", EVIDENCE_SIGNING_KEY, least=64)
EVIDENCE_RETIRED_PUBLIC_KEYS = env.list("EVIDENCE_RETIRED_PUBLIC_KEYS", default=[])

DATABASE_URL = required_in_production("DATABASE_URL", _services.get("database_url", ""))
REDIS_URL = address(
    "REDIS_URL",
    required_in_production("REDIS_URL", _services.get("redis_url", "redis://127.0.0.1:6379/0")),
    "redis",
    "rediss",
    "unix",
)
PUBLIC_BASE_URL = address(
    "PUBLIC_BASE_URL",
    required_in_production("PUBLIC_BASE_URL", f"http://127.0.0.1:{whole('PORT', 8000)}").rstrip("/"),
    *(("https",) if PRODUCTION else ("https", "http")),
)
ALLOWED_HOSTS = list_required_in_production("ALLOWED_HOSTS", "*")
TRUSTED_PROXIES = networks("TRUSTED_PROXIES", [])
if PRODUCTION and "TRUSTED_PROXIES" not in env.ENVIRON:
    raise ImproperlyConfigured("TRUSTED_PROXIES must be set in production (empty where no proxy stands in front)")
for _proxy in TRUSTED_PROXIES if PRODUCTION else ():
    if ipaddress.ip_network(_proxy, strict=False).prefixlen < 8:  # clients in it could fake their address
        raise ImproperlyConfigured(f"TRUSTED_PROXIES: {_proxy!r} is too wide: name the proxies")


# Publicly known secrets (`admin` / `admin`, the keys in this file) must not work in a sandbox that others can reach.
DEVELOPMENT_SECRETS_ALLOWED = ENVIRONMENT == "development" or (
    ENVIRONMENT == "sandbox"
    and (is_local(urlsplit(PUBLIC_BASE_URL).hostname or "") or flag("ALLOW_DEVELOPMENT_SECRETS", False))
)
if not DEVELOPMENT_SECRETS_ALLOWED and not PRODUCTION:
    for _name, _is_default in {
        "SECRET_KEY": SECRET_KEY == _DEVELOPMENT_KEY,
        "FIELD_ENCRYPTION_KEYS": _DEVELOPMENT_FIELD_KEY in FIELD_ENCRYPTION_KEYS,
    }.items():
        if _is_default:
            raise ImproperlyConfigured(
                f"{_name} must be set in a sandbox at a public address, or ALLOW_DEVELOPMENT_SECRETS=true"
            )
SIMULATOR_URL = env.str("SIMULATOR_URL", f"http://127.0.0.1:{whole('SIMULATOR_PORT', 8100)}").rstrip("/")
# The simulated banks and the laboratory, as partners reach them. The guide and the reference name it.
LABORATORY_URL = "" if PRODUCTION else f"{env.str('SIMULATOR_PUBLIC_URL', '').rstrip('/') or SIMULATOR_URL}/lab/"
# The folder of a gateway and a proxy before one simulated bank (simulator/front.py), for `seed_sandbox`. Empty: none.
SIMULATOR_FRONT_DIR = env.str("SIMULATOR_FRONT_DIR", "")
# Text messages to holders (authorizations/texting.py). If empty, this deployment sends none.
SMS_GATEWAY_URL = env.str("SMS_GATEWAY_URL", "" if PRODUCTION else f"{SIMULATOR_URL}/sms").strip()
SMS_GATEWAY_TOKEN = env.str("SMS_GATEWAY_TOKEN", "") or ("" if PRODUCTION else "sandbox")
if SMS_GATEWAY_URL:
    address("SMS_GATEWAY_URL", SMS_GATEWAY_URL, *(("https",) if PRODUCTION else ("https", "http")))
    if not SMS_GATEWAY_TOKEN:
        raise ImproperlyConfigured("SMS_GATEWAY_URL needs SMS_GATEWAY_TOKEN")
# Codes and wrong answers together, over all sessions (authorizations/codes.py).
SMS_PER_PHONE_A_DAY = whole("SMS_PER_PHONE_A_DAY", 12 if PRODUCTION else 1000)
SMS_PER_PARTNER_A_DAY = whole("SMS_PER_PARTNER_A_DAY", 2000)
METRICS_NETWORKS = networks("METRICS_NETWORKS", ["127.0.0.0/8", "::1/128"])
METRICS_PORT = whole("METRICS_PORT", 0, least=0)

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "django_otp",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "foundation",
    "providers",
    "partners",
    "webhooks",
    "authorizations",
    "consultas",
    "proposals",
    "backoffice.figures",
]

MIDDLEWARE = [
    "config.middleware.RequestMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "foundation.backoffice.gate.Compression",
    "foundation.backoffice.gate.Sessions",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "foundation.backoffice.gate.Operators",
    "foundation.backoffice.gate.SecondFactors",
    "foundation.backoffice.gate.Messages",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",  # sets a policy only for views, or by the next middleware, that name one
    "foundation.backoffice.gate.BackOfficeMiddleware",
]

ROOT_URLCONF = "config.urls"
CSRF_FAILURE_VIEW = "config.exceptions.handler403"
WSGI_APPLICATION = "config.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
APPEND_SLASH = False
FORCE_SCRIPT_NAME = ""  # the service's root path is /, whatever a header says

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

if DATABASE_URL and not DATABASE_URL.startswith(("postgres://", "postgresql://")):
    raise no_address("DATABASE_URL", "postgres")
try:
    DATABASES = {"default": env.db_url_config(DATABASE_URL or "postgres://unset@127.0.0.1:1/unset")}
except ValueError:  # the exception's text would quote what it takes for the port, which may be part of the password
    raise no_address("DATABASE_URL", "postgres") from None
DATABASES["default"]["CONN_MAX_AGE"] = 0
_pool_size = whole("DATABASE_POOL_SIZE", 0, least=0)
if _pool_size:
    # With a pool, giving a connection back during a wait for the network is cheap: close() returns it. Connections are
    # checked before each use, so one that died with the database costs a wait for a new one, not a failed request.
    DATABASES["default"]["ENGINE"] = "foundation.postgresql"
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"]["OPTIONS"] = {
        **DATABASES["default"].get("OPTIONS", {}),
        # While the database is unavailable, the pool waits longer after each attempt and starts again after
        # `reconnect_timeout`; without that limit, an outage of a minute would be extended by another minute. It is a
        # second less than a request waits, so the request gets the connection of the last attempt.
        "pool": {"min_size": 1, "max_size": _pool_size, "timeout": 10, "reconnect_timeout": 9},
        # The statements of foundation/database.py are prepared at their second use on a connection. A connection for
        # a single request would never reach that.
        "prepare_threshold": 1 if flag("DATABASE_PREPARE", True) else None,
    }

# PostgreSQL ends a statement that takes longer. 0: none, for purges, commands and migrations.
_statement_s = whole("DATABASE_STATEMENT_TIMEOUT_S", 0, least=0)
if _statement_s:
    _options = DATABASES["default"].setdefault("OPTIONS", {})
    _options["options"] = f"{_options.get('options', '')} -c statement_timeout={_statement_s}s".strip()

if PRODUCTION:
    # TLS ends at a trusted proxy. config/gunicorn.py believes only that proxy about the scheme.
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    # With the prefix __Host-, browsers accept these cookies only from this very host by https.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-session", "__Host-csrf"
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains and
    "security.W021",  # the preload list are the domain owner's decision
    "security.W008",  # a key sent by plain http must fail instead of being redirected: the proxy has no http listener
]

# --- Login to the back office (foundation/backoffice/login.py) ---------------------------------------------
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = ["foundation.hashing.OutsideTheLoop"]
# After this many failures of one account, or from one address, within the time below, further logins are refused.
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = ["username", "ip_address"]
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
# A successful login clears no failures. Otherwise the owner of one account could keep guessing others' passwords.
AXES_RESET_ON_SUCCESS = False
# A refusal is delayed by this many seconds, so that its client cannot repeat at once on the same connection.
REFUSED_LOG_IN_WAIT_S = 2
AXES_USERNAME_CALLABLE = "foundation.backoffice.login.account_of"
AXES_CLIENT_IP_CALLABLE = "foundation.backoffice.login.network_of"
# axes stores what a form sent, except these.
AXES_SENSITIVE_PARAMETERS = ["username", "password", "csrfmiddlewaretoken", "next"]
AXES_DISABLE_ACCESS_LOG = True  # the log lines suffice
AXES_ENABLE_ADMIN = False
SILENCED_SYSTEM_CHECKS.append("axes.W002")  # the middleware comes after the rendering, too late to save cost

# A session ends this long after its last page, and this long after its login.
SESSION_IDLE_S, SESSION_COOKIE_AGE = 30 * 60, 12 * 3600
# Operators must also enter a code from their phone.
SECOND_FACTOR = flag("SECOND_FACTOR", PRODUCTION)
# A holder's erasure must be requested by one operator and confirmed by another.
ERASURE_BY_TWO = flag("ERASURE_BY_TWO", False)
OTP_TOTP_ISSUER = "Originação consignada"
# The back office is served only on this host, which serves nothing else. If empty, on every host.
BACKOFFICE_HOST = env.str("BACKOFFICE_HOST", "").strip().lower()
if BACKOFFICE_HOST and not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", BACKOFFICE_HOST):
    raise ImproperlyConfigured("BACKOFFICE_HOST must be a host name, without scheme, port and path")
if BACKOFFICE_HOST and urlsplit(PUBLIC_BASE_URL).hostname == BACKOFFICE_HOST:
    raise ImproperlyConfigured("BACKOFFICE_HOST must not be the host of PUBLIC_BASE_URL, which serves the API")
if BACKOFFICE_HOST and ALLOWED_HOSTS != ["*"]:
    ALLOWED_HOSTS.append(BACKOFFICE_HOST)

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "pt-br"
FORMAT_MODULE_PATH = ["config.formats"]
LOCALE_PATHS = [BASE_DIR / "locale"]  # Portuguese texts that the admin's theme lacks
TIME_ZONE = "America/Sao_Paulo"
STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
#: The guide's web pages and the team's, generated by `python -m config.local.guide`.
GUIDE_ROOT: Path = Path(env.str("GUIDE_ROOT", default=str(BASE_DIR / "var" / "guide")))
CLIENTS_ROOT: Path = BASE_DIR / "var" / "clients"

# --- Limits and times of the contract -------------------------------------------------------------------
BANK_TIMEOUT_S = whole("BANK_TIMEOUT_S", 25)
QUERY_DEADLINE_S = whole("QUERY_DEADLINE_S", 30)
AUTHORIZATION_MAX_AGE_DAYS = whole("AUTHORIZATION_MAX_AGE_DAYS", 30)  # older ones serve no new query
# After this many seconds of silence, a comment line keeps a stream's connection alive.
STREAM_HEARTBEAT_S = env.float("STREAM_HEARTBEAT_S", 10.0)
QUERIES_IN_FLIGHT = whole("QUERIES_IN_FLIGHT", 1000)  # per web process; beyond it 429 (consultas/admission.py)
PROPOSAL_WAIT_S = whole("PROPOSAL_WAIT_S", 30)  # how long a partner's call waits for its bank
# Paid proposals are asked about a withdrawal of the holder for so many days, and this often (proposals/models.py).
WITHDRAWAL_WATCH_DAYS = whole("WITHDRAWAL_WATCH_DAYS", 10, least=0)
WITHDRAWAL_WATCH_EVERY = timedelta(hours=6) if PRODUCTION else timedelta(seconds=10)
# Tests make a worker die during a submission (proposals/killpoints.py).
CRASH_AT = "" if PRODUCTION else env.str("CRASH_AT", "")
MAX_BODY_BYTES = 256 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
# No request writes to the disk: a body of maximum size fits into memory.
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]

# --- Banks -----------------------------------------------------------------------------------------------
# Production calls banks by https at public addresses. These hosts may have private ones. None: every host may.
BANK_PRIVATE_HOSTS = frozenset(env.list("BANK_PRIVATE_HOSTS", default=[])) if PRODUCTION else None

# --- Webhooks --------------------------------------------------------------------------------------------
# Receivers by plain http and at private addresses: only for development and the sandbox.
WEBHOOKS_ALLOW_PRIVATE = flag("WEBHOOKS_ALLOW_PRIVATE", not PRODUCTION)
if PRODUCTION and WEBHOOKS_ALLOW_PRIVATE:
    raise ImproperlyConfigured("WEBHOOKS_ALLOW_PRIVATE must not be set in production")
WEBHOOK_PORTS = [int(port) for port in env.list("WEBHOOK_PORTS", default=["443", "8443"])]  # empty: any
WEBHOOK_TIMEOUT_S = whole("WEBHOOK_TIMEOUT_S", 10)
# After this time the event of a dead process is sent again. Longer than an attempt: its time-out, the name resolution,
# which has no time-out, and storing the outcome.
WEBHOOK_LEASE_S = whole("WEBHOOK_LEASE_S", max(30, WEBHOOK_TIMEOUT_S + 10), least=WEBHOOK_TIMEOUT_S + 10)
WEBHOOK_CONCURRENCY = whole("WEBHOOK_CONCURRENCY", 256)  # deliveries in flight per webhooks worker
WEBHOOK_PARTNER_LIMIT = whole("WEBHOOK_PARTNER_LIMIT", 16)  # and per partner, over all processes


# --- Retention (reasons in docs/operations.md) ------------------------------------------------------------
# At least a day, because running work, and repeated queries, refer to younger rows.
QUERY_RETENTION_DAYS = whole("QUERY_RETENTION_DAYS", 90)  # of queries, offers and steps, after their last use
SUBMISSION_RETENTION_DAYS = whole("SUBMISSION_RETENTION_DAYS", 90)  # proposals that no bank accepted
BANK_CALL_RETENTION_DAYS = whole("BANK_CALL_RETENTION_DAYS", 90)  # calls about proposals; their moves stay
SESSION_RETENTION_DAYS = whole("SESSION_RETENTION_DAYS", 30)  # after the end of a session that nobody accepted
# Accepted sessions and their evidence that led to no contract, after the last use. Claims from a contract lapse after
# five years (Código Civil art. 206 § 5º I), so it is never less.
EVIDENCE_RETENTION_DAYS = whole("EVIDENCE_RETENTION_DAYS", 1826, least=1826)
WEBHOOK_RETENTION_DAYS = whole("WEBHOOK_RETENTION_DAYS", 30)
# The database refuses to delete younger entries of the audit trail (foundation/migrations/0001_initial.py).
AUDIT_RETENTION_DAYS = whole("AUDIT_RETENTION_DAYS", 1825, least=180)
FAILED_CALL_RETENTION_DAYS = whole("FAILED_CALL_RETENTION_DAYS", 30)
FIGURE_RETENTION_DAYS = whole("FIGURE_RETENTION_DAYS", 1095, least=31)  # pages show 30 days
if min(QUERY_RETENTION_DAYS, SUBMISSION_RETENTION_DAYS, SESSION_RETENTION_DAYS) < WEBHOOK_RETENTION_DAYS:
    # A holder's events are found through the rows that they are about (proposals/retention.py).
    raise ImproperlyConfigured("{QUERY,SUBMISSION,SESSION}_RETENTION_DAYS must not be below WEBHOOK_RETENTION_DAYS")

# --- API --------------------------------------------------------------------------------------------------
# The views read requests and write replies themselves (partners/views.py). The API reference is made of the rest.
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "foundation.openapi.OperationSchema",
    "EXCEPTION_HANDLER": "config.exceptions.handle",
}

# --- Celery ------------------------------------------------------------------------------------------------
# A separate Redis for messages, if one server is not enough (docs/performance.md).
_broker = env.str("BROKER_URL", "").strip()
CELERY_BROKER_URL = address("BROKER_URL", _broker, "redis", "rediss") if _broker else REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_BACKEND_THREAD_SAFE = True  # there is no result backend; otherwise each greenlet would create one
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_ROUTES = {
    "foundation.later.tick": {"queue": "sweeps"},
    "consultas.pending.check_due": {"queue": "sweeps"},
    "consultas.query.end.take_over": {"queue": "sweeps"},
    "proposals.sweep.check_due": {"queue": "sweeps"},
    "authorizations.codes.send_due": {"queue": "sweeps"},
    "webhooks.tasks.deliver": {"queue": "webhooks"},
    "foundation.tasks.pong": {"queue": "banks"},
    "consultas.query.ask.run": {"queue": "banks"},
    "consultas.tasks.*": {"queue": "banks"},
    "proposals.tasks.*": {"queue": "banks"},
    "providers.tasks.*": {"queue": "banks"},
}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker waits for its broker for as long as that takes
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 5,
    "socket_connect_timeout": 1,
    # No record of unacknowledged messages in Redis: two round trips for each task. A task is acknowledged when it
    # begins, and whoever needs it publishes it again or has it swept, so the record has nothing to save.
    "ack_emulation": False,
    "priority_steps": [0],  # one list for each queue; without this, a worker waits at four
}
CELERY_TIMEZONE = "UTC"
#: When which task is due. Intervals in seconds, times in UTC.
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # A task that waited longer than its interval is dropped, because the next one does its work.
    "tick": {"task": "foundation.later.tick", "schedule": 2, "options": {"expires": 2}},
    "expire-sessions": {"task": "authorizations.sessions.expire_due", "schedule": 60, "options": {"expires": 60}},
    "count-figures": {"task": "backoffice.figures.sweep.advance", "schedule": 60, "options": {"expires": 60}},
    "fetch-moves": {"task": "backoffice.figures.breaker_history.fetch", "schedule": 60, "options": {"expires": 60}},
    "purge-failed-calls": {"task": "partners.failed_calls.purge", "schedule": 3600, "options": {"expires": 3600}},
    "purge-webhooks": {"task": "webhooks.tasks.purge", "schedule": 3600, "options": {"expires": 3600}},
    "purge-queries": {"task": "proposals.retention.purge", "schedule": 3600, "options": {"expires": 3600}},
    "check-evidence": {"task": "authorizations.chain.check", "schedule": crontab(hour="7", minute="10")},
    "tell-evidence-head": {"task": "authorizations.chain.log_head", "schedule": 900, "options": {"expires": 900}},
    "purge-log-ins": {"task": "foundation.tasks.purge_log_ins", "schedule": 3600, "options": {"expires": 3600}},
    "purge-figures": {"task": "backoffice.figures.sweep.purge", "schedule": crontab(hour="7", minute="50")},
    "purge-audit": {"task": "foundation.tasks.purge_audit", "schedule": crontab(hour="7", minute="40")},
    "purge-sessions": {"task": "authorizations.retention.purge", "schedule": 3600, "options": {"expires": 3600}},
}

# --- API reference (config/api_reference.py) ----------------------------------------------------------------
SPECTACULAR_SETTINGS = {
    **API_REFERENCE,
    "TAGS": API_REFERENCE["TAGS"] + laboratory_tags(LABORATORY_URL),
    "EXTERNAL_DOCS": {"url": f"{PUBLIC_BASE_URL}/docs/guia/", "description": "Guia do parceiro"},
    "SERVERS": [{"url": PUBLIC_BASE_URL}],
}

# --- Back office (backoffice/menu.py) ---------------------------------------------------------------------------
LOGIN_REDIRECT_URL = "/admin/"
UNFOLD = {**BACK_OFFICE, "SITE_SUBHEADER": {"development": "Desenvolvimento", "sandbox": "Sandbox"}.get(ENVIRONMENT)}

# --- Logs ---------------------------------------------------------------------------------------------------
_level = env.str("LOG_LEVEL", "").strip().upper() or "INFO"
if _level not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
    raise ImproperlyConfigured("LOG_LEVEL must be DEBUG, INFO, WARNING, ERROR or CRITICAL")
LOGGING = logging_config(as_json=ENVIRONMENT != "development", level=_level)
