"""The first version of the terms, so that a new deployment can open sessions. Operators publish their own after it."""

from django.db import migrations
from django.utils import timezone

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
    dependencies = [("authorizations", "0002_immutability")]

    operations = [migrations.RunPython(publish, migrations.RunPython.noop)]
