import { expect } from "vitest";
import type { Call } from "./calls.ts";
import { answered, type Case, commonCases, streamed, UTF8 } from "./cases.ts";
import { ALIAS } from "./world.ts";

const TOOL = {
  type: "function",
  function: {
    name: "tide",
    parameters: { type: "object", properties: { harbour: { type: "string" }, hour: { type: "integer" } } },
  },
} as const;
const FLAT_TOOL = { type: "function", ...TOOL.function, strict: false };
const ARGUMENTS = { harbour: "harbour", hour: 1 };

const say = (text: string) => ({ messages: [{ role: "user", content: text }] });
const call = (method: string, params: Record<string, unknown>, more: Partial<Call> = {}): Call => ({
  ...{ library: "openai", method, ...more },
  params: { model: "sim", ...params },
});
const chat = (params: Record<string, unknown>, more?: Partial<Call>) =>
  call("chat.completions.create", { ...say("hello"), ...params }, more);
const respond = (params: Record<string, unknown>, more?: Partial<Call>) =>
  call("responses.create", { input: "hello", ...params }, more);

export const OPENAI_CASES: readonly Case[] = [
  ...commonCases("openai", "chat.completions.create", say),
  {
    name: "the code of a model that does not exist",
    call: chat({ model: "nobody" }),
    check({ error }) {
      expect(error).toMatchObject({ code: "model_not_found", type: "invalid_request_error", param: null });
    },
  },
  {
    name: "a chat with usage, by an alias",
    call: chat({ model: ALIAS, max_tokens: 20 }),
    check(outcome) {
      const { model, choices, usage } = answered(outcome);
      expect(model).toBe(ALIAS);
      expect(choices[0].message.content).not.toBe("");
      expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens);
    },
  },
  {
    name: "a stream of a chat with usage at its end, by an alias",
    call: chat({ model: ALIAS, max_tokens: 20, stream: true, stream_options: { include_usage: true } }),
    check(outcome) {
      const events = streamed(outcome);
      expect(new Set(events.map(({ model }) => model))).toEqual(new Set([ALIAS]));
      expect(events.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: expect.any(Number) } });
      const reasons = events.flatMap(({ choices }) =>
        choices.map((choice: Record<string, unknown>) => choice["finish_reason"]),
      );
      expect(reasons.at(-1)).toMatch(/^(stop|length)$/);
    },
  },
  {
    name: "long text outside ASCII, there and back",
    call: chat({ model: "echo", ...say(UTF8.repeat(100)) }),
    check: (outcome) => expect(answered(outcome).choices[0].message.content).toBe(UTF8.repeat(100)),
  },
  {
    name: "long text outside ASCII, there and back in a stream",
    call: chat({ model: "echo", ...say(UTF8.repeat(100)), stream: true }),
    check(outcome) {
      const pieces = streamed(outcome).map(({ choices }) => choices[0]?.delta.content ?? "");
      expect(pieces.join("")).toBe(UTF8.repeat(100));
    },
  },
  {
    name: "a call of a tool",
    call: chat({ tools: [TOOL], tool_choice: "required" }),
    check(outcome) {
      const [{ message, finish_reason }] = answered(outcome).choices;
      expect(finish_reason).toBe("tool_calls");
      expect(message.tool_calls[0].function.name).toBe("tide");
      expect(JSON.parse(message.tool_calls[0].function.arguments)).toEqual(ARGUMENTS);
    },
  },
  {
    name: "a call of a named tool in a stream, which the client's helper collects",
    call: chat(
      { tools: [TOOL], tool_choice: { type: "function", function: { name: "tide" } } },
      { method: "chat.completions.stream", helper: true },
    ),
    check(outcome) {
      const [{ message }] = answered(outcome).choices;
      expect(JSON.parse(message.tool_calls[0].function.arguments)).toEqual(ARGUMENTS);
    },
  },
  {
    name: "the result of a tool",
    call: chat({
      messages: [
        ...say("when is high tide?").messages,
        {
          role: "assistant",
          tool_calls: [{ id: "t1", type: "function", function: { name: "tide", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "t1", content: "at noon" },
      ],
      tools: [TOOL],
    }),
    check: (outcome) => expect(answered(outcome).choices[0].message.content).not.toBe(""),
  },
  {
    name: "a completion of the older API, and its stream",
    call: call("completions.create", { prompt: "once upon a time", max_tokens: 10, stream: true }),
    check: (outcome) =>
      expect(
        streamed(outcome)
          .map(({ choices }) => choices[0].text)
          .join(""),
      ).not.toBe(""),
  },
  {
    name: "embeddings, which the client asks for and decodes as base64",
    call: call("embeddings.create", { input: ["one", "two", "one"], dimensions: 8 }),
    check(outcome) {
      const { data, usage } = answered(outcome);
      expect(data.map(({ embedding }: { embedding: number[] }) => embedding.length)).toEqual([8, 8, 8]);
      expect(data[0].embedding).toEqual(data[2].embedding);
      expect(data[0].embedding).not.toEqual(data[1].embedding);
      expect(usage.prompt_tokens).toBe(3);
    },
  },
  {
    name: "a response of the Responses API, by an alias",
    call: respond({ model: ALIAS, instructions: "be brief" }),
    check(outcome) {
      const { model, status, output, usage } = answered(outcome);
      expect([model, status, output[0].type]).toEqual([ALIAS, "completed", "message"]);
      expect(output[0].content[0].text).not.toBe("");
      expect(usage.total_tokens).toBe(usage.input_tokens + usage.output_tokens);
    },
  },
  {
    name: "a stream of the Responses API, by an alias",
    call: respond({ model: ALIAS, stream: true }),
    check(outcome) {
      const events = streamed(outcome);
      const types = events.map(({ type }) => type);
      expect(types.slice(0, 3)).toEqual(["response.created", "response.in_progress", "response.output_item.added"]);
      expect(types.at(-1)).toBe("response.completed");
      expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i));
      expect(events[0].response.model).toBe(ALIAS);
      const text = events.filter(({ type }) => type === "response.output_text.delta").map(({ delta }) => delta);
      expect(events.at(-1).response).toMatchObject({ model: ALIAS, output: [{ content: [{ text: text.join("") }] }] });
    },
  },
  {
    name: "a call of a tool in a stream of the Responses API, which the client's helper collects",
    call: respond({ tools: [FLAT_TOOL], tool_choice: "required" }, { method: "responses.stream", helper: true }),
    check(outcome) {
      const [item] = answered(outcome).output;
      expect(item).toMatchObject({ type: "function_call", name: "tide", status: "completed" });
      expect(JSON.parse(item.arguments)).toEqual(ARGUMENTS);
    },
  },
  {
    name: "a server that is lost in the middle of a stream of the Responses API",
    call: respond({ stream: true }, { headers: { "x-sim-drop-after-tokens": "3" } }),
    check({ error }) {
      expect(error?.message).toContain("the model server was lost in the middle of the answer");
    },
  },
  {
    name: "the list of models",
    call: { library: "openai", method: "models.list", list: true },
    check: (outcome) =>
      expect(answered(outcome).map(({ id }: { id: string }) => id)).toEqual([
        "busy",
        "echo",
        ALIAS,
        "gone",
        "sim",
        "tuned",
      ]),
  },
  {
    name: "one model",
    call: { library: "openai", method: "models.retrieve", args: ["tuned"] },
    check: (outcome) => expect(answered(outcome)).toMatchObject({ id: "tuned", object: "model", owned_by: "vllm" }),
  },
  {
    name: "a model that is not in the list",
    call: { library: "openai", method: "models.retrieve", args: ["nobody"] },
    check: ({ error }) => expect(error).toMatchObject({ name: "NotFoundError", code: "model_not_found" }),
  },
];
