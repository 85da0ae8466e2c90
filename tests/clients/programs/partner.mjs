// As partner.py, on the TypeScript client. `query` and `verify` read lines of JSON, and print one for each.
import { appendFileSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ApiError, Client, verify } from "@origination/client";

const [command, url, key, folder] = process.argv.slice(2);
const client = new Client(url, key, { pauseMs: 100 });
const linesOf = (file) => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []);

const commands = {
  async submit() {
    for (const name of readdirSync(folder).filter((each) => each.endsWith(".body")).sort()) {
      const done = join(folder, name.replace(".body", ".done"));
      if (existsSync(done)) continue;
      const body = JSON.parse(readFileSync(join(folder, name), "utf8"));
      const told = await client.submit(body).then(
        (proposal) => proposal.proposal_id,
        (fault) => {
          if (!(fault instanceof ApiError)) throw fault;
          return fault.code;
        },
      );
      writeFileSync(`${done}.new`, told);
      renameSync(`${done}.new`, done);
    }
  },
  async events() {
    const handled = join(folder, "events");
    const cursor = linesOf(handled).at(-1)?.split(" ")[0] ?? "";
    for await (const event of client.events(cursor)) appendFileSync(handled, `${event.cursor} ${event.id}\n`);
  },
  async stream() {
    const handled = join(folder, "stream");
    const [queryId, lastEventId] = linesOf(handled).at(-1)?.split(" ") ?? [];
    const query = queryId ? { queryId, lastEventId } : JSON.parse(readFileSync(join(folder, "query.json"), "utf8"));
    const found = client.stream(query);
    for await (const event of found)
      appendFileSync(handled, `${found.queryId} ${found.lastEventId} ${event.event} ${event.provider ?? "-"}\n`);
  },
  async query() {
    for await (const line of createInterface({ input: process.stdin })) {
      const found = await client.query(JSON.parse(line));
      console.log(JSON.stringify({ complete: found.complete, queryId: found.queryId }));
    }
  },
  async formalize() {
    const id = readFileSync(join(folder, "0.done"), "utf8");
    const formalized = await client.formalize(id);
    const { status } = await client.proposal(id);
    const cancelled = await client.cancel(id);
    console.log(JSON.stringify([typeof formalized.action?.url, status, cancelled.status]));
  },
  async raise() {
    const hasty = new Client(url, key, { patienceMs: 0 });
    const body = JSON.parse(readFileSync(join(folder, "0.body"), "utf8"));
    const fault = await hasty.submit(body).catch((each) => each);
    console.log(JSON.stringify([fault.name, fault.code, fault.proposalId, fault.message]));
  },
  async verify() {
    for await (const line of createInterface({ input: process.stdin })) {
      const { body, headers, secrets, takesBodySignature } = JSON.parse(line);
      const options = { handled: new Set(["evt_known"]), takesBodySignature };
      const told = await verify(Buffer.from(body, "base64"), headers, secrets, options).then(
        (event) => [event.id, event.name, event.isRepeat, event.body],
        (fault) => fault.name,
      );
      console.log(JSON.stringify(told));
    }
  },
};
await commands[command]();
