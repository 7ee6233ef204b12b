import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { promptTokens } from "../../base/inference/request.ts";
import type { EndCause, Routed } from "./wire.ts";

const CHAT = "/v1/chat/completions";
const text = "word ".repeat(4000);
const chatOf = (content: unknown, model = "m"): string =>
  JSON.stringify({ model, messages: [{ role: "user", content }] });
const usageOf = (promptTokens: number, more = {}): string =>
  JSON.stringify({ usage: { prompt_tokens: promptTokens, completion_tokens: 5, ...more } });

interface Told {
  readonly path?: string;
  readonly status?: number;
  readonly cause?: EndCause;
  readonly type?: string;
  readonly encoding?: string;
}

/** One whole exchange. */
function exchange(core: TestCore, body: string, answer: string, told: Told = {}): void {
  const { path = CHAT, status = 200, cause = "complete", type = "application/json", encoding } = told;
  const one = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
  one.requestHeaders(HeaderList.of([[":path", path]]), false);
  expect((one.requestBody(Buffer.from(body), true) as Routed).kind).toBe("routed");
  one.releaseBody();
  const headers: [string, string][] = [["content-type", type]];
  if (encoding !== undefined) headers.push(["content-encoding", encoding]);
  one.responseHeaders(status, HeaderList.of(headers), false);
  one.responseBody(Buffer.from(answer), cause === "complete");
  if (cause !== "complete") one.end(cause);
}

/** Bytes per token of model m after ten such exchanges. */
function learned(body: string, answer: string, told?: Told): number {
  const core = new TestCore();
  for (let i = 0; i < 10; i++) exchange(core, body, answer, told);
  expect(core.errors).toEqual([]);
  return core.bytesPerToken.of("m");
}

describe("what answers teach", () => {
  it("is used for the next request of that model, and of no other", () => {
    const core = new TestCore();
    const understood = (model: string) => {
      const request = core.decider.understand("id", HeaderList.of([[":path", CHAT]]), Buffer.from(chatOf(text, model)));
      return request as Exclude<typeof request, { reason: unknown }>;
    };
    const before = promptTokens(understood("m"));
    for (let i = 0; i < 40; i++) exchange(core, chatOf(text), usageOf(2500));
    expect(core.bytesPerToken.of("m")).toBeCloseTo(8, 1);
    expect(promptTokens(understood("m"))).toBeCloseTo(before / 2, -2);
    expect(promptTokens(understood("other"))).toBe(before);
  });

  it.each([
    [
      "a stream's last event",
      `data: {"choices":[]}\n\ndata: ${usageOf(2500)}\n\ndata: [DONE]\n\n`,
      "text/event-stream",
    ],
    ["an answer in one piece", usageOf(2500), "application/json"],
  ])("comes from %s", (_name, answer, type) => {
    expect(learned(chatOf(text), answer, { type })).toBeGreaterThan(7.5);
  });

  it("comes in letters, not in escapes", () => {
    const cyrillic = "\u0441\u043b\u043e\u0432\u043e ".repeat(2000);
    const escaped = chatOf(cyrillic).replace(/[\u0400-\u04ff]/g, (c) => `\\u0${c.charCodeAt(0).toString(16)}`);
    expect(escaped.length).toBeGreaterThan(60_000);
    expect(learned(escaped, usageOf(4400))).toBeCloseTo(learned(chatOf(cyrillic), usageOf(4400)), 10);
    expect(learned(escaped, usageOf(4400))).toBeGreaterThan(4.9);
  });

  it.each<[string, string, string, Told]>([
    ["an error", chatOf(text), usageOf(2500), { status: 400 }],
    ["an answer that breaks off", chatOf(text), usageOf(2500), { cause: "client-gone" }],
    ["an answer that somebody compressed", chatOf(text), usageOf(2500), { encoding: "gzip" }],
    ["an answer without usage", chatOf(text), "{}", {}],
    ["a prompt of a few words", chatOf("hello"), usageOf(40), {}],
    ["a prompt with an image", chatOf([{ type: "image_url", image_url: { url: text } }]), usageOf(2500), {}],
    [
      "token ids",
      JSON.stringify({ model: "m", prompt: Array.from({ length: 2500 }, (_, i) => 10_000 + i) }),
      usageOf(2500),
      { path: "/v1/completions" },
    ],
    [
      "input tokens without those read from the cache",
      chatOf(text),
      JSON.stringify({ usage: { input_tokens: 2500, output_tokens: 5, cache_read_input_tokens: 2000 } }),
      { path: "/v1/messages" },
    ],
  ])("is nothing from %s", (_name, body, answer, told) => {
    expect(learned(body, answer, told)).toBe(4);
  });

  it("counts cached tokens where the API counts them in", () => {
    const cached = { prompt_tokens_details: { cached_tokens: 2000 } };
    expect(learned(chatOf(text), usageOf(2500, cached))).toBeGreaterThan(7.5);
    const anthropic = JSON.stringify({ usage: { input_tokens: 2500, output_tokens: 5, cache_read_input_tokens: 0 } });
    expect(learned(chatOf(text), anthropic, { path: "/v1/messages" })).toBeGreaterThan(7.5);
  });

  it("does not change how token ids are counted", () => {
    const core = new TestCore();
    for (let i = 0; i < 10; i++) exchange(core, chatOf(text), usageOf(2500));
    const body = Buffer.from(
      JSON.stringify({ model: "m", prompt: Array.from({ length: 2500 }, (_, i) => 10_000 + i) }),
    );
    const request = core.decider.understand("id", HeaderList.of([[":path", "/v1/completions"]]), body);
    expect(promptTokens(request as Exclude<typeof request, { reason: unknown }>)).toBe(Math.ceil((2500 * 6 + 1) / 4));
  });
});
