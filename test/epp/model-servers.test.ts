import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { realClock } from "../../src/base/clock/real.ts";
import { selfSignedPair } from "../../src/base/grpc/self-signed.ts";
import type { PoolView } from "../../src/pool/endpoints/view.ts";
import { getJson } from "../support/client.ts";
import { type BareEpp, ExtProcClient, route, startBareEpp } from "../support/epp-process.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const ENGINES = ["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm"];

async function endpointsOf({ adminUrl }: BareEpp): Promise<PoolView["endpoints"]> {
  return (await getJson<PoolView>(`${adminUrl}/debug/endpoints`)).endpoints;
}

describe("sluice epp in front of several kinds of model server", () => {
  let sims: Sim[];
  let epp: BareEpp;
  beforeAll(async () => {
    const each = ENGINES.map((engine, i) => startSims(1, ["--engine", engine, "--block-size", String(16 + i)]));
    sims = (await Promise.all(each)).flat();
    const file = join(mkdtempSync(join(tmpdir(), "sluice-engines-")), "endpoints.yaml");
    const entries = ENGINES.map(
      (engine, i) =>
        `- {name: server-${i + 1}, address: 127.0.0.1, port: ${sims[i]!.port}, labels: {llm-d.ai/engine-type: ${engine}}}`,
    );
    writeFileSync(file, `endpoints:\n${entries.join("\n")}\n`);
    // A look at a metrics page may be late on a busy machine.
    epp = await startBareEpp(file, ["--profile", "legacy-v0.3", "--metrics-staleness-threshold=1h"]);
  });
  afterAll(() => Promise.all([...(sims ?? []), ...(epp ? [epp] : [])].map(({ process }) => process.stop())));

  it("reads each by the label in the endpoints file (S-12)", async () => {
    const endpoints = await poll("all read", async () => {
      const seen = await endpointsOf(epp);
      return seen.every(({ state, metrics }) => state === "up" && metrics.ageMs !== null) ? seen : undefined;
    });
    for (const [i, { metrics }] of endpoints.entries())
      expect(metrics).toMatchObject({ waiting: 0, running: 0, kvUsage: 0, blockSize: 16 + i });
  });

  it("routes by the decision tree of v0.3 when asked to", async () => {
    const client = await ExtProcClient.connect(epp.port, { tls: true });
    const seen = new Set<string>();
    // All are idle, but only vLLM tells of adapters: it has room for one, and the tree prefers that to the others.
    for (let i = 0; i < 20; i++) seen.add(await route(client.open()));
    expect([...seen]).toEqual([`127.0.0.1:${sims[0]!.port}`]);
    client.close();
    const [latest] = await getJson<{ why: string }[]>(`${epp.adminUrl}/debug/decisions`);
    expect(latest!.why).toContain("it was the only one left of 4 candidates; decision-tree-filter dropped 3");
  });
});

describe("sluice epp told where metrics pages are and what is on them", () => {
  it("reads them over TLS at a port and a path of their own, by the names of v0.3's flags", async () => {
    const server = createServer(await selfSignedPair(realClock), (request, response) => {
      if (request.url !== "/stats") response.writeHead(404).end();
      else response.end('load{state="queued"} 7\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\n');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const flags = [
      ...["--model-server-metrics-scheme=https", "--model-server-metrics-path=/stats"],
      ...[`--model-server-metrics-port=${port}`, "-totalQueuedRequestsMetric", '"load{state=queued}"'],
      ...["--cache-info-metric", ""],
    ];
    const epp = await startBareEpp(endpointsFile([1]), flags);
    const checking = await startBareEpp(endpointsFile([1]), [
      ...flags,
      "--model-server-metrics-https-insecure-skip-verify=false",
    ]);
    try {
      const read = await poll("read", async () => {
        const [only] = await endpointsOf(epp);
        return only!.state === "up" && only!.metrics.ageMs !== null ? only : undefined;
      });
      expect(read.metrics).toMatchObject({ waiting: 7, running: 2, kvUsage: 0.5 });
      expect(epp.process.stderr).toContain("--total-queued-requests-metric is deprecated");
      await poll("refused", async () => {
        const [only] = await endpointsOf(checking);
        return only!.state === "blind" && only!.cause.includes("TLS: self-signed certificate");
      });
    } finally {
      await Promise.all([epp.process.stop(), checking.process.stop()]);
      server.closeAllConnections();
      server.close();
    }
  });
});
