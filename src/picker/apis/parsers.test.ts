import { describe, expect, it } from "vitest";
import { parsed, promptTexts, refused } from "../../../test/support/apis/parse.cases.ts";
import { promptBytes } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { messages } from "./anthropic.ts";
import { MAX_ANSWERS, MAX_PROMPTS } from "./json-body.ts";
import { chatCompletions, completions, conversations, embeddings, images, responses } from "./openai.ts";
import { sglangGenerate, vllmGenerate } from "./token-generate.ts";

/** Every parser of an API that names a model, and the least it wants beside that. */
const NAMED: readonly (readonly [string, BodyParser, string])[] = [
  ["completions", completions, '"prompt":"p"'],
  ["chat completions", chatCompletions, '"messages":[{}]'],
  ["responses", responses, '"input":"i"'],
  ["conversations", conversations, '"items":[{}]'],
  ["embeddings", embeddings, '"input":"i"'],
  ["images", images, '"prompt":"p"'],
  ["messages", messages, '"messages":[{}]'],
  ["vllm generate", vllmGenerate, '"token_ids":[1]'],
];

describe.each([...NAMED, ["sglang generate", sglangGenerate, '"input_ids":[1]'] as const])(
  "every parser: %s",
  (_name, parser, required) => {
    const reads = parser === messages ? "body" : "bodyMap";

    it.each([
      ["", "unexpected end of JSON input"],
      ["no healthy upstream", "invalid character 'o' in literal null (expecting 'u')"],
      ["[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"],
      ['"x"', "json: cannot unmarshal string into Go value of type map[string]interface {}"],
      [`{"model":"m",${required}`, "unexpected end of JSON input"],
      [`{"model":"m",${required}}{}`, "invalid character '{' after top-level value"],
    ])("E-81: answers 400 to the body %j", (body, cause) => {
      expect(refused(parser, body)).toBe(
        `400 bad_request inference error: BadRequest - error unmarshaling request ${reads}: ${cause}`,
      );
    });

    it("answers 400 to the document null, which has no members, as Go's decoder sees it", () => {
      expect(refused(parser, "null")).toMatch(/ (invalid .* request: |error parsing )/);
    });

    it("has no prompt outside the body, and some where there is one", () => {
      const body = `{"model":"m",${required}}`;
      const result = parsed(parser, body);
      expect(promptBytes(result)).toBeGreaterThan(0);
      for (const { end } of result.prompts.flat()) expect(end).toBeLessThan(body.length);
    });
  },
);

describe.each(NAMED)("every parser of an API that names a model: %s", (_name, parser, required) => {
  it.each(["5", "true", "[]", '["m"]', "{}"])("E-82: answers 400 to the model %s", (model) => {
    expect(refused(parser, `{${required},"model":${model}}`)).toBe(
      "400 model_missing inference error: BadRequest - model not found in request body",
    );
  });

  it("E-109: leaves a model that is absent, null or empty to whoever may supply one", () => {
    const absent = parsed(parser, `  {${required}}`);
    expect(absent).toMatchObject({ model: "", modelRange: undefined, modelInsertAt: 3 });
    for (const value of ["null", '""']) {
      const body = `{${required},"model": ${value} }`;
      const result = parsed(parser, body);
      expect(result.model).toBe("");
      expect(body.slice(result.modelRange?.start, result.modelRange?.end)).toBe(value);
    }
  });

  it("reads the common members", () => {
    const body = `{"stream":true,"cache_salt":"tenant-\\u0031",${required},"model":"llama \\"3\\""}`;
    const result = parsed(parser, body);
    expect(result).toMatchObject({ model: 'llama "3"', streaming: true, cacheSalt: "tenant-1", answerFormat: "http" });
    expect(body.slice(result.modelRange?.start, result.modelRange?.end)).toBe('"llama \\"3\\""');
  });

  it("takes the last of two models and its range, for what a model server will see too", () => {
    const body = `{"model":"first",${required}, "model": "second" }`;
    const result = parsed(parser, body);
    expect(result.model).toBe("second");
    expect(body.slice(result.modelRange?.start, result.modelRange?.end)).toBe('"second"');
  });

  it("passes over optional members that are absent or of another type", () => {
    for (const members of ["", ',"stream":"true","cache_salt":5', ',"stream":null,"cache_salt":null']) {
      const result = parsed(parser, `{"model":"m",${required}${members}}`);
      expect(result).toMatchObject({ streaming: false, cacheSalt: "", maxTokens: Number.NaN });
    }
  });
});

describe("the cap of the output", () => {
  it.each([
    ["completions", completions, '"prompt":"p"', "max_tokens"],
    ["chat completions", chatCompletions, '"messages":[{}]', "max_tokens"],
    ["chat completions", chatCompletions, '"messages":[{}]', "max_completion_tokens"],
    ["responses", responses, '"input":"i"', "max_output_tokens"],
    ["messages", messages, '"messages":[{}]', "max_tokens"],
  ] as const)("of %s is a count or nothing", (_name, parser, required, member) => {
    const cap = (value: string) => parsed(parser, `{"model":"m",${required},"${member}":${value}}`).maxTokens;
    expect(cap("7")).toBe(7);
    for (const value of ["null", '"7"', "-1", "1e999", `7.${"0".repeat(100_000)}`, "[7]"]) expect(cap(value)).toBeNaN();
  });

  it.each([
    ["vllm generate", vllmGenerate, '"token_ids":[1]', "max_tokens"],
    ["sglang generate", sglangGenerate, '"input_ids":[1]', "max_new_tokens"],
  ] as const)("of %s is among the sampling parameters", (_name, parser, required, member) => {
    const cap = (value: string) => parsed(parser, `{"model":"m",${required},"sampling_params":${value}}`).maxTokens;
    expect(cap(`{"n":1, "${member}": 7}`)).toBe(7);
    for (const value of [`{"${member}":"7"}`, `{"${member}":-1}`, "{}", "null", "[]", '"x"', `[{"${member}":7}]`])
      expect(cap(value)).toBeNaN();
    expect(parsed(parser, `{"model":"m",${required},"${member}":7}`).maxTokens).toBeNaN();
  });
});

describe("completions", () => {
  it.each(["{}", '{"model":"m"}', '{"model":"m","prompt":null}', '{"x":1}'])(
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

  it.each([
    ["chat completions", chatCompletions, '"messages":[1]'],
    ["completions", completions, '"prompt":"p"'],
  ] as const)("asks for n answers, or for those of which the best one counts: %s", (_name, parser, required) => {
    const answers = (members: string) => parsed(parser, `{"model":"m",${required}${members}}`).answers;
    for (const one of ["", ',"n":null', ',"n":1', ',"n":0', ',"n":"3"', ',"n":-3', ',"n":0.5', ',"best_of":1'])
      expect([one, answers(one)]).toEqual([one, 1]);
    expect([',"n":3', ',"best_of":4', ',"n":2,"best_of":5', ',"n":3,"best_of":2'].map(answers)).toEqual([3, 4, 5, 3]);
    expect(answers(',"n":1e300')).toBe(MAX_ANSWERS);
  });

  it("asks for as many answers to each prompt of a completion", () => {
    const answers = (prompt: string) => parsed(completions, `{"model":"m","n":2,"prompt":${prompt}}`).answers;
    expect(['"a"', "[1,2]", '["a","b","c"]', "[[1],[2]]", "[]"].map(answers)).toEqual([2, 2, 6, 4, 2]);
    expect(parsed(embeddings, '{"model":"m","n":2,"input":["a","b"]}').answers).toBe(1);
  });

  it.each([
    ["vllm generate", vllmGenerate, '"token_ids":[1]'],
    ["sglang generate", sglangGenerate, '"input_ids":[1]'],
  ] as const)("asks for n answers among the sampling parameters: %s", (_name, parser, required) => {
    const answers = (params: string) => parsed(parser, `{"model":"m",${required},"sampling_params":${params}}`).answers;
    expect(["{}", "null", '{"n":3}', '{"n":null}'].map(answers)).toEqual([1, 1, 3, 1]);
  });

  it("caps the output by max_completion_tokens, else max_tokens", () => {
    const cap = (members: string) => parsed(chatCompletions, `{"model":"m","messages":[1],${members}}`).maxTokens;
    expect(cap('"max_tokens":9,"max_completion_tokens":5')).toBe(5);
    expect(cap('"max_tokens":9,"max_completion_tokens":null')).toBe(9);
    expect(cap('"max_tokens":9')).toBe(9);
    expect(cap('"max_completion_tokens":0,"max_tokens":9')).toBe(0);
  });
});
