import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENVOY_RELEASE } from "../../scripts/test-parts.ts";
import type { Variant } from "../../src/wires/envoy/options.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { POOL } from "../support/envoy/pool.cases.ts";
import { type RunningEnvoy, startEnvoy } from "../support/envoy.ts";
import { ProcessingRequestType } from "../support/extproc-client.ts";
import { ExtProcTap } from "../support/extproc-tap.ts";
import { askH2, H2ModelServer } from "../support/h2-model-server.ts";
import { poll } from "../support/poll.ts";
import { ROOT } from "../support/process.ts";
import {
  type About,
  formatRecording,
  type Line,
  loadRecording,
  type Recording,
  replyKind,
  requestBytes,
} from "../support/recording.ts";
import { type Epp, endpointsFile, type Sim, startEpp, startSims } from "../support/stack.ts";

/**
 * What the real Envoy says today against what it said when test/recordings/envoy-*.jsonl were made, which the unit lane
 * plays back. SLUICE_RECORD=1 writes them anew.
 */
const REWRITE = process.env["SLUICE_RECORD"] === "1";

/** What each side did, in order; as many messages as a body was cut into count as one. */
function shapeOf({ lines }: Recording): { proxy: string[]; picker: string[] } {
  const kinds = (from: Line["from"]) =>
    lines
      .filter((line) => line.from === from)
      .map((line) => ("event" in line ? line.event : (replyKind(line) ?? messageKind(line))))
      .filter((kind, i, all) => kind !== all[i - 1]);
  return { proxy: kinds("proxy"), picker: kinds("picker") };
}

function messageKind(line: Line): string {
  const message = ProcessingRequestType.decode(requestBytes(line)!) as unknown as Record<string, unknown>;
  return Object.keys(message).find((key) => /^re(quest|sponse)/.test(key) && message[key] !== null) ?? "nothing";
}

interface Scene {
  readonly name: string;
  readonly about: string;
  readonly outcome?: About["outcome"];
  readonly refused?: number;
  act(parts: Parts): Promise<unknown>;
}

interface Parts {
  readonly port: number;
  readonly url: string;
  readonly sims: readonly Sim[];
}

const completions = ({ url }: Parts, more: Record<string, unknown> = {}, headers: Record<string, string> = {}) =>
  ask(`${url}/v1/chat/completions`, { headers: { ...JSON_HEADERS, ...headers }, body: chat("hello", more) });

/** The client goes as soon as the first event is there. */
async function leave({ url }: Parts): Promise<void> {
  const away = new AbortController();
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: JSON_HEADERS,
    body: chat("hello", { stream: true, max_tokens: 1_000 }),
    signal: away.signal,
  });
  await answer.body!.getReader().read();
  away.abort();
}

const GROUPS: readonly {
  readonly variant: Variant;
  readonly server: "simulator" | "h2";
  readonly scenes: readonly Scene[];
}[] = [
  {
    variant: "standalone",
    server: "simulator",
    scenes: [
      { name: "chat", about: "a chat, HTTP/1 both sides", act: (parts) => completions(parts) },
      { name: "sse", about: "a streamed chat", act: (parts) => completions(parts, { stream: true, max_tokens: 3 }) },
      { name: "get", about: "GET /v1/models", act: ({ url }) => ask(`${url}/v1/models`) },
      { name: "abort", about: "the client leaves in mid-stream", outcome: "client-gone", act: leave },
      {
        name: "refused",
        about: "a body that is not JSON",
        outcome: "rejected",
        refused: 400,
        act: ({ url }) => ask(`${url}/v1/chat/completions`, { headers: JSON_HEADERS, body: "{]" }),
      },
      {
        name: "no-server",
        about: "the picked endpoint refuses the connection, Envoy answers in its place",
        async act(parts) {
          for (const { process } of parts.sims) await process.stop();
          expect((await completions(parts)).status).toBe(503);
        },
      },
    ],
  },
  {
    variant: "subset-hint",
    server: "simulator",
    scenes: [
      {
        name: "subset-hint",
        about: "a hint of one endpoint out of two, and who served in metadata",
        act: (parts) => completions(parts, {}, { "x-pool-subset": `127.0.0.1:${parts.sims[1]!.port}` }),
      },
      {
        name: "subset-hint-get",
        about: "the same without a body",
        act: ({ url, sims }) => ask(`${url}/v1/models`, { headers: { "x-pool-subset": `127.0.0.1:${sims[1]!.port}` } }),
      },
    ],
  },
  {
    variant: "override-host",
    server: "simulator",
    scenes: [
      {
        name: "retry",
        about: "two attempts are answered 503 before the third serves, who served in metadata",
        async act(parts) {
          const once = JSON.stringify({ "error-until": 1 });
          for (const { url } of parts.sims) await ask(`${url}/admin/config`, { headers: JSON_HEADERS, body: once });
          const answer = await completions(parts);
          expect(answer.status).toBe(200);
        },
      },
      {
        name: "buffered",
        about: "the request body in one message, who served in metadata",
        act: (parts) => completions(parts),
      },
    ],
  },
  {
    variant: "standalone",
    server: "h2",
    scenes: [
      {
        name: "trailers",
        about: "HTTP/2 with trailers in both directions",
        act: ({ port }) =>
          askH2(port, "/v1/chat/completions", Buffer.from(chat("hello")), {
            headers: JSON_HEADERS,
            trailers: { "x-digest": "abc" },
          }),
      },
    ],
  },
];

describe.each(GROUPS)(`recordings of Envoy ${ENVOY_RELEASE}: $variant, $server`, ({ variant, server, scenes }) => {
  let sims: Sim[] = [];
  let h2: H2ModelServer | undefined;
  let epp: Epp;
  let tap: ExtProcTap;
  let envoy: RunningEnvoy;
  let pool: string[];

  beforeAll(async () => {
    if (server === "h2") h2 = await H2ModelServer.open();
    else sims = await startSims(2, ["--inter-token-latency", "5", "--time-to-first-token", "5"]);
    const ports = h2 === undefined ? sims.map(({ port }) => port) : [h2.port];
    pool = ports.map((port) => `127.0.0.1:${port}`);
    epp = await startEpp(endpointsFile(ports));
    tap = await ExtProcTap.open(epp.port);
    envoy = await startEnvoy({
      variant,
      eppPort: tap.port,
      serverPorts: ports,
      bootstrap: {
        ...(h2 === undefined ? {} : { pool: { ...POOL, appProtocol: "kubernetes.io/h2c" } }),
      },
    });
    await poll("the picker to be asked", async () => (await envoy.stat("cluster.epp.membership_healthy")) === 1);
  });
  afterAll(async () => {
    tap?.stop();
    h2?.stop();
    await Promise.all([envoy?.process.stop(), epp?.process.stop(), ...sims.map(({ process }) => process.stop())]);
  });

  it.each(scenes)("$name", async ({ name, about, outcome = "complete", refused, act }) => {
    const parts: Parts = { port: envoy.port, url: `http://127.0.0.1:${envoy.port}`, sims };
    const streams = await tap.during(() => act(parts));
    expect(streams).toHaveLength(1);
    const recording: Recording = {
      about: {
        about: `recorded from Envoy ${ENVOY_RELEASE}, ${variant}: ${about}`,
        pool,
        outcome,
        ...(refused === undefined ? {} : { refused }),
      },
      lines: streams[0]!,
    };
    const file = `envoy-${ENVOY_RELEASE}-${name}`;
    if (REWRITE) writeFileSync(join(ROOT, "test", "recordings", `${file}.jsonl`), formatRecording(recording));
    expect(shapeOf(recording)).toEqual(shapeOf(loadRecording(file)));
  });
});
