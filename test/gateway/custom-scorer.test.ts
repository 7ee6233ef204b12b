import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { ROOT, sluice, TestProcess } from "../support/process.ts";
import { type Sim, seenBy, startSims } from "../support/stack.ts";

interface Explained {
  readonly candidates: readonly { readonly id: string; readonly scores: readonly unknown[] }[];
}

let gateway: TestGateway | undefined;
let sims: Sim[] = [];

afterEach(async () => {
  await gateway?.process.stop();
  await Promise.all(sims.map((sim) => sim.process.stop()));
  gateway = undefined;
  sims = [];
});

/** The example, copied out of the tree: nothing above it is ours. */
function copied(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-example-"));
  cpSync(join(ROOT, "examples", "custom-scorer"), folder, { recursive: true });
  return folder;
}

/** A gateway with the plugins in `folder`, before a server in the east and one in the west. */
async function start(folder: string): Promise<TestGateway> {
  sims = await startSims(2);
  const entries = ["east", "west"].map(
    (zone, at) => `- { name: ${zone}, address: 127.0.0.1, port: ${sims[at]!.port}, labels: { zone: ${zone} } }\n`,
  );
  writeFileSync(join(folder, "endpoints.yaml"), `endpoints:\n${entries.join("")}`);
  gateway = await startGateway(join(folder, "endpoints.yaml"), ["--config-file", join(folder, "config.yaml")]);
  return gateway;
}

const post = (headers: Readonly<Record<string, string>>, body = chat("hello")) =>
  ask(`${gateway!.url}/v1/chat/completions`, { method: "POST", headers: { ...JSON_HEADERS, ...headers }, body });

describe("plugins of users, outside the source tree", () => {
  it("are tested with node:test and expectPick", async () => {
    const folder = copied();
    const register = join(ROOT, "src", "picker", "core", "plugins", "register.ts");
    const run = new TestProcess(process.execPath, ["--import", register, "--test"], { cwd: folder });
    expect((await run.ended(60_000)).code, run.stdout + run.stderr).toBe(0);
    expect(run.stdout).toMatch(/^\D*pass 4$/m);
    // An author who breaks the scorer sees the decision.
    const scorer = join(folder, "zone-scorer.ts");
    writeFileSync(scorer, readFileSync(scorer, "utf8").replace("=== zone", "!== zone"));
    const broken = new TestProcess(process.execPath, ["--import", register, "--test"], { cwd: folder });
    expect((await broken.ended(60_000)).code).toBe(1);
    expect(broken.stdout).toContain("expected east-1 to be picked, but west-1 was");
    expect(broken.stdout).toMatch(/1 +west-1 +1 +1 +4\n/);
  });

  it("decide in a gateway: a scorer by a header, an admitter by what is asked for", async () => {
    await start(copied());
    for (const zone of ["east", "west", "east"]) {
      const id = `${zone}-${Math.floor(performance.now())}`;
      expect((await post({ "x-zone": zone, "x-test-id": id, "x-request-id": id })).status).toBe(200);
      const [seen] = await seenBy([sims[zone === "east" ? 0 : 1]!], id);
      expect(seen, `the server in the ${zone} saw ${id}`).toBeDefined();
      const { candidates } = await getJson<Explained>(`${gateway!.adminUrl}/debug/decisions/${id}`);
      expect(candidates.map(({ id: endpoint, scores }) => [endpoint, scores[0]])).toMatchObject([
        [`default/${zone}`, { scorer: "zone-scorer", score: 1, weight: 5 }],
        [expect.anything(), { scorer: "zone-scorer", score: 0, weight: 5 }],
      ]);
    }
    const long = JSON.stringify({ model: "sim", max_tokens: 9000, messages: [{ role: "user", content: "hi" }] });
    const refused = await post({}, long);
    expect(refused.status).toBe(429);
    expect(refused.text).toContain("ask for at most 8192 tokens here");
  });

  it("bring their own producers, made because a scorer requires what they write", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-example-"));
    writeFileSync(
      join(folder, "prices.ts"),
      `import { columnKey, defineProducer, defineScorer } from "sluice/plugin";
       const PRICE = columnKey("price");
       export const prices = defineProducer({ type: "price-producer", describe: "d", produces: [PRICE],
         create: () => ({ produce: ({ candidates }) => void candidates.column(PRICE).fill(2) }) });
       export default defineScorer({ type: "cheap-scorer", describe: "d", requires: [PRICE],
         create: () => ({ score: ({ candidates, out }) => void out.fill(1 / candidates.column(PRICE)[0]!) }) });`,
    );
    const head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
    writeFileSync(join(folder, "config.yaml"), `${head}plugins:\n- { type: cheap-scorer, module: ./prices.ts }\n`);
    await start(folder);
    expect((await post({ "x-request-id": "priced" })).status).toBe(200);
    const { candidates } = await getJson<Explained>(`${gateway!.adminUrl}/debug/decisions/priced`);
    expect(candidates[0]!.scores).toMatchObject([{ scorer: "cheap-scorer", score: 0.5 }]);
  });

  it("are checked by validate before anything starts", async () => {
    const folder = copied();
    const config = join(folder, "config.yaml");
    const ok = sluice("validate", config);
    expect((await ok.ended()).code, ok.stderr).toBe(0);
    expect(ok.stdout).toContain("zone-scorer x 5");
    writeFileSync(
      join(folder, "zone-scorer.ts"),
      'import { defineScorrer } from "sluice/plugin";\ndefineScorrer({});\n',
    );
    const failed = sluice("validate", config);
    expect((await failed.ended()).code).not.toBe(0);
    expect(failed.stdout + failed.stderr).toContain(
      `${config}:6:3: plugins[0].module: ./zone-scorer.ts cannot be loaded: line 1: The requested module 'sluice/plugin' does not provide an export named 'defineScorrer'; did you mean \`defineScorer\`?`,
    );
    const start = sluice("gateway", "--endpoints", join(folder, "endpoints.yaml"), "--config-file", config);
    expect((await start.ended()).code).not.toBe(0);
    expect(start.stderr).toContain("did you mean `defineScorer`?");
  });
});
