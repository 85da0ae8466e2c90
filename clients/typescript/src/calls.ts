/** One HTTP call to the service, and when it is made again. */
import type { Error as ErrorBody } from "./types.js";

/** Milliseconds without a byte. The service answers within 35 s; a stream tells every few seconds that it lives. */
const TIMEOUT_MS = 60_000;
const LONGEST_PAUSE_MS = 30_000;
const RETRYABLE = [408, 429, 500, 502, 503, 504];

/** Base of this package's errors. Their texts have no personal data. */
export class OriginationError extends Error {
  code = "";
  retryable = false;
  /** Milliseconds that the service asks to wait. */
  retryAfterMs = 0;
  /** The stored proposal that the error is about. */
  proposalId: string | null = null;
  override name = this.constructor.name;
}

/** The service could not be reached, or its answer was cut off. What the call did is not known. */
export class NoAnswer extends OriginationError {
  override retryable = true;
}

/** The service refused. `body` is its whole JSON object, with `details` or `replacement`. Name the `requestId` when you
 *  ask about the call. */
export class ApiError extends OriginationError {
  /** The field that is wrong, with dots. */
  readonly field: string | null;
  readonly requestId: string;

  constructor(readonly status: number, readonly body: Partial<ErrorBody>, headers: Headers) {
    // `http_503`, for example, where something between client and service answered.
    const code = body.code ?? `http_${status}`;
    const requestId = headers.get("X-Request-Id") ?? "";
    super([status, code, body.field, body.message, requestId].filter(Boolean).join(" "));
    this.code = code;
    this.field = body.field ?? null;
    this.retryable = body.retryable ?? RETRYABLE.includes(status);
    this.requestId = requestId;
    const told = headers.get("Retry-After") ?? "";
    this.retryAfterMs = /^\d{1,9}$/.test(told) ? Number(told) * 1000 : 0;
    this.proposalId = body.proposal_id ?? null;
  }
}

/** The pauses between tries: at first `pauseMs`, doubled each time, as long as the service asks for, with some chance.
 *  `ms` is the whole time; Infinity never ends. */
export class Patience {
  readonly #until: number;
  #pauseMs: number;

  constructor(ms: number, pauseMs: number) {
    this.#until = Date.now() + ms;
    this.#pauseMs = pauseMs;
  }

  /** Sleeps before the next try. Throws `fault` if another try can't help, or if it would come too late. */
  async wait(fault: OriginationError): Promise<void> {
    const pause = Math.max(this.#pauseMs * (0.5 + Math.random() / 2), fault.retryAfterMs * (1 + Math.random() / 10));
    if (!fault.retryable || Date.now() + pause > this.#until) throw fault;
    await sleep(pause);
    this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS);
  }

  /** What `call` returns, made again while that may help. Throws its last error; at once one with the code `final`. */
  async run<T>(call: () => Promise<T>, final = ""): Promise<T> {
    for (;;) {
      try {
        return await call();
      } catch (fault) {
        if (!(fault instanceof OriginationError) || (final && fault.code === final)) throw fault;
        await this.wait(fault);
      }
    }
  }
}

/** What a call sends besides its method and path. */
export interface Sent {
  body?: unknown;
  params?: Record<string, string | number>;
  headers?: Record<string, string>;
}

/** An answer whose body is read piece by piece. */
export interface Opened {
  status: number;
  pieces: AsyncGenerator<string>;
}

/** The service's address, the key, and the connections. */
export class Http {
  readonly #base: string;

  constructor(
    url: string,
    readonly key: string,
    readonly fetch: typeof globalThis.fetch,
  ) {
    this.#base = `${new URL(url).href.replace(/\/+$/, "")}/partners/v1`;
  }

  /** The answer, not yet read. Throws NoAnswer, or ApiError unless its status is 2xx. */
  async open(method: string, path: string, sent: Sent = {}): Promise<Opened> {
    const what = `${method} ${path}`;
    const idle = new Idle(what);
    const headers: Record<string, string> = { "X-Partner-Api-Key": this.key, ...sent.headers };
    const options: RequestInit = { method, headers, redirect: "manual", signal: idle.signal };
    if (sent.body !== undefined) {
      headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(sent.body);
    }
    const url = new URL(this.#base + path);
    for (const [name, value] of Object.entries(sent.params ?? {})) url.searchParams.set(name, `${value}`);
    const response = await idle.answered(() => this.fetch(url, options));
    const pieces = idle.pieces(response);
    if (response.ok) return { status: response.status, pieces };
    throw new ApiError(response.status, object(await whole(pieces)), response.headers);
  }

  /** The reply's JSON. Throws NoAnswer, or ApiError unless its status is 2xx. */
  async json<T>(method: string, path: string, sent: Sent = {}): Promise<T> {
    const { pieces } = await this.open(method, path, sent);
    const text = await whole(pieces);
    try {
      return JSON.parse(text) as T;
    } catch {
      throw new NoAnswer(`${method} ${path}: no JSON`);
    }
  }
}

/** Ends a call that has been silent for TIMEOUT_MS, and throws NoAnswer in place of what `fetch` throws. */
class Idle {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly signal = this.#controller.signal;

  constructor(readonly what: string) {}

  async answered<T>(work: () => Promise<T>): Promise<T> {
    this.#timer = setTimeout(() => this.#controller.abort(), TIMEOUT_MS);
    try {
      return await work();
    } catch (fault) {
      throw new NoAnswer(`${this.what}: ${fault instanceof Error ? fault.name : "failed"}`);
    } finally {
      clearTimeout(this.#timer);
    }
  }

  async *pieces(response: Response): AsyncGenerator<string> {
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    try {
      for (;;) {
        const read = await this.answered(async () => reader?.read());
        if (!read || read.done) return;
        yield decoder.decode(read.value, { stream: true });
      }
    } finally {
      this.#controller.abort(); // closes a connection that is not read to its end
    }
  }
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function whole(pieces: AsyncGenerator<string>): Promise<string> {
  let text = "";
  for await (const piece of pieces) text += piece;
  return text;
}

function object(text: string): Partial<ErrorBody> {
  try {
    const found: unknown = JSON.parse(text);
    return found !== null && typeof found === "object" ? found : {};
  } catch {
    return {}; // a proxy's page
  }
}
