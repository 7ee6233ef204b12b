import { describe, expect, it } from "vitest";
import { pluginContextOf } from "../../../test/support/plugin-context.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { BodyParser, RequestParser } from "../../base/plugin/kinds.ts";
import { PARSER_PLUGINS } from "./families.ts";
import { ParserTable } from "./parser-table.ts";

const DEFAULT = new ParserTable();

/** The families of the published types, as a configuration makes them. */
function families(...types: string[]): RequestParser[] {
  return types.map((type) => {
    const plugin = PARSER_PLUGINS.find((candidate) => candidate.type === type);
    if (plugin === undefined) throw new Error(`no plugin ${type}`);
    const context = pluginContextOf(type);
    return plugin.create(plugin.parameters.parse({}), context);
  });
}

function chosen(table: ParserTable, path: string): string {
  const choice = table.select(path);
  return choice instanceof Rejection ? `${choice.status} ${choice.detail}` : choice.parser.name;
}

/** What a table makes of a body: the refusal's text or the model. */
function outcome(table: ParserTable, path: string, body: string | Uint8Array): string {
  const choice = table.select(path);
  if (choice instanceof Rejection) return choice.detail;
  const parsed = choice.parser.parse(Buffer.from(body), choice.path);
  return parsed instanceof Rejection ? parsed.detail : `model ${parsed.model}, ${parsed.answerFormat}`;
}

describe("the default table", () => {
  it.each([
    ["/v1/completions", "completions"],
    ["/v1/completions/render", "completions"],
    ["/v1/chat/completions", "chat-completions"],
    ["/v1/chat/completions/", "chat-completions"],
    ["/v1/chat/completions?x=1", "chat-completions"],
    ["/v1/chat/completions/?x=1", "chat-completions"],
    ["/v1/chat/completions/render", "chat-completions"],
    ["/v1/completions/?next=/v1/chat/completions", "completions"],
    ["/tenants/a/openai/v1/chat/completions", "chat-completions"],
    ["/completions", "completions"],
    ["v1/completions", "completions"],
    ["completions", "completions"],
    ["/v1/responses", "responses"],
    ["/v1/conversations", "conversations"],
    ["/v1/embeddings", "embeddings"],
    ["/v1/images/generations", "images"],
    ["/v1/messages", "messages"],
    ["/v1/messages/count_tokens", "count-tokens"],
    ["/anthropic/v1/messages/count_tokens?beta=true", "count-tokens"],
    ["/inference/v1/generate", "vllm-generate"],
  ])("E-100: gives %s to %s", (path, name) => {
    expect(chosen(DEFAULT, path)).toBe(name);
  });

  it.each([
    "/v1/models",
    "/",
    "",
    "/v1/xcompletions",
    "/v1/Completions",
    "/x?/v1/completions",
    "/generate",
    "/vllm.grpc.engine.VllmEngine/Generate",
    "/v1/responses/resp_1/cancel",
  ])("E-101, E-102: has no API at %j", (path) => {
    expect(chosen(DEFAULT, path)).toBe("any-json");
  });

  it.each([
    ['{"model":"m","prompt":"p"}', "model m, http"],
    ['{"model":"m","query":"q"}', "model m, http"],
    ['{"prompt":"p"}', "model , opaque"],
    ['{"model":5,"prompt":"p"}', "model , opaque"],
    ['{"model":"","prompt":"p"}', "model , opaque"],
    ["[]", "model , opaque"],
    ["null", "model , opaque"],
    ["", "model , opaque"],
    ["--multipart", "model , opaque"],
    [Uint8Array.of(0, 0, 0, 0, 1, 0xff), "model , opaque"],
  ])("E-101, E-102: routes %j on an unknown path", (body, expected) => {
    expect(outcome(DEFAULT, "/infer/here", body)).toBe(expected);
  });

  it("reads prompts on an unknown path where it knows them, and requires none", () => {
    const prompts = (body: string): string[][] => {
      const bytes = Buffer.from(body);
      const { parser, path } = DEFAULT.select("/infer") as Exclude<ReturnType<ParserTable["select"]>, Rejection>;
      const parsed = parser.parse(bytes, path);
      if (parsed instanceof Rejection) throw new Error(parsed.text);
      return parsed.prompts.map((ranges) => ranges.map(({ start, end }) => bytes.toString("utf8", start, end)));
    };
    expect(prompts('{"model":"m","prompt":["a","b"]}')).toEqual([["a"], ["b"]]);
    expect(prompts('{"model":"m","tools":[1],"messages":[2],"prompt":"p"}')).toEqual([["[1]", "[2]"]]);
    expect(prompts('{"model":"m","prompt":{"id":5}}')).toEqual([]);
    expect(prompts('{"model":"m"}')).toEqual([]);
  });
});

describe("configured parsers", () => {
  it("E-100: alone, the OpenAI parser takes every other path for completions, as in v1.5", () => {
    const table = new ParserTable(families("openai-parser"));
    expect(chosen(table, "/v1/responses")).toBe("responses");
    expect(chosen(table, "/any/where")).toBe("completions");
    expect(outcome(table, "/any/where", '{"model":"m"}')).toBe("invalid completions request: must have prompt field");
  });

  it("E-100: several without a fallback answer 400 to the paths of none", () => {
    const table = new ParserTable(families("openai-parser", "anthropic-parser"));
    expect(chosen(table, "/v1/messages")).toBe("messages");
    for (const path of ["/any/where", "/inference/v1/generate", ""])
      expect(chosen(table, path)).toBe(`400 no parser registered matching path suffix for: ${path}`);
    expect(chosen(table, "/x?api-key=secret")).toBe("400 no parser registered matching path suffix for: /x");
    expect(chosen(table, "/x/")).toBe("400 no parser registered matching path suffix for: /x/");
  });

  it("E-102: the passthrough parser takes the rest, wherever it stands in the list", () => {
    for (const types of [
      ["openai-parser", "passthrough-parser"],
      ["passthrough-parser", "openai-parser"],
    ]) {
      const table = new ParserTable(families(...types));
      expect(chosen(table, "/v1/completions")).toBe("completions");
      expect(chosen(table, "/any/where")).toBe("passthrough");
      expect(outcome(table, "/any/where", '{"model":"m","prompt":"p"}')).toBe("model , opaque");
    }
    expect(chosen(new ParserTable(families("passthrough-parser")), "/v1/completions")).toBe("passthrough");
  });

  it("E-110: alone, vLLM's gRPC parser refuses every other path, as in v1.5", () => {
    const table = new ParserTable(families("vllmgrpc-parser"));
    expect(chosen(table, "/vllm.grpc.engine.VllmEngine/Generate")).toBe("vllm-grpc-generate");
    expect(chosen(table, "vllm.grpc.engine.VllmEngine/Embed")).toBe("vllm-grpc-embed");
    for (const path of ["unsupportedMethod", "unsupportedMethod?key=secret"])
      expect(outcome(table, path, "")).toBe("unsupported gRPC path: unsupportedMethod");
    expect(outcome(table, "/vllm.grpc.engine.VllmEngine/Abort", "")).toBe(
      "unsupported gRPC path: /vllm.grpc.engine.VllmEngine/Abort",
    );
    const both = new ParserTable(families("vllmgrpc-parser", "openai-parser"));
    expect(chosen(both, "/vllm.grpc.engine.VllmEngine/Abort")).toContain("400 no parser registered");
  });

  it("E-100: SGLang's path counts only as a whole, beside vLLM's that ends alike", () => {
    const table = new ParserTable(families("vllmhttp-parser", "sglanghttp-parser"));
    for (const path of ["/generate", "/generate/", "generate", "/generate?x=1"])
      expect(chosen(table, path)).toBe("sglang-generate");
    expect(chosen(table, "/inference/v1/generate")).toBe("vllm-generate");
    expect(chosen(table, "/v2/generate")).toContain("400");
  });

  it.each(["v1", "v1beta1"])("knows Vertex AI's methods (%s)", (version) => {
    const table = new ParserTable(families("vertexai-parser"));
    const service = `/google.cloud.aiplatform.${version}.PredictionService`;
    expect(chosen(table, `${service}/ChatCompletions`)).toBe("vertex-chat");
    expect(chosen(table, `${service}/StreamRawPredict`)).toBe("vertex-predict");
    expect(chosen(table, `${service}/RawPredict`)).toBe("vertex-predict");
    expect(chosen(table, `${service}/Predict`)).toContain("400");
  });

  it("prefers the longest suffix, whatever the order, and the first of two that claim the same", () => {
    const parser = (name: string, ...suffixes: string[]): BodyParser => ({
      name,
      suffixes,
      parse: () => new Rejection("internal", ""),
    });
    const family = (...parsers: BodyParser[]): RequestParser => ({ parsers });
    const list = [family(parser("short", "/b")), family(parser("long", "/a/b")), family(parser("late", "/a/b", "/c"))];
    for (const order of [list, [list[1]!, list[0]!, list[2]!]]) {
      const table = new ParserTable(order);
      expect(["/x/a/b", "/x/b", "/c"].map((path) => chosen(table, path))).toEqual(["long", "short", "late"]);
    }
    expect(chosen(new ParserTable([...list].reverse()), "/a/b")).toBe("late");
  });

  it("shows of an absurd path one bounded line", () => {
    const refusal = new ParserTable([]).select(`/a\r\n\u0000${"b".repeat(100_000)}`) as Rejection;
    expect(refusal.reason).toBe("no_parser");
    expect(refusal.detail).toMatch(/^no parser registered matching path suffix for: \/a b+\.\.\.$/);
    expect(refusal.detail.length).toBeLessThanOrEqual(1024);
  });

  it("E-112: has every published type, without parameters", () => {
    expect(PARSER_PLUGINS.map(({ type }) => type)).toEqual([
      "openai-parser",
      "anthropic-parser",
      "vllmhttp-parser",
      "passthrough-parser",
      "vllmgrpc-parser",
      "sglanghttp-parser",
      "vertexai-parser",
    ]);
    for (const { kind, parameters } of PARSER_PLUGINS) {
      expect(kind).toBe("parser");
      expect(parameters.safeParse({ no: 1 }).success).toBe(false);
    }
  });
});
