/** A partner's client of the origination API. `types` has the bodies, made from the service's schema. */
export { ApiError, NoAnswer, OriginationError } from "./calls.js";
export { Client, OutcomeUnknown, Stream, type EventsOptions, type Options } from "./client.js";
export { SignatureError, verify, type Event, type VerifyOptions } from "./webhooks.js";
export type * as types from "./types.js";
