# The guide's web pages. The tools that build them are not part of the image.
FROM python:3.12-slim AS guide
WORKDIR /srv/app
COPY requirements-docs.txt .
RUN pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements-docs.txt
COPY config/local/guide.py config/local/
COPY docs docs
RUN python config/local/guide.py

# The partners' clients, made from the schema.
FROM node:20-slim AS node
WORKDIR /srv/app/var/node
COPY tests/node/package.json tests/node/package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund

FROM python:3.12-slim AS clients
WORKDIR /srv/app
COPY requirements.txt requirements-docs.txt ./
RUN pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements.txt -r requirements-docs.txt
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /srv/app/var/node var/node
COPY . .
RUN ENVIRONMENT=development python -m clients.build

# One image for every process; compose.yaml and docs/operations.md name their commands.
FROM python:3.12-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOST=0.0.0.0 DATA_DIR=/srv/state DEFAULT_ENVIRONMENT=production
WORKDIR /srv/app

COPY requirements.txt .
RUN pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements.txt

COPY . .
COPY --from=guide /srv/app/var/guide var/guide
COPY --from=clients /srv/app/var/clients var/clients
# Static files need no secret: they are collected with the development defaults.
RUN ENVIRONMENT=development python manage.py collectstatic --no-input --verbosity 0 \
    && useradd --system --uid 10001 --no-create-home origination \
    && chown -R origination /srv/state
USER origination

EXPOSE 8000
CMD ["gunicorn", "-c", "config/gunicorn.py", "config.wsgi"]
