import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "sluice-explain-"));
const CONFIG = join(FOLDER, "config.yaml");
writeFileSync(
  CONFIG,
  `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: header-based-testing-filter
- type: queue-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: tested
  plugins:
  - {pluginRef: header-based-testing-filter}
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
`,
);
/** Where lines end depends on how long a port is. */
const unwrapped = (text: string): string => text.replace(/\s+/g, " ");
/** The line of a server whose page was read a moment before. */
const UP = /\n1 {2}127\.0\.0\.1:\d+ +up +\d+ +\d+ +\d+ % +\d+ +[\d.]+ m?s\n/;
const SECRET = "the prompt that nobody may see";

describe("why a request went where it went, of a running gateway", () => {
  let sims: Sim[];
  let gateway: TestGateway;
  let sent = 0;

  beforeAll(async () => {
    sims = await startSims(3);
    const file = endpointsFile(sims.map(({ port }) => port));
    gateway = await startGateway(file, ["--config-file", CONFIG, "--decision-header", "--full-records-every", "0"]);
    const fresh = async (): Promise<boolean> =>
      (await getJson<{ endpoints: { state: string }[] }>(`${gateway.adminUrl}/debug/endpoints`)).endpoints.every(
        ({ state }) => state === "up",
      );
    await poll("all servers to be up", fresh);
  });
  afterAll(async () => {
    await gateway?.process.stop();
    await Promise.all((sims ?? []).map((sim) => sim.process.stop()));
  });

  /** @param only the server that may be chosen: `127.0.0.1:PORT` */
  const send = (id: string, only: string, more: Record<string, string> = {}) =>
    ask(`${gateway.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-request-id": id, "test-epp-endpoint-selection": only, ...more },
      body: chat(SECRET),
    });
  const explain = async (...args: string[]): Promise<{ code: number | null; out: string; err: string }> => {
    const process = sluice("explain", "--admin", gateway.adminUrl, ...args);
    const { code } = await process.ended();
    return { code, out: process.stdout, err: process.stderr };
  };
  const addressOf = (n: number): string => `127.0.0.1:${sims[n]!.port}`;

  it("tells candidates, points, ages and who filtered whom, and nothing of the prompt", async () => {
    // A server whose page was late just then is blind in the record: on a busy machine that takes another request.
    const { id, out } = await poll("a decision for a server that is up", async () => {
      const id = `seen-${++sent}`;
      expect((await send(id, addressOf(1))).status).toBe(200);
      const { code, out } = await explain(id);
      expect(code).toBe(0);
      return UP.test(out) ? { id, out } : undefined;
    });
    expect(unwrapped(out)).toContain(
      `Request ${id} went to default/server-2 (${addressOf(1)}): it was the only one left of 3 candidates; header-based-testing-filter dropped 2. `,
    );
    expect(unwrapped(out)).toMatch(/profile tested picker max-score-picker configuration [0-9a-f]{12} /);
    expect(out).toMatch(
      / candidate +total +A x 2 +B x 3\n1 {2}default\/server-2 +\d\.\d\d +\d\.\d\d +\d\.\d\d\nA queue-scorer {3}B prefix-/,
    );
    expect(unwrapped(out)).toContain(
      "header-based-testing-filter dropped 2 candidates: default/server-1, default/server-3 ",
    );
    expect(await explain("--last")).toMatchObject({ code: 0, out });
    const { out: json } = await explain(id, "--json");
    expect(JSON.parse(json)).toMatchObject({ requestId: id, full: false, refusal: null });
    for (const text of [out, json]) {
      expect(text).not.toContain("nobody may see");
      // Nobody's terminal, no colours.
      expect(text).not.toContain("\u001b");
    }
  });

  it("explains a refusal", async () => {
    const answer = await send("nowhere", "192.0.2.1:1");
    expect(answer.status).toBe(429);
    const { out } = await explain("nowhere");
    expect(unwrapped(out)).toContain(
      "Request nowhere was refused with 429: none of 3 candidates was left; header-based-testing-filter dropped all. ",
    );
    expect(out).toContain("The client received: ");
    const [latest] = await getJson<{ refused: string; endpoint: null }[]>(`${gateway.adminUrl}/debug/decisions`);
    expect(latest).toMatchObject({ requestId: "nowhere", refused: "no_target", endpoint: null });
  });

  it("tells a client that asks for it in the headers of its answer, of a refusal too, and the servers nothing", async () => {
    const asks = { "x-sluice-explain": "1", "x-test-id": "asked" };
    const answer = await send("asked", addressOf(0), asks);
    const number = answer.headers["x-sluice-decision"] as string;
    expect(number).toMatch(/^\d+$/);
    expect(answer.headers["x-sluice-decision-reason"]).toBe(
      `Request asked went to default/server-1 (${addressOf(0)}): it was the only one left of 3 candidates; header-based-testing-filter dropped 2.`,
    );
    expect((await explain(number)).out).toContain("Request asked went to");
    const refused = await send("denied", "192.0.2.1:1", asks);
    expect([refused.status, refused.headers["x-sluice-decision-reason"]]).toEqual([
      429,
      "Request denied was refused with 429: none of 3 candidates was left; header-based-testing-filter dropped all.",
    ]);
    const silent = await send("silent", addressOf(0));
    expect(silent.headers["x-sluice-decision"]).toBeUndefined();
    const { requests } = await getJson<{ requests: { headers: Record<string, string> }[] }>(
      `${sims[0]!.url}/admin/requests`,
    );
    const seen = requests.filter(({ headers }) => headers["x-test-id"] === "asked");
    expect(seen).toHaveLength(1);
    expect(seen[0]!.headers["x-sluice-explain"]).toBeUndefined();
  });

  it("prints what a decision depended on, from which it comes out the same again, or tells how it does not", async () => {
    await send("kept", `${addressOf(0)},${addressOf(1)},${addressOf(2)}`, { "x-sluice-explain": "true" });
    const { code, out: full } = await explain("kept", "--full");
    expect(code).toBe(0);
    expect(full).not.toContain("nobody may see");
    const file = join(FOLDER, "kept.json");
    writeFileSync(file, full);
    const replay = async (...args: string[]): Promise<{ code: number | null; out: string }> => {
      const process = sluice("explain", "--replay", file, ...args);
      return { code: (await process.ended()).code, out: process.stdout };
    };
    const same = await replay("--config-file", CONFIG);
    expect(same.out).toContain(
      `replayed with ${CONFIG}:\nsame pick, and all totals agree bit by bit.\nNow: Request kept went to`,
    );
    expect(same.code).toBe(0);
    // The built-in configuration weighs more, and has data of its own.
    const other = await replay();
    expect(other.out).toMatch(/replayed with built-in configuration:\n {2}the /);
    expect(other.out).toMatch(/The configurations differ: recorded [0-9a-f]{12}, now [0-9a-f]{12}/);
    expect(other.code).toBe(1);
    const { code: without, err } = await explain("silent", "--full");
    expect([without, err]).toEqual([
      1,
      expect.stringMatching(
        /^sluice: this decision has no full record\. .*x-sluice-explain: 1\n {2}[A-Z_]+: docs\/reference\/errors\.md#[a-z_]+\n$/,
      ),
    ]);
  });

  it("S-100: shows what its plugins know", async () => {
    const shown = await getJson<{ timestamp: string; plugins: Record<string, { type: string; state?: unknown }> }>(
      `${gateway.adminUrl}/debug/plugins/state`,
    );
    expect(Date.parse(shown.timestamp)).toBeGreaterThan(0);
    expect(shown.plugins["queue-scorer"]).toMatchObject({ type: "queue-scorer", message: expect.any(String) });
    expect(shown.plugins["approx-prefix-cache-producer"]!.state).toMatchObject({
      pods: expect.arrayContaining([{ pod: "default/server-2", blocks: expect.any(Number) }]),
      totalPods: expect.any(Number),
      maxPods: 100,
    });
  });
});
