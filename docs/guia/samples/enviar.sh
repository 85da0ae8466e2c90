# enviar.sh URL CHAVE   (curl, grep e sed)
set -eu
url=$1 key=$2

post() {
  curl -sS --fail-with-body --max-time 60 "$url/partners/v1/$1" \
    -H "X-Partner-Api-Key: $key" -H 'Content-Type: application/json' --data-binary @-
}

text() {
  grep -o "\"$1\": *\"[^\"]*\"" | head -n 1 | sed 's/.*"\(.*\)"/\1/'
}

offer=$(post consultas <consulta.json | text offerId)
sed "s/<offerId>/$offer/" proposta.json | post proposals | text proposal_id
