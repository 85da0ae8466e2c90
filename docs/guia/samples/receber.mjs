// receber.mjs PORTA   (SEGREDOS no ambiente; Node 20.10 ou mais novo)
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { linkSync, mkdirSync, unlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";

const keys = process.env.SEGREDOS.split(/\s+/).map((secret) => Buffer.from(secret.replace("whsec_", ""), "base64"));

function isGenuine(headers, body) {
  const sentAt = headers["webhook-timestamp"] ?? "";
  if (!/^\d{1,11}$/.test(sentAt) || Math.abs(Date.now() / 1000 - Number(sentAt)) > 300) return false;
  const start = `${headers["webhook-id"]}.${sentAt}.`;
  const signature = (key) => "v1," + createHmac("sha256", key).update(start).update(body).digest("base64");
  const expected = keys.map((key) => Buffer.from(signature(key)));
  const given = (headers["webhook-signature"] ?? "").split(" ").map((each) => Buffer.from(each));
  const isOurs = (theirs) => (ours) => ours.length === theirs.length && timingSafeEqual(ours, theirs);
  return given.some((theirs) => expected.some(isOurs(theirs)));
}

// Falso se o evento já estava guardado.
function keep(id, body) {
  const draft = `eventos/${randomUUID()}.tmp`;
  writeFileSync(draft, body, { flush: true });
  try {
    linkSync(draft, `eventos/${id}.json`);
    return true;
  } catch (fault) {
    if (fault.code !== "EEXIST") throw fault;
    return false;
  } finally {
    unlinkSync(draft);
  }
}

async function status(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  if (!isGenuine(request.headers, body)) return 401;
  if (keep(request.headers["webhook-id"], body)) console.log("novo", request.headers["webhook-id"]);
  return 204;
}

mkdirSync("eventos", { recursive: true });
createServer(async (request, response) => {
  response.statusCode = await status(request).catch(() => 500);
  response.end();
}).listen(Number(process.argv[2]), () => console.log("escutando"));
