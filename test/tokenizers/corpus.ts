import { SeededRandom } from "../../src/base/clock/random.ts";
import type { TokenizedApi } from "../../src/picker/tokenizers/request-prompts.ts";

type Json = Readonly<Record<string, unknown>>;

/** A request, and the chat that vLLM makes of it before it renders: written by hand, as the one expectation that no library has. */
export interface ChatCase {
  readonly name: string;
  readonly api: TokenizedApi;
  readonly body: Json;
  readonly messages: readonly Json[];
  readonly tools?: readonly Json[];
  readonly kwargs?: Json;
}

const user = (content: unknown): Json => ({ role: "user", content });
const assistant = (content: unknown, more: Json = {}): Json => ({ role: "assistant", content, ...more });
const system: Json = { role: "system", content: "You are brief.\nAnswer in French." };
const weather = {
  name: "get_weather",
  description: "Weather in a place – °C",
  parameters: {
    type: "object",
    properties: { city: { type: "string", enum: ["Zürich", "東京"] } },
    required: ["city"],
  },
};
const tools = [{ type: "function", function: weather }];
const call = (args: unknown): Json => ({
  id: "call_1",
  type: "function",
  function: { name: "get_weather", arguments: args },
});
const image = { type: "image_url", image_url: { url: "https://example.com/1.png" } };
const thinking = { reasoning: "The user\nwants a joke.", reasoning_content: "The user\nwants a joke." };

export const CHATS: readonly ChatCase[] = [
  { name: "one message", api: "chat", body: { messages: [user("Hello!")] }, messages: [user("Hello!")] },
  {
    name: "turns with a system text",
    api: "chat",
    body: { messages: [system, user("1 + 1?"), assistant("2"), user("  sure?  ")] },
    messages: [system, user("1 + 1?"), assistant("2"), user("  sure?  ")],
  },
  {
    name: "parts of text",
    api: "chat",
    body: {
      messages: [
        user([
          { type: "text", text: "one" },
          { type: "text", text: "two" },
        ]),
      ],
    },
    messages: [
      user([
        { type: "text", text: "one" },
        { type: "text", text: "two" },
      ]),
    ],
  },
  {
    name: "tools, a call and its result",
    api: "chat",
    body: {
      tools,
      messages: [
        user("Weather in Zürich?"),
        assistant(null, { tool_calls: [call('{"city": "Zürich", "days": [1, 2.5, true, null]}')] }),
        { role: "tool", tool_call_id: "call_1", content: [{ type: "text", text: '{"t": -3}' }] },
      ],
    },
    tools,
    messages: [
      user("Weather in Zürich?"),
      assistant(null, { tool_calls: [call({ city: "Zürich", days: [1, 2.5, true, null] })] }),
      { role: "tool", tool_call_id: "call_1", content: '{"t": -3}' },
    ],
  },
  {
    name: "a tool without a description",
    api: "chat",
    body: { tools: [{ type: "function", function: { name: "f" } }], messages: [user("x")] },
    tools: [{ type: "function", function: { name: "f", description: null, parameters: null } }],
    messages: [user("x")],
  },
  {
    name: "thinking",
    api: "chat",
    body: { messages: [user("A joke"), assistant("Knock, knock.", { reasoning: thinking.reasoning })] },
    messages: [user("A joke"), assistant("Knock, knock.", thinking)],
  },
  {
    name: "thinking in the text, and turned off",
    api: "chat",
    body: {
      messages: [user("A joke"), assistant("<think>\nhm\n</think>\n\nKnock."), user("Another")],
      chat_template_kwargs: { enable_thinking: false },
    },
    messages: [user("A joke"), assistant("<think>\nhm\n</think>\n\nKnock."), user("Another")],
    kwargs: { enable_thinking: false },
  },
  {
    name: "special tokens in a text",
    api: "chat",
    body: { messages: [user("<|im_end|><|eot_id|><eos><end_of_turn> <think> [multimodal]")] },
    messages: [user("<|im_end|><|eot_id|><eos><end_of_turn> <think> [multimodal]")],
  },
  {
    name: "letters of many alphabets",
    api: "chat",
    body: { messages: [user("Größe e\u0301 日本語 한국어 العربية हिन्दी 👩‍👩‍👧 \u00a0\u2003\u3000 \ufeff 𝕏")] },
    messages: [user("Größe e\u0301 日本語 한국어 العربية हिन्दी 👩‍👩‍👧 \u00a0\u2003\u3000 \ufeff 𝕏")],
  },
  {
    name: "several images",
    api: "chat",
    body: { messages: [user([{ type: "text", text: "Compare" }, image, image, { type: "text", text: "please" }])] },
    messages: [
      user([{ type: "text", text: "Compare" }, { type: "image" }, { type: "image" }, { type: "text", text: "please" }]),
    ],
  },
  {
    name: "no generation prompt",
    api: "chat",
    body: { messages: [user("x"), assistant("y")], add_generation_prompt: false },
    messages: [user("x"), assistant("y")],
    kwargs: { add_generation_prompt: false },
  },
  {
    name: "roles that do not alternate",
    api: "chat",
    body: { messages: [user("x"), user("y")] },
    messages: [user("x"), user("y")],
  },
  {
    name: "Anthropic's messages with thinking, a tool and its result",
    api: "messages",
    body: {
      max_tokens: 100,
      system: [
        { type: "text", text: "You are " },
        { type: "text", text: "brief." },
      ],
      tools: [{ name: weather.name, description: weather.description, input_schema: weather.parameters }],
      messages: [
        user([{ type: "text", text: "Weather?" }]),
        assistant([
          { type: "thinking", thinking: thinking.reasoning, signature: "s" },
          { type: "text", text: "I look." },
          { type: "tool_use", id: "call_1", name: "get_weather", input: { city: "東京" } },
        ]),
        user([
          {
            type: "tool_result",
            tool_use_id: "call_1",
            content: [
              { type: "text", text: "-3" },
              { type: "text", text: "snow" },
            ],
          },
          { type: "text", text: "So?" },
        ]),
      ],
    },
    tools,
    messages: [
      { role: "system", content: "You are brief." },
      user("Weather?"),
      assistant("I look.", { ...thinking, tool_calls: [call({ city: "東京" })] }),
      { role: "tool", tool_call_id: "call_1", content: "-3\nsnow" },
      user("So?"),
    ],
  },
];

const PIECES: readonly string[] = [
  ..."a|Z|foo|The|don't|I'LL|'s|_|0|19|2024|3.14|,|.|...|—|“|”|(|)|{|}|//|é|e\u0301|ñ|ß|İ|日|語|한|ع|न|ि|ไ|🙂|👩‍👩‍👧|ﬁ|²|½|Ⅷ|１|٣".split(
    "|",
  ),
  ...[
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\u00a0",
    "\u0085",
    "\u2003",
    "\u2028",
    "\u3000",
    "\u200b",
    "\ufeff",
    "|",
  ],
  ...[
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<bos>",
    "<think>",
    "<｜User｜>",
    "<0x0A>",
    "▁",
    "Ġ",
    "\u0000",
    "\u007f",
    "\ufffd",
  ],
];

/** Texts of completions: pieces by chance, long runs, and text of the repository. */
export function texts(count: number): string[] {
  const random = new SeededRandom(7);
  const made = Array.from({ length: count }, () =>
    Array.from({ length: 1 + random.below(40) }, () => PIECES[random.below(PIECES.length)]!).join(""),
  );
  return [...made, "a".repeat(400), "ab ".repeat(900), "\n".repeat(60), `${" ".repeat(90)}x`, "=".repeat(300), ""];
}
