import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";

const WIRE = { pauseRequest() {}, resumeRequest() {}, evict() {} };
const JSON_TYPE = HeaderList.of([["content-type", "application/json"]]);
const SSE = HeaderList.of([["content-type", "text/event-stream"]]);
const PROMPT = "a prompt of some words. ".repeat(200);
const TOKENS = 1200;

/** The same prompt again, with an answer of this usage. */
function answered(
  core: TestCore,
  usage: object | undefined,
  { path = "/v1/chat/completions", stream = false, prompt = PROMPT } = {},
) {
  const exchange = core.openExchange(WIRE);
  exchange.requestHeaders(HeaderList.of([[":path", path]]), false);
  exchange.requestBody(Buffer.from(chatBody(prompt, { stream })), true);
  exchange.responseHeaders(200, stream ? SSE : JSON_TYPE, false);
  const json = JSON.stringify({ usage });
  exchange.responseBody(Buffer.from(stream ? `data: ${json}\n\n` : json), true);
  return core.scheduler.records.newest!.cache!;
}

const openai = (cached?: number) => ({
  prompt_tokens: TOKENS,
  completion_tokens: 5,
  ...(cached === undefined ? {} : { prompt_tokens_details: { cached_tokens: cached } }),
});
const total = (core: TestCore, by: string): number =>
  core.total("sluice_prefix_cache_tokens_total", { target_model_name: "llama", by });

describe("what answers say of caches", () => {
  it("stands in the record beside what was expected, and counts with the prompts that have it", () => {
    const core = new TestCore({ endpoints: 1 });
    expect(answered(core, openai(0))).toEqual({ predicted: 0, events: Number.NaN, reported: 0, prompt: TOKENS });
    const { predicted, ...rest } = answered(core, openai(1152));
    expect(predicted).toBeGreaterThan(1000);
    expect(rest).toEqual({ events: Number.NaN, reported: 1152, prompt: TOKENS });
    expect([total(core, "prompt"), total(core, "reported")]).toEqual([2 * TOKENS, 1152]);
    expect(total(core, "predicted")).toBe(Math.min(predicted, TOKENS));
    expect(total(core, "events")).toBe(0);
    expect(core.total("sluice_prefix_cache_error_ratio_count", { target_model_name: "llama", by: "predicted" })).toBe(
      2,
    );
  });

  it("is unknown where an answer has no count: many servers report none", () => {
    const core = new TestCore({ endpoints: 1 });
    for (const usage of [openai(), undefined, { prompt_tokens: 0 }])
      expect(answered(core, usage)).toMatchObject({ reported: Number.NaN, prompt: Number.NaN });
    expect(total(core, "prompt")).toBe(0);
  });

  it("is 0 without a count where the server has counted in such answers before, as vLLM and SGLang leave out a 0", () => {
    const core = new TestCore({ endpoints: 1 });
    answered(core, openai(1152));
    expect(answered(core, openai())).toMatchObject({ reported: 0, prompt: TOKENS });
    // It may count in streams only where it is asked to.
    expect(answered(core, openai(), { stream: true })).toMatchObject({ reported: Number.NaN });
    expect(answered(core, undefined)).toMatchObject({ reported: Number.NaN });
  });

  it("is unknown without a count where the server writes down a 0 elsewhere", () => {
    const core = new TestCore({ endpoints: 1 });
    answered(core, openai(1152));
    answered(core, openai(0));
    expect(answered(core, openai())).toMatchObject({ reported: Number.NaN });
  });

  it("counts cached tokens on top of the input tokens where Anthropic's API leaves them out", () => {
    const core = new TestCore({ endpoints: 1 });
    const usage = { input_tokens: 48, output_tokens: 5, cache_read_input_tokens: 1152 };
    expect(answered(core, usage, { path: "/v1/messages" })).toMatchObject({ reported: 1152, prompt: TOKENS });
    // Nobody else has more cached tokens than tokens.
    expect(answered(core, openai(TOKENS + 1))).toMatchObject({ reported: Number.NaN });
  });

  it("of a failed request is nothing", () => {
    const core = new TestCore({ endpoints: 1 });
    const exchange = core.openExchange(WIRE);
    exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"]]), false);
    exchange.requestBody(Buffer.from(chatBody(PROMPT)), true);
    exchange.responseHeaders(500, JSON_TYPE, false);
    exchange.responseBody(Buffer.from(JSON.stringify({ usage: openai(100) })), true);
    expect(core.scheduler.records.newest!.cache).toMatchObject({ reported: Number.NaN });
  });
});

describe("the approximate index of a core", () => {
  it.each([
    ["has reported cached tokens", 1152, 0],
    ["never has: it may not count them", 0, TOKENS],
  ])("after a restart of a server that %s", (_what, first, expected) => {
    const core = new TestCore({ endpoints: 1 });
    const older = { prompt: `Older: ${PROMPT}` };
    answered(core, openai(0), older);
    answered(core, openai(0));
    answered(core, openai(first));
    // The server has started again. It computes the second prompt twice, as something else is wrong with it.
    answered(core, openai(0));
    answered(core, openai(0));
    const { predicted } = answered(core, undefined, older);
    expect(Math.abs(predicted - expected)).toBeLessThan(100);
  });

  it("learns from a server that leaves out a 0, too", () => {
    const core = new TestCore({ endpoints: 1 });
    const older = { prompt: `Older: ${PROMPT}` };
    answered(core, openai(), older);
    answered(core, openai(1152));
    answered(core, openai());
    answered(core, openai());
    expect(answered(core, undefined, older).predicted).toBe(0);
  });
});
