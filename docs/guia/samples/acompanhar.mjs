// acompanhar.mjs URL CHAVE   (Node 20 ou mais novo)
import { readFileSync } from "node:fs";

const [url, key] = process.argv.slice(2);
let last, queryId;

// A consulta, na primeira vez; depois, o que falta dela.
function call() {
  const headers = { "X-Partner-Api-Key": key, "Content-Type": "application/json" };
  if (queryId === undefined) {
    const body = readFileSync("consulta.json", "utf8");
    return fetch(`${url}/partners/v1/consultas/stream`, { method: "POST", headers, body });
  }
  headers["Last-Event-ID"] = last;
  return fetch(`${url}/partners/v1/consultas/${queryId}/stream`, { headers });
}

async function* events(answer) {
  let text = "";
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    const blocks = (text + part).split("\n\n");
    text = blocks.pop();
    for (const block of blocks.filter((each) => each.startsWith("id: "))) {
      const [id, data] = block.split("\n");
      yield [id.slice("id: ".length), JSON.parse(data.slice("data: ".length))];
    }
  }
}

let isComplete = false;
while (!isComplete) {
  try {
    const answer = await call();
    if (!answer.ok) throw new Error(`HTTP ${answer.status}: ${await answer.text()}`);
    isComplete = answer.status === 204; // não há mais nada
    if (isComplete) break;
    for await (const [id, event] of events(answer)) {
      [last, queryId] = [id, event.queryId];
      console.log(event.event, event.provider ?? "-");
      isComplete = event.event === "complete";
    }
  } catch (fault) {
    // Um TypeError é a conexão que caiu; antes do primeiro evento, quem repete faz outra consulta.
    if (!(fault instanceof TypeError) || queryId === undefined) throw fault;
  }
  if (!isComplete) await new Promise((done) => setTimeout(done, 1000));
}
