import { afterEach, describe, expect, it } from "vitest";
import { RenderServer } from "../../../../test/support/render-server.ts";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../../test/support/scheduling/fakes.cases.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import { TOKENIZED_PROMPT, type TokenizedPrompt } from "../../../base/plugin/keys.ts";
import { tokenizer, tokenProducer } from "./token-producer.ts";

const servers: RenderServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

/** What the producer attaches to a request. */
function attached(parameters: object, request = requestOf("prompt"), prepared?: unknown): TokenizedPrompt | undefined {
  const columns = columnsOf([endpointOf(0)], [[TOKENIZED_PROMPT, undefined]]);
  instanceOf(tokenProducer, parameters).produce(produceContextOf(columns, request, prepared));
  return columns.attribute(TOKENIZED_PROMPT);
}

/** What is wrong with parameters: path and message. */
function problem(parameters: object): string | undefined {
  const issue = tokenProducer.parameters.safeParse(parameters).error?.issues[0];
  return issue && `${issue.path.join(".")}: ${issue.message}`;
}

describe("token-producer", () => {
  it("estimates unless told otherwise: texts are left to their bytes, images are placeholders", () => {
    for (const parameters of [{}, { estimate: {} }]) {
      expect(attached(parameters)).toBeUndefined();
      const { count } = attached(parameters, requestOf('[{"image_url":"https://a/1.png"}]'))!;
      expect(count).toBe(4 + 225 + 1);
      expect(instanceOf(tokenProducer, parameters).prepare).toBeUndefined();
    }
  });

  it("with vllm asks the server before the decision and attaches what it has by then", async () => {
    const server = await RenderServer.start();
    servers.push(server);
    const parameters = { modelName: "m", vllm: { url: `${server.url}/` } };
    const request = requestOf('{"prompt":"a b c"}', { headers: HeaderList.of([[":path", "/v1/completions"]]) });
    const prepared = await instanceOf(tokenProducer, parameters).prepare!(request, new AbortController().signal);
    expect(server.questions[0]!.path).toBe("/v1/completions/render");
    expect(attached(parameters, request, prepared)).toMatchObject({ count: 3, prompts: [{ start: 0, end: 12 }] });
    expect(attached(parameters, request, undefined)).toBeUndefined();
  });

  it("has a budget of the longer of its times", () => {
    const budget = (parameters: object) => instanceOf(tokenProducer, parameters).prepareBudget;
    expect(budget({ modelName: "m" })).toBe(30_000);
    expect(budget({ vllm: {} })).toBe(30_000);
    expect(budget({ vllm: { timeout: "2s", mmTimeout: "1500ms" } })).toBe(2000);
  });

  it("shows where it asks, and no prompt", () => {
    expect(instanceOf(tokenProducer, { vllm: {} }).debugState!()).toEqual({
      url: "http://localhost:8000",
      bytesUnderWay: 0,
    });
  });

  it.each([
    [{ estimate: {}, vllm: {} }, /^estimate: give only one of estimate, local and vllm/],
    [{ estimate: {}, modelName: "m" }, /^estimate: give only one of estimate, local and vllm/],
    [
      { modelName: "m", udsTokenizerConfig: { socketFile: "/tmp/tokenizer/tokenizer-uds.socket" } },
      /^udsTokenizerConfig: is no longer supported: .* vllm: \{url: "http:\/\/localhost:8000"\}$/,
    ],
    [{ vllm: { url: "localhost:8000" } }, /^vllm\.url: must be an http or https address/],
    [{ vllm: { url: "http://user:password@localhost" } }, /^vllm\.url: must be/],
    [{ vllm: { url: "http://localhost/?a=b" } }, /^vllm\.url: must be/],
    [{ vllm: { timeout: "0s" } }, /^vllm\.timeout: must be more than 0ms/],
    [{ vllm: { timeOut: "5s" } }, /^vllm: Unrecognized key: "timeOut"/],
    [{ modelName: "" }, /^modelName: must not be empty/],
    [{ estimate: { image: { mode: "big" } } }, /^estimate\.image\.mode: /],
    [{ estimate: { image: { dynamic: { factor: 0 } } } }, /^estimate\.image\.dynamic\.factor: /],
  ])("refuses %j", (parameters, message) => {
    expect(problem(parameters)).toMatch(message);
  });

  it("takes everything that was published", () => {
    expect(
      problem({
        estimate: {
          image: {
            mode: "dynamic",
            defaultResolution: { width: 1280, height: 720 },
            dynamic: { factor: 784 },
            static: { staticToken: 256 },
          },
          video: {
            defaultResolution: { width: 640, height: 360 },
            defaultDuration: 10,
            tokensPerFrame: { mode: "static", static: { numTokensPerFrame: 70 }, dynamic: { factor: 1024 } },
            frames: {
              mode: "strided",
              minFrames: 0,
              maxFrames: 32,
              sampled: { sampleFPS: 1, temporalPatchSize: 2 },
              strided: { defaultSourceFPS: 24, frameStride: 24 },
            },
            maxVideoTokens: 0,
          },
        },
      }),
    ).toBeUndefined();
    expect(
      problem({ modelName: "m", vllm: { url: "http://r:8000", timeout: "5s", mmTimeout: "30s" } }),
    ).toBeUndefined();
  });

  it("has the deprecated name tokenizer, with the same parameters", () => {
    expect(tokenizer.type).toBe("tokenizer");
    expect(tokenizer.deprecated).toContain("token-producer");
    expect(tokenizer.parameters).toBe(tokenProducer.parameters);
    expect(tokenizer.produces).toEqual([TOKENIZED_PROMPT]);
  });
});
