import { randomUUID } from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chat, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, type Sim, seenBy, startSims } from "../support/stack.ts";
import type { Call, Library, Outcome } from "./calls.ts";
import { NODE_DRIVER } from "./node-driver.ts";
import { PythonDriver } from "./python-driver.ts";
import { addKey } from "./world.ts";

// The limits of the gateway as the official clients meet them. Each client has a key, and so counters, of its own.

const RULES = `rules:
- { key: "*", inFlight: 1, tokensPerMinute: 5000 }
- { key: "*", model: tuned, requestsPerMinute: 1 }
`;
const LIBRARIES = ["openai", "anthropic"] as const;
const LANGUAGES = ["TypeScript", "Python"] as const;
const METHODS = { openai: "chat.completions.create", anthropic: "messages.create" } as const;

let sims: Sim[];
let gateway: TestGateway;
let python: PythonDriver;
const keys = new Map<string, string>();

beforeAll(async () => {
  python = new PythonDriver();
  sims = await startSims(1, ["--lora-modules", '{"name":"tuned","path":"/adapter"}']);
  const folder = mkdtempSync(join(tmpdir(), "sluice-client-limits-"));
  const [keysFile, limits] = [join(folder, "keys.yaml"), join(folder, "limits.yaml")];
  writeFileSync(limits, RULES);
  for (const language of LANGUAGES)
    for (const library of LIBRARIES)
      keys.set(`${language} ${library}`, await addKey(keysFile, `${language}-${library}`));
  const endpoints = endpointsFile([sims[0]!.port], ", models: [sim, tuned]");
  gateway = await startGateway(endpoints, ["--keys", keysFile, "--limits", limits, "--request-log", "all"]);
});

afterAll(async () => {
  python?.close();
  await Promise.all([gateway?.process, ...(sims ?? []).map(({ process }) => process)].map((one) => one?.stop()));
});

/** The lines of the log about requests with this id. */
function logged(id: string): { readonly status: number; readonly reason?: string }[] {
  const lines = gateway.process.stdout.split("\n").filter((line) => line.includes(id) && line.endsWith("}"));
  return lines.map((line) => JSON.parse(line));
}

describe.each(LANGUAGES)("limits of the gateway and the %s client", (language) => {
  describe.each(LIBRARIES)("of %s", (library: Library) => {
    const key = (): string => keys.get(`${language} ${library}`)!;
    const call = (id: string, text: string, model: string, retries: number): Promise<Outcome> => {
      const messages = [{ role: "user", content: text }];
      const made: Call = { library, method: METHODS[library], params: { model, max_tokens: 5, messages }, retries };
      return (language === "Python" ? python : NODE_DRIVER).perform({
        ...{ ...made, apiKey: key(), timeoutMs: 60_000, headers: { "x-request-id": id, "x-test-id": id } },
        baseUrl: `${gateway.url}${library === "openai" ? "/v1" : ""}`,
      });
    };

    it("429 has the class, the limits and the time of the next try", async () => {
      expect((await call(randomUUID(), "hello", "tuned", 0)).error).toBeUndefined();
      const { error } = await call(randomUUID(), "hello", "tuned", 0);
      expect(error).toMatchObject({ name: "RateLimitError", status: 429 });
      if (library === "openai") expect(error).toMatchObject({ type: "requests", code: "rate_limit_exceeded" });
      else expect(error?.body).toMatchObject({ error: { type: "rate_limit_error" } });
      expect(error?.headers).toMatchObject({
        "x-ratelimit-limit-requests": "1",
        "x-ratelimit-remaining-requests": "0",
      });
      expect(Number(error?.headers?.["retry-after"])).toBeGreaterThan(0);
    });

    it("a prompt above the whole limit is a 400, which the client does not repeat", async () => {
      const id = randomUUID();
      const { error } = await call(id, "word ".repeat(8000), "sim", 2);
      expect(error).toMatchObject({ name: "BadRequestError", status: 400 });
      if (library === "openai") expect(error).toMatchObject({ code: "request_over_token_limit" });
      // The line of a later request is behind those of this one.
      const later = randomUUID();
      await call(later, "hello", "sim", 0);
      await poll("the line of the later request", () => logged(later).length > 0);
      expect(logged(id).map(({ reason }) => reason)).toEqual(["over_token_limit"]);
    });

    it("the client repeats a refused request on its own, until there is room", async () => {
      const stop = new AbortController();
      const held = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { ...JSON_HEADERS, authorization: `Bearer ${key()}`, "x-sim-stall-after-tokens": "1" },
        body: chat("hold", { stream: true }),
        signal: stop.signal,
      });
      expect(held.status).toBe(200);
      const id = randomUUID();
      const outcome = call(id, "hello", "sim", 8);
      await poll("a refusal", () => logged(id).some(({ reason }) => reason === "rate_limited_in_flight"));
      expect(await seenBy(sims, id)).toEqual([]);
      stop.abort();
      expect((await outcome).error).toBeUndefined();
      const [seen] = await seenBy(sims, id);
      expect(Number(seen?.headers["x-stainless-retry-count"])).toBeGreaterThan(0);
    });
  });
});
