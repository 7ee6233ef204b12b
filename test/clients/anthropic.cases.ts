import { expect } from "vitest";
import { seenBy } from "../support/stack.ts";
import type { Call } from "./calls.ts";
import { answered, type Case, commonCases, streamed, UTF8 } from "./cases.ts";
import { ALIAS } from "./world.ts";

const TOOL = {
  name: "tide",
  input_schema: { type: "object", properties: { harbour: { type: "string" }, hour: { type: "integer" } } },
};
const INPUT = { harbour: "harbour", hour: 1 };

const say = (text: string) => ({ max_tokens: 64, messages: [{ role: "user", content: text }] });
const ask = (params: Record<string, unknown>, more: Partial<Call> = {}): Call => ({
  ...{ library: "anthropic", method: "messages.create", ...more },
  params: { model: "sim", ...say("hello"), ...params },
});

export const ANTHROPIC_CASES: readonly Case[] = [
  ...commonCases("anthropic", "messages.create", say),
  {
    name: "the shape of an error of the gateway",
    call: ask({ model: "nobody" }),
    check({ error }) {
      expect(error?.type).toBe("not_found_error");
      expect(error?.body).toMatchObject({
        type: "error",
        error: { type: "not_found_error" },
        request_id: error?.requestId,
      });
    },
  },
  {
    name: "a message with usage, by an alias; the server sees the version of the API",
    call: ask({ model: ALIAS, system: "be brief" }),
    async check(outcome, world, id) {
      const { model, content, usage } = answered(outcome);
      expect(model).toBe(ALIAS);
      expect(content[0].text).not.toBe("");
      expect(usage.output_tokens).toBeGreaterThan(0);
      const [seen] = await seenBy(world.sims, id);
      expect(seen?.headers["anthropic-version"]).toMatch(/^\d{4}-/);
    },
  },
  {
    name: "a stream of a message, by an alias",
    call: ask({ model: ALIAS, stream: true }),
    check(outcome) {
      const events = streamed(outcome);
      const types = events.map(({ type }) => type);
      expect(types.slice(0, 3)).toEqual(["message_start", "content_block_start", "content_block_delta"]);
      expect(types.slice(-3)).toEqual(["content_block_stop", "message_delta", "message_stop"]);
      expect(events[0].message.model).toBe(ALIAS);
      expect(events.at(-2).usage.output_tokens).toBe(types.filter((type) => type === "content_block_delta").length);
    },
  },
  {
    name: "long text outside ASCII, there and back in a stream that the client's helper collects",
    call: ask({ model: "echo", ...say(UTF8.repeat(100)) }, { method: "messages.stream", helper: true }),
    check: (outcome) => expect(answered(outcome).content[0].text).toBe(UTF8.repeat(100)),
  },
  {
    name: "a call of a tool",
    call: ask({ tools: [TOOL], tool_choice: { type: "any" } }),
    check(outcome) {
      const { content, stop_reason } = answered(outcome);
      expect(stop_reason).toBe("tool_use");
      expect(content[0]).toMatchObject({ type: "tool_use", name: "tide", input: INPUT });
    },
  },
  {
    name: "a call of a named tool in a stream, which the client's helper collects",
    call: ask(
      { tools: [TOOL], tool_choice: { type: "tool", name: "tide" } },
      { method: "messages.stream", helper: true },
    ),
    check: (outcome) => expect(answered(outcome).content[0]).toMatchObject({ type: "tool_use", input: INPUT }),
  },
  {
    name: "the result of a tool",
    call: ask({
      messages: [
        ...say("when is high tide?").messages,
        { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "tide", input: INPUT }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "at noon" }] },
      ],
      tools: [TOOL],
    }),
    check: (outcome) => expect(answered(outcome).content[0].text).not.toBe(""),
  },
  {
    name: "the count of tokens",
    call: {
      ...{ library: "anthropic", method: "messages.count_tokens" },
      params: { model: "sim", messages: say("one two three").messages },
    },
    check: (outcome) => expect(answered(outcome).input_tokens).toBeGreaterThan(3),
  },
  {
    name: "a message of the beta API, whose path has a query",
    call: ask({ betas: ["none-2026-01-01"] }, { method: "beta.messages.create" }),
    check: (outcome) => expect(answered(outcome).content[0].text).not.toBe(""),
  },
  {
    name: "the list of models",
    call: { library: "anthropic", method: "models.list", list: true, params: { limit: 2 } },
    check: (outcome) =>
      expect(answered(outcome).map(({ id, type }: Record<string, string>) => [type, id])).toEqual(
        ["busy", "echo", ALIAS, "gone", "sim", "tuned"].map((id) => ["model", id]),
      ),
  },
  {
    name: "one model",
    call: { library: "anthropic", method: "models.retrieve", args: ["tuned"] },
    check: (outcome) => expect(answered(outcome)).toMatchObject({ id: "tuned", type: "model", display_name: "tuned" }),
  },
];
