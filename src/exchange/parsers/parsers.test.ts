import { describe, expect, it } from "vitest";
import { Rejection } from "../../inference/outcomes.ts";
import type { ParsedBody } from "../../inference/request.ts";
import { promptBytes } from "../../inference/request.ts";
import type { BodyParser } from "../../plugin/kinds.ts";
import { chatCompletions } from "./chat-completions.ts";
import { completions } from "./completions.ts";
import { conversations } from "./conversations.ts";
import { embeddings } from "./embeddings.ts";
import { images } from "./images.ts";
import { countTokens, messages } from "./messages.ts";
import { MAX_PROMPTS } from "./prompts.ts";
import { responses } from "./responses.ts";
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

  it("caps the output by max_completion_tokens, else max_tokens", () => {
    const cap = (members: string) => parsed(chatCompletions, `{"model":"m","messages":[1],${members}}`).maxTokens;
    expect(cap('"max_tokens":9,"max_completion_tokens":5')).toBe(5);
    expect(cap('"max_tokens":9,"max_completion_tokens":null')).toBe(9);
    expect(cap('"max_tokens":9')).toBe(9);
    expect(cap('"max_completion_tokens":0,"max_tokens":9')).toBe(0);
  });
});

const refusal = (text: string) => `400 bad_request inference error: BadRequest - ${text}`;

describe("responses", () => {
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

  it.each(["", "not JSON", '{"model":"m","messages":[1]}'])("counts tokens of anything, untouched: %j", (body) => {
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
