import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { LegacyAdmission } from "../flowcontrol/legacy-admission.ts";
import type { Endpoint } from "../inference/endpoint.ts";
import { firstHeader, type HeaderList } from "../inference/headers.ts";
import { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { SchedulingResult } from "../inference/scheduling-result.ts";
import type { ModelResolver } from "../resources/resolve.ts";
import type { Scheduler } from "../scheduling/scheduler.ts";
import type { ParserTable } from "./parsers/parser-table.ts";
import type { Decision, SubsetHint } from "./wire.ts";

/** The most endpoints a decision lists. */
const MAX_LISTED = 8;
const NO_CANDIDATES = { endpoints: [], excludedDown: 0 };

export interface DeciderParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly endpoints: EndpointRegistry;
  readonly parsers: () => ParserTable;
  readonly models: ModelResolver;
  readonly admission: Pick<LegacyAdmission, "admit">;
  readonly scheduler: Scheduler;
  /** `--disable-endpoint-subset-filter`. */
  readonly ignoreSubset: boolean;
}

/** A request that was understood, and what became of it. */
export interface Decided {
  readonly request: InferenceRequest;
  readonly result: SchedulingResult | Rejection;
  /** How many of the endpoints the picker offers to a proxy. */
  readonly offered: number;
}

/**
 * From complete request to endpoint in one synchronous stretch (design rule 2): parse, resolve, candidates, admit,
 * schedule. The first failure wins, in this order (epp-protocol 9.3).
 */
export class Decider {
  readonly #parts: DeciderParts;

  constructor(parts: DeciderParts) {
    this.#parts = parts;
  }

  /** A header-only request (`GET /v1/models`): uniformly among the candidates, no scheduling (epp-protocol 3.2). */
  withoutBody(subset: SubsetHint | undefined): Decision {
    const { endpoints } = this.#candidates(subset);
    if (endpoints.length === 0) return new Rejection("no_endpoints", "no pods available in datastore");
    return {
      kind: "routed",
      endpoints: draw(endpoints, this.#parts.random),
      offered: 1,
      body: [],
      bodyLength: 0,
      record: undefined,
      headers: undefined,
      metadata: undefined,
      scores: undefined,
      skipResponse: false,
    };
  }

  /**
   * @param body contiguous and complete
   * @returns a rejection alone when the request was not understood
   */
  decide(id: string, headers: HeaderList, body: Uint8Array, subset: SubsetHint | undefined): Decided | Rejection {
    const { clock, models, admission, scheduler } = this.#parts;
    const chosen = this.#parts.parsers().select(pathOf(headers));
    if (chosen instanceof Rejection) return chosen;
    const parsed = chosen.parser.parse(body, chosen.path);
    if (parsed instanceof Rejection) return parsed;
    const resolved = models.resolve(parsed, headers);
    if (resolved instanceof Rejection) return resolved;
    const request: InferenceRequest = { id, headers, body, ...parsed, ...resolved };
    const candidates = this.#candidates(subset);
    const result =
      candidates.endpoints.length === 0
        ? scheduler.noCandidates()
        : (admission.admit(request, candidates.endpoints, clock.now()) ??
          scheduler.schedule(request, candidates.endpoints, candidates.excludedDown));
    return { request, result, offered: scheduler.offered };
  }

  #candidates(subset: SubsetHint | undefined): {
    readonly endpoints: readonly Endpoint[];
    readonly excludedDown: number;
  } {
    const { endpoints, models, ignoreSubset } = this.#parts;
    // No pool to serve: what endpoints there are belong to none (E-130).
    if (!models.poolKnown) return NO_CANDIDATES;
    return endpoints.candidates(ignoreSubset ? undefined : subset);
  }
}

/** `:path`, else what a proxy kept of it, else the completions path (epp-protocol 10.1). */
function pathOf(headers: HeaderList): string {
  return headers.get(":path") ?? firstHeader(headers, "x-original-path", "x-forwarded-path") ?? "/v1/completions";
}

/** Up to eight distinct endpoints in uniformly random order. */
function draw(from: readonly Endpoint[], random: Random): Endpoint[] {
  const pool = [...from];
  const count = Math.min(MAX_LISTED, pool.length);
  for (let i = 0; i < count; i++) {
    const other = i + random.below(pool.length - i);
    [pool[i], pool[other]] = [pool[other]!, pool[i]!];
  }
  return pool.slice(0, count);
}
