import { request as httpRequest, type IncomingMessage } from "node:http";
import { onTestFinished } from "vitest";
import type { VirtualClock } from "../../src/base/clock/virtual.ts";
import { parseSimOptions } from "../../src/lab/simulator/options.ts";
import type { RequestRecord } from "../../src/lab/simulator/request-log.ts";
import { type Simulator, startSimulator } from "../../src/lab/simulator/server.ts";
import { type Answer, ask } from "./client.ts";

/** Options of a simulator whose tokens take no time. */
export const INSTANT = { "prefill-overhead": 0, "prefill-time-per-token": 0, "inter-token-latency": 0 };

/** Starts a simulator in this process until the test ends. @param raw options besides `INSTANT` */
export async function start(raw: Record<string, unknown> = {}, clock?: VirtualClock): Promise<Simulator> {
  const options = parseSimOptions({ port: 0, host: "127.0.0.1", ...INSTANT, ...raw });
  const simulator = await startSimulator(options, clock ? { clock } : {});
  onTestFinished(() => simulator.close());
  return simulator;
}

export const post = (
  sim: Simulator,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> => ask(sim.url + path, { headers, body: typeof body === "string" ? body : JSON.stringify(body) });

export const CHAT = "/v1/chat/completions";
export const TEXT = "/v1/completions";
/** The body of a chat. @param more further members */
export const hello = (more: object = {}) => ({
  model: "sim",
  messages: [{ role: "user", content: "Hello there" }],
  ...more,
});

/** The requests that the simulator has logged. */
export async function records(sim: Simulator): Promise<RequestRecord[]> {
  return JSON.parse((await ask(`${sim.url}/admin/requests`)).text).requests;
}

/** Opens a stream and leaves it open; the answer's head is waited for only if `head` says so. */
export async function open(
  sim: Simulator,
  body: object,
  head = true,
): Promise<{ leave(): void; answer?: IncomingMessage }> {
  const request = httpRequest(sim.url + TEXT, { method: "POST", agent: false });
  request.on("error", () => {});
  request.end(JSON.stringify(body));
  const answer = head ? await new Promise<IncomingMessage>((resolve) => request.on("response", resolve)) : undefined;
  answer?.on("error", () => {});
  return { leave: () => request.destroy(), ...(answer ? { answer } : {}) };
}
