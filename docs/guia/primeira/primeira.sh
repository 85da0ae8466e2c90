# 1. Consulte
URL=https://sandbox.example LAB=https://simulador.example/lab/holders
KEY=cpk_test_sandbox_public_key_not_a_secret_00000000000

call() { curl -sS --fail-with-body --max-time 60 -H "X-Partner-Api-Key: $KEY" -H 'Content-Type: application/json' "$@"; }
pick() { grep -o "\"$1\": *\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

CPF=$(call $LAB -d '{"scenario": "full_flow"}' | pick cpf)
call $URL/docs/guia/consulta.json | sed "s/90000000175/$CPF/" >consulta.json
OFFER=$(call $URL/partners/v1/consultas -d @consulta.json | pick offerId)
echo "oferta $OFFER"

# 2. Receba os eventos
call -X PUT $URL/partners/v1/webhook -d '{"url": "http://127.0.0.1:9000/webhook", "rotate_secret": true}' >webhook.json
call -O $URL/docs/guia/receber.py
SEGREDOS=$(pick secret <webhook.json) python3 receber.py 9000 &
until curl -s -o /dev/null http://127.0.0.1:9000; do sleep 0.2; done

# 3. Envie a oferta escolhida
call $URL/docs/guia/proposta.json | sed "s/90000000175/$CPF/; s/<offerId>/$OFFER/" >proposta.json
ID=$(call $URL/partners/v1/proposals -d @proposta.json | pick proposal_id)
echo "proposta $ID"

# 4. Formalize, e assine pelo titular
call -X POST $URL/partners/v1/proposals/$ID/formalize | pick url
call $LAB/$CPF/steps/approve -d '{"provider": "ipe", "step": "signature"}'

# 5. Espere o dinheiro
until cat eventos/*.json 2>/dev/null | grep -q "$ID\", *\"event\": *\"proposal.disbursed"; do sleep 1; done
echo "pago"; kill $!

# 6. Fim
