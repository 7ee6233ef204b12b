import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { type Answer, ask, chat, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { endpointsFile } from "../support/stack.ts";

/** A model server without metrics, so that nothing but the picker's turn decides. */
interface ModelServer {
  readonly port: number;
  readonly server: Server;
  /** Inference requests that arrived. */
  asked: number;
}

let gateway: TestGateway | undefined;
let servers: ModelServer[] = [];

afterEach(async () => {
  await gateway?.process.stop();
  for (const { server } of servers) {
    server.close();
    server.closeAllConnections();
  }
  gateway = undefined;
  servers = [];
});

/** Starts a server that answers every request for a completion with `status`. */
async function modelServer(status: number): Promise<ModelServer> {
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    request.resume();
    one.asked++;
    response.writeHead(status, JSON_HEADERS).end(`{"status":${status}}`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const one: ModelServer = { port: (server.address() as AddressInfo).port, server, asked: 0 };
  servers.push(one);
  return one;
}

/**
 * A configuration that takes the endpoints in turn: of two requests each server is the first choice of one. Nothing is scraped:
 * only requests find out how a server is.
 */
function inTurn(): string {
  const file = join(mkdtempSync(join(tmpdir(), "sluice-config-")), "config.yaml");
  writeFileSync(
    file,
    `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: round-robin-picker
schedulingProfiles:
- name: in-turn
  plugins:
  - pluginRef: round-robin-picker
dataLayer: { injectDefaults: false }
`,
  );
  return file;
}

/** A gateway before the servers, which asks them nothing. */
async function startBefore(list: readonly ModelServer[], flags: readonly string[] = []): Promise<void> {
  const file = endpointsFile(
    list.map(({ port }) => port),
    ', models: ["*"]',
  );
  gateway = await startGateway(file, ["--config-file", inTurn(), ...flags]);
}

/** Two requests, one after the other. */
async function two(): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const content of ["one", "two"])
    answers.push(await ask(`${gateway!.url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat(content) }));
  return answers;
}

const statuses = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status).sort();

/** Retries by cause, as `/metrics` tells them; causes that never were are left out. */
async function retries(): Promise<Record<string, number>> {
  const page = (await ask(`${gateway!.adminUrl}/metrics`)).text;
  // Proves that the page is one of this gateway after two exchanges, also where no retry is expected.
  expect(page).toMatch(/^sluice_exchanges_total\{.*\} [1-9]/m);
  const counts: Record<string, number> = {};
  for (const [, cause, count] of page.matchAll(/^sluice_gateway_retries_total\{cause="(.*)"\} (\d+)$/gm))
    if (count !== "0") counts[cause!] = Number(count);
  return counts;
}

describe("D-48: retries of the gateway", () => {
  it("take an answer of 503 elsewhere and count it once", async () => {
    const [busy, free] = [await modelServer(503), await modelServer(200)];
    await startBefore([busy, free]);
    const answers = await two();
    expect(statuses(answers)).toEqual([200, 200]);
    expect([busy.asked, free.asked]).toEqual([1, 2]);
    expect(await retries()).toEqual({ status: 1 });
    expect((await ask(`${gateway!.adminUrl}/metrics`)).text).toContain("# TYPE sluice_gateway_retries_total counter\n");
  });

  it("relay the 503 as it is with --max-retries 0", async () => {
    const [busy, free] = [await modelServer(503), await modelServer(200)];
    await startBefore([busy, free], ["--max-retries", "0"]);
    const answers = await two();
    expect(statuses(answers)).toEqual([200, 503]);
    expect(answers.find(({ status }) => status === 503)?.text).toBe('{"status":503}');
    expect([busy.asked, free.asked]).toEqual([1, 1]);
    expect(await retries()).toEqual({});
  });

  it("relay a 429 unless --retry-statuses names it", async () => {
    const [limited, free] = [await modelServer(429), await modelServer(200)];
    await startBefore([limited, free]);
    const answers = await two();
    expect(statuses(answers)).toEqual([200, 429]);
    expect(answers.find(({ status }) => status === 429)?.text).toBe('{"status":429}');
    expect(await retries()).toEqual({});
  });

  it("take a 429 and a 503 elsewhere with --retry-statuses 429,503", async () => {
    const [limited, busy, free] = [await modelServer(429), await modelServer(503), await modelServer(200)];
    await startBefore([limited, busy, free], ["--retry-statuses", "429,503"]);
    expect(statuses(await two())).toEqual([200, 200]);
    // Whichever two of the three were first choices, each of their requests ended at the free one.
    expect(free.asked).toBe(2);
    const { status, ...others } = await retries();
    expect([status, others]).toEqual([limited.asked + busy.asked, {}]);
    expect(limited.asked).toBeGreaterThan(0);
  });

  it("relay the last 503 once the retries are used up", async () => {
    const list = [await modelServer(503), await modelServer(503), await modelServer(503)];
    await startBefore(list, ["--max-retries", "1"]);
    const answers = await two();
    expect(statuses(answers)).toEqual([503, 503]);
    expect(answers[0]!.text).toBe('{"status":503}');
    expect(list.reduce((sum, { asked }) => sum + asked, 0)).toBe(4);
    expect(await retries()).toEqual({ status: 2 });
  });

  it("take a request elsewhere when an endpoint believed alive refuses the connection", async () => {
    const [gone, free] = [await modelServer(200), await modelServer(200)];
    await startBefore([gone, free]);
    gone.server.close();
    expect(statuses(await two())).toEqual([200, 200]);
    expect([gone.asked, free.asked]).toEqual([0, 2]);
    expect(await retries()).toEqual({ connect: 1 });
  });

  it("say 503 for a refused connection with --max-retries 0", async () => {
    const [gone, free] = [await modelServer(200), await modelServer(200)];
    await startBefore([gone, free], ["--max-retries", "0"]);
    gone.server.close();
    const answers = await two();
    expect(statuses(answers)).toEqual([200, 503]);
    expect(answers.find(({ status }) => status === 503)?.text).toContain("ECONNREFUSED");
    expect(await retries()).toEqual({});
  });
});
