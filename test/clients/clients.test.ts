import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { poll } from "../support/poll.ts";
import { ANTHROPIC_CASES } from "./anthropic.cases.ts";
import type { Call, Driver } from "./calls.ts";
import { NODE_DRIVER } from "./node-driver.ts";
import { OPENAI_CASES } from "./openai.cases.ts";
import { PythonDriver } from "./python-driver.ts";
import { type KeyName, startWorld, type World } from "./world.ts";

// The official clients of OpenAI and Anthropic, of both languages, against the gateway in front of simulators.

const CLIENTS = [
  { library: "openai", path: "/v1", cases: OPENAI_CASES },
  { library: "anthropic", path: "", cases: ANTHROPIC_CASES },
] as const;
const LANGUAGES = ["TypeScript", "Python"] as const;

let world: World;
let python: PythonDriver;

beforeAll(async () => {
  python = new PythonDriver();
  world = await startWorld();
  const { url } = world.gateway;
  await poll("the models of every server", async () => {
    const answer = await fetch(`${url}/v1/models`, { headers: { "x-api-key": world.keys.team } });
    const { data } = (await answer.json()) as { data: readonly { id: string }[] };
    return ["sim", "tuned", "echo"].every((model) => data.some(({ id }) => id === model));
  });
});

afterAll(async () => {
  python?.close();
  await world?.close();
});

const keyOf = ({ key = "team" }: Call): string => (key in world.keys ? world.keys[key as KeyName] : key);

function ask(content: string) {
  return { messages: [{ role: "user", content }] };
}

const driverOf = (language: (typeof LANGUAGES)[number]): Driver => (language === "Python" ? python : NODE_DRIVER);

describe.each(LANGUAGES)("the %s clients", (language) => {
  describe.each(CLIENTS)("of $library", ({ path, cases }) => {
    it.each(cases)("$name", async ({ call, check }) => {
      const id = randomUUID();
      const outcome = await driverOf(language).perform({
        ...{ apiKey: keyOf(call), timeoutMs: 60_000, ...call },
        headers: { ...call.headers, "x-test-id": id },
        baseUrl: `${world.gateway.url}${path}`,
      });
      await check(outcome, world, id);
    });
  });
});

/** A stream of each API that states its usage in its last events, however long they are. */
const LONG = "word ".repeat(40_000);
const COUNTED: readonly Call[] = [
  {
    ...{ library: "openai", method: "chat.completions.create" },
    params: { model: "echo", stream: true, stream_options: { include_usage: true }, ...ask(LONG) },
  },
  { library: "openai", method: "responses.create", params: { model: "echo", stream: true, input: LONG } },
  { library: "openai", method: "responses.create", params: { model: "echo", input: LONG } },
  {
    library: "anthropic",
    method: "messages.create",
    params: { model: "echo", stream: true, max_tokens: 99, ...ask(LONG) },
  },
  { library: "anthropic", method: "messages.create", params: { model: "echo", max_tokens: 99, ...ask(LONG) } },
];

it.each(COUNTED)("the log of requests has the tokens of $method ($#)", async (call) => {
  const id = randomUUID();
  const { path } = CLIENTS.find(({ library }) => library === call.library)!;
  const place = { apiKey: keyOf(call), timeoutMs: 60_000, baseUrl: `${world.gateway.url}${path}` };
  const { error } = await NODE_DRIVER.perform({ ...call, ...place, headers: { "x-request-id": id } });
  expect(error).toBeUndefined();
  const line = await poll("the line of the request", () =>
    world.gateway.process.stdout.split("\n").find((text) => text.includes(id)),
  );
  expect(JSON.parse(line)).toMatchObject({ endCause: "complete", completionTokens: 40_000 });
  expect(JSON.parse(line).promptTokens).toBeGreaterThan(40_000);
});
