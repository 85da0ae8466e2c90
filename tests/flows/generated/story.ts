// A partner's program on the types that openapi-typescript made: `node story.js URL KEY`.
//
// From the query to the list. The compiler checks every field; what it prints is the proposal's id and status.

import createClient from "openapi-fetch";
import type { components, paths } from "./origination";
import told from "./told.json";

declare const process: { argv: string[] };

const [url, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { "X-Partner-Api-Key": key } });

/** What a call answered, which has to be a success. */
function found<T>(answer: { data?: T; error?: components["schemas"]["Error"] }): T {
  if (answer.data === undefined) throw new Error(`${answer.error?.code}: ${answer.error?.message}`);
  return answer.data;
}

async function story(): Promise<void> {
  const query: components["schemas"]["QueryRequest"] = told.query;
  const answer = found(await client.POST("/partners/v1/consultas", { body: query }));
  const offer = answer.proposals.find((each) => each.provider === "ipe");
  if (!offer?.offerId || answer.providerResults.ipe.status !== "ok") throw new Error("no offer of ipe");

  const dataset = told.dataset as components["schemas"]["SubmissionRequest"];
  dataset.offer_ref.offer_id = offer.offerId;
  const submitted = found(await client.POST("/partners/v1/proposals", { body: dataset }));
  const params = { path: { proposal_id: submitted.proposal_id } };

  const formalized = found(await client.POST("/partners/v1/proposals/{proposal_id}/formalize", { params, body: {} }));
  if (!formalized.action?.url.startsWith("http")) throw new Error("no link to sign at");

  const now = found(await client.GET("/partners/v1/proposals/{proposal_id}", { params }));
  const page = found(await client.GET("/partners/v1/proposals", { params: { query: { provider: "ipe" } } }));
  if (page.proposals.map((each) => each.proposal_id).join() !== now.proposal_id) throw new Error("not in the list");
  console.log(JSON.stringify({ proposal_id: now.proposal_id, status: now.status }));
}

story();
