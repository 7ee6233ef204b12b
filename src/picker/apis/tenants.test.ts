import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { grpcFrame } from "../../../test/support/grpc-apis.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { RequestParser } from "../../base/plugin/kinds.ts";
import { DEFAULT_FAMILIES, sglangHttp, vertexAi } from "./families.ts";

/** An API, how a client names model and salt in it, and who parses it where that is not the default. */
interface Format {
  readonly path: string;
  readonly body: (members: Readonly<Record<string, unknown>>) => Buffer;
  /** Name of the salt; default `cache_salt`. */
  readonly salt?: string;
  /** Whether the body names the model; default true. */
  readonly namesModel?: boolean;
  readonly parsers?: readonly RequestParser[];
}

const TEXT = Array.from({ length: 400 }, (_, i) => `word ${i}`).join(" ");
const TOKENS = Array.from({ length: 400 }, (_, i) => i * 7);
const MESSAGES = [{ role: "user", content: TEXT }];
const json = (required: object) => (members: object) => Buffer.from(JSON.stringify({ ...members, ...required }));
const vertex = (required: object) => (members: object) =>
  grpcFrame("PredictRequest", {
    endpoint: "e",
    http_body: { content_type: "application/json", data: json(required)(members) },
  });
const service = "/google.cloud.aiplatform.v1.PredictionService";

const FORMATS: Readonly<Record<string, Format>> = {
  "chat completions": { path: "/v1/chat/completions", body: json({ messages: MESSAGES }) },
  "chat completions with tools": {
    path: "/v1/chat/completions",
    body: json({ tools: [{ type: "function" }], messages: MESSAGES }),
  },
  completions: { path: "/v1/completions", body: json({ prompt: TEXT }) },
  "completions of several prompts": { path: "/v1/completions", body: json({ prompt: [TEXT, `other ${TEXT}`] }) },
  "completions of token ids": { path: "/v1/completions", body: json({ prompt: TOKENS }) },
  messages: { path: "/v1/messages", body: json({ system: "short", messages: MESSAGES }) },
  responses: { path: "/v1/responses", body: json({ input: TEXT }) },
  conversations: { path: "/v1/conversations", body: json({ items: MESSAGES }) },
  embeddings: { path: "/v1/embeddings", body: json({ input: TEXT }) },
  images: { path: "/v1/images/generations", body: json({ prompt: TEXT }) },
  "vLLM's token API": { path: "/inference/v1/generate", body: json({ token_ids: TOKENS }) },
  "a path of no known API": { path: "/my/own/api", body: json({ prompt: TEXT }) },
  "SGLang's own API": {
    path: "/generate",
    body: json({ input_ids: TOKENS }),
    salt: "extra_key",
    namesModel: false,
    parsers: [sglangHttp],
  },
  "Vertex AI's chat": { path: `${service}/ChatCompletions`, body: vertex({ messages: MESSAGES }), parsers: [vertexAi] },
  "Vertex AI's raw prediction": { path: `${service}/RawPredict`, body: vertex({ input: TEXT }), parsers: [vertexAi] },
};

/** Decides about a request of that body. @returns the most blocks that an endpoint is believed to hold of it, of how many */
function decided(core: TestCore, { path }: Format, body: Buffer): { readonly matched: number; readonly total: number } {
  const headers = HeaderList.of([[":path", path]]);
  const understood = core.decider.understand("id", headers, body);
  if (understood instanceof Rejection) throw new Error(understood.text);
  const { result, record } = core.decider.decide(core.decider.process(understood), undefined, { full: true });
  if (result instanceof Rejection) throw new Error(result.text);
  const column = (key: string): readonly number[] =>
    Object.entries(record.full!.columns).find(([name]) => name.endsWith(`/${key}`))![1];
  return { matched: Math.max(...column("prefix-matched-blocks")), total: column("prefix-total-blocks")[0]! };
}

describe("S-51: what one tenant or model has in a cache is nothing that another one finds", () => {
  it("knows every parser that reads prompts", () => {
    const tried = Object.values(FORMATS).length;
    const known = [...DEFAULT_FAMILIES, sglangHttp, vertexAi].flatMap(({ parsers }) => parsers);
    // Three are here twice or three times, `count_tokens` has no prompt, and any path stands for the last family.
    expect(tried).toBe(known.length - 1 + 3 + 1);
  });

  it.each(Object.entries(FORMATS))("%s", (_name, format) => {
    const core = new TestCore(format.parsers === undefined ? {} : { parsers: format.parsers });
    const { salt = "cache_salt", body, namesModel = true } = format;
    const ask = (model: string, value: string | undefined) =>
      decided(core, format, body({ model, ...(value === undefined ? {} : { [salt]: value }) }));
    const whole = ask("lora-a", "tenant-a").total;
    expect(whole).toBeGreaterThan(4);
    for (const other of ["tenant-b", "tenant-A", "tenanta-", undefined, "tenant-aa"])
      expect(ask("lora-a", other)).toEqual({ matched: 0, total: whole });
    // As without one: vLLM takes an empty salt for none.
    expect(ask("lora-a", "")).toEqual({ matched: whole, total: whole });
    if (namesModel)
      for (const other of ["lora-b", "lora-A", "loraa-"])
        expect(ask(other, "tenant-a")).toEqual({ matched: 0, total: whole });
    // Each of them finds its own again.
    for (const own of ["tenant-a", "tenant-b", "tenant-aa", undefined])
      expect(ask("lora-a", own)).toEqual({ matched: whole, total: whole });
  });
});
