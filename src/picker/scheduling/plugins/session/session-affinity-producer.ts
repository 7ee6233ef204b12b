import { z } from "zod";
import type { Clock } from "../../../../base/clock/clock.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { SluiceError } from "../../../../base/inference/errors.ts";
import { firstHeader } from "../../../../base/inference/headers.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { defineProducer } from "../../../../base/plugin/define.ts";
import { SESSION_BOUND, SESSION_ID } from "../../../../base/plugin/keys.ts";
import type { Candidates, PluginContext, ProduceContext, Producer } from "../../../../base/plugin/kinds.ts";
import { AgentIdentity } from "./agent-identity.ts";
import {
  isSessionId,
  MAX_SESSION_ID,
  pluginOf,
  type SessionAffinityParameters,
  type SessionSource,
  sessionAffinityParameters,
  sessionAffinityReferences,
  sessionIdIn,
} from "./session-affinity-parameters.ts";
import { decodeSessionToken } from "./session-token-hook.ts";

/** The most endpoints in the debug state. */
const MAX_SHOWN = 100;

const parameters = sessionAffinityParameters
  .extend({
    sessionIdProducerName: z
      .string()
      .default("")
      .describe("The session-id-producer to read. With `sources`, this plugin creates its own and ignores this name."),
  })
  .transform((given) => {
    const { strategy, sessionIdConfig } = given;
    const read = strategy === "session_id" ? sessionIdConfig.sources.find(isSessionId) : undefined;
    // This name chooses the producer whose SESSION_ID the plugin reads (scheduling 3.4).
    return { ...given, sessionIdProducerName: read === undefined ? "" : pluginOf(read) };
  });

/** Not a published type. The data of the scorer and the filter of session affinity (scheduling 3.9.2). */
export const sessionAffinityProducer = defineProducer({
  type: "session-affinity-producer",
  describe:
    "Publishes the endpoint of the session of a request. Sluice adds it with session-affinity-scorer and session-affinity-filter.",
  parameters,
  produces: [SESSION_BOUND],
  optional: [SESSION_ID],
  references: sessionAffinityReferences,
  create: (parameters, context) =>
    parameters.strategy === "session_id"
      ? new BoundSessions(parameters, context)
      : tokens(parameters.encodedEndpointHeaderConfig.header),
});

/** Sessions that name their endpoint themselves. This producer has no memory, so replicas agree. */
function tokens(header: string): Producer {
  return {
    produce({ request, candidates }) {
      const token = firstHeader(request.headers, header);
      const id = token === undefined ? undefined : decodeSessionToken(token);
      if (id !== undefined) mark(id, candidates);
    },
  };
}

/** Marks the candidate with that id. @returns whether there is one */
function mark(id: string, candidates: Candidates): boolean {
  const { endpoints, count } = candidates;
  for (let i = 0; i < count; i++) {
    if (endpoints[i]!.id !== id) continue;
    candidates.column(SESSION_BOUND)[i] = 1;
    return true;
  }
  return false;
}

/** Reads the session of a request from one source. */
type Reader = (context: ProduceContext) => string | undefined;

/** @throws SluiceError PLUGIN_UNKNOWN when a source names a plugin that knows no sessions */
function readerOf(source: SessionSource, plugin: PluginContext["plugin"]): Reader {
  if (source.header !== undefined) {
    const headers = [source.header];
    return ({ request }) => sessionIdIn(request.headers, headers);
  }
  if (isSessionId(source)) return ({ attribute }) => attribute(SESSION_ID);
  const agents = plugin(pluginOf(source), "request-header-processor");
  if (agents instanceof AgentIdentity) return ({ request }) => agents.sessionOf(request.headers);
  throw new SluiceError("PLUGIN_UNKNOWN", `${pluginOf(source)} is not an agent-identity, so it has no sessions`);
}

/** Sessions with an id that the client chooses. */
class BoundSessions implements Producer {
  readonly #readers: readonly Reader[];
  readonly #profile: string;
  readonly #table: SessionTable;
  /** The current decision: its request, its session, and whether the bound endpoint was a candidate. */
  #request: InferenceRequest | undefined;
  #session = "";
  #present = false;
  /** Shared with the function that `follow` returned: whether the session is bound to the endpoint that serves. */
  #binds = { served: true };

  constructor({ sessionIdConfig, profileName }: SessionAffinityParameters, { clock, plugin }: PluginContext) {
    const { sources, evictionTtlSeconds, evictionSweepSeconds } = sessionIdConfig;
    this.#readers = sources.map((source) => readerOf(source, plugin));
    this.#profile = profileName;
    this.#table = new SessionTable(evictionTtlSeconds * 1000, evictionSweepSeconds * 1000, clock);
  }

  produce(context: ProduceContext): void {
    this.#table.sweep();
    this.#request = undefined;
    const session = this.#sessionOf(context);
    if (session === undefined) return;
    const bound = this.#table.endpointOf(session);
    this.#request = context.request;
    this.#session = session;
    this.#present = bound !== undefined && mark(bound, context.candidates);
    this.#binds = { served: this.#profile === "" };
  }

  routed(request: InferenceRequest, endpoint: Endpoint, others: ReadonlyMap<string, Endpoint>, primary?: string): void {
    if (request !== this.#request) return;
    this.#request = undefined;
    if (this.#profile === primary) this.#binds.served = true;
    const chosen = this.#binds.served ? endpoint : others.get(this.#profile);
    if (chosen !== undefined) this.#table.bind(this.#session, chosen.id, this.#present);
  }

  refused(): void {
    this.#request = undefined;
  }

  follow(request: InferenceRequest): ((served: Endpoint) => void) | undefined {
    if (request !== this.#request) return undefined;
    const session = this.#session;
    const present = this.#present;
    const binds = this.#binds;
    return (served) => {
      if (binds.served) this.#table.bind(session, served.id, present);
    };
  }

  /** Returns the number of sessions of each endpoint, most first. */
  debugState(): unknown {
    const endpoints = [...this.#table.counts()].map(([endpoint, sessions]) => ({ endpoint, sessions }));
    endpoints.sort((a, b) => b.sessions - a.sessions || (a.endpoint < b.endpoint ? -1 : 1));
    return {
      sessions: this.#table.size,
      maxSessions: MAX_SESSIONS,
      endpoints: endpoints.slice(0, MAX_SHOWN),
      totalEndpoints: endpoints.length,
      maxEndpoints: MAX_SHOWN,
    };
  }

  #sessionOf(context: ProduceContext): string | undefined {
    for (const read of this.#readers) {
      const session = read(context);
      if (session !== undefined && session.length <= MAX_SESSION_ID) return session;
    }
    return undefined;
  }
}

/** The most known sessions; the one idle for longest is dropped first. */
export const MAX_SESSIONS = 65_536;

interface Binding {
  /** Id of the endpoint, because an endpoint may come back under its name. */
  readonly endpoint: string;
  /** Monotonic milliseconds of the last use. */
  readonly usedAt: number;
}

/** The endpoint of each session, by ids that clients choose; bounded by `MAX_SESSIONS` (scheduling 3.9.2). */
export class SessionTable {
  readonly #ttl: number;
  readonly #sweepEvery: number;
  readonly #clock: Clock;
  /** In the order of `usedAt`. */
  readonly #bindings = new Map<string, Binding>();
  #sweptAt: number;

  /**
   * @param ttl milliseconds after which an idle session is dropped, above 0
   * @param sweepEvery milliseconds between two searches for idle sessions, above 0
   */
  constructor(ttl: number, sweepEvery: number, clock: Clock) {
    this.#ttl = ttl;
    this.#sweepEvery = sweepEvery;
    this.#clock = clock;
    this.#sweptAt = clock.now();
  }

  /** The number of known sessions. */
  get size(): number {
    return this.#bindings.size;
  }

  /** Returns the id of the endpoint of a session; that endpoint may have left the pool. */
  endpointOf(session: string): string | undefined {
    return this.#bindings.get(session)?.endpoint;
  }

  /**
   * Binds a session to the endpoint that it went to.
   * @param keep whether the endpoint that it is bound to was a candidate: then the session stays bound to that one
   */
  bind(session: string, endpoint: string, keep: boolean): void {
    const binding = this.#bindings.get(session);
    if (keep && binding !== undefined && binding.endpoint !== endpoint) return;
    this.#bindings.delete(session);
    this.#bindings.set(session, { endpoint, usedAt: this.#clock.now() });
    if (this.#bindings.size <= MAX_SESSIONS) return;
    const [idlest] = this.#bindings.keys();
    this.#bindings.delete(idlest!);
  }

  /** Drops sessions that were idle for too long, at most once per sweep interval. */
  sweep(): void {
    const now = this.#clock.now();
    if (now - this.#sweptAt < this.#sweepEvery) return;
    this.#sweptAt = now;
    for (const [session, { usedAt }] of this.#bindings) {
      if (now - usedAt <= this.#ttl) return;
      this.#bindings.delete(session);
    }
  }

  /** Returns the number of sessions per endpoint. */
  counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { endpoint } of this.#bindings.values()) counts.set(endpoint, (counts.get(endpoint) ?? 0) + 1);
    return counts;
  }
}
