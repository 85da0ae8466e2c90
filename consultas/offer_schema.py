"""OpenAPI schemas of an offer, in both spellings."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from rest_framework import serializers as drf

from consultas import offer_json
from providers.price import CetSource

_CET_SOURCES = [source.value for source in CetSource]
_CET_SOURCE = "`bank`: informado pelo banco. `computed`: calculado pela Resolução CMN 4.881/2020. Nulo sem CET."
_COMPARABLE = (
    "O custo por cento ao {}, do valor liberado e das parcelas, pela mesma fórmula para todos os bancos: compare "
    "ofertas por ele. Nulo se o banco ainda não fixou o primeiro vencimento."
)


def in_snake_case(
    shown: type[drf.Serializer[Any]], name: str, *, without: Collection[str] = ()
) -> type[drf.Serializer[Any]]:
    """A serializer class `name` with the fields of `shown` in snake case, except those in `without`."""
    fields: dict[str, drf.Field[Any, Any, Any, Any]] = {
        offer_json.in_snake_case(each): copy.deepcopy(field)
        for each, field in shown._declared_fields.items()
        if each not in without
    }
    return type(name, (drf.Serializer,), {**fields, "__module__": __name__})


class OfferSchema(drf.Serializer[Any]):
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    offerId = drf.UUIDField(allow_null=True, help_text="Nulo no fluxo de eventos, que não guarda ofertas.")
    loanValue = drf.FloatField(help_text="Reais.")
    installmentValue = drf.FloatField(help_text="Reais por mês.")
    installments = drf.IntegerField(help_text="Meses.")
    interestRate = drf.FloatField(help_text="Por cento ao mês.")
    totalAmount = drf.FloatField(help_text="Reais.")
    cetMonthly = drf.FloatField(
        allow_null=True, help_text="Custo efetivo total, por cento ao mês; nulo se não há como saber."
    )
    cetAnnual = drf.FloatField(
        allow_null=True, help_text="Custo efetivo total, por cento ao ano, com duas casas; nulo se não há como saber."
    )
    cetSource = drf.ChoiceField(_CET_SOURCES, allow_null=True, help_text=_CET_SOURCE)
    cetComparableMonthly = drf.FloatField(allow_null=True, help_text=_COMPARABLE.format("mês"))
    cetComparableAnnual = drf.FloatField(allow_null=True, help_text=_COMPARABLE.format("ano"))
    iof = drf.FloatField(allow_null=True, help_text="Imposto, em reais; nulo se o banco não informa.")
    insuranceValue = drf.FloatField(allow_null=True, help_text="Seguro, em reais; nulo se o banco não informa.")
    withInsurance = drf.BooleanField(help_text="Verdadeiro se a oferta inclui seguro.")
    tableCode = drf.CharField(help_text="Tabela do banco em que a oferta foi calculada.")
    firstDueDate = drf.DateField(
        allow_null=True, help_text="Vencimento da primeira parcela; nulo se o banco ainda não o fixou."
    )
    quotedAt = drf.DateTimeField(allow_null=True, help_text="Quando o banco deu a oferta, UTC.")
    validUntil = drf.DateTimeField(allow_null=True, help_text="Até quando vale; nulo se o banco não fixa um fim.")
    employerName = drf.CharField(help_text="Nome do empregador do vínculo.")
    employerCnpj = drf.CharField(help_text="CNPJ do empregador do vínculo, 14 caracteres.")
    matricula = drf.CharField(help_text="Matrícula do vínculo no empregador.")
    providerData = drf.DictField(help_text="Identificadores do banco; `nativeOfferId` nomeia a oferta lá.")
    adjusted = drf.BooleanField(help_text="Verdadeiro se a oferta difere do que foi pedido.")
    adjustments = drf.ListField(
        child=drf.CharField(), help_text="O que difere do pedido e por quê, em frases; vazia se nada difere."
    )


#: Offers of an individual query are not stored, and are spelled the other way.
IndividualOfferSchema = in_snake_case(OfferSchema, "IndividualOfferSchema", without=offer_json.NOT_INDIVIDUAL)


OFFER = {
    "provider": "ipe",
    "offerId": "3f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11",
    "loanValue": 12000.0,
    "installmentValue": 488.8,
    "installments": 48,
    "interestRate": 1.99,
    "totalAmount": 23462.4,
    "cetMonthly": 1.99,
    "cetAnnual": 23.88,
    "cetSource": "bank",
    "cetComparableMonthly": 3.052468,
    "cetComparableAnnual": 43.45,
    "iof": 404.76,
    "insuranceValue": 0.0,
    "withInsurance": False,
    "tableCode": "IPE-CLT-STD",
    "firstDueDate": "2027-01-10",
    "quotedAt": "2026-11-21T12:00:00.000Z",
    "validUntil": "2026-11-22T12:00:00.000Z",
    "employerName": "Metalúrgica Aurora Ltda",
    "employerCnpj": "11222333000181",
    "matricula": "100200",
    "providerData": {
        "cetMonthlyPercent": "1.99",
        "nativeOfferId": "d8c98ca5-0aa9-4354-bdaf-a53ac3ad32d8",
        "withInsurance": False,
    },
    "adjusted": False,
    "adjustments": [],
}
SNAKE_OFFER = {
    offer_json.in_snake_case(name): value for name, value in OFFER.items() if name not in offer_json.NOT_INDIVIDUAL
}
