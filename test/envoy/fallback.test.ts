import { createHash } from "node:crypto";
import { afterEach, describe, expect, it } from "vitest";
import { type Answer, ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import {
  portOf,
  type SeenRequest,
  type Sim,
  type Stack,
  type StackOptions,
  seenBy,
  startStack,
} from "../support/stack.ts";

/** The server that holds the prompt comes first; two endpoints are offered; scrapes are too rare to notice a death. */
const CONFIG = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-scorer
- type: max-score-picker
  parameters: { maxNumOfEndpoints: 2 }
- type: destination-endpoint-served-verifier
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: prefix-cache-scorer
  - pluginRef: max-score-picker
`;
const EPP_ARGS = ["--config-text", CONFIG, "--refresh-metrics-interval", "10m"];

const MODES: readonly (readonly [string, NonNullable<StackOptions["bootstrap"]>])[] = [
  ["body kept by Envoy", { requestBodyMode: "buffered" }],
  ["body through the picker", { requestBodyMode: "full-duplex" }],
];

describe.each(MODES)("real Envoy 1.40, override-host, %s: the picker's list is walked down", (_, bootstrap) => {
  let stack: Stack | undefined;
  afterEach(async () => {
    await stack?.stop();
    stack = undefined;
  });

  const body = chat("a long prompt that is worth remembering ".repeat(2_000));
  const bodySha256 = createHash("sha256").update(body).digest("hex");

  const send = (id: string): Promise<Answer> =>
    ask(`${stack!.url}/v1/chat/completions`, { headers: { ...JSON_HEADERS, "x-test-id": id }, body });

  /** Starts everything and lets one server earn the prompt: it is the first of every later list. */
  const begin = async (): Promise<{ first: Sim; others: Sim[] }> => {
    stack = await startStack("override-host", {
      eppArgs: EPP_ARGS,
      simArgs: ["--max-model-len", "1000000", "--prefill-time-per-token", "0"],
      bootstrap,
    });
    const { url, sims } = stack;
    await poll("the first answer", async () => (await ask(`${url}/v1/models`)).status === 200);
    expect((await send("earn")).status).toBe(200);
    const holder = (await seenBy(sims, "earn"))[0]!.port;
    return { first: sims.find(({ port }) => port === holder)!, others: sims.filter(({ port }) => port !== holder) };
  };

  const breakDown = async ({ url }: Sim, changes: object): Promise<void> => {
    const answer = await ask(`${url}/admin/config`, { headers: JSON_HEADERS, body: JSON.stringify(changes) });
    expect(answer.status).toBe(200);
  };

  const reported = ({ headers }: Answer): string => String(headers["x-conformance-test-served-endpoint"]);

  /** The ports of the picker's list, which reaches the server in the header: who serves is its second, no chance find. */
  const listOf = ([request]: readonly SeenRequest[]): number[] =>
    request!.headers["x-gateway-destination-endpoint"]!.split(",").map(portOf);

  it("the first refuses connections: the second serves, has the body once, and is reported (D-35)", async () => {
    const { first, others } = await begin();
    await first.process.stop();
    const answer = await send("refused");
    expect(answer.status).toBe(200);
    const seen = await seenBy(others, "refused");
    expect(seen).toMatchObject([{ bodyLength: body.length, bodySha256, repeatedDocument: false }]);
    expect(reported(answer)).toBe(`127.0.0.1:${seen[0]!.port}`);
    expect(listOf(seen)).toEqual([first.port, seen[0]!.port]);
    expect(await stack!.envoy.stat("cluster.model_servers.upstream_rq_retry")).toBe(1);
  });

  it("the first answers 503: the second serves, has the body once, and is reported (D-36)", async () => {
    const { first, others } = await begin();
    await breakDown(first, { "failure-injection-rate": 100, "failure-types": ["server_error"] });
    const answer = await send("busy");
    expect([answer.status, (await seenBy([first], "busy")).map(({ status }) => status)]).toEqual([200, [503]]);
    const seen = await seenBy(others, "busy");
    expect(seen).toMatchObject([{ bodyLength: body.length, bodySha256, repeatedDocument: false }]);
    expect(reported(answer)).toBe(`127.0.0.1:${seen[0]!.port}`);
    expect(listOf(seen)).toEqual([first.port, seen[0]!.port]);
  });

  it("two of three are down: the third is found, by the list or by the fallback policy, and is reported (D-36)", async () => {
    const { first, others } = await begin();
    await first.process.stop();
    await others[0]!.process.stop();
    const answer = await send("third");
    expect(answer.status).toBe(200);
    expect(await seenBy([others[1]!], "third")).toMatchObject([{ bodyLength: body.length, bodySha256 }]);
    expect(reported(answer)).toBe(`127.0.0.1:${others[1]!.port}`);
  });

  it("learns from the report: whoever served comes first the next time (E-75)", async () => {
    const { first } = await begin();
    await first.process.stop();
    const served = reported(await send("teach"));
    const before = await stack!.envoy.stat("cluster.model_servers.upstream_rq_retry");
    expect(reported(await send("learnt"))).toBe(served);
    // The list may still begin with the dead one, which knew the prompt as well; it never ends anywhere else.
    expect(await stack!.envoy.stat("cluster.model_servers.upstream_rq_retry")).toBeLessThanOrEqual(before + 1);
  });

  it("nobody is left: the client gets a 503 and nothing hangs (D-85)", async () => {
    const { first, others } = await begin();
    for (const sim of [first, ...others]) await sim.process.stop();
    expect((await send("nobody")).status).toBe(503);
    await poll("the in-flight count to fall to zero", async () => {
      const list = await getJson<{ endpoints: { inFlight: { requests: number } }[] }>(
        `${stack!.epp.adminUrl}/debug/endpoints`,
      );
      return list.endpoints.length === 3 && list.endpoints.every(({ inFlight }) => inFlight.requests === 0);
    });
  });
});
