import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { ClusterState } from "../../src/pool/controllers/cluster-state.ts";
import { EndpointRegistry } from "../../src/pool/endpoints/registry.ts";
import { HttpApiClient } from "../../src/pool/kubernetes/http-client.ts";
import { ResourceStore } from "../../src/pool/resources/resource-store.ts";
import { startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import { poll } from "../support/poll.ts";
import { type Base, I, M, type Manifest, O, P, R } from "../support/resources/verdicts.cases.ts";

// The API server admits objects of all kinds but InferencePool v1 without a `spec`.

let server: TestApiServer;
beforeAll(async () => {
  server = await startApiServer();
  await server.installCrds(join(import.meta.dirname, "..", "..", "deploy", "crds"));
});
afterAll(() => server?.close());

const inDefault = (manifest: Manifest) => ({ ...manifest, metadata: { ...manifest.metadata, namespace: "default" } });
const put = (base: Base, spec?: unknown) => server.put(inDefault(base.object(spec)));
const poolRef = (group: string) => ({ group, name: "x" });

describe("objects without spec (R-4)", () => {
  it("count as not there for all that follow a namespace, until they have one and when they lose it again", async () => {
    const bases = [P, M, O.x, O.llmd, R.x, R.llmd, I];
    for (const base of bases) await put(base);
    const warnings: string[] = [];
    const api = new HttpApiClient({
      server: server.url,
      credentials: {
        ca: server.ca,
        insecureSkipVerify: false,
        token: async () => server.token,
      },
      clock: realClock,
    });
    const random = new SeededRandom(1);
    const store = new ResourceStore();
    const cluster = new ClusterState({
      api,
      namespace: "default",
      source: { kind: "pool", name: "x", group: undefined },
      endpoints: new EndpointRegistry({ clock: realClock, random }),
      store,
      clock: realClock,
      random,
      log: { ...silentLogger, warn: (_, text) => warnings.push(text) },
    });
    cluster.start();
    try {
      await poll("all kinds to be known", () => cluster.kinds().every(({ state }) => state.synced));
      expect([store.synced, store.size]).toEqual([false, 0]);
      await poll("a word about each", () => warnings.filter((text) => text.includes("has no `spec`")).length === 6);

      const group = "inference.networking.x-k8s.io";
      await put(P, { selector: { app: "a" }, targetPortNumber: 8000, extensionRef: { name: "epp" } });
      await put(M, { modelName: "food", poolRef: poolRef(group) });
      await put(O.llmd, { priority: 7, poolRef: poolRef(group) });
      await put(R.llmd, { rules: [{ targets: [{ modelRewrite: "b" }] }], poolRef: poolRef(group) });
      await poll("all of them", () => store.model("food") && store.objective("x") === 7 && store.rewrite("a"));
      expect(store.pool?.meta.name).toBe("x");

      for (const base of bases) await put(base);
      await poll("none of them", () => !store.synced && store.size === 0);
    } finally {
      cluster.close();
      api.close();
    }
  });
});
