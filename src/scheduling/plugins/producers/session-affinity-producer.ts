import type { Clock } from "../../../clock/clock.ts";
import type { Endpoint } from "../../../inference/endpoint.ts";
import { firstHeader } from "../../../inference/headers.ts";
import type { InferenceRequest } from "../../../inference/request.ts";
import { defineProducer } from "../../../plugin/define.ts";
import { SESSION_BOUND } from "../../../plugin/keys.ts";
import type { Candidates, ProduceContext, Producer } from "../../../plugin/kinds.ts";
import { type SessionAffinityParameters, sessionAffinityParameters } from "../session-affinity-parameters.ts";
import { decodeSessionToken } from "../session-token.ts";

/** Sessions known at a time; the one idle for longest is forgotten first. */
export const MAX_SESSIONS = 65_536;
/** Longer ids are not bound to anything: clients choose them, and all of them are kept. */
export const MAX_SESSION_ID = 256;

/** Not a published type: what the scorer and the filter of session affinity know (scheduling 3.9.2). */
export const sessionAffinityProducer = defineProducer({
  type: "session-affinity-producer",
  describe:
    "Publishes which endpoint the session of a request is bound to; comes along with session-affinity-scorer and session-affinity-filter.",
  parameters: sessionAffinityParameters,
  produces: [SESSION_BOUND],
  create: (parameters, { clock }) =>
    parameters.strategy === "session_id"
      ? new SessionTable(parameters.sessionIdConfig, clock)
      : tokens(parameters.encodedEndpointHeaderConfig.header),
});

/** Sessions that name their endpoint themselves: nothing is remembered, so replicas agree. */
function tokens(header: string): Producer {
  return {
    produce({ request, candidates }) {
      const token = firstHeader(request.headers, header);
      const id = token === undefined ? undefined : decodeSessionToken(token);
      if (id !== undefined) mark(id, candidates);
    },
  };
}

/** Marks the candidate of that id. @returns whether there is one */
function mark(id: string, candidates: Candidates): boolean {
  const { endpoints, count } = candidates;
  for (let i = 0; i < count; i++) {
    if (endpoints[i]!.id !== id) continue;
    candidates.column(SESSION_BOUND)[i] = 1;
    return true;
  }
  return false;
}

interface Binding {
  /** Id of the endpoint: it may come back under its name. */
  readonly endpoint: string;
  /** Monotonic milliseconds. */
  readonly usedAt: number;
}

/** Sessions by an id that clients choose. */
class SessionTable implements Producer {
  readonly #headers: readonly string[];
  readonly #ttl: number;
  readonly #sweepEvery: number;
  readonly #clock: Clock;
  /** In the order of `usedAt`. */
  readonly #bindings = new Map<string, Binding>();
  #sweptAt: number;
  /** The decision under way: whose it is, its session, and whether the bound endpoint was a candidate. */
  #request: InferenceRequest | undefined;
  #session = "";
  #present = false;

  constructor(config: SessionAffinityParameters["sessionIdConfig"], clock: Clock) {
    this.#headers = config.sources.map(({ header }) => header);
    this.#ttl = config.evictionTtlSeconds * 1000;
    this.#sweepEvery = config.evictionSweepSeconds * 1000;
    this.#clock = clock;
    this.#sweptAt = clock.now();
  }

  produce({ request, candidates }: ProduceContext): void {
    this.#sweep();
    this.#request = undefined;
    const session = firstHeader(request.headers, ...this.#headers);
    if (session === undefined || session.length > MAX_SESSION_ID) return;
    const binding = this.#bindings.get(session);
    this.#request = request;
    this.#session = session;
    this.#present = binding !== undefined && mark(binding.endpoint, candidates);
  }

  routed(request: InferenceRequest, endpoint: Endpoint): void {
    if (request !== this.#request) return;
    this.#request = undefined;
    this.#bind(this.#session, endpoint.id, this.#present);
  }

  follow(request: InferenceRequest): ((served: Endpoint) => void) | undefined {
    if (request !== this.#request) return undefined;
    const session = this.#session;
    const present = this.#present;
    return (served) => this.#bind(session, served.id, present);
  }

  /** @param keep whether the session is bound to an endpoint that could have been chosen: it then stays bound to it */
  #bind(session: string, endpoint: string, keep: boolean): void {
    const binding = this.#bindings.get(session);
    if (keep && binding !== undefined && binding.endpoint !== endpoint) return;
    this.#bindings.delete(session);
    this.#bindings.set(session, { endpoint, usedAt: this.#clock.now() });
    if (this.#bindings.size <= MAX_SESSIONS) return;
    const [idlest] = this.#bindings.keys();
    this.#bindings.delete(idlest!);
  }

  #sweep(): void {
    const now = this.#clock.now();
    if (now - this.#sweptAt < this.#sweepEvery) return;
    this.#sweptAt = now;
    for (const [session, { usedAt }] of this.#bindings) {
      if (now - usedAt <= this.#ttl) return;
      this.#bindings.delete(session);
    }
  }
}
