// enviar.mjs URL CHAVE   (Node 20 ou mais novo)
import { readFileSync } from "node:fs";

const [url, key] = process.argv.slice(2);

async function post(path, body) {
  const answer = await fetch(`${url}/partners/v1${path}`, {
    method: "POST",
    headers: { "X-Partner-Api-Key": key, "Content-Type": "application/json" },
    body,
    signal: AbortSignal.timeout(60_000),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error(`${told.code} em ${told.field}: ${told.message}`);
  return told;
}

const found = await post("/consultas", readFileSync("consulta.json", "utf8"));
const offer = found.proposals[0];
const proposal = readFileSync("proposta.json", "utf8").replace("<offerId>", offer.offerId);
console.log((await post("/proposals", proposal)).proposal_id);
