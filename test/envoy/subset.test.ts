import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, ask, chat, JSON_HEADERS } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { type Stack, seenBy, startStack } from "../support/stack.ts";

/** Any server is as good as any other, and the report of who served comes back to the client. */
const CONFIG = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: max-score-picker
- type: destination-endpoint-served-verifier
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: max-score-picker
`;

/** Enough that each of three servers is chosen by chance (chance that one is not: 3 in 10^7). */
const TIMES = 40;

describe.each([
  ["the header's list alone", false],
  ["a constant list and the header's", true],
])("real Envoy 1.40, subset-hint: %s", (_, constant) => {
  let stack: Stack;
  let addresses: string[];

  beforeAll(async () => {
    stack = await startStack("subset-hint", {
      eppArgs: ["--config-text", CONFIG],
      simArgs: ["--inter-token-latency", "0", "--time-to-first-token", "0"],
      bootstrapFor: ([first, second]) => (constant ? { subset: [`127.0.0.1:${first}`, `127.0.0.1:${second}`] } : {}),
    });
    addresses = stack.sims.map(({ port }) => `127.0.0.1:${port}`);
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(() => stack?.stop());

  const send = (id: string, subset?: string): Promise<Answer> =>
    ask(`${stack.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-test-id": id, ...(subset === undefined ? {} : { "x-pool-subset": subset }) },
      body: chat("hello"),
    });

  const askOften = async (id: string, subset?: string): Promise<Answer[]> => {
    const answers: Answer[] = [];
    for (let i = 0; i < TIMES; i++) answers.push(await send(id, subset));
    return answers;
  };

  it("restricts the choice to the list, and the picker hears who served (D-39, D-14)", async () => {
    const [first, , third] = addresses;
    const answers = await askOften(`two-${constant}`, `${first}, ${third}`);
    expect(answers.map(({ status }) => status)).toEqual(Array(TIMES).fill(200));
    const served = new Set(answers.map(({ headers }) => headers["x-conformance-test-served-endpoint"]));
    expect(served).toEqual(new Set([first, third]));
    const seen = await seenBy(stack.sims, `two-${constant}`);
    expect(new Set(seen.map(({ port }) => `127.0.0.1:${port}`))).toEqual(served);
    expect(seen.some(({ headers }) => "x-pool-subset" in headers)).toBe(false);
  });

  it("shows the client no address of a server (D-39)", async () => {
    expect((await send("hidden", addresses[0])).headers).not.toHaveProperty("x-upstream-address");
  });

  it("restricts a request without a body, too (V-10)", async () => {
    for (let i = 0; i < 10; i++) {
      const answer = await ask(`${stack.url}/v1/models`, { headers: { "x-pool-subset": addresses[1]! } });
      expect([answer.status, answer.headers["x-inference-port"]]).toEqual([200, addresses[1]!.split(":")[1]]);
    }
  });

  it.each([
    ["a list that names nobody of the pool", "127.0.0.1:1"],
    ["an empty list", " "],
  ])("answers 503 to %s, in the picker's words (D-44, D-14)", async (_, subset) => {
    const answer = await send("nobody", subset);
    expect([answer.status, answer.text]).toEqual([
      503,
      "inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request",
    ]);
    expect(answer.headers["x-llm-d-request-dropped-reason"]).toBe("rejected-no-endpoints");
    expect(answer.headers["content-type"]).toMatch(/^text\/plain/);
    expect(await seenBy(stack.sims, "nobody")).toEqual([]);
  });

  it(`without a list of its own a request may go ${constant ? "where the constant one says" : "anywhere"}`, async () => {
    const answers = await askOften(`any-${constant}`);
    const served = new Set(answers.map(({ headers }) => headers["x-conformance-test-served-endpoint"]));
    expect(served).toEqual(new Set(constant ? addresses.slice(0, 2) : addresses));
  });
});
