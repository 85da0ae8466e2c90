"""The audit trail. The database refuses to change an entry, to empty the table, and to delete an entry before its time.

The guards hold for the application's own role and plain SQL, as those of evidence (authorizations/migrations/0001_initial.py.py).
"""

import django.db.models.functions.datetime
import django.db.models.deletion
import django.utils.timezone
import foundation.encryption
from django.conf import settings
from django.db import migrations, models

CREATE = """
CREATE FUNCTION foundation_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON foundation_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION foundation_refuse_audit_change();

CREATE TRIGGER audit_is_kept BEFORE DELETE ON foundation_auditentry
    FOR EACH ROW WHEN (OLD.at > now() - interval '180 days') EXECUTE FUNCTION foundation_refuse_audit_change();
"""

DROP = """
DROP TRIGGER audit_is_kept ON foundation_auditentry;
DROP TRIGGER audit_is_append_only ON foundation_auditentry;
DROP FUNCTION foundation_refuse_audit_change();
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now, editable=False, verbose_name='quando')),
                ('who', models.CharField(blank=True, editable=False, max_length=150, verbose_name='quem')),
                ('channel', models.CharField(choices=[('back_office', 'administração'), ('command', 'comando'), ('api', 'API'), ('service', 'serviço')], editable=False, max_length=12, verbose_name='por onde')),
                ('address', models.CharField(blank=True, editable=False, max_length=45, verbose_name='endereço')),
                ('action', models.CharField(editable=False, max_length=24, verbose_name='o quê')),
                ('model', models.CharField(blank=True, editable=False, max_length=80, verbose_name='tipo')),
                ('object_id', models.CharField(blank=True, editable=False, max_length=100, verbose_name='id')),
                ('object_name', models.CharField(blank=True, editable=False, max_length=200, verbose_name='objeto')),
                ('changes', models.JSONField(default=dict, editable=False, verbose_name='mudanças')),
                ('detail', models.CharField(blank=True, editable=False, max_length=500, verbose_name='detalhe')),
                ('request_id', models.CharField(blank=True, editable=False, max_length=128, verbose_name='X-Request-Id')),
            ],
            options={
                'verbose_name': 'registro de auditoria',
                'verbose_name_plural': 'registros de auditoria',
                'ordering': ('-at', '-pk'),
                'permissions': (('export_lists', 'Pode exportar listas em CSV'),),
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['at'], name='audit_by_time'), models.Index(fields=['who', 'at'], name='audit_by_person'), models.Index(fields=['action', 'at'], name='audit_by_action'), models.Index(fields=['model', 'object_id', 'at'], name='audit_by_object'), models.Index(condition=models.Q(('request_id', ''), _negated=True), fields=['request_id'], name='audit_by_request')],
            },
        ),
        migrations.RunSQL(CREATE, DROP),
        migrations.CreateModel(
            name='RegisteredPhone',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='The human-readable name of this device.', max_length=64)),
                ('confirmed', models.BooleanField(default=True, help_text='Is this device ready for use?')),
                ('throttling_failure_timestamp', models.DateTimeField(blank=True, default=None, help_text='A timestamp of the last failed verification attempt. Null if last attempt succeeded.', null=True)),
                ('throttling_failure_count', models.PositiveIntegerField(default=0, help_text='Number of successive failed attempts.')),
                ('key', foundation.encryption.EncryptedTextField()),
                ('last_step', models.BigIntegerField(default=-1)),
                ('recovery_digests', models.JSONField(default=list)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='registered_phone', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'telefone registrado',
                'verbose_name_plural': 'telefones registrados',
                'default_permissions': (),
            },
        ),
    ]
