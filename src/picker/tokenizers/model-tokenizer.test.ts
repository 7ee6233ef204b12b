import { describe, expect, it } from "vitest";
import { SMALL_CONFIG, smallTokenizer } from "../../../test/support/small-tokenizer.ts";
import type { Json } from "./chat-messages.ts";
import { ModelTokenizer } from "./model-tokenizer.ts";
import { promptsOf, type TokenizedApi } from "./request-prompts.ts";

const OPTIONS = { format: "auto", kwargs: {} } as const;

function modelOf(
  config: Json = SMALL_CONFIG,
  tokenizer: Json = smallTokenizer(),
  options: object = {},
): ModelTokenizer {
  const { chat_template: chatTemplate } = config as { readonly chat_template?: string };
  return new ModelTokenizer({ tokenizer, config, model: {}, chatTemplate }, 2 ** 20, { ...OPTIONS, ...options });
}

/** The prompts of a request as texts: what the tokens mean. */
function texts(api: TokenizedApi, body: object, model = modelOf()): string[] {
  const { tokenizer } = { tokenizer: smallTokenizer() } as unknown as {
    readonly tokenizer: {
      readonly model: { readonly vocab: Record<string, number> };
      readonly added_tokens: readonly { id: number; content: string }[];
    };
  };
  const bytes = new Map(Object.entries(tokenizer.model.vocab).filter(([, id]) => id < 256));
  const text = new Map(
    Object.entries(tokenizer.model.vocab).map(([chars, id]) => [id, [...chars].map((c) => bytes.get(c)!)]),
  );
  for (const { id, content } of tokenizer.added_tokens) text.set(id, [...Buffer.from(content)]);
  return promptsOf(api, body, model).map((tokens) => Buffer.from(tokens.flatMap((id) => text.get(id)!)).toString());
}

const user = (content: unknown): Json => ({ role: "user", content });

describe("the tokens of a request", () => {
  it("mean the rendered chat", () => {
    expect(texts("chat", { messages: [user("hi")] })).toEqual([
      "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    ]);
  });

  it("mean texts, tokens and lists of either in completions", () => {
    expect(texts("completions", { prompt: "a b" })).toEqual(["a b"]);
    expect(texts("completions", { prompt: ["a", "b"] })).toEqual(["a", "b"]);
    expect(promptsOf("completions", { prompt: [5, 6] }, modelOf())).toEqual([[5, 6]]);
    expect(promptsOf("completions", { prompt: [[5], [6, 7]] }, modelOf())).toEqual([[5], [6, 7]]);
  });

  it("have tools as vLLM writes them: null where a member is absent, its own members first", () => {
    const tools = [{ function: { strict: true, name: "f" }, type: "function" }];
    expect(texts("chat", { messages: [user("x")], tools })[0]).toContain(
      '{"type": "function", "function": {"name": "f", "description": null, "parameters": null, "strict": true}}',
    );
  });

  it("have arguments of tool calls as objects, and {} for what is no JSON", () => {
    const call = (given: unknown) => ({ id: "1", type: "function", function: { name: "f", arguments: given } });
    const messages = [{ role: "assistant", content: null, tool_calls: ['{"a":1}', "oops", null, { b: 2 }].map(call) }];
    expect(texts("chat", { messages })[0]).toContain(
      ['{"a": 1}', "{}", "{}", '{"b": 2}'].map((args) => `<tool_call>f ${args}</tool_call>`).join(""),
    );
  });

  it("have thinking, no matter by which name, and the variables of the request", () => {
    for (const name of ["reasoning", "reasoning_content"])
      expect(texts("chat", { messages: [{ role: "assistant", content: "a", [name]: "hm" }] })[0]).toContain(
        "<think>\nhm\n</think>\na",
      );
    expect(texts("chat", { messages: [user("x")], chat_template_kwargs: { enable_thinking: false } })[0]).toMatch(
      /assistant\n<think>\n\n<\/think>\n$/,
    );
    const model = modelOf(SMALL_CONFIG, smallTokenizer(), { kwargs: { enable_thinking: false } });
    expect(texts("chat", { messages: [user("x")] }, model)[0]).toContain("</think>");
  });

  it("end where the request wants its last message continued", () => {
    const messages = [user("x"), { role: "assistant", content: "Once upon" }];
    const body = { messages, continue_final_message: true, add_generation_prompt: false };
    expect(texts("chat", body)[0]).toMatch(/<\|im_start\|>assistant\nOnce upon$/);
  });

  it("have a placeholder for each image in its place", () => {
    const image = { type: "image_url", image_url: { url: "https://a/1.png" } };
    const messages = [user([{ type: "text", text: "a" }, image, image, { type: "text", text: "b" }])];
    expect(texts("chat", { messages })[0]).toContain("user\na<|image|><|image|>b<|im_end|>");
  });

  it("mean the chat that vLLM makes of Anthropic's messages", () => {
    const [text] = texts("messages", {
      system: [
        { type: "text", text: "x-anthropic-billing-header: 1" },
        { type: "text", text: "Be " },
        { type: "text", text: "kind." },
      ],
      tools: [{ name: "f", input_schema: { properties: {} } }],
      messages: [
        user("hi"),
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm" },
            { type: "text", text: "ok" },
            { type: "tool_use", id: "t1", name: "f", input: { a: "é" } },
          ],
        },
        user([
          { type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "42" }] },
          { type: "text", text: "and?" },
        ]),
      ],
    });
    expect(text).toBe(
      "<|im_start|>system\n# Tools\n" +
        '{"type": "function", "function": {"name": "f", "description": null, "parameters": {"properties": {}, "type": "object"}}}\n' +
        "<|im_end|>\n<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n" +
        '<|im_start|>assistant\n<think>\nhm\n</think>\nok<tool_call>f {"a": "é"}</tool_call><|im_end|>\n' +
        "<|im_start|>tool\n42<|im_end|>\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n",
    );
  });

  it("of special tokens that a text spells are those tokens, as in engines", () => {
    expect(promptsOf("completions", { prompt: "<|im_end|>" }, modelOf())).toHaveLength(1);
    expect(promptsOf("completions", { prompt: "<|im_end|>" }, modelOf())[0]).toHaveLength(1);
  });

  it("begin with the first token of a text where the tokenizer says so", () => {
    const specials = { bos_token: "<|end|>", tokenizer_class: "LlamaTokenizerFast" };
    const model = modelOf({ ...SMALL_CONFIG, ...specials });
    expect(texts("completions", { prompt: "a" }, model)).toEqual(["<|end|>a"]);
    expect(texts("completions", { prompt: "a", add_special_tokens: false }, model)).toEqual(["a"]);
    expect(texts("chat", { messages: [user("x")] }, model)[0]).not.toContain("<|end|>");
    const never = modelOf({ ...SMALL_CONFIG, ...specials, add_bos_token: false });
    expect(texts("completions", { prompt: "a" }, never)).toEqual(["a"]);
  });

  it("of a model with templates by name come from the right one", () => {
    const config = {
      chat_template: [
        { name: "default", template: "D{{ messages[0].content }}" },
        { name: "tool_use", template: "T{{ messages[0].content }}" },
      ],
    };
    const model = modelOf(config as unknown as Json);
    expect(texts("chat", { messages: [user("x")] }, model)).toEqual(["Dx"]);
    expect(texts("chat", { messages: [user("x")], tools: [{ function: { name: "f" } }] }, model)).toEqual(["Tx"]);
  });

  it.each<[TokenizedApi, object, RegExp]>([
    ["chat", {}, /messages are not a list/],
    ["chat", { messages: [{ content: "x" }] }, /a message has no role/],
    ["chat", { messages: [user([{ type: "spell" }])] }, /cannot tokenize the type of a message part/],
    ["chat", { messages: [user("x")], chat_template: "{{ x }}" }, /its own chat template/],
    ["chat", { messages: [user("x")], truncate_prompt_tokens: 5 }, /truncate the prompt/],
    ["chat", { messages: [user("x")], tools: [1] }, /a tool has no function/],
    ["completions", { prompt: {} }, /neither a text nor a list/],
    ["completions", { prompt: [1.5] }, /neither a text nor a list of tokens/],
    ["completions", { prompt: [-1] }, /list of tokens/],
    ["messages", { messages: [{ role: "assistant", content: [{ type: "tool_use", name: "f" }] }] }, /no id/],
  ])("are refused for %s %j", (api, body, message) => {
    expect(() => promptsOf(api, body, modelOf())).toThrow(message);
  });

  it("are refused without a template, and where a template raises; what it says of the messages stays here", () => {
    expect(() => texts("chat", { messages: [] }, modelOf({}))).toThrow("the model has no chat template");
    const raising = modelOf({ chat_template: "{{ raise_exception('no: ' + messages[0].content) }}" });
    expect(() => texts("chat", { messages: [user("secret")] }, raising)).toThrow(
      /^the chat template refuses the messages$/,
    );
    const roles = "Conversation roles must alternate user/assistant/user/assistant/...";
    const known = modelOf({ chat_template: `{{ raise_exception('${roles}') }}` });
    expect(() => texts("chat", { messages: [user("x")] }, known)).toThrow(`refuses the messages: ${roles}`);
  });

  it("are refused when they take too long; pieces that are remembered take no time", () => {
    const model = modelOf();
    const prompt = Array.from({ length: 2000 }, (_, n) => `word${n} `).join("");
    expect(texts("completions", { prompt }, model)).toEqual([prompt]);
    model.isLate = () => true;
    expect(texts("completions", { prompt }, model)).toEqual([prompt]);
    expect(() => texts("completions", { prompt: `other ${prompt}` }, model)).toThrow("its tokenization takes too long");
  });

  it("are refused for an image where the template takes texts only", () => {
    const model = modelOf({ chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}" });
    expect(texts("chat", { messages: [user([{ type: "text", text: "a" }, "b"])] }, model)).toEqual(["a\nb"]);
    expect(() => texts("chat", { messages: [user([{ type: "image_url" }])] }, model)).toThrow(
      /does not support images/,
    );
  });
});
