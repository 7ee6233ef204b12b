import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { deadPort } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { GPU_UTILIZATION, GpuReader } from "./gpu-pages.ts";
import { ModelListReader } from "./model-lists.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import { EndpointRegistry } from "./registry.ts";
import { MAX_FETCHING, type SidePage, SidePages } from "./side-pages.ts";

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function serve(answer: RequestListener): Promise<number> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanUps.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

function gpuPage(more: Partial<SidePage> = {}): SidePage {
  return {
    ...{ sourceType: "dcgm-data-source", extractorType: "dcgm-extractor", reader: new GpuReader() },
    ...{ interval: 50, useNodeAddress: false, ...more },
  };
}

/** Pages of endpoints that serve at `port`, over real connections. */
function pagesOf(pages: readonly SidePage[], specs: { name: string; port: number; nodeAddress?: string }[]) {
  const clock = realClock;
  const random = new SeededRandom(1);
  const registry = new EndpointRegistry({ clock, random });
  const failures: string[] = [];
  const side = new SidePages({
    ...{ clock, random, registry, pages },
    pollFailed: (source) => failures.push(`poll ${source}`),
    extractFailed: (source, extractor) => failures.push(`extract ${source} ${extractor}`),
  });
  cleanUps.push(() => side.close());
  const endpoints = specs.map(
    (spec) => registry.upsert({ namespace: "ns", address: "127.0.0.1", rank: 0, labels: {}, ...spec })!,
  );
  return { registry, side, endpoints, failures };
}

const TWO_PODS = `# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",pod="a"} 40
DCGM_FI_DEV_GPU_UTIL{gpu="1",pod="a"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="2",pod="b"} 10
`;

function utilization(page: string, name: string, rank = 0): number | undefined {
  const registry = new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1) });
  const endpoint = registry.upsert({ namespace: "ns", name, address: "10.0.0.1", port: 8000, rank, labels: {} })!;
  const bytes = Buffer.from(page);
  new GpuReader().read(bytes, bytes.length, endpoint);
  return endpoint.attributes.get(GPU_UTILIZATION);
}

describe("dcgm-extractor (scheduling 1.8)", () => {
  it("takes the busiest GPU of the endpoint's own pod", () => {
    expect(utilization(TWO_PODS, "a-rank-0")).toBe(0.9);
    expect(utilization(TWO_PODS, "b-rank-3", 3)).toBe(0.1);
    expect(utilization(TWO_PODS, "b")).toBe(0.1);
    expect(utilization(TWO_PODS, "c")).toBeUndefined();
    expect(utilization("DCGM_FI_DEV_GPU_UTIL 90\nDCGM_FI_DEV_GPU_UTIL 40\n", "a")).toBe(0.9);
  });

  it("takes samples without a pod for its own, as an exporter in the pod writes them", () => {
    expect(utilization('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 25\nDCGM_FI_DEV_GPU_UTIL{gpu="1",pod=""} 75\n', "any")).toBe(
      0.75,
    );
    expect(utilization("DCGM_FI_DEV_GPU_UTIL 0\n", "idle")).toBe(0);
  });

  it("believes no absurd sample", () => {
    expect(utilization("DCGM_FI_DEV_GPU_UTIL NaN\nDCGM_FI_DEV_GPU_UTIL 150\nDCGM_FI_DEV_GPU_UTIL 5\n", "x")).toBe(0.05);
    expect(utilization("DCGM_FI_DEV_GPU_TEMP 50\n", "x")).toBeUndefined();
  });
});

describe("pages besides the metrics page", () => {
  it("are read again and again, and their failures are counted by kind", async () => {
    let page = TWO_PODS;
    const port = await serve((_, response) => response.end(page));
    const { endpoints, failures } = pagesOf([gpuPage({ port })], [{ name: "a", port: 1 }]);
    const [endpoint] = endpoints as [PoolEndpoint];
    await poll("the first page", () => endpoint.attributes.get(GPU_UTILIZATION) === 0.9);
    expect(endpoint.state).toBe("up");
    page = "DCGM_FI_DEV_GPU_UTIL 30\n";
    await poll("the second page", () => endpoint.attributes.get(GPU_UTILIZATION) === 0.3);
    expect(failures).toEqual([]);
    page = "nothing 1\n";
    await poll("a failure", () => failures.length > 0);
    expect(failures[0]).toBe("extract dcgm-data-source dcgm-extractor");
    // One bad page does not take the value away, and the endpoint stays what it is.
    expect([endpoint.attributes.get(GPU_UTILIZATION), endpoint.state]).toEqual([0.3, "up"]);
  });

  it("may be at the node of the pod", async () => {
    const port = await serve((_, response) => response.end(TWO_PODS));
    const { endpoints, failures } = pagesOf(
      [gpuPage({ port, useNodeAddress: true })],
      [
        { name: "b", port: 1, nodeAddress: "127.0.0.1" },
        { name: "a", port: 1 },
      ],
    );
    await poll(
      "the page of the node",
      () => endpoints[0]!.attributes.get(GPU_UTILIZATION) === 0.1 && failures.length > 0,
    );
    // Without a known node there is no page.
    expect(endpoints[1]!.attributes.size).toBe(0);
    expect(failures[0]).toBe("poll dcgm-data-source");
  });

  it("change nothing of an endpoint when their server is gone", async () => {
    const { endpoints, failures, side } = pagesOf([gpuPage({ port: await deadPort() })], [{ name: "a", port: 1 }]);
    await poll("failures", () => failures.length > 2);
    expect(endpoints[0]).toMatchObject({ state: "up", failures: 0 });
    expect(side.fetching).toBeLessThanOrEqual(1);
  });

  it("lose their values when they are too old", () => {
    const { clock, endpoint, answers } = scripted();
    answers.push(TWO_PODS);
    clock.advance(100);
    expect(endpoint.attributes.get(GPU_UTILIZATION)).toBe(0.9);
    clock.advance(4900);
    expect(endpoint.attributes.get(GPU_UTILIZATION)).toBe(0.9);
    clock.advance(400);
    expect(endpoint.attributes.size).toBe(0);
  });

  it("end with their endpoint, and no late page brings a value back", async () => {
    let open: (() => void) | undefined;
    const port = await serve((_, response) => {
      open = () => response.end(TWO_PODS);
    });
    const { registry, endpoints, side } = pagesOf([gpuPage({ port })], [{ name: "a", port: 1 }]);
    await poll("a fetch", () => open !== undefined);
    registry.remove(endpoints[0]!.id);
    expect(side.fetching).toBe(0);
    open!();
    await side.close();
    expect(endpoints[0]!.attributes.size).toBe(0);
  });

  it("are fetched from few endpoints at a time", async () => {
    let most = 0;
    let now = 0;
    const port = await serve((_, response) => {
      most = Math.max(most, ++now);
      setImmediate(() => {
        now--;
        response.end(TWO_PODS);
      });
    });
    const many = Array.from({ length: 3 * MAX_FETCHING }, (_, i) => ({ name: `a-rank-${i}`, port: 10_000 + i }));
    const { endpoints } = pagesOf([gpuPage({ port })], many.map((one, rank) => ({ ...one, rank })) as typeof many);
    await poll("every endpoint to be read", () => endpoints.every(({ attributes }) => attributes.size > 0));
    expect(most).toBeLessThanOrEqual(MAX_FETCHING);
  });
});

/** A page whose fetches end at once in virtual time: each takes the next of `answers`, or fails where there is none. */
function scripted() {
  const clock = new VirtualClock();
  const random = new SeededRandom(1);
  const registry = new EndpointRegistry({ clock, random });
  const answers: string[] = [];
  const reader = new GpuReader();
  const page = gpuPage({ reader, port: 1, interval: 100 });
  const side = new SidePages({
    ...{ clock, random, registry, pages: [page], pollFailed() {}, extractFailed() {} },
    fetch: (endpoint, done) => {
      const text = answers.shift();
      const timer = clock.after(0, () => {
        if (text === undefined) done({ kind: "unreachable", failure: "connect", detail: "" });
        else {
          const bytes = Buffer.from(text);
          reader.read(bytes, bytes.length, endpoint);
          done({ kind: "read", metrics: endpoint.metrics, partial: false });
        }
      });
      return { cancel: () => timer.cancel(), expire: () => ({ kind: "unreadable", detail: "", polled: false }) };
    },
  });
  cleanUps.push(() => side.close());
  const endpoint = registry.upsert({ namespace: "ns", name: "a", address: "10.0.0.1", port: 1, rank: 0, labels: {} })!;
  return { clock, endpoint, answers };
}

describe("models-data-extractor (scheduling 1.8)", () => {
  it("keeps the list of the server, and routes nothing by it", async () => {
    const port = await serve((_, response) =>
      response.end('{"object":"list","data":[{"id":"llama"},{"id":"tuned","parent":"llama"}]}'),
    );
    const page = gpuPage({
      sourceType: "models-data-source",
      extractorType: "models-data-extractor",
      path: "/v1/models",
      reader: new ModelListReader(),
    });
    const { endpoints, registry } = pagesOf([page], [{ name: "a", port }]);
    await poll("the list", () => endpoints[0]!.listedModels !== undefined);
    expect(endpoints[0]!.listedModels).toEqual(["llama", "tuned"]);
    expect(endpoints[0]!.models).toBeUndefined();
    expect(registry.candidates(undefined, "other").endpoints).toHaveLength(1);
  });

  it("says what is wrong with an answer", () => {
    const registry = new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1) });
    const endpoint = registry.upsert({ namespace: "ns", name: "a", address: "::1", port: 1, rank: 0, labels: {} })!;
    const bytes = Buffer.from('{"data":[]}');
    expect(new ModelListReader().read(bytes, bytes.length, endpoint)).toEqual(["the answer lists no model"]);
    expect(endpoint.listedModels).toBeUndefined();
  });
});
