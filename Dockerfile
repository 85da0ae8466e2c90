# One image for every process; compose.yaml and docs/operations.md name their commands.
FROM python:3.12-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOST=0.0.0.0 DATA_DIR=/srv/state
WORKDIR /srv/app

COPY requirements.txt .
RUN pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements.txt

COPY . .
# Static files need no secret: they are collected with the development defaults.
RUN python manage.py collectstatic --no-input --verbosity 0 \
    && useradd --system --no-create-home origination \
    && chown -R origination /srv/state
USER origination

EXPOSE 8000
CMD ["gunicorn", "-c", "config/gunicorn.py", "config.wsgi"]
