import fc from "fast-check";
import { HeaderList } from "../../../src/base/inference/headers.ts";
import type { InferenceRequest } from "../../../src/base/inference/request.ts";
import { requestOf } from "../scheduling/fakes.cases.ts";

// Random pools and requests, one decision after the other.

/** What an arbitrary makes. */
export type Of<A> = A extends fc.Arbitrary<infer T> ? T : never;

/** In one case of `n`, else null. */
export const rarely = <T>(n: number, value: fc.Arbitrary<T>): fc.Arbitrary<T | null> =>
  fc.oneof({ weight: n - 1, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: value });
/** Endpoints that there are at a time. */
export const SLOTS = 12;

const unknownOr = (known: fc.Arbitrary<number>) => fc.oneof({ weight: 5, arbitrary: known }, fc.constant(Number.NaN));
const adapters = fc.uniqueArray(fc.constantFrom("lora-a", "lora-b", "lora-c"), { maxLength: 2 });
export const load = fc.record({
  metrics: fc.record({
    waiting: unknownOr(fc.nat({ max: 12 })),
    running: unknownOr(fc.nat({ max: 6 })),
    kvUsage: unknownOr(fc.nat({ max: 11 }).map((tenths) => tenths / 10)),
    maxLora: unknownOr(fc.nat({ max: 4 })),
    loraRunning: adapters.map((names) => new Set(names)),
    loraWaiting: adapters.map((names) => new Set(names)),
  }),
  age: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.constantFrom(50, 200, 201, 900, Number.POSITIVE_INFINITY)),
  scrapeInterval: fc.constantFrom(50, 400),
  inFlight: fc.record({ requests: fc.nat({ max: 5 }), tokens: fc.constantFrom(0, 114, 700, 1400, 2900) }),
});
/** Of an endpoint that nothing is known of but that it exists. */
export const IDLE: Of<typeof load> = {
  metrics: { waiting: 0, running: 0, kvUsage: 0, maxLora: 0, loraRunning: new Set(), loraWaiting: new Set() },
  ...{ age: 0, scrapeInterval: 50, inFlight: { requests: 0, tokens: 0 } },
};
/** What an endpoint is as long as it lives. */
const nature = fc.record({
  labels: fc.record(
    {
      tier: fc.constantFrom("gold", "silver", ""),
      "llm-d.ai/role": fc.constantFrom("decode", "prefill", "encode", "prefill-decode", "both", "strange"),
      "llm-d.ai/context-length-range": fc.constantFrom("0-100", "100-900", "75-75", "much", "9-1"),
      lengths: fc.constantFrom("0-64", "65-2000"),
    },
    { requiredKeys: [] },
  ),
  // As engines report their caches; 2048 tokens are 32 blocks of 64.
  cache: fc.constantFrom({}, {}, {}, { blockSize: 16, blocks: 30 }, { blockSize: 16, blocks: 128 }, { blockSize: 128 }),
});
/** Few, so that prompts come again and share beginnings. */
const words = fc
  .tuple(
    fc.constantFrom(0, 300, 300, 900),
    fc.array(fc.constantFrom("a".repeat(256), "c".repeat(101)), { maxLength: 3 }),
  )
  .map(([system, parts]) => "s".repeat(system) + parts.join(""));
const arrival = fc.record({
  /** Every prompt stands in two places, as the tools and the messages of a chat do. */
  inParts: fc.boolean(),
  prompts: fc.oneof({ weight: 5, arbitrary: fc.tuple(words) }, fc.array(words, { maxLength: 3 })),
  targetModel: fc.constantFrom("lora-a", "lora-a", "lora-a", "lora-b"),
  cacheSalt: fc.constantFrom("", "", "", "", "tenant"),
  priority: fc.constantFrom(-1, 0, 5),
  maxTokens: unknownOr(fc.constantFrom(1, 40)),
  headers: fc.record(
    {
      "x-session-token": fc.constantFrom(btoa("default/pod-0-0"), btoa("default/pod-3-0"), "%%"),
      "x-token": fc.constantFrom(btoa("default/pod-1-0"), ""),
      "x-session-id": fc.constantFrom("u1", "u2", "  "),
      "x-user": fc.constantFrom("u1", "u3"),
      "x-tier": fc.constantFrom("gold", "silver", " "),
      "epp-profile": fc.constantFrom("a", "prefill", "c", "nowhere"),
      "x-stage": fc.constantFrom("prefill", ""),
    },
    { requiredKeys: [] },
  ),
  prefer: rarely(10, fc.constantFrom("IF-Available; q=1", "wait=2, if-available", "if-available-not")),
});
/** An endpoint of a pool, by its slot. */
export interface Present {
  readonly slot: number;
  readonly load: Of<typeof load>;
}

const step = fc.record({
  arrival,
  /** Who is in the pool, and in which order. */
  pool: fc.oneof(
    {
      weight: 15,
      arbitrary: fc.uniqueArray(fc.record({ slot: fc.nat({ max: SLOTS - 1 }), load }), {
        ...{ minLength: 1, maxLength: SLOTS, size: "max" as const },
        selector: ({ slot }) => slot,
      }),
    },
    { weight: 1, arbitrary: fc.constant([]) },
  ),
  leaves: rarely(8, fc.nat({ max: SLOTS - 1 })),
});
/** Decisions, with the endpoints that come and go. */
export const story = fc.record({
  natures: fc.array(nature, { minLength: SLOTS, maxLength: SLOTS }),
  steps: fc.array(step, { minLength: 1, maxLength: 16, size: "max" }),
  seed: fc.nat(),
});

export type Story = Of<typeof story>;

/** The request of a step. */
export function requestOfArrival({ prompts, inParts, headers, prefer, ...rest }: Of<typeof arrival>): InferenceRequest {
  const ranges: { start: number; end: number }[][] = [];
  let at = 0;
  for (const { length } of prompts) {
    const [middle, end] = [at + Math.floor(length / 3), at + length];
    ranges.push(
      inParts
        ? [
            { start: at, end: middle },
            { start: middle, end },
          ]
        : [{ start: at, end }],
    );
    at = end;
  }
  const all = prefer === null ? headers : { ...headers, prefer };
  return requestOf(prompts.join(""), { ...rest, prompts: ranges, headers: HeaderList.of(Object.entries(all)) });
}
