import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, getJson, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { rawServer } from "../support/loopback.ts";
import { poll } from "../support/poll.ts";
import { type Sim, seenBy, startSims } from "../support/stack.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-models-"));
const file = join(folder, "endpoints.yaml");
let sims: Sim[] = [];
let gateway: TestGateway;
let laterPort: number;
let next = 0;

/** Writes the endpoints file in one step. */
function write(...entries: readonly string[]): void {
  writeFileSync(`${file}.new`, `endpoints:\n${entries.map((entry) => `- ${entry}\n`).join("")}`);
  renameSync(`${file}.new`, file);
}
const entry = (name: string, port: number, more = ""): string =>
  `{ name: ${name}, address: 127.0.0.1, port: ${port}${more} }`;
const entries = (): string[] => [
  entry("alpha", sims[0]!.port),
  entry("beta", sims[1]!.port),
  entry("later", laterPort),
];

beforeAll(async () => {
  const adapter = JSON.stringify({ name: "beta-sql", path: "/adapters/sql" });
  sims = [
    ...(await startSims(1, ["--model", "alpha"])),
    ...(await startSims(1, ["--model", "beta", "--lora-modules", adapter])),
  ];
  laterPort = await freePort();
  write(...entries());
  gateway = await startGateway(file);
  await poll("both lists", async () => (await names()).length === 3);
});
afterAll(async () => {
  await gateway?.process.stop();
  await Promise.all(sims.map((sim) => sim.process.stop()));
});

interface ErrorBody {
  readonly message: string;
  readonly type: string;
  readonly code: string | number;
}

/** Sends a completion. `by`: the place in `sims` of each server that saw it. */
async function complete(model: string) {
  const id = `models-${next++}`;
  const body = JSON.stringify({ model, prompt: `say ${id}`, max_tokens: 2 });
  const headers = { ...JSON_HEADERS, "x-test-id": id, "x-request-id": id };
  const { status, headers: got, text } = await ask(`${gateway.url}/v1/completions`, { headers, body });
  const by = (await seenBy(sims, id)).map(({ port }) => sims.findIndex((sim) => sim.port === port));
  return { id, status, headers: got, json: JSON.parse(text) as { model?: string; error?: ErrorBody }, by };
}

async function names(): Promise<string[]> {
  const { data } = await getJson<{ data: { id: string }[] }>(`${gateway.url}/v1/models`);
  return data.map(({ id }) => id);
}

describe("two models and an adapter behind one gateway", () => {
  it("a request goes only to a server of its model, base model and adapter alike", async () => {
    for (const [model, place] of [
      ["alpha", 0],
      ["beta", 1],
      ["beta-sql", 1],
    ] as const)
      for (let i = 0; i < 8; i++) {
        const { status, json, by } = await complete(model);
        expect([model, status, json.model, by]).toEqual([model, 200, model, [place]]);
      }
  });

  it("the record of a decision says which endpoints do not serve the model", async () => {
    const { id } = await complete("alpha");
    const record = await getJson<{ filters: { text: string }[] }>(`${gateway.adminUrl}/debug/decisions/${id}`);
    expect(record.filters[0]!.text).toBe("1 endpoint does not serve alpha: default/beta");
  });

  it("the list of the gateway is merged, with what the servers say of each model", async () => {
    const { object, data } = await getJson<{ object: string; data: object[] }>(`${gateway.url}/v1/models`);
    expect(object).toBe("list");
    const model = { object: "model", owned_by: "vllm", created: expect.any(Number) };
    expect(data).toEqual([
      { ...model, id: "alpha", root: "alpha", parent: null, max_model_len: expect.any(Number) },
      { ...model, id: "beta", root: "beta", parent: null, max_model_len: expect.any(Number) },
      { ...model, id: "beta-sql", root: "/adapters/sql", parent: "beta" },
    ]);
    expect(await getJson(`${gateway.url}/v1/models/beta-sql`)).toMatchObject({ id: "beta-sql", parent: "beta" });
  });

  it("/debug/endpoints names the models of each endpoint, null where nobody has said any", async () => {
    const { endpoints } = await getJson<{ endpoints: { models: object | null }[] }>(
      `${gateway.adminUrl}/debug/endpoints`,
    );
    expect(endpoints.map(({ models }) => models)).toEqual([
      { source: "server", names: ["alpha"], count: 1 },
      { source: "server", names: ["beta", "beta-sql"], count: 2 },
      null,
    ]);
  });

  it("a server that comes later becomes known with its model, and others' requests never reach it", async () => {
    sims.push(...(await startSims(1, ["--model", "gamma", "--port", String(laterPort)])));
    await poll("the list of the server that came later", async () => (await names()).includes("gamma"));
    expect(await complete("gamma")).toMatchObject({ status: 200, by: [2] });
    for (let i = 0; i < 8; i++) expect(await complete("alpha")).toMatchObject({ status: 200, by: [0] });
  });

  it("a model that no server has is answered 404 in the shape of OpenAI, with the nearest name", async () => {
    const error = {
      message:
        "no endpoint serves the model `alhpa`; did you mean `alpha`? The models are `alpha`, `beta`, `beta-sql`, `gamma`.",
      type: "invalid_request_error",
      code: "model_not_found",
    };
    expect(await complete("alhpa")).toMatchObject({ status: 404, json: { error }, by: [] });
    const { status, text } = await ask(`${gateway.url}/v1/models/alhpa`);
    expect([status, JSON.parse(text)]).toMatchObject([404, { error }]);
  });

  it("the endpoints file changes the models at once: it wins over the server, and gives way again", async () => {
    const [alpha, beta, later] = entries();
    write(entry("alpha", sims[0]!.port, ", models: [renamed]"), beta!, later!);
    await poll("the models of the file", async () => (await names()).includes("renamed"));
    expect((await complete("alpha")).status).toBe(404);
    // The request goes to the server that the file names; the server itself does not know the name.
    expect(await complete("renamed")).toMatchObject({ status: 404, json: { error: { code: 404 } }, by: [0] });
    write(alpha!, beta!, later!);
    await poll("the models of the server", async () => (await names()).includes("alpha"));
    expect(await complete("alpha")).toMatchObject({ status: 200, by: [0] });
    write(alpha!, beta!);
    await poll("the end of a model", async () => !(await names()).includes("gamma"));
    expect((await complete("gamma")).status).toBe(404);
  });

  it("a model whose servers are all down is answered 503 with a time, and the others do not notice", async () => {
    await sims[1]!.process.stop();
    sims.splice(1, 1);
    for (let i = 0; i < 4; i++) {
      const { status, headers, json } = await complete("beta-sql");
      expect([status, headers["retry-after"], json.error?.type]).toEqual([503, "5", "upstream_error"]);
      expect(await complete("alpha")).toMatchObject({ status: 200, by: [0] });
    }
    expect(await names()).toEqual(["alpha", "beta", "beta-sql"]);
  });
});

describe("a gateway whose servers list the same model one after the other", () => {
  const list = JSON.stringify({ data: [{ id: "m" }] });
  const answer = (status: string, body: string): string =>
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const READY = "ready";
  /** Why the gateway is not ready, in its own words. */
  const because = async (port: number): Promise<string> =>
    (await getJson<{ because: string | null }>(`http://127.0.0.1:${port}/debug/ready`)).because ?? READY;
  const isQuestion = (head: string): boolean => head.startsWith("GET /v1/models ");

  /**
   * Starts a gateway before a server that answers every request with 503 and lists its model at once, and a good one that lists its
   * model only after the gateway said twice that it is starting, or that it is ready.
   * @returns what the gateway said of itself, and the statuses of its first answers
   */
  async function firstAnswers(): Promise<{ readonly said: readonly string[]; readonly statuses: readonly number[] }> {
    const adminPort = await freePort();
    const said: string[] = [];
    const bad = await rawServer(({ head, socket }) =>
      socket.write(isQuestion(head) ? answer("200 OK", list) : answer("503 Service Unavailable", "{}")),
    );
    const good = await rawServer(({ head, socket }) => {
      if (!isQuestion(head)) {
        socket.write(answer("200 OK", "{}"));
        return;
      }
      const look = async (): Promise<void> => {
        // The question may come before the admin port is open.
        const heard = await because(adminPort).catch(() => undefined);
        if (heard !== undefined) said.push(heard);
        if (said.length < 2 && heard !== READY) setTimeout(look, 100);
        else socket.write(answer("200 OK", list));
      };
      void look();
    });
    const pair = join(folder, "pair.yaml");
    writeFileSync(pair, `endpoints:\n- ${entry("bad", bad.port)}\n- ${entry("good", good.port)}\n`);
    const started = await startGateway(pair, ["--admin", `127.0.0.1:${adminPort}`]);
    try {
      said.push(await because(adminPort));
      const statuses: number[] = [];
      const body = JSON.stringify({ model: "m", prompt: "hello" });
      for (let n = 0; n < 4; n++)
        statuses.push((await ask(`${started.url}/v1/completions`, { headers: JSON_HEADERS, body })).status);
      return { said, statuses };
    } finally {
      await started.process.stop();
      await Promise.all([bad.close(), good.close()]);
    }
  }

  it("opens its port when all have answered, so that its first request has every server to retry on", async () => {
    const expected = {
      said: ["the process is starting", "the process is starting", READY],
      statuses: [200, 200, 200, 200],
    };
    let got = await firstAnswers();
    // The gateway waits for 1 s, which may be over on a machine that is slow at that moment.
    for (let start = 1; start < 3 && got.said.join() !== expected.said.join(); start++) got = await firstAnswers();
    expect(got).toEqual(expected);
  });
});
