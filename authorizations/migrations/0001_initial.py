"""The sessions, terms and evidence. The database itself refuses to change what may have to be proven in court years later.

The triggers hold for the application's own role and plain SQL. They can't stop whoever owns the tables from
dropping them: that is what the hash chain and the signatures are for (`verify_evidence`), and why production
runs migrations under a role of its own (docs/security.md).
"""

import authorizations.models
import django.db.models.deletion
import django.utils.timezone
import foundation.encryption
from django.db import migrations, models
from django.utils import timezone

# CPF, name, phone and reason of an accepted session are left out: `reencrypt` renews their ciphertext, and an erasure
# masks them.
CREATE = """
CREATE FUNCTION authorizations_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER evidence_is_immutable BEFORE UPDATE OR TRUNCATE ON authorizations_evidence
    FOR EACH STATEMENT EXECUTE FUNCTION authorizations_refuse_change();

CREATE TRIGGER evidence_use_is_immutable BEFORE UPDATE OR TRUNCATE ON authorizations_evidenceuse
    FOR EACH STATEMENT EXECUTE FUNCTION authorizations_refuse_change();

CREATE TRIGGER purged_evidence_is_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON authorizations_purgedevidence
    FOR EACH STATEMENT EXECUTE FUNCTION authorizations_refuse_change();

-- Five years after the last use, the least that EVIDENCE_RETENTION_DAYS takes, a purge may leave the link alone.
CREATE FUNCTION authorizations_keep_evidence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.accepted_at > now() - interval '1826 days' OR NOT EXISTS (
        SELECT FROM authorizations_purgedevidence purged
        WHERE (purged.number, purged.hash, purged.record_sha256, purged.previous_hash, purged.public_key, purged.signature)
            = (OLD.number, OLD.hash, OLD.record_sha256, OLD.previous_hash, OLD.public_key, OLD.signature)
    ) THEN
        RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END
$$;

CREATE FUNCTION authorizations_keep_use() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.used_at > now() - interval '1826 days' OR NOT EXISTS (
        SELECT FROM authorizations_purgedevidence purged WHERE purged.number = OLD.evidence_id
    ) THEN
        RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END
$$;

CREATE TRIGGER evidence_is_kept BEFORE DELETE ON authorizations_evidence
    FOR EACH ROW EXECUTE FUNCTION authorizations_keep_evidence();

CREATE TRIGGER evidence_use_is_kept BEFORE DELETE ON authorizations_evidenceuse
    FOR EACH ROW EXECUTE FUNCTION authorizations_keep_use();

CREATE TRIGGER published_terms_are_immutable BEFORE UPDATE OR DELETE ON authorizations_terms
    FOR EACH ROW WHEN (OLD.published_at IS NOT NULL) EXECUTE FUNCTION authorizations_refuse_change();

CREATE TRIGGER terms_are_not_truncated BEFORE TRUNCATE ON authorizations_terms
    FOR EACH STATEMENT EXECUTE FUNCTION authorizations_refuse_change();

CREATE FUNCTION authorizations_keep_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an accepted row of % keeps whose it is', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER accepted_session_keeps_whose_it_is BEFORE UPDATE ON authorizations_session
    FOR EACH ROW WHEN (
        OLD.status = 'authorized' AND (
            (OLD.id, OLD.authorization_id, OLD.partner_id, OLD.cpf_index, OLD.terms_id, OLD.status, OLD.created_at)
            IS DISTINCT FROM
            (NEW.id, NEW.authorization_id, NEW.partner_id, NEW.cpf_index, NEW.terms_id, NEW.status, NEW.created_at)
            OR NEW.use_count < OLD.use_count
            OR OLD.erased_at IS NOT NULL AND OLD.erased_at IS DISTINCT FROM NEW.erased_at
            OR OLD.revoked_at IS NOT NULL AND (OLD.revoked_at, OLD.revoked_by)
                IS DISTINCT FROM (NEW.revoked_at, NEW.revoked_by)
        )
    ) EXECUTE FUNCTION authorizations_keep_accepted();
"""

DROP = """
DROP TRIGGER accepted_session_keeps_whose_it_is ON authorizations_session;
DROP FUNCTION authorizations_keep_accepted();
DROP TRIGGER terms_are_not_truncated ON authorizations_terms;
DROP TRIGGER published_terms_are_immutable ON authorizations_terms;
DROP TRIGGER evidence_use_is_kept ON authorizations_evidenceuse;
DROP TRIGGER evidence_is_kept ON authorizations_evidence;
DROP FUNCTION authorizations_keep_use();
DROP FUNCTION authorizations_keep_evidence();
DROP TRIGGER purged_evidence_is_immutable ON authorizations_purgedevidence;
DROP TRIGGER evidence_use_is_immutable ON authorizations_evidenceuse;
DROP TRIGGER evidence_is_immutable ON authorizations_evidence;
DROP FUNCTION authorizations_refuse_change();
"""

# The first version of the terms, so that a new deployment can open sessions. Operators publish their own after it.
VERSION = "1"
TEXT = """\
1. Quem pede
A empresa identificada no início desta página, aqui chamada de Empresa, pede esta autorização para si e para as instituições financeiras com que trabalha.

2. O que você autoriza
Que a Empresa e essas instituições consultem, inclusive por meio da Dataprev e dos sistemas do Programa Crédito do Trabalhador, os seus dados cadastrais, os do seu vínculo de emprego, a sua remuneração e a sua margem consignável.

3. Para quê
Somente para verificar se há crédito consignado disponível para você e para apresentar simulações e ofertas. Os dados não serão usados para outra finalidade com base nesta autorização.

4. O que esta autorização não é
Ela não contrata empréstimo, não reserva a sua margem e não permite desconto no seu salário. Qualquer contratação é uma etapa separada, em que você vê valor, parcelas, taxa de juros e custo efetivo total, e assina no ambiente do próprio banco.

5. O que fica registrado
Ao autorizar, ficam registrados a data e a hora, o endereço IP da sua conexão, os dados do navegador e do aparelho, a versão deste texto e, somente se você permitir, a sua localização. Esse registro serve de prova da autorização e acompanha as consultas que se apoiam nela.

6. Seus direitos
Os dados são tratados conforme a Lei Geral de Proteção de Dados (Lei 13.709/2018). Você pode pedir à Empresa, a qualquer momento, a confirmação do tratamento, o acesso aos seus dados, a correção deles, a eliminação nos casos previstos em lei e a revogação desta autorização. A revogação impede novas consultas e não desfaz as que já foram feitas.

7. Sua escolha
Autorizar é opcional. Sem a autorização, a Empresa não pode consultar ofertas para você por este canal."""


def publish(apps, schema_editor):
    now = timezone.now()
    apps.get_model("authorizations", "Terms").objects.create(
        version=VERSION, text=TEXT, created_at=now, published_at=now
    )


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('partners', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('authorization_id', models.CharField(default=authorizations.models.new_authorization_id, editable=False, max_length=32, unique=True, verbose_name='identificador')),
                ('cpf', foundation.encryption.EncryptedTextField(verbose_name='CPF')),
                ('cpf_index', models.CharField(db_index=True, editable=False, max_length=64)),
                ('name', foundation.encryption.EncryptedTextField(verbose_name='nome')),
                ('phone', foundation.encryption.EncryptedTextField(verbose_name='telefone')),
                ('status', models.CharField(choices=[('pending', 'pendente'), ('authorized', 'autorizada'), ('expired', 'expirada'), ('declined', 'recusada'), ('revoked', 'revogada')], default='pending', max_length=10, verbose_name='situação')),
                ('created_at', models.DateTimeField(db_index=True, verbose_name='criada em')),
                ('expires_at', models.DateTimeField(verbose_name='expira em')),
                ('erased_at', models.DateTimeField(editable=False, null=True, verbose_name='dados apagados em')),
                ('declined_at', models.DateTimeField(editable=False, null=True, verbose_name='recusada em')),
                ('revoked_at', models.DateTimeField(editable=False, null=True, verbose_name='revogada em')),
                ('revoked_by', models.CharField(default='', max_length=150, verbose_name='revogada por')),
                ('revocation_reason', foundation.encryption.EncryptedTextField(null=True, verbose_name='motivo da revogação')),
                ('partner_reference', models.CharField(blank=True, db_default='', default='', max_length=64, verbose_name='referência do parceiro')),
                ('return_link', foundation.encryption.EncryptedTextField(null=True, verbose_name='link de volta')),
                ('use_count', models.PositiveIntegerField(default=0, editable=False)),
                ('page_round', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'verbose_name': 'sessão de autorização',
                'verbose_name_plural': 'sessões de autorização',
                'ordering': ('-created_at',),
                'permissions': [('revoke_authorization', 'Pode revogar uma autorização')],
            },
        ),
        migrations.CreateModel(
            name='Terms',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.CharField(max_length=20, unique=True, verbose_name='versão')),
                ('text', models.TextField(help_text='Texto simples, mostrado exatamente como está aqui. Linhas como “2. Para quê” saem como títulos.', verbose_name='texto')),
                ('published_at', models.DateTimeField(editable=False, null=True, verbose_name='publicada em')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='criada em')),
            ],
            options={
                'verbose_name': 'termo',
                'verbose_name_plural': 'termos',
                'ordering': ('-created_at',),
            },
        ),
        migrations.CreateModel(
            name='Evidence',
            fields=[
                ('number', models.PositiveBigIntegerField(primary_key=True, serialize=False, verbose_name='número')),
                ('record', foundation.encryption.EncryptedTextField(verbose_name='registro')),
                ('record_sha256', models.CharField(max_length=64, verbose_name='SHA-256 do registro')),
                ('previous_hash', models.CharField(max_length=64, unique=True, verbose_name='elo anterior')),
                ('hash', models.CharField(max_length=64, unique=True, verbose_name='elo')),
                ('public_key', models.CharField(max_length=64, verbose_name='chave pública')),
                ('signature', models.CharField(max_length=128, verbose_name='assinatura')),
                ('accepted_at', models.DateTimeField(verbose_name='aceita em')),
                ('from_api_address', models.BooleanField(null=True, verbose_name='aceita de endereço da API')),
                ('session', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='evidence', to='authorizations.session', verbose_name='sessão')),
            ],
            options={
                'verbose_name': 'evidência',
                'verbose_name_plural': 'evidências',
                'ordering': ('-number',),
                'permissions': [('export_evidence', 'Pode exportar o dossiê de uma evidência')],
                'default_permissions': ('view',),
            },
        ),
        migrations.AddField(
            model_name='session',
            name='terms',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='authorizations.terms', verbose_name='termo'),
        ),
        migrations.CreateModel(
            name='EvidenceUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(verbose_name='número')),
                ('provider', models.CharField(max_length=40, verbose_name='banco')),
                ('call', models.CharField(max_length=40, verbose_name='chamada')),
                ('reference', models.CharField(max_length=64, verbose_name='referência')),
                ('used_at', models.DateTimeField(verbose_name='usada em')),
                ('seal', models.CharField(max_length=128, verbose_name='selo')),
                ('evidence', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='uses', to='authorizations.evidence', verbose_name='evidência')),
            ],
            options={
                'verbose_name': 'uso da evidência',
                'verbose_name_plural': 'usos da evidência',
                'ordering': ('evidence_id', 'number'),
                'default_permissions': ('view',),
                'constraints': [models.UniqueConstraint(fields=('evidence', 'number'), name='uses_are_numbered')],
            },
        ),
        migrations.CreateModel(
            name='PurgedEvidence',
            fields=[
                ('number', models.PositiveBigIntegerField(primary_key=True, serialize=False, verbose_name='número')),
                ('record_sha256', models.CharField(max_length=64, verbose_name='SHA-256 do registro')),
                ('previous_hash', models.CharField(max_length=64, unique=True, verbose_name='elo anterior')),
                ('hash', models.CharField(max_length=64, unique=True, verbose_name='elo')),
                ('public_key', models.CharField(max_length=64, verbose_name='chave pública')),
                ('signature', models.CharField(max_length=128, verbose_name='assinatura')),
                ('uses', models.PositiveIntegerField()),
                ('session_index', models.CharField(db_index=True, max_length=64)),
                ('purged_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'verbose_name': 'evidência apagada por prazo',
                'verbose_name_plural': 'evidências apagadas por prazo',
                'ordering': ('-number',),
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='PhoneUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('of', models.CharField(max_length=64)),
                ('day', models.DateField()),
                ('count', models.PositiveIntegerField(default=0)),
                ('refused', models.PositiveIntegerField(default=0)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('of', 'day'), name='one_phone_use_a_day')],
            },
        ),
        migrations.CreateModel(
            name='PhoneCode',
            fields=[
                ('due_at', models.DateTimeField(editable=False, null=True, verbose_name='próxima verificação')),
                ('lease_until', models.DateTimeField(editable=False, null=True)),
                ('worker', models.CharField(blank=True, db_default='', default='', editable=False, max_length=32)),
                ('session', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='phone_code', serialize=False, to='authorizations.session', verbose_name='sessão')),
                ('number', models.PositiveSmallIntegerField(default=0)),
                ('digest', models.CharField(blank=True, default='', max_length=64)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('wrong_answers', models.PositiveSmallIntegerField(default=0)),
                ('requested_at', models.DateTimeField(null=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('confirmed_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'código por SMS',
                'verbose_name_plural': 'códigos por SMS',
                'default_permissions': (),
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='codes_to_send')],
            },
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(condition=models.Q(('status', 'authorized'), _negated=True), fields=['expires_at'], name='session_unused'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(condition=models.Q(('revoked_at__isnull', False)), fields=['-created_at'], name='session_revoked'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(condition=models.Q(('partner_reference__gt', '')), fields=['partner_reference', '-created_at'], name='session_by_own_name'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'pending')), fields=('partner', 'cpf_index'), name='one_pending_session_per_holder'),
        ),
        migrations.RunSQL(CREATE, DROP),
        migrations.RunPython(publish, migrations.RunPython.noop),
    ]
