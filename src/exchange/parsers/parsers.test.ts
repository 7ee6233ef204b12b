import { describe, expect, it } from "vitest";
import { Rejection } from "../../inference/outcomes.ts";
import type { ParsedBody } from "../../inference/request.ts";
import { promptBytes } from "../../inference/request.ts";
import type { BodyParser } from "../../plugin/kinds.ts";
import { chatCompletions } from "./chat-completions.ts";
import { completions, MAX_PROMPTS } from "./completions.ts";
import { PARSERS, selectParser } from "./index.ts";

function parsed(parser: BodyParser, body: string): ParsedBody {
  const result = parser.parse(Buffer.from(body), "");
  if (result instanceof Rejection) throw new Error(result.text);
  return result;
}

function refused(parser: BodyParser, body: string): string {
  const result = parser.parse(Buffer.from(body), "");
  if (!(result instanceof Rejection)) throw new Error("was accepted");
  return `${result.status} ${result.reason} ${result.text}`;
}

/** The texts that prefix hashing will read. */
function promptTexts(parser: BodyParser, body: string): string[][] {
  const bytes = Buffer.from(body);
  return parsed(parser, body).prompts.map((ranges) =>
    ranges.map(({ start, end }) => bytes.toString("utf8", start, end)),
  );
}

describe.each(PARSERS.map((parser) => [parser.name, parser] as const))("every parser: %s", (name, parser) => {
  const required = name === "completions" ? '"prompt":"p"' : '"messages":[{}]';

  it.each([
    ["", "unexpected end of JSON input"],
    ["no healthy upstream", "invalid character 'o' in literal null (expecting 'u')"],
    ["[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"],
    ['"x"', "json: cannot unmarshal string into Go value of type map[string]interface {}"],
    [`{"model":"m",${required}`, "unexpected end of JSON input"],
    [`{"model":"m",${required}}{}`, "invalid character '{' after top-level value"],
  ])("E-81: answers 400 to the body %j", (body, cause) => {
    expect(refused(parser, body)).toBe(
      `400 bad_request inference error: BadRequest - error unmarshaling request bodyMap: ${cause}`,
    );
  });

  it.each(["", ',"model":""', ',"model":5', ',"model":null', ',"model":["m"]', ',"model":"m","model":""'])(
    "E-82: answers 400 without a usable model (%s)",
    (model) => {
      expect(refused(parser, `{${required}${model}}`)).toBe(
        "400 model_missing inference error: BadRequest - model not found in request body",
      );
    },
  );

  it("reads the common members", () => {
    const body = `{"stream":true,"cache_salt":"tenant-\\u0031",${required},"model":"llama \\"3\\"","max_tokens":7}`;
    const result = parsed(parser, body);
    expect(result).toMatchObject({ model: 'llama "3"', streaming: true, cacheSalt: "tenant-1", maxTokens: 7 });
    expect(body.slice(result.modelRange?.start, result.modelRange?.end)).toBe('"llama \\"3\\""');
  });

  it("takes the last of two models and its range, for what a model server will see too", () => {
    const body = `{"model":"first",${required}, "model": "second" }`;
    const result = parsed(parser, body);
    expect(result.model).toBe("second");
    expect(body.slice(result.modelRange?.start, result.modelRange?.end)).toBe('"second"');
  });

  it("passes over optional members that are absent or of another type", () => {
    for (const members of ["", ',"stream":"true","cache_salt":5,"max_tokens":"7"', ',"stream":null,"max_tokens":-1']) {
      const result = parsed(parser, `{"model":"m",${required}${members}}`);
      expect(result).toMatchObject({ streaming: false, cacheSalt: "", maxTokens: Number.NaN });
    }
    const long = `{"model":"m",${required},"max_tokens":7.${"0".repeat(100_000)}}`;
    expect(parsed(parser, long).maxTokens).toBeNaN();
    expect(parsed(parser, `{"model":"m",${required},"max_tokens":1e999}`).maxTokens).toBeNaN();
  });
});

describe("completions", () => {
  it.each(["null", "{}", '{"model":"m"}', '{"model":"m","prompt":null}', '{"x":1}'])(
    "E-83: answers 400 to %s, also when the model is missing as well",
    (body) => {
      expect(refused(completions, body)).toBe(
        "400 bad_request inference error: BadRequest - invalid completions request: must have prompt field",
      );
    },
  );

  it.each([
    "5",
    "true",
    "{}",
    '["a",1]',
    '[1,"a"]',
    '["a",null]',
    "[1,[2]]",
    "[[1],2]",
    '[[1,"a"]]',
    "[1.5]",
    "[-1]",
    "[{}]",
  ])("answers 400 to the prompt %s", (prompt) => {
    expect(refused(completions, `{"model":"m","prompt":${prompt}}`)).toBe(
      "400 bad_request inference error: BadRequest - invalid completions request: prompt must be a string, a list of strings or token ids",
    );
  });

  it.each([
    ['"Hello \\"world\\""', [['Hello \\"world\\"']]],
    ['""', [[""]]],
    ['[ "one" , "two, [2]" ]', [["one"], ["two, [2]"]]],
    ["[ 1, 22,333 ]", [["[ 1, 22,333 ]"]]],
    ["[[1,2], [3] ,[]]", [["[1,2]"], ["[3]"], ["[]"]]],
    ["[]", []],
  ])("finds the bytes of each prompt in %s", (prompt, texts) => {
    expect(promptTexts(completions, `{"prompt":${prompt},"model":"m"}`)).toEqual(texts);
  });

  it("tells at most MAX_PROMPTS prompts apart, losing no byte, and still refuses a mixed list", () => {
    const list = Array.from({ length: MAX_PROMPTS + 1000 }, (_, i) => `"prompt ${i}"`);
    const body = `{"model":"m","prompt":[${list}]}`;
    const texts = promptTexts(completions, body);
    expect(texts).toHaveLength(MAX_PROMPTS);
    expect(texts[0]).toEqual(["prompt 0"]);
    expect(texts.at(-1)).toEqual([`prompt ${MAX_PROMPTS - 1}`, `",${list.slice(MAX_PROMPTS)}`]);
    expect(promptBytes(parsed(completions, body))).toBeGreaterThan(list.join("").length - 2 * MAX_PROMPTS);
    expect(refused(completions, `{"model":"m","prompt":[${list},1]}`)).toContain("prompt must be");
  });

  it("caps the output by max_tokens only", () => {
    expect(parsed(completions, '{"model":"m","prompt":"p","max_completion_tokens":5,"max_tokens":9}').maxTokens).toBe(
      9,
    );
  });
});

describe("chat completions", () => {
  it.each([
    "null",
    "{}",
    '{"model":"m"}',
    ...["null", "[]", "[ ]", '"hi"', "{}", "5"].map((m) => `{"model":"m","messages":${m}}`),
  ])("E-83: answers 400 to %s", (body) => {
    expect(refused(chatCompletions, body)).toBe(
      "400 bad_request inference error: BadRequest - invalid chat completions request: must have valid messages field",
    );
  });

  it("finds tools before messages, as received, wherever they stand", () => {
    const messages = '[ {"role":"user", "content":"h\\u0069"} ]';
    expect(promptTexts(chatCompletions, `{"messages":${messages},"model":"m","tools": [{"a":1}] }`)).toEqual([
      ['[{"a":1}]', messages],
    ]);
    expect(promptTexts(chatCompletions, `{"tools":null,"messages":${messages},"model":"m"}`)).toEqual([[messages]]);
  });

  it("caps the output by max_completion_tokens, else max_tokens", () => {
    const cap = (members: string) => parsed(chatCompletions, `{"model":"m","messages":[1],${members}}`).maxTokens;
    expect(cap('"max_tokens":9,"max_completion_tokens":5')).toBe(5);
    expect(cap('"max_tokens":9,"max_completion_tokens":null')).toBe(9);
    expect(cap('"max_tokens":9')).toBe(9);
    expect(cap('"max_completion_tokens":0,"max_tokens":9')).toBe(0);
  });
});

describe("choice of the parser", () => {
  it.each([
    ["/v1/completions", "completions"],
    ["/v1/chat/completions", "chat-completions"],
    ["/v1/chat/completions/", "chat-completions"],
    ["/v1/chat/completions?x=1", "chat-completions"],
    ["/v1/completions/?next=/v1/chat/completions", "completions"],
    ["/tenants/a/openai/v1/chat/completions", "chat-completions"],
    ["/completions", "completions"],
  ])("E-100: %s goes to %s", (path, name) => {
    expect((selectParser(path) as BodyParser).name).toBe(name);
  });

  it("prefers the longest suffix, whatever the order", () => {
    expect(selectParser("/v1/chat/completions", [...PARSERS].reverse())).toBe(chatCompletions);
  });

  it.each([
    "/v1/models",
    "/",
    "",
    "/v1/xcompletions",
    "/v1/completions/render",
    "/v1/Completions",
    "/x?/v1/completions",
  ])("E-100: answers 400 to the path %j", (path) => {
    const refusal = selectParser(path) as Rejection;
    expect([refusal.status, refusal.reason]).toEqual([400, "no_parser"]);
    const shown = path.split("?")[0];
    expect(refusal.text).toBe(`inference error: BadRequest - no parser registered matching path suffix for: ${shown}`);
  });

  it("shows of an absurd path one bounded line", () => {
    const refusal = selectParser(`/a\r\n\u0000${"b".repeat(100_000)}`) as Rejection;
    expect(refusal.detail).toMatch(/^no parser registered matching path suffix for: \/a b+\.\.\.$/);
    expect(refusal.detail.length).toBeLessThanOrEqual(1024);
  });
});
