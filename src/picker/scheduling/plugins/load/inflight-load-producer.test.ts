import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import {
  IN_FLIGHT_REQUESTS,
  IN_FLIGHT_TOKENS,
  PREFIX_BLOCK_TOKENS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  TOKENIZED_PROMPT,
  UNCACHED_TOKENS,
} from "../../../../base/plugin/keys.ts";
import { inflightLoadProducer } from "./inflight-load-producer.ts";

const OWN = inflightLoadProducer.produces.map((key) => [key, []] as const);

function uncachedOf(request: InferenceRequest, parameters: object, matched?: number[], total = 0): number[] {
  const size = matched?.length ?? 1;
  const prefix = [
    [PREFIX_MATCHED_BLOCKS, matched ?? []],
    [PREFIX_TOTAL_BLOCKS, new Array<number>(size).fill(total)],
    [PREFIX_BLOCK_TOKENS, new Array<number>(size).fill(64)],
  ] as const;
  const pool = Array.from({ length: size }, (_, slot) => endpointOf(slot));
  const candidates = columnsOf(pool, matched === undefined ? OWN : [...OWN, ...prefix]);
  instanceOf(inflightLoadProducer, parameters).produce(produceContextOf(candidates, request));
  return [...candidates.column(UNCACHED_TOKENS).slice(0, size)];
}

describe("inflight-load-producer", () => {
  it("publishes the endpoints' own counts, as they are at the moment of the decision", () => {
    const counts = { requests: 3, tokens: 900 };
    const candidates = columnsOf([endpointOf(0, { inFlight: counts }), endpointOf(1)], OWN);
    const producer = instanceOf(inflightLoadProducer);
    producer.produce(produceContextOf(candidates, requestOf("p")));
    expect([...candidates.column(IN_FLIGHT_REQUESTS).slice(0, 2)]).toEqual([3, 0]);
    expect([...candidates.column(IN_FLIGHT_TOKENS).slice(0, 2)]).toEqual([900, 0]);
    counts.requests = 4;
    producer.produce(produceContextOf(candidates, requestOf("p")));
    expect(candidates.column(IN_FLIGHT_REQUESTS)[0]).toBe(4);
  });

  it("counts what an endpoint would have to compute: unmatched blocks and what was not hashed", () => {
    const request = requestOf("x".repeat(4 * 1000));
    expect(uncachedOf(request, {}, [0, 10, 12], 12)).toEqual([768 + 232, 128 + 232, 232]);
    expect(uncachedOf(requestOf("x".repeat(400)), {}, [0, 2], 2)).toEqual([128, 0]);
  });

  it("counts by what is known of the model's text, without what escapes add", () => {
    const prompt = "x".repeat(4000);
    expect(uncachedOf(requestOf(prompt, { bytesPerToken: 8 }), {})).toEqual([500]);
    expect(uncachedOf(requestOf(prompt, { bytesPerToken: 8, escapeBytes: 2000 }), {})).toEqual([250]);
    expect(uncachedOf(requestOf(prompt, { escapeBytes: 1e9 }), {})).toEqual([0]);
    expect(uncachedOf(requestOf(prompt, { bytesPerToken: 2 }), {}, [0, 20], 20)).toEqual([2000, 720]);
  });

  it("counts tokens where a producer has them, whatever the prompt's bytes", () => {
    const tokens = { tokens: new Uint8Array(0), prompts: [], count: 5000 };
    const candidates = columnsOf([endpointOf(0)], [...OWN, [TOKENIZED_PROMPT, tokens]]);
    instanceOf(inflightLoadProducer).produce(produceContextOf(candidates, requestOf("x".repeat(400))));
    expect(candidates.column(UNCACHED_TOKENS)[0]).toBe(5000);
  });

  it("counts the whole prompt without prefix information", () => {
    expect(uncachedOf(requestOf("x".repeat(401)), {})).toEqual([101]);
    expect(uncachedOf(requestOf(""), {})).toEqual([0]);
  });

  it("adds estimated output within the request's and the configured limit", () => {
    const prompt = "x".repeat(400);
    const on = { addEstimatedOutputTokens: true };
    expect(uncachedOf(requestOf(prompt), on)).toEqual([100 + 150]);
    expect(uncachedOf(requestOf(prompt), { ...on, outputRatio: 0.25 })).toEqual([125]);
    expect(uncachedOf(requestOf(prompt, { maxTokens: 16 }), on)).toEqual([116]);
    expect(uncachedOf(requestOf(prompt), { ...on, maxEstimatedOutputTokens: 40 })).toEqual([140]);
    expect(uncachedOf(requestOf(prompt), { outputRatio: 9, syncCrossReplicaState: false })).toEqual([100]);
  });

  it("counts the load of other replicas, unless it shall not", () => {
    const unseen = () => ({ requests: 0.5, tokens: 7 });
    const peers = {
      key: "",
      requests: 2,
      tokens: 50,
      ageMs: () => 0,
      unseen,
      lean: { requests: 0, tokens: 100, share: 1 },
    };
    const pool = [endpointOf(0, { inFlight: { requests: 5, tokens: 60 }, peers })];
    const counted = (parameters: object): number[] => {
      const candidates = columnsOf(pool, OWN);
      instanceOf(inflightLoadProducer, parameters).produce(produceContextOf(candidates, requestOf("p")));
      return [candidates.column(IN_FLIGHT_REQUESTS)[0]!, candidates.column(IN_FLIGHT_TOKENS)[0]!];
    };
    expect(counted({})).toEqual([5.5, 168]);
    expect(counted({ syncCrossReplicaState: false })).toEqual([3, 10]);
  });

  it("shares a prompt out among replicas, except at the one endpoint that has most of it", () => {
    const lean = { requests: 1, tokens: 100, share: 1 };
    const peers = { key: "", requests: 0, tokens: 0, ageMs: () => 0, unseen: () => ({ requests: 0, tokens: 0 }), lean };
    const counted = (matched: readonly number[], tokens = 1000): [number[], number[]] => {
      const pool = matched.map((_, slot) => endpointOf(slot, { peers }));
      const candidates = columnsOf(pool, [...OWN, [PREFIX_MATCHED_BLOCKS, matched]]);
      const request = requestOf("x".repeat(4 * tokens));
      instanceOf(inflightLoadProducer).produce(produceContextOf(candidates, request));
      const column = (key: typeof IN_FLIGHT_TOKENS): number[] => [...candidates.column(key).slice(0, matched.length)];
      return [column(IN_FLIGHT_REQUESTS), column(IN_FLIGHT_TOKENS)];
    };
    expect(counted([0, 7, 2])).toEqual([
      [1, 0, 1],
      [1100, 0, 1100],
    ]);
    expect(counted([0, 2, 7])[0]).toEqual([1, 1, 0]);
    expect(counted([7, 2, 7])[0]).toEqual([1, 1, 1]);
    expect(counted([0, 0, 0], 100_000)).toEqual([
      [1, 1, 1],
      [16_484, 16_484, 16_484],
    ]);
    lean.share = 0.25;
    expect(counted([0, 0], 1000)[1]).toEqual([350, 350]);
  });
});
