/** The calls of the API. Each goes on after whatever cut it off. */
import { ApiError, Http, NoAnswer, OriginationError, Patience, sleep, type Sent } from "./calls.js";
import type * as types from "./types.js";
import type { Event } from "./webhooks.js";

/** Milliseconds until a query tells its `queryId`, with what has come by then; and between later looks. */
const FIRST_LOOK_MS = 5000;
const LOOK_EVERY_MS = 1000;
/** A query's answer where every bank failed: its result, and no reason to ask all of them again at once. */
const ALL_BANKS_FAILED = "provider_unavailable";

/** The submission may have reached the bank. Call `submit` again with the same body, now or later: nothing is sent
 *  twice. `proposalId` is null where the service never told it. */
export class OutcomeUnknown extends OriginationError {
  override retryable = true;

  constructor(proposalId: string | null, cause: OriginationError) {
    super(`the outcome of proposal ${proposalId ?? "(not told)"} is not known yet`, { cause });
    this.proposalId = proposalId;
  }
}

export interface Options {
  /** How long a call that gets no answer, 429 or an error that may pass is made again. Default: five minutes. */
  patienceMs?: number;
  /** About how long until the first repeat, doubled each time; never sooner than `Retry-After`. Default: a second. */
  pauseMs?: number;
  /** For proxies and certificates of your own. */
  fetch?: typeof globalThis.fetch;
}

export interface EventsOptions {
  waitS?: number;
  /** Those of `GET /webhook-events`, such as `{event: "proposal"}`. */
  filters?: Record<string, string>;
}

/** The API with one key. */
export class Client {
  readonly #http: Http;
  readonly #patienceMs: number;
  readonly #pauseMs: number;

  constructor(url: string, key: string, options: Options = {}) {
    this.#http = new Http(url, key, options.fetch ?? globalThis.fetch);
    this.#patienceMs = options.patienceMs ?? 300_000;
    this.#pauseMs = options.pauseMs ?? 1000;
  }

  /** The JSON of any route below `/partners/v1`: `call("GET", "/providers")`. Throws ApiError or NoAnswer. */
  async call<T>(method: string, path: string, sent: Sent = {}): Promise<T> {
    return this.#patience().run(() => this.#http.json<T>(method, path, sent));
  }

  /** The query with every bank's result. If `body` has `max_wait_ms`: with the results that came by then.
   *  Throws ApiError, with the code `provider_unavailable` if every bank failed. */
  async query(body: types.AggregatedQueryRequest): Promise<types.AggregatedResponse> {
    const sent = { body: { max_wait_ms: FIRST_LOOK_MS, ...body } };
    const begin = () => this.#http.json<types.AggregatedResponse>("POST", "/consultas", sent);
    const begun = await this.#patience().run(begin, ALL_BANKS_FAILED);
    return begun.complete || "max_wait_ms" in body ? begun : this.resume(begun.queryId);
  }

  /** The query `queryId` once every bank has its result, whoever began it and by whichever route. */
  async resume(queryId: string): Promise<types.AggregatedResponse> {
    const until = Date.now() + this.#patienceMs;
    for (;;) {
      const found = await this.call<types.AggregatedResponse>("GET", `/consultas/${queryId}`);
      if (found.complete) return found;
      if (Date.now() > until) throw new NoAnswer(`the query ${queryId} has not ended`);
      await sleep(LOOK_EVERY_MS);
    }
  }

  /** A query's events as they come, each once: of a new query with this body, or of the query `queryId`, after its
   *  event `lastEventId`. */
  stream(asked: types.QueryRequest | { queryId: string; lastEventId?: string }): Stream {
    const begun = "queryId" in asked;
    const [queryId, lastEventId] = begun ? [asked.queryId, asked.lastEventId ?? ""] : ["", ""];
    return new Stream(this.#http, () => this.#patience(), begun ? undefined : asked, queryId, lastEventId);
  }

  /** The proposal as the bank has it. The same body gives the same proposal, also after a crash. Throws ApiError if
   *  there is no proposal, and OutcomeUnknown if that could not be learnt in time. */
  async submit(body: types.SubmissionRequest): Promise<types.Proposal> {
    const patience = this.#patience();
    let isOpen = false;
    let proposalId: string | null = null;
    for (;;) {
      try {
        return await this.#http.json<types.Proposal>("POST", "/proposals", { body });
      } catch (fault) {
        if (!(fault instanceof OriginationError)) throw fault;
        proposalId = fault.proposalId ?? proposalId;
        isOpen = staysOpen(fault, isOpen);
        await patience.wait(fault).catch((last: OriginationError) => {
          throw isOpen ? new OutcomeUnknown(proposalId, last) : last;
        });
      }
    }
  }

  /** Has the bank issue the contract. The holder signs at `action.url`. */
  async formalize(proposalId: string, body: types.FormalizeRequest = {}): Promise<types.Proposal> {
    return this.call("POST", `/proposals/${proposalId}/formalize`, { body });
  }

  /** Cancels the proposal, where the bank can. Throws ApiError with the code `not_supported` where it can't. */
  async cancel(proposalId: string, body: types.CancelRequest = {}): Promise<types.Proposal> {
    return this.call("POST", `/proposals/${proposalId}/cancel`, { body });
  }

  /** The proposal with its history. `status` is `unknown` while nobody knows whether the bank has it. */
  async proposal(proposalId: string): Promise<types.ProposalDetail> {
    return this.call("GET", `/proposals/${proposalId}`);
  }

  /** Your events in order, each once, from the oldest kept or after `cursor`. Without end; with `waitS: 0`, up to the
   *  newest. Store `event.cursor` together with what you do for the event, and begin there next time. A broken
   *  network is waited out, however long. Throws ApiError where waiting can't help. */
  async *events(cursor = "", { waitS = 25, filters = {} }: EventsOptions = {}) {
    let [pageCursor = "", handled = ""] = cursor.split(",");
    for (;;) {
      const params = { order: "asc", include: "body", wait_s: waitS, cursor: pageCursor, ...filters };
      const read = () => this.#http.json<types.WebhookEventPage>("GET", "/webhook-events", { params });
      const page = await new Patience(Infinity, this.#pauseMs).run(read);
      const next = page.next_cursor ?? pageCursor;
      const already = page.events.findIndex((row) => row.id === handled) + 1;
      for (const [index, row] of page.events.slice(already).entries()) {
        // Inside a page, the page's own cursor and the event after which to go on.
        const here = already + index + 1 === page.events.length ? next : `${pageCursor},${row.id}`;
        const body = (row.body ?? null) as Event["body"];
        yield { id: row.id, name: row.event, body, cursor: here } satisfies Event;
      }
      if (page.events.length === 0 && waitS === 0) return;
      [pageCursor, handled] = [next, ""];
    }
  }

  #patience(): Patience {
    return new Patience(this.#patienceMs, this.#pauseMs);
  }
}

/** A query's events. To go on elsewhere, store `queryId` and `lastEventId` with each event's results. */
export class Stream implements AsyncIterable<types.StreamEvent> {
  #isComplete = false;

  constructor(
    private readonly http: Http,
    private readonly patience: () => Patience,
    private readonly body: types.QueryRequest | undefined,
    public queryId: string,
    public lastEventId: string,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<types.StreamEvent> {
    let patience = this.patience();
    while (!this.#isComplete) {
      try {
        for await (const event of this.#connected()) {
          patience = this.patience();
          yield event;
        }
      } catch (fault) {
        if (!(fault instanceof OriginationError)) throw fault;
        await patience.wait(fault);
      }
    }
  }

  /** The events of one connection. Throws NoAnswer where it ends before the query. */
  async *#connected(): AsyncGenerator<types.StreamEvent> {
    const { status, pieces } = await this.#opened();
    this.#isComplete = status === 204;
    let [eventId, data] = ["", ""];
    for await (const line of lines(pieces)) {
      if (line.startsWith("id: ")) eventId = line.slice(4);
      else if (line.startsWith("data: ")) data = line.slice(6);
      else if (line === "" && data) {
        // An event counts once its empty line has come.
        const event = JSON.parse(data) as types.StreamEvent;
        data = "";
        [this.queryId, this.lastEventId] = [event.queryId, eventId];
        this.#isComplete = event.event === "complete";
        yield event;
      }
    }
    if (!this.#isComplete) throw new NoAnswer("the stream ended before the query");
  }

  #opened() {
    if (!this.queryId) return this.http.open("POST", "/consultas/stream", { body: this.body });
    const headers: Record<string, string> = this.lastEventId ? { "Last-Event-ID": this.lastEventId } : {};
    return this.http.open("GET", `/consultas/${this.queryId}/stream`, { headers });
  }
}

async function* lines(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const piece of pieces) {
    const found = (rest + piece).split("\n");
    rest = found.pop() ?? "";
    yield* found;
  }
}

/** True if nobody knows whether the bank has the proposal, after a try that ended in `fault`. */
function staysOpen(fault: OriginationError, wasOpen: boolean): boolean {
  if (!(fault instanceof ApiError)) return true;
  if (fault.status === 429) return wasOpen; // this try did nothing
  if (fault.retryable) return true;
  // A refusal of this proposal settles it. Any other, of the key for example, tells nothing about an earlier try.
  return wasOpen && fault.proposalId === null;
}
