import { describe, expect, it } from "vitest";
import { instanceOf, requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import type { MediaTokens, TokenizerSettings } from "../../../base/plugin/tokenizers.ts";
import { tokenProducer } from "../plugins/token-producer.ts";
import { tokenizersPoolConfig } from "./local.ts";

/** What the threads are started with, and what they are asked. */
function started(parameters: object) {
  const seen: { settings?: TokenizerSettings; media: (readonly MediaTokens[])[]; closed: number } = {
    media: [],
    closed: 0,
  };
  const producer = instanceOf(tokenProducer, parameters, {
    startTokenizers(settings) {
      seen.settings = settings;
      return {
        async tokens(_request, media) {
          seen.media.push(media);
          return undefined;
        },
        ready: () => false,
        close: () => seen.closed++,
        state: () => ({ workers: 2 }),
      };
    },
  });
  return { seen, producer: producer as typeof producer & { ready(): boolean; close(): void } };
}

describe("the backend local of token-producer", () => {
  it("starts threads with its parameters, or with their defaults", () => {
    expect(started({ local: {} }).seen.settings).toEqual({
      modelName: undefined,
      modelTokenizerMap: new Map(),
      directories: ["/mnt/models"],
      fileName: "tokenizer.json",
      workers: 2,
      cacheBytes: 64 * 2 ** 20,
      chatTemplate: undefined,
      chatTemplateContentFormat: "auto",
      chatTemplateKwargs: {},
    });
    const local = { autoDiscoveryDir: "", modelTokenizerMap: { m: "/x" }, workersCount: 1, prefixCacheMB: 0 };
    expect(started({ modelName: "m", local }).seen.settings).toMatchObject({
      modelName: "m",
      modelTokenizerMap: new Map([["m", "/x"]]),
      directories: [],
      workers: 1,
      cacheBytes: 0,
    });
  });

  it("waits as long as its parameter says, asks with the images, and hands on what the threads say of themselves", async () => {
    const { seen, producer } = started({ local: { timeout: "1s" } });
    expect(producer.prepareBudget).toBe(1000);
    const body = '[{"role":"user","content":[{"image_url":{"url":"https://a/1.png"}}]}]';
    await producer.prepare!(requestOf(body, { headers: HeaderList.of([]) }), new AbortController().signal);
    expect(seen.media).toMatchObject([[{ count: 225, start: body.indexOf("https"), end: body.indexOf('"}}]') }]]);
    expect(producer.ready()).toBe(false);
    expect(producer.debugState!()).toEqual({ workers: 2 });
    producer.close();
    expect(seen.closed).toBe(1);
  });

  it("has no tokens, and says so, in a process without threads", async () => {
    const producer = instanceOf(tokenProducer, { local: {} });
    await expect(producer.prepare!(requestOf("x"), new AbortController().signal)).rejects.toMatchObject({
      code: "TOKENIZER_FAILED",
    });
  });

  it("is also what a side-car's map of models means", () => {
    const uds = { socketFile: "/tmp/tokenizer/tokenizer-uds.socket", modelTokenizerMap: { m: "/models/m" } };
    expect(started({ modelName: "m", udsTokenizerConfig: uds }).seen.settings).toMatchObject({
      modelName: "m",
      modelTokenizerMap: new Map([["m", "/models/m"]]),
    });
  });

  it.each([
    [{ local: {}, vllm: {} }, /^local: give only one of/],
    [{ local: {}, estimate: {} }, /^estimate: give only one of/],
    [{ local: { workersCount: 0 } }, /^local\.workersCount/],
    [{ local: { timeout: "0s" } }, /^local\.timeout/],
    [{ local: { modelTokenizerMap: { m: "" } } }, /^local\.modelTokenizerMap\.m/],
    [{ udsTokenizerConfig: { modelTokenizerMap: {} }, vllm: {} }, /^udsTokenizerConfig: give only one of/],
  ])("refuses %j", (parameters, message) => {
    const issue = tokenProducer.parameters.safeParse(parameters).error!.issues[0]!;
    expect(`${issue.path.join(".")}: ${issue.message}`).toMatch(message);
  });
});

describe("tokenizersPoolConfig of published configurations", () => {
  it("means parameters of token-producer: its folders and maps, and the model", () => {
    const settings = (given: unknown) => started(tokenizersPoolConfig.parse(given)).seen.settings;
    expect(settings({ modelName: "m", workersCount: 8, hf: { tokenizersCacheDir: "/tmp/tokenizers" } })).toMatchObject({
      modelName: "m",
      workers: 8,
      directories: ["/tmp/tokenizers"],
    });
    const local = {
      autoDiscoveryDir: "/models",
      autoDiscoveryTokenizerFileName: "t.json",
      modelTokenizerMap: { a: "/a" },
    };
    expect(
      settings({ modelName: "m", minPrefixOverlapRatio: 0.8, local, uds: { modelTokenizerMap: { b: "/b" } } }),
    ).toMatchObject({
      directories: ["/models"],
      fileName: "t.json",
      modelTokenizerMap: new Map(Object.entries({ b: "/b", a: "/a" })),
    });
    expect(tokenizersPoolConfig.safeParse({}).success).toBe(false);
  });
});
