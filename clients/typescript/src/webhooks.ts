/** Events, and the signatures by which a delivery is known to come from the service. */
import { OriginationError } from "./calls.js";
import type { WebhookEvent } from "./types.js";

const PREFIX = "whsec_";
const ALGORITHM = { name: "HMAC", hash: "SHA-256" };

/** The delivery is not from the service, was changed, or is too old. Answer 401. */
export class SignatureError extends OriginationError {}

/** One event. `body` is null 30 days later, when the service has erased it. `cursor` is set by `Client.events`,
 *  `isRepeat` by `verify`. */
export interface Event {
  id: string;
  name: string;
  body: WebhookEvent | null;
  cursor?: string;
  isRepeat?: boolean;
}

export interface VerifyOptions {
  /** Seconds between the delivery's time and now. Default: 300. */
  toleranceS?: number;
  /** The ids that you have handled: `isRepeat` is true for them. Add an id in the transaction that does the work. */
  handled?: { has(id: string): boolean };
  /** Accepts `X-Service-Signature` where a proxy drops the `webhook-` headers. It has no id and no time, so nothing
   *  tells an old delivery that somebody sends again; the event's id is then "". */
  takesBodySignature?: boolean;
}

type HeaderValues = Headers | Record<string, string | string[] | undefined>;

/** The event of a delivery. Throws SignatureError unless one of `secrets` signed it within the tolerance. `body` has
 *  the bytes as they came. `secrets` are, during a change, the new one and the earlier ones. */
export async function verify(
  body: Uint8Array,
  headers: HeaderValues,
  secrets: Iterable<string>,
  { toleranceS = 300, handled = new Set(), takesBodySignature = false }: VerifyOptions = {},
): Promise<Event> {
  const told = lowered(headers);
  const id = told.get("webhook-id") ?? "";
  const standard = told.get("webhook-signature");
  if (standard !== undefined) await checkStandard(body, told, secrets, toleranceS);
  else if (!takesBodySignature || !(await isBodySigned(body, told.get("x-service-signature") ?? "", secrets)))
    throw new SignatureError("no signature of one of the secrets");
  const event = JSON.parse(new TextDecoder().decode(body)) as WebhookEvent;
  const known = standard === undefined ? "" : id;
  return { id: known, name: event.event, body: event, isRepeat: handled.has(known) };
}

type Told = Map<string, string>;

async function checkStandard(body: Uint8Array, told: Told, secrets: Iterable<string>, toleranceS: number) {
  const sentAt = told.get("webhook-timestamp") ?? "";
  if (!/^\d{1,11}$/.test(sentAt)) throw new SignatureError("webhook-timestamp is no time");
  const head = new TextEncoder().encode(`${told.get("webhook-id") ?? ""}.${sentAt}.`);
  const given = (told.get("webhook-signature") ?? "").split(" ");
  const signatures = given.flatMap((each) => (each.startsWith("v1,") ? [decoded(each.slice(3))] : []));
  if (!(await isOneOf(signatures, [...secrets].map(bytesOf), new Uint8Array([...head, ...body]))))
    throw new SignatureError("webhook-signature is of none of the secrets");
  if (Math.abs(Date.now() / 1000 - Number(sentAt)) > toleranceS)
    throw new SignatureError("webhook-timestamp is too far from now");
}

function isBodySigned(body: Uint8Array, given: string, secrets: Iterable<string>): Promise<boolean> {
  const pairs = /^([0-9a-f]{2}){32}$/.test(given) ? (given.match(/../g) ?? []) : [];
  const bytes = Uint8Array.from(pairs, (pair) => parseInt(pair, 16));
  return isOneOf([bytes], [...secrets].map((secret) => new TextEncoder().encode(secret)), body);
}

/** True if one of `signatures` is of `text` by one of `keys`. `crypto.subtle` compares in constant time. */
async function isOneOf(signatures: Uint8Array[], keys: Uint8Array[], text: Uint8Array): Promise<boolean> {
  for (const bytes of keys) {
    const key = await crypto.subtle.importKey("raw", owned(bytes), ALGORITHM, false, ["verify"]);
    for (const each of signatures) if (await crypto.subtle.verify("HMAC", key, owned(each), owned(text))) return true;
  }
  return false;
}

/** The key in a secret's base64 part. */
function bytesOf(secret: string): Uint8Array {
  return Uint8Array.from(atob(secret.replace(PREFIX, "")), (char) => char.charCodeAt(0));
}

/** The bytes of a base64 text; none for a text that is not base64. */
function decoded(text: string): Uint8Array {
  return /^[A-Za-z0-9+/]+=*$/.test(text) && text.length % 4 === 0 ? bytesOf(text) : new Uint8Array();
}

/** The same bytes in memory that is not shared, as WebCrypto's types ask. */
const owned = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => new Uint8Array(bytes);

function lowered(headers: HeaderValues): Told {
  const entries = headers instanceof Headers ? [...headers.entries()] : Object.entries(headers);
  return new Map(
    entries.flatMap(([name, value]) => (value === undefined ? [] : [[name.toLowerCase(), [value].flat().join(" ")]])),
  );
}
