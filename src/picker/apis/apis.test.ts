import { describe, expect, it } from "vitest";
import { parsed, promptTexts, refused } from "../../../test/support/apis/parse.cases.ts";
import { countTokens, messages } from "./anthropic.ts";
import { conversations, embeddings, images, responses } from "./openai.ts";
import { sglangGenerate, vllmGenerate } from "./token-generate.ts";

const refusal = (text: string) => `400 bad_request inference error: BadRequest - ${text}`;

describe("responses (epp-protocol 10.3, 10.5)", () => {
  it.each(["{}", '{"model":"m"}', '{"model":"m","input":null}'])("E-83: answers 400 to %s", (body) => {
    expect(refused(responses, body)).toBe(refusal("invalid responses request: must have input field"));
  });

  it("finds instructions, tools, input, as received", () => {
    const body = '{"input":[{"role":"user"}],"tools":[1],"model":"m","instructions":"be \\"brief\\""}';
    expect(promptTexts(responses, body)).toEqual([['"be \\"brief\\""', "[1]", '[{"role":"user"}]']]);
    expect(promptTexts(responses, '{"tools":null,"input":"i","model":"m"}')).toEqual([['"i"']]);
  });
});

describe("conversations", () => {
  it.each(["{}", ...["null", "[]", "[ ]", '"x"', "{}"].map((items) => `{"items":${items}}`)])(
    "E-83: answers 400 to %s",
    (body) => {
      expect(refused(conversations, body)).toBe(refusal("invalid conversations request: must have items field"));
    },
  );

  it("finds the items", () => {
    expect(promptTexts(conversations, '{"items": [ {"type":"message"} ] ,"metadata":{}}')).toEqual([
      ['[ {"type":"message"} ]'],
    ]);
  });
});

describe("embeddings", () => {
  it.each(["{}", '{"input":null}'])("E-83: answers 400 to %s", (body) => {
    expect(refused(embeddings, body)).toBe(refusal("invalid embeddings request: must have input field"));
  });

  it.each([
    ['"one"', [["one"]]],
    ['["one","two"]', [["one"], ["two"]]],
    ["[1,2]", [["[1,2]"]]],
    ["[[1],[2]]", [["[1]"], ["[2]"]]],
    ["[]", []],
    ['[{"image":"x"}]', [['[{"image":"x"}]']]],
    ['["a",1]', [['["a",1]']]],
    ['{"text":"x"}', [['{"text":"x"}']]],
    ["5", [["5"]]],
  ])("finds each input in %s", (input, texts) => {
    expect(promptTexts(embeddings, `{"model":"m","input":${input}}`)).toEqual(texts);
  });
});

describe("images", () => {
  it.each(["{}", ...["null", '""', "5", '["a"]'].map((prompt) => `{"prompt":${prompt}}`)])(
    "E-83: answers 400 to %s",
    (body) => {
      expect(refused(images, body)).toBe(refusal("invalid images generations request: must have prompt field"));
    },
  );

  it("finds the prompt", () => {
    expect(promptTexts(images, '{"prompt":"a cat","n":2}')).toEqual([["a cat"]]);
  });
});

describe("messages", () => {
  it.each(["{}", "null", ...["null", "[]", "[ ]"].map((m) => `{"messages":${m}}`)])(
    "E-83: answers 400 to %s",
    (body) => {
      expect(refused(messages, body)).toBe(refusal("invalid messages request: must have at least one message"));
    },
  );

  it.each(['"hi"', "5", "{}", "true"])("answers 400 to the messages %s", (value) => {
    expect(refused(messages, `{"messages":${value}}`)).toBe(
      refusal("error parsing messages request: messages must be a list"),
    );
  });

  it("finds tools, system, messages, as received", () => {
    const body = '{"model":"m","messages":[{"role":"user"}],"system":[{"type":"text"}],"tools":[{"name":"t"}]}';
    expect(promptTexts(messages, body)).toEqual([['[{"name":"t"}]', '[{"type":"text"}]', '[{"role":"user"}]']]);
    expect(promptTexts(messages, '{"system":"s","messages":[1]}')).toEqual([['"s"', "[1]"]]);
  });

  it("reads the model of a count of tokens, and nothing else", () => {
    expect(parsed(countTokens, '{"model":"m","messages":[1],"max_tokens":5}')).toMatchObject({
      ...{ model: "m", modelRange: { start: 9, end: 12 }, prompts: [], maxTokens: Number.NaN },
    });
  });

  it.each(["", "not JSON", '{"messages":[1]}', '{"model":7}'])("counts tokens of anything, untouched: %j", (body) => {
    expect(parsed(countTokens, body)).toMatchObject({
      model: "",
      modelRange: undefined,
      modelInsertAt: -1,
      answerFormat: "opaque",
      prompts: [],
    });
  });
});

describe("vLLM's token API", () => {
  it.each(["{}", '{"token_ids":null}', '{"token_ids":[]}', '{"token_ids":[ ]}'])("E-83: answers 400 to %s", (body) => {
    expect(refused(vllmGenerate, body)).toBe(refusal("invalid generate request: must have non-empty token_ids field"));
  });

  it.each(['"1"', "1", "{}", "[1.5]", "[-1]", '["a"]', "[[1]]", "[null]"])("answers 400 to the token ids %s", (ids) => {
    expect(refused(vllmGenerate, `{"token_ids":${ids}}`)).toBe(
      refusal("invalid generate request: token_ids must be a list of token ids"),
    );
  });

  it("finds the tokens, and the hashes of pictures behind them", () => {
    expect(promptTexts(vllmGenerate, '{"token_ids": [1, 2] }')).toEqual([["[1, 2]"]]);
    const features = '{"mm_placeholders":{},"mm_hashes":{"image":["abc"]}}';
    expect(promptTexts(vllmGenerate, `{"features":${features},"token_ids":[1,2]}`)).toEqual([
      ["[1,2]", '{"image":["abc"]}'],
    ]);
    for (const odd of ["null", "[]", "{}", '{"mm_hashes":null}', '"x"'])
      expect(promptTexts(vllmGenerate, `{"features":${odd},"token_ids":[1]}`)).toEqual([["[1]"]]);
  });
});

describe("SGLang's own API", () => {
  it.each([
    ["{}", "invalid generate request: input_ids must be provided"],
    ['{"text":"hello"}', "invalid generate request: input_ids must be provided"],
    ['{"input_ids":null}', "invalid generate request: input_ids must be provided"],
    ['{"input_ids":[]}', "invalid generate request: input_ids cannot be empty"],
    ['{"input_ids":"1"}', "invalid generate request: input_ids must be an array of uint32 integers"],
    ['{"input_ids":[1,"2"]}', "invalid generate request: input_ids must be an array of uint32 integers"],
    ['{"input_ids":[[1]]}', "invalid generate request: input_ids must be an array of uint32 integers"],
    ['{"input_ids":[1],"extra_key":5}', "unsupported generate request: extra_key must be a string"],
  ])("E-83: answers 400 to %s", (body, text) => {
    expect(refused(sglangGenerate, body)).toBe(refusal(text));
  });

  it("reads tokens, salt and streaming, and names no model to rewrite", () => {
    const body = '{"model":"m","input_ids":[1,2],"extra_key":"tenant","stream":true}';
    expect(parsed(sglangGenerate, body)).toMatchObject({
      model: "",
      modelRange: undefined,
      modelInsertAt: -1,
      answerFormat: "sglang",
      cacheSalt: "tenant",
      streaming: true,
    });
    expect(promptTexts(sglangGenerate, body)).toEqual([["[1,2]"]]);
    expect(parsed(sglangGenerate, '{"input_ids":[1],"extra_key":null}').cacheSalt).toBe("");
  });
});
