import { expect } from "vitest";
import { poll } from "../support/poll.ts";
import { seenBy } from "../support/stack.ts";
import type { Call, Library, Outcome } from "./calls.ts";
import type { World } from "./world.ts";

/** One use of a client, and what its user must see. */
export interface Case {
  readonly name: string;
  readonly call: Call;
  /** @param id the value of `x-test-id`, which the call had */
  check(outcome: Outcome, world: World, id: string): void | Promise<void>;
}

/** A value, or the reason why there is none. */
export function answered({ value, error }: Outcome): NonNullable<Outcome["value"]> {
  expect(error).toBeUndefined();
  return value;
}

/** The events of a stream that ended well. */
export function streamed({ events, error }: Outcome): NonNullable<Outcome["events"]> {
  expect(error).toBeUndefined();
  return events!;
}

/** Letters of one to four bytes. */
export const UTF8 = "Grüße, 世界! 🌊🏴‍☠️ Здравствуй, дивный мир. ";

/** Repeated by a server, it is longer than the place where an answer stalls or breaks: other answers may be one token long. */
const LONGER = "one two three four five six seven eight";

/** The simulators saw that the client left: the slot of the request is free again. */
export async function aborted(world: World, id: string): Promise<void> {
  await poll("the abort of the request", async () => (await seenBy(world.sims, id)).some((request) => request.aborted));
}

/** The cases that are the same in both libraries, up to the names of methods and of members. */
export function commonCases(library: Library, method: string, ask: (text: string) => Record<string, unknown>): Case[] {
  const call = (model: string, more: Partial<Call> = {}, params = {}): Call => ({
    ...{ library, method, ...more },
    params: { model, ...ask("hello"), ...params },
  });
  const idHeader = library === "openai" ? "x-request-id" : "request-id";
  return [
    {
      name: "a request id of the gateway, by which its operator finds the request",
      call: call("sim"),
      async check(outcome, { gateway }) {
        answered(outcome);
        expect(outcome.requestId).toMatch(/^[0-9a-f-]{36}$/);
        const record = await fetch(`${gateway.adminUrl}/debug/decisions/${outcome.requestId}`);
        expect(record.status).toBe(200);
      },
    },
    {
      name: "401 for a key that the gateway does not know",
      call: call("sim", { key: "sk-of-somebody-else", retries: 2 }),
      check({ error }, { sims }, id) {
        expect(error).toMatchObject({ name: "AuthenticationError", status: 401 });
        expect(error?.message).toContain("key");
        expect(error?.message).not.toContain("somebody-else");
        if (library === "openai") expect(error).toMatchObject({ code: "invalid_api_key" });
        else expect(error?.body).toMatchObject({ error: { type: "authentication_error" } });
        return seenBy(sims, id).then((seen) => expect(seen).toEqual([]));
      },
    },
    {
      name: "404 for a model that the key may not use, without the names of others",
      call: call("echo", { key: "narrow" }),
      check({ error }) {
        expect(error).toMatchObject({ name: "NotFoundError", status: 404 });
        expect(error?.message).toContain("`sim`");
        expect(error?.message).not.toContain("tuned");
      },
    },
    {
      name: "a key that stays at the gateway",
      call: call("sim", { key: "narrow" }),
      async check(outcome, { sims, keys }, id) {
        answered(outcome);
        const [seen] = await seenBy(sims, id);
        expect(seen?.status).toBe(200);
        expect(JSON.stringify(seen)).not.toContain(keys.narrow);
      },
    },
    {
      name: "404 for a model that no server has, with the nearest name",
      call: call("sin"),
      check({ error }) {
        expect(error).toMatchObject({ name: "NotFoundError", status: 404 });
        expect(error?.message).toContain("did you mean `sim`?");
        expect(error?.requestId).toBe(error?.headers?.[idHeader]);
        expect(error?.requestId).toMatch(/^[0-9a-f-]{36}$/);
      },
    },
    {
      name: "403 for a path that the gateway does not pass",
      call: {
        library,
        ...(library === "openai" ? { method: "files.list" } : { method: "messages.batches.list", params: {} }),
      },
      check({ error }) {
        expect(error).toMatchObject({ name: "PermissionDeniedError", status: 403 });
        expect(error?.message).toContain(library === "openai" ? "/v1/files" : "/v1/messages/batches");
      },
    },
    {
      name: "503 for a model whose server is gone, with the time of the next try",
      call: call("gone"),
      check({ error }) {
        expect(error?.name).toMatch(/^(InternalServer|ServiceUnavailable)Error$/);
        expect(error).toMatchObject({ status: 503, headers: { "retry-after": "5" } });
      },
    },
    ...[429, 503].map((status) => ({
      name: `a retry by the client after ${status}, at the time that the server names`,
      call: call("busy", { retries: 2, headers: { "x-refusal": String(status) } }),
      check(outcome: Outcome, { busy }: World, id: string) {
        expect(JSON.stringify(answered(outcome))).toContain("at last");
        const counts = busy.get(id)?.map((headers) => headers["x-stainless-retry-count"]);
        expect(counts).toEqual(["0", "1"]);
      },
    })),
    {
      name: "429 without a retry, with the limits of the server",
      call: call("busy", { headers: { "x-refusal": "429" } }),
      check({ error }) {
        expect(error).toMatchObject({ name: "RateLimitError", status: 429 });
        expect(error?.message).toContain("too many at once");
        expect(error?.headers).toMatchObject({
          "x-ratelimit-limit-requests": "60",
          "x-ratelimit-remaining-requests": "0",
        });
      },
    },
    {
      name: "a server that is lost before its answer begins",
      call: call("sim", { headers: { "x-sim-drop-after-tokens": "0" } }),
      check({ error }) {
        expect(error?.name).toMatch(/^(InternalServer|ServiceUnavailable)Error$/);
        expect(error).toMatchObject({ status: 503, type: library === "openai" ? "upstream_error" : "api_error" });
        expect(error?.message).toMatch(/127\.0\.0\.1:\d+/);
      },
    },
    {
      name: "a server that is lost in the middle of a stream",
      call: call("echo", { headers: { "x-sim-drop-after-tokens": "3" } }, { ...ask(LONGER), stream: true }),
      check({ events, error }) {
        expect(events?.length).toBeGreaterThanOrEqual(3);
        expect(error?.message).toContain("the model server was lost in the middle of the answer");
        expect(error?.name).toMatch(/^API(Status)?Error$/);
        if (library === "openai") expect(error).toMatchObject({ type: "upstream_error" });
        else expect(error?.body).toMatchObject({ error: { type: "api_error" } });
      },
    },
    {
      name: "a client that leaves a stream",
      call: call(
        "echo",
        { stopAfter: 2, headers: { "x-sim-stall-after-tokens": "4" } },
        { ...ask(LONGER), stream: true },
      ),
      async check(outcome, world, id) {
        expect(streamed(outcome)).toHaveLength(2);
        await aborted(world, id);
      },
    },
    {
      name: "a client that has no more time",
      call: call("echo", { timeoutMs: 300, headers: { "x-sim-stall-after-tokens": "1" } }, ask(LONGER)),
      async check({ error }, world, id) {
        expect(error?.name).toMatch(/^API(Connection)?TimeoutError$/);
        await aborted(world, id);
      },
    },
    {
      name: "a body of five megabytes",
      call: call("sim", {}, ask("word ".repeat(1_000_000))),
      check(outcome) {
        const { usage } = answered(outcome);
        expect(usage.prompt_tokens ?? usage.input_tokens).toBeGreaterThanOrEqual(1_000_000);
      },
    },
    {
      name: "a body that is too long",
      call: call("sim", {}, ask("word ".repeat(7_000_000))),
      check({ error }) {
        expect(error).toMatchObject({ status: 413 });
        expect(error?.message).toContain("request body exceeds 33554432 bytes");
      },
    },
    {
      name: "a prompt that is too long for the model, in the words of the server",
      call: call("sim", {}, { max_tokens: 5_000_000 }),
      check({ error }) {
        expect(error).toMatchObject({ name: "BadRequestError", status: 400 });
        expect(error?.message).toContain("maximum context length is 4000000 tokens");
        expect(error?.requestId).toMatch(/^[0-9a-f-]{36}$/);
      },
    },
    {
      name: "a request without messages",
      call: call("sim", {}, { messages: [] }),
      check({ error }) {
        expect(error).toMatchObject({ name: "BadRequestError", status: 400 });
        expect(error?.message).toMatch(/message/);
      },
    },
  ];
}
