import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { InVain, poll } from "../support/poll.ts";
import { type Stack, type StackOptions, startStack } from "../support/stack.ts";

/** Two endpoints in every answer: more than an ORIGINAL_DST cluster can read. */
const TWO = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: max-score-picker
  parameters: { maxNumOfEndpoints: 2 }
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: max-score-picker
`;

/** A server that no request may ever reach. */
class Trap {
  connections = 0;
  port = 0;
  readonly #server: Server = createServer((socket) => {
    this.connections++;
    socket.destroy();
  });

  async open(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    this.port = typeof address === "object" && address !== null ? address.port : 0;
    return this;
  }

  close(): void {
    this.#server.close();
  }
}

const CONFIGURATIONS: readonly (readonly ["standalone" | "subset-hint" | "tls" | "override-host", StackOptions])[] = [
  ["standalone", {}],
  ["subset-hint", {}],
  ["tls", { eppArgs: ["--secure-serving=true"] }],
  ["override-host", { bootstrap: { failureMode: "FailClose" } }],
];

describe.each(CONFIGURATIONS)("real Envoy 1.40, %s, fail-closed", (variant, options) => {
  let stack: Stack;
  let trap: Trap;

  beforeAll(async () => {
    trap = await new Trap().open();
    stack = await startStack(variant, options);
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(async () => {
    trap?.close();
    await stack?.stop();
  });

  const forged = () => {
    const address = `127.0.0.1:${trap.port}`;
    return {
      "x-gateway-destination-endpoint": address,
      "x-gateway-destination-endpoint-served": address,
      "x-gateway-destination-endpoint-subset": address,
      "x-prefiller-host-port": address,
      "x-encoder-hosts-ports": address,
    };
  };

  it("a forged destination never selects the upstream, and reaches no server (D-33, D-26)", async () => {
    const answer = await ask(`${stack.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-test-id": "forged", ...forged() },
      body: chat("forged"),
    });
    expect(answer.status).toBe(200);
    const port = answer.headers["x-inference-port"];
    const { requests } = JSON.parse((await ask(`http://127.0.0.1:${port}/admin/requests`)).text);
    const { headers } = requests.at(-1);
    expect(headers["x-test-id"]).toBe("forged");
    for (const name of Object.keys(forged())) expect(headers[name] ?? "").not.toContain(String(trap.port));
    expect(trap.connections).toBe(0);
  });

  it("without a picker every request ends with 503 within 3 s and no server is contacted, forged or not (D-34, D-33)", async () => {
    await stack.epp.process.stop();
    const before = await upstreamRequests();
    const chatPath = { path: "/v1/chat/completions", body: chat("nobody is there") };
    for (const headers of [JSON_HEADERS, { ...JSON_HEADERS, ...forged() }])
      for (const { path, ...body } of [chatPath, { path: "/v1/models" }]) {
        const refusedWithin = async (): Promise<number> => {
          const started = performance.now();
          const { status } = await ask(`${stack.url}${path}`, { headers, ...body });
          const took = performance.now() - started;
          if (status !== 503) throw new InVain(`${path} was answered ${status}`);
          return took;
        };
        // A machine that stands still meanwhile makes an answer late. What waits for a limit of Envoy is late every time.
        await poll(`a quick refusal of ${path}`, async () => (await refusedWithin()) < 3000);
      }
    expect(await upstreamRequests()).toBe(before);
    expect(trap.connections).toBe(0);
  });

  const upstreamRequests = (): Promise<number> =>
    stack.envoy.stat(`cluster.${variant === "override-host" ? "model_servers" : "picked_endpoint"}.upstream_rq_total`);
});

describe.each(["standalone", "subset-hint"] as const)("real Envoy 1.40, %s, and a picker that lists two", (variant) => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack(variant, { eppArgs: ["--config-text", TWO] });
    await poll("the picker to be asked", async () => (await stack.envoy.stat("cluster.epp.membership_healthy")) === 1);
  });
  afterAll(() => stack?.stop());

  it("cannot read the list: 503, counted by Envoy, and no server is contacted (D-34)", async () => {
    const answer = await ask(`${stack.url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat("two") });
    expect([answer.status, answer.text]).toEqual([503, "no healthy upstream"]);
    expect(await stack.envoy.stat("cluster.picked_endpoint.original_dst_host_invalid")).toBeGreaterThan(0);
    expect(await stack.envoy.stat("cluster.picked_endpoint.upstream_rq_total")).toBe(0);
  });
});
