import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, it } from "vitest";
import { getJson } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { ANTHROPIC_CASES } from "./anthropic.cases.ts";
import type { Driver } from "./calls.ts";
import { NODE_DRIVER } from "./node-driver.ts";
import { OPENAI_CASES } from "./openai.cases.ts";
import { PythonDriver } from "./python-driver.ts";
import { startWorld, type World } from "./world.ts";

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
    const { data } = await getJson<{ data: { id: string }[] }>(`${url}/v1/models`);
    return ["sim", "tuned", "echo"].every((model) => data.some(({ id }) => id === model));
  });
});

afterAll(async () => {
  python?.close();
  await world?.close();
});

const driverOf = (language: (typeof LANGUAGES)[number]): Driver => (language === "Python" ? python : NODE_DRIVER);

describe.each(LANGUAGES)("the %s clients", (language) => {
  describe.each(CLIENTS)("of $library", ({ path, cases }) => {
    it.each(cases)("$name", async ({ call, check }) => {
      const id = randomUUID();
      const outcome = await driverOf(language).perform({
        ...{ apiKey: "secret", timeoutMs: 60_000, ...call },
        headers: { ...call.headers, "x-test-id": id },
        baseUrl: `${world.gateway.url}${path}`,
      });
      await check(outcome, world, id);
    });
  });
});
