import type { FlowOp, FlowPlan } from "../../../test/support/flowcontrol/flow-op.cases.ts";
import { FlowTwins } from "../../../test/support/flowcontrol/flow-twins.cases.ts";
import type { PlainBand, PlainSettings } from "../../../test/support/flowcontrol/plain-policies.cases.ts";
import type { FuzzTarget } from "../target.ts";

const NONE = Number.POSITIVE_INFINITY;
const PRIORITIES = [0, -7, -1, 1, 5, 2];
const FLOWS = ["a", "b", "c", "d", "e"];
/** Half a millisecond, so that no deadline falls together with another event. */
const TTLS = [NONE, 20.5, 1000.5, 5000.5, 60_000.5];
const CEILINGS = [[1, 1] as const, [1, 0.5] as const, [0.5, 0.5] as const, [0.25, 1] as const, [1, 0.25] as const];
const LOADS = [0, 0.25, 0.5, 0.75, 0.875, 1, 2];
const ROLES = ["", "prefill", "decode", "both", "encode", "encode-prefill", "other"];
const TIMES = [1, 1, 2, 9, 40];
const WAITS = [1, 19, 500, 1000, 30_000, 600_000];
const METHODS = ["cancel", "decide", "end"] as const;
/** Steps of one run: the model takes a time that grows with the square of the requests. */
const MOST_STEPS = 60;

/**
 * Each input is a configuration and what happens then: arrivals, departures, ends, changes of the pool, of its load, of the
 * objectives and of the configuration. The engine agrees with a slow model after each step, and nothing is left over.
 */
export const flow: FuzzTarget = {
  name: "flow",
  shortRuns: 100,
  tokens: [
    ...[
      [0, 0, 0, 0, 0, 0, 0],
      [0, 3, 1, 2, 9, 3, 1],
      [1, 0],
      [2, 0],
      [3, 0],
      [4, 0, 0],
      [5, 0],
      [5, 1, 5],
    ].map((list) => Uint8Array.from(list)),
    ...[[6, 0], [7, 0], [7, 1, 0], [8, 2, 1, 4], [9], [10, 3], [10, 5], [11], [11, 7]].map((list) =>
      Uint8Array.from(list),
    ),
  ],
  run(input) {
    const reader = new Reader(input);
    const twins = new FlowTwins(settingsFrom(reader), reader.pick([1, 0.25, 0.125, 0.03125]));
    const kinds = new Set<string>();
    for (let step = 0; step < MOST_STEPS && !reader.isOver; step++) {
      const op = opFrom(reader);
      twins.run(op);
      kinds.add(op.kind);
    }
    twins.finish(input.length % 2 === 0);
    return `${[...kinds].sort().join()} ${[...twins.outcomes].sort().join()}`;
  },
};

/** Reads choices from bytes. Behind the end every choice is the first one. */
class Reader {
  readonly #input: Uint8Array;
  #at = 0;

  constructor(input: Uint8Array) {
    this.#input = input;
  }

  get isOver(): boolean {
    return this.#at >= this.#input.length;
  }

  byte(): number {
    return this.#input[this.#at++] ?? 0;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.byte() % list.length]!;
  }

  list<T>(most: number, read: () => T): T[] {
    return Array.from({ length: this.byte() % (most + 1) }, read);
  }
}

function bandFrom(reader: Reader): PlainBand {
  return {
    maxBytes: reader.pick([NONE, NONE, 100, 0]),
    maxRequests: reader.pick([NONE, NONE, 20, 3]),
    ttl: reader.pick(TTLS),
    ordering: reader.pick(["arrival", "deadline", "size", "nan"] as const),
    fairness: fairnessOf(reader.byte()),
  };
}

function settingsFrom(reader: Reader): PlainSettings {
  const bands = reader.list(3, () => [reader.pick(PRIORITIES), bandFrom(reader)] as const);
  return {
    bands: [...new Map(bands)],
    maxBytes: reader.pick([NONE, NONE, 300]),
    maxRequests: reader.pick([NONE, NONE, 30]),
    noEndpointTtl: reader.pick(TTLS),
    template: bandFrom(reader),
    negativeTemplate: bandFrom(reader),
    ceilings: ceilingsOf(reader.byte()),
  };
}

// Choices that came later take the place of bytes that no kept input has: so the kept ones stay what they are.
function fairnessOf(byte: number): PlainBand["fairness"] {
  return byte % 8 === 6 ? "tokens" : (["turns", "one-queue"] as const)[byte % 2]!;
}

function ceilingsOf(byte: number): PlainSettings["ceilings"] {
  return byte % 16 === 15 ? "reflective" : CEILINGS[byte % CEILINGS.length]!;
}

/** Tokens that go with a number of bytes. */
function tokensOf(byte: number): FlowPlan["tokens"] {
  return { prompt: byte % 41, most: byte % 3 === 1 ? 16 : Number.NaN, answer: [Number.NaN, 16, 400][byte % 5] ?? 64 };
}

function bytesFrom(byte: number): Pick<FlowPlan, "bytes" | "tokens"> {
  return { bytes: byte % 41, tokens: tokensOf(byte) };
}

function planFrom(reader: Reader): FlowPlan {
  return {
    priority: reader.pick(PRIORITIES),
    flow: reader.pick(FLOWS),
    ...bytesFrom(reader.byte()),
    dispatched: reader.pick(["nothing", "decide", "end", "enter", "cancel"] as const),
    evicted: reader.pick(["nothing", "enter"] as const),
  };
}

const STEPS: readonly ((reader: Reader) => FlowOp)[] = [
  (reader) => ({ kind: "enter", times: reader.pick(TIMES), plan: planFrom(reader) }),
  (reader) => ({ kind: "cancel", which: reader.byte() }),
  (reader) => ({ kind: "decide", which: reader.byte() }),
  (reader) => ({ kind: "end", which: reader.byte() }),
  (reader) => ({ kind: "poke", which: reader.byte(), method: reader.pick(METHODS) }),
  (reader) => ({ kind: "load", loads: [reader.pick(LOADS), ...reader.list(2, () => reader.pick(LOADS))] }),
  (reader) => ({ kind: "detector", detector: reader.pick(["works", "throws", "nan"] as const) }),
  (reader) => ({ kind: "pool", roles: reader.list(4, () => reader.pick(ROLES)) }),
  (reader) => ({ kind: "priorities", wanted: reader.list(3, () => reader.pick(PRIORITIES)) }),
  (reader) => ({ kind: "configure", settings: settingsFrom(reader) }),
  (reader) => ({ kind: "advance", ms: reader.pick(WAITS) }),
  (reader) => lastStep(reader.byte() % 16),
];

function lastStep(number: number): FlowOp {
  if (number === 15) return { kind: "close" };
  return number === 7 ? { kind: "letGo" } : { kind: "advance", ms: 1 };
}

function opFrom(reader: Reader): FlowOp {
  return reader.pick(STEPS)(reader);
}
