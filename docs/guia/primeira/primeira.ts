// 1. Consulte
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";

const URL = "https://sandbox.example", LAB = "https://simulador.example/lab/holders";
const headers = {
  "X-Partner-Api-Key": "cpk_test_sandbox_public_key_not_a_secret_00000000000",
  "Content-Type": "application/json",
};
const call = async (method = "GET", url = "", body = {}) => {
  const sent = method === "GET" ? undefined : JSON.stringify(body);
  const answer = await fetch(url, { method, headers, body: sent, signal: AbortSignal.timeout(60_000) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

const { cpf } = await call("POST", LAB, { scenario: "full_flow" });
const query = { ...(await call("GET", `${URL}/docs/guia/consulta.json`)), cpf };
const [offer] = (await call("POST", `${URL}/partners/v1/consultas`, query)).proposals;
console.log("oferta", offer.offerId);

// 2. Receba os eventos
const registration = { url: "http://127.0.0.1:9000/webhook", rotate_secret: true };
const { secret } = await call("PUT", `${URL}/partners/v1/webhook`, registration);
mkdirSync("eventos", { recursive: true });
writeFileSync("receber.mjs", await (await fetch(`${URL}/docs/guia/receber.mjs`)).text());
const environment = { ...process.env, SEGREDOS: secret };
const receiver = spawn("node", ["receber.mjs", "9000"], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
await new Promise((listening) => receiver.stdout.once("data", listening));
receiver.stdout.pipe(process.stdout);

// 3. Envie a oferta escolhida
const body = await call("GET", `${URL}/docs/guia/proposta.json`);
body.titular.cpf = cpf;
body.offer_ref.offer_id = offer.offerId;
const proposal = await call("POST", `${URL}/partners/v1/proposals`, body);
console.log("proposta", proposal.proposal_id);

// 4. Formalize, e assine pelo titular
const formalized = await call("POST", `${URL}/partners/v1/proposals/${proposal.proposal_id}/formalize`);
console.log(formalized.action.url);
await call("POST", `${LAB}/${cpf}/steps/approve`, { provider: "ipe", step: "signature" });

// 5. Espere o dinheiro
const kept = () => readdirSync("eventos").filter((name) => name.endsWith(".json"));
const isPaid = (text = "") => text.includes(proposal.proposal_id) && text.includes("proposal.disbursed");
const isHere = () => kept().some((name) => isPaid(readFileSync(`eventos/${name}`, "utf8")));
while (!isHere()) await new Promise((go) => setTimeout(go, 1000));
console.log("pago");
receiver.kill();

// 6. Fim
