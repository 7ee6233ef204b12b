import { randomUUID } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClientAuthority, clientAuthority } from "../support/certificates.ts";
import { getJson } from "../support/client.ts";
import { type ShownEndpoint, startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { type Sim, seenBy, startSims } from "../support/stack.ts";
import type { Call, Driver, Library, Outcome } from "./calls.ts";
import { answered, streamed } from "./cases.ts";
import { http2Driver, NODE_DRIVER } from "./node-driver.ts";
import { PythonDriver } from "./python-driver.ts";
import { addKey } from "./world.ts";

// The official clients over TLS, with an authority that only they know. The client of npm speaks HTTP/2 through undici. Those of
// PyPI speak HTTP/1.1: their HTTP/2 needs the package h2, which they do not install.

const LIBRARIES: readonly Library[] = ["openai", "anthropic"];
const METHODS = { openai: "chat.completions.create", anthropic: "messages.create" } as const;
const CLIENTS = ["TypeScript over HTTP/2", "Python", "async Python"] as const;
const WORDS = "one two three four five six seven eight";
/** Requests at the same time. */
const CROWD = 20;

let authority: ClientAuthority;
let sims: Sim[];
let crowd: Crowd;
let gateway: TestGateway;
let key: string;
let node: Driver;
let python: PythonDriver;
/** The protocols of the connections that undici has opened to the gateway. */
const protocols: (string | false | null)[] = [];

function connected(message: unknown): void {
  const { connectParams, socket } = message as { connectParams: { port: string }; socket: TLSSocket };
  if (connectParams.port === String(gateway.port)) protocols.push(socket.alpnProtocol);
}

beforeAll(async () => {
  authority = await clientAuthority();
  // It repeats the prompt: so an answer is longer than the place where it stalls.
  sims = await startSims(1, ["--mode", "echo"]);
  crowd = await Crowd.start();
  const folder = mkdtempSync(join(tmpdir(), "sluice-clients-tls-"));
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const keys = join(folder, "keys.yaml");
  key = await addKey(keys, "team");
  const entries = [
    `{ name: sim, address: 127.0.0.1, port: ${sims[0]!.port}, models: [sim] }`,
    `{ name: crowd, address: 127.0.0.1, port: ${crowd.port}, models: [crowd] }`,
  ];
  const endpoints = file("endpoints.yaml", `endpoints:\n${entries.map((entry) => `- ${entry}\n`).join("")}`);
  const pair = [
    "--tls-cert",
    file("tls.crt", authority.server.cert),
    "--tls-key",
    file("tls.key", authority.server.key),
  ];
  gateway = await startGateway(endpoints, ["--keys", keys, "--request-log", "all", ...pair]);
  node = http2Driver(authority.ca);
  python = new PythonDriver("concurrent_driver.py", file("ca.crt", authority.ca));
  subscribe("undici:client:connected", connected);
});

afterAll(async () => {
  unsubscribe("undici:client:connected", connected);
  node?.close();
  python?.close();
  await crowd?.stop();
  await Promise.all([gateway?.process, ...(sims ?? []).map(({ process }) => process)].map((one) => one?.stop()));
});

function call(library: Library, text: string, more: Partial<Call> = {}, params: object = {}): Call {
  const messages = [{ role: "user", content: text }];
  return { library, method: METHODS[library], params: { model: "sim", max_tokens: 64, messages, ...params }, ...more };
}

function perform(driver: Driver, id: string, made: Call): Promise<Outcome> {
  const baseUrl = `https://localhost:${gateway.port}${made.library === "openai" ? "/v1" : ""}`;
  const headers = { ...made.headers, "x-request-id": id, "x-test-id": id };
  return driver.perform({ ...made, apiKey: key, timeoutMs: 60_000, headers, baseUrl });
}

/** What the log of requests says of one request. */
async function logged(id: string): Promise<{ readonly endCause: string; readonly reason?: string }> {
  const line = await poll("the line of the request", () =>
    gateway.process.stdout.split("\n").find((text) => text.includes(id) && text.endsWith("}")),
  );
  return JSON.parse(line);
}

async function inFlight(): Promise<number> {
  const { endpoints } = await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway.adminUrl}/debug/endpoints`);
  return endpoints.reduce((sum, endpoint) => sum + endpoint.inFlight.requests, 0);
}

const textOf = (library: Library, { choices, content }: Outcome["value"]): string =>
  library === "openai" ? choices[0].message.content : content[0].text;

describe.each(CLIENTS)("over TLS, the client in %s", (name) => {
  describe.each(LIBRARIES)("of %s", (library) => {
    const client = (id: string, made: Call): Promise<Outcome> =>
      perform(name.endsWith("Python") ? python : node, id, { ...made, async: name === "async Python" });

    it("gets an answer", async () => {
      const id = randomUUID();
      const outcome = await client(id, call(library, WORDS));
      expect(textOf(library, answered(outcome))).not.toBe("");
      const [seen] = await seenBy(sims, id);
      expect(seen?.headers["x-forwarded-proto"]).toBe("https");
      expect((await logged(id)).endCause).toBe("complete");
    });

    it("gets a stream", async () => {
      const id = randomUUID();
      const outcome = await client(id, call(library, WORDS, {}, { stream: true }));
      expect(streamed(outcome).length).toBeGreaterThan(2);
      expect((await logged(id)).endCause).toBe("complete");
    });

    it("leaves in the middle of a stream: the gateway and the server end the request", async () => {
      const id = randomUUID();
      const leaving = { stopAfter: 2, headers: { "x-sim-stall-after-tokens": "4" } };
      const outcome = await client(id, call(library, WORDS, leaving, { stream: true }));
      expect(streamed(outcome).length).toBeGreaterThanOrEqual(2);
      expect(await logged(id)).toMatchObject({ endCause: "client-gone" });
      await poll("the place is free", async () => (await inFlight()) === 0);
      await poll("the server sees the abort", async () => (await seenBy(sims, id))[0]?.aborted);
      const next = await client(randomUUID(), call(library, WORDS));
      expect(textOf(library, answered(next))).not.toBe("");
    });

    it(`sends ${CROWD} requests at the same time, and each gets its answer`, async () => {
      const texts = Array.from({ length: CROWD }, () => randomUUID());
      const outcomes = Promise.all(texts.map((text) => client(text, call(library, text, {}, { model: "crowd" }))));
      await poll("all have come", () => crowd.size === CROWD);
      expect(await inFlight()).toBe(CROWD);
      crowd.answer();
      expect((await outcomes).map((outcome) => textOf(library, answered(outcome)))).toEqual(texts);
      await poll("the places are free", async () => (await inFlight()) === 0);
    });
  });
});

it("undici has spoken HTTP/2, and all of its requests went over one connection", () => {
  expect(protocols).toEqual(["h2"]);
});

it("without the authority, a client does not connect", async () => {
  const { error } = await perform(NODE_DRIVER, randomUUID(), call("openai", "hello"));
  expect(error?.name).toBe("APIConnectionError");
});

/** A model server that repeats each prompt, and holds the answers back until the test asks for them. */
class Crowd {
  readonly #server: Server;
  readonly #waiting: (() => void)[] = [];

  private constructor() {
    this.#server = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part);
      if (request.method !== "POST") response.writeHead(404).end();
      else {
        const { messages } = JSON.parse(Buffer.concat(parts).toString());
        this.#waiting.push(() => repeated(response, request.url === "/v1/messages", messages[0].content));
      }
    });
  }

  static async start(): Promise<Crowd> {
    const made = new Crowd();
    await new Promise<void>((resolve) => made.#server.listen(0, "127.0.0.1", resolve));
    return made;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Requests that wait for their answers. */
  get size(): number {
    return this.#waiting.length;
  }

  /** Answers all, the last one first. */
  answer(): void {
    for (const send of this.#waiting.splice(0).reverse()) send();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function repeated(response: ServerResponse, anthropic: boolean, text: string): void {
  const answer = anthropic
    ? { type: "message", role: "assistant", content: [{ type: "text", text }], stop_reason: "end_turn" }
    : { object: "chat.completion", choices: [{ index: 0, message: { role: "assistant", content: text } }] };
  response.setHeader("content-type", "application/json").end(JSON.stringify({ id: "c", model: "crowd", ...answer }));
}
