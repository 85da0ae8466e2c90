"""The example of a submission's dataset, as the API reference shows it and tests send it."""

from typing import Any

DATASET: dict[str, Any] = {
    "titular": {
        "nome": "Maria da Silva",
        "cpf": "90000000175",
        "data_nascimento": "1985-03-14",
        "sexo": "F",
        "nome_mae": "Ana da Silva",
        "nome_pai": "João da Silva",
        "nacionalidade": "brasileira",
        "estado_civil": "casado",
        "naturalidade_cidade": "São Paulo",
        "naturalidade_uf": "SP",
        "exposicao_politica": False,
    },
    "documento": {"numero": "123456789", "orgao_emissor": "SSP", "uf_emissor": "SP", "data_emissao": "2005-06-01"},
    "contato": {"telefone": "11987654321", "email": "maria@example.com"},
    "endereco": {
        "cep": "01310-100",
        "logradouro": "Avenida Paulista",
        "numero": "1000",
        "bairro": "Bela Vista",
        "cidade": "São Paulo",
        "uf": "SP",
    },
    "vinculo": {
        "cnpj_empregador": "11222333000181",
        "nome_empregador": "Metalúrgica Aurora Ltda",
        "cargo": "Operador de Produção",
        "salario": 4500.0,
        "margem": 1850.0,
        "data_admissao": "2019-03-11",
        "matricula": "100200",
    },
    "recebimento": {
        "conta_bancaria": {
            "banco": "001",
            "agencia": "1234",
            "conta": "567890",
            "digito_conta": "1",
            "tipo_conta": "corrente",
        }
    },
    "evidencia": {"ip": "203.0.113.7", "tipo_envio": "sms"},
    "referencias": [
        {"nome": "João Souza", "telefone": "11911112222", "grau": 1},
        {"nome": "Rita Lima", "telefone": "11933334444", "grau": 2},
    ],
}
