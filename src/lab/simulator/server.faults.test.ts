import { request as httpRequest } from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Answer, ask } from "../../../test/support/client.ts";
import { poll } from "../../../test/support/poll.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseSimOptions } from "./options.ts";
import { type Simulator, type SimulatorParts, startSimulator } from "./server.ts";

const TEXT = "/v1/completions";
const INSTANT = { "prefill-overhead": 0, "prefill-time-per-token": 0, "inter-token-latency": 0 };
const BODY = { prompt: "a b c", max_tokens: 10, ignore_eos: true };

async function start(raw: Record<string, unknown> = {}, parts: SimulatorParts = {}): Promise<Simulator> {
  const simulator = await startSimulator(parseSimOptions({ port: 0, host: "127.0.0.1", ...INSTANT, ...raw }), parts);
  onTestFinished(() => simulator.close());
  return simulator;
}

const post = (
  sim: Simulator,
  body: object = BODY,
  headers: Record<string, string> = {},
  path = TEXT,
): Promise<Answer> => ask(sim.url + path, { headers, body: JSON.stringify(body) });
const configure = (sim: Simulator, changes: object): Promise<Answer> => post(sim, changes, {}, "/admin/config");
const config = async (sim: Simulator) => JSON.parse((await ask(`${sim.url}/admin/config`)).text);
const lastRecord = async (sim: Simulator) => JSON.parse((await ask(`${sim.url}/admin/requests`)).text).requests.at(-1);

/** Everything a stream says until its connection ends, and how that was. */
function readUntilCut(sim: Simulator, headers: Record<string, string> = {}): Promise<{ text: string; code: unknown }> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(sim.url + TEXT, { method: "POST", headers, agent: false });
    request.on("error", (error) => {
      if (!answered) reject(error);
    });
    let answered = false;
    request.on("response", (response) => {
      answered = true;
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("error", (error: NodeJS.ErrnoException) => resolve({ text, code: error.code }));
      response.on("end", () => resolve({ text, code: undefined }));
    });
    request.end(JSON.stringify({ ...BODY, stream: true }));
  });
}

const tokensIn = (text: string): number => text.split("data: ").length - 1;

describe("D-69: faults", () => {
  it.each([
    [400, "BadRequestError"],
    [401, "AuthenticationError"],
    [403, "PermissionDeniedError"],
    [404, "NotFoundError"],
    [422, "UnprocessableEntityError"],
    [429, "RateLimitError"],
    [503, "InternalServerError"],
  ])("X-Return-Error %i", async (status, type) => {
    const sim = await start();
    const answer = await post(sim, BODY, { "x-return-error": String(status) });
    expect([answer.status, JSON.parse(answer.text).error]).toEqual([
      status,
      { message: expect.any(String), type, param: null, code: status },
    ]);
    expect((await post(sim)).status).toBe(200);
  });

  it("X-Return-Error with something that is no error", async () => {
    const sim = await start();
    expect((await post(sim, BODY, { "x-return-error": "200" })).status).toBe(400);
  });

  it.each([
    ["rate_limit", 429],
    ["invalid_api_key", 401],
    ["context_length", 400],
    ["server_error", 503],
    ["invalid_request", 400],
    ["model_not_found", 404],
  ])("failure-types %s", async (type, status) => {
    const sim = await start({ "failure-injection-rate": 100, "failure-types": [type] });
    expect((await post(sim)).status).toBe(status);
    expect((await post(sim, { ...BODY, stream: true })).status).toBe(status);
    expect((await ask(`${sim.url}/v1/models`)).status).toBe(200);
  });

  it("failure-injection-rate is a percentage, repeatable by its seed, of all types unless some are named", async () => {
    const play = async (): Promise<number[]> => {
      const sim = await start({ "failure-injection-rate": 50 });
      const statuses: number[] = [];
      for (let i = 0; i < 60; i++) statuses.push((await post(sim)).status);
      return statuses;
    };
    const statuses = await play();
    const fine = statuses.filter((status) => status === 200).length;
    expect(fine).toBeGreaterThan(15);
    expect(fine).toBeLessThan(45);
    expect(new Set(statuses).size).toBeGreaterThan(3);
    expect(await play()).toEqual(statuses);
  });

  it("fail-connect resets after accepting; /admin stays open to end it", async () => {
    const sim = await start({ "fail-connect": true });
    await expect(post(sim)).rejects.toMatchObject({ code: "ECONNRESET" });
    await expect(ask(`${sim.url}/metrics`)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect((await configure(sim, { "fail-connect": false })).status).toBe(200);
    expect((await post(sim)).status).toBe(200);
  });

  it("drop-after-tokens lets that many tokens out, then resets and frees the slot", async () => {
    const sim = await start({ "drop-after-tokens": 3 });
    const { text, code } = await readUntilCut(sim);
    expect([tokensIn(text), code]).toEqual([3, "ECONNRESET"]);
    expect(await lastRecord(sim)).toMatchObject({ fault: "drop-after-tokens", aborted: false });
    expect([sim.engine.running, sim.engine.kv.pinned]).toEqual([0, 0]);
    await expect(post(sim)).rejects.toMatchObject({ code: "ECONNRESET" });
    await expect(readUntilCut(sim, { "x-sim-drop-after-tokens": "0" })).rejects.toMatchObject({ code: "ECONNRESET" });
  });

  it("stall-after-tokens says nothing more but keeps the slot until the client leaves", async () => {
    const clock = new VirtualClock();
    const sim = await start({ "inter-token-latency": 10 }, { clock });
    const request = httpRequest(sim.url + TEXT, {
      method: "POST",
      headers: { "x-sim-stall-after-tokens": "4" },
      agent: false,
    });
    request.on("error", () => {});
    let text = "";
    request.on("response", (response) => {
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("error", () => {});
    });
    request.end(JSON.stringify({ ...BODY, stream: true }));
    await poll("it runs", () => sim.engine.running === 1);
    clock.advance(60_000);
    await poll("four tokens", () => tokensIn(text) === 4);
    expect([sim.engine.running, clock.pending]).toEqual([1, 0]);
    request.destroy();
    await poll("the slot is free", () => sim.engine.running === 0);
  });

  it("slow-body-bytes-per-sec paces every body, and slowly written ones are whole", async () => {
    const clock = new VirtualClock();
    const sim = await start({}, { clock });
    const headers = { "x-sim-slow-body-bytes-per-sec": "2000" };
    for (const stream of [false, true]) {
      let answered = false;
      const answer = post(sim, { ...BODY, stream }, headers).finally(() => {
        answered = true;
      });
      await poll("it runs", () => sim.engine.running === 1);
      const started = clock.now();
      await poll("all of it came", () => {
        if (!answered) clock.advance(50);
        return answered;
      });
      const { status, text } = await answer;
      expect([status, stream ? text.endsWith("data: [DONE]\n\n") : JSON.parse(text).usage.completion_tokens]).toEqual([
        200,
        stream ? true : 10,
      ]);
      expect(clock.now() - started).toBeGreaterThanOrEqual(text.length / 2);
    }
  });

  it("a client that leaves a paced body leaves nothing running", async () => {
    const clock = new VirtualClock();
    const sim = await start({ "slow-body-bytes-per-sec": 10 }, { clock });
    const request = httpRequest(sim.url + TEXT, { method: "POST", agent: false });
    request.on("error", () => {});
    request.end(JSON.stringify({ ...BODY, stream: true }));
    await poll("it runs", () => sim.engine.running === 1);
    clock.advance(200);
    request.destroy();
    await poll("aborted", async () => (await lastRecord(sim)).aborted);
    expect(clock.pending).toBe(0);
  });

  it("error-until fails the first N inference requests", async () => {
    const sim = await start({ "error-until": 2 });
    expect((await ask(`${sim.url}/v1/models`)).status).toBe(200);
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push((await post(sim)).status);
    expect(statuses).toEqual([503, 503, 200, 200]);
  });

  it("crash-after cuts every connection, stops listening and says so once", async () => {
    const clock = new VirtualClock();
    let crashes = 0;
    const onCrash = (): void => {
      crashes++;
    };
    const sim = await start({ "crash-after": "5s", "stall-after-tokens": 0 }, { clock, onCrash });
    const cut = expect(post(sim)).rejects.toThrow();
    await poll("it runs", () => sim.engine.running === 1);
    await post(sim, BODY, { "x-sim-crash-after": "1s", "x-return-error": "400" });
    clock.advance(999);
    expect((await ask(`${sim.url}/health`)).status).toBe(200);
    clock.advance(10_000);
    await cut;
    await expect(ask(`${sim.url}/health`)).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await poll("the slot is free", () => sim.engine.running === 0);
    expect(crashes).toBe(1);
  });
});

/** What one stream met, in one word. Time passes while it is awaited, at most a quarter of a minute. */
async function fate(sim: Simulator, clock: VirtualClock, headers: Record<string, string> = {}): Promise<string> {
  let found: string | undefined;
  let text = "";
  const request = httpRequest(sim.url + TEXT, { method: "POST", headers, agent: false });
  let answered = false;
  request.on("error", (error: NodeJS.ErrnoException) => {
    if (!answered) found ??= String(error.code);
  });
  request.on("response", (response) => {
    answered = true;
    response.on("data", (chunk) => {
      text += chunk;
    });
    response.on("error", () => {
      found ??= `cut after ${tokensIn(text)}`;
    });
    response.on("end", () => {
      found ??= response.statusCode === 200 ? `whole, ${tokensIn(text)}` : String(response.statusCode);
    });
  });
  request.end(JSON.stringify({ ...BODY, stream: true }));
  await poll("it runs or is refused", () => found !== undefined || sim.engine.running === 1);
  const started = clock.now();
  await poll("its fate", () => {
    clock.advance(500);
    return found !== undefined || clock.now() - started > 15_000;
  });
  const slow = found !== undefined && clock.now() - started > 1_000;
  found ??= `silent after ${tokensIn(text)}`;
  request.destroy();
  await poll("nothing runs", () => sim.engine.running === 0);
  return `${found}${slow ? ", slowly" : ""}`;
}

describe("D-69: every fault, wherever it is set", () => {
  const FAULTS: readonly (readonly [string, string | number | boolean, string])[] = [
    ["failure-injection-rate", 100, "40.|429|503"],
    ["fail-connect", true, "ECONNRESET"],
    ["drop-after-tokens", 3, "cut after 3"],
    ["stall-after-tokens", 3, "silent after 3"],
    // The answer has about 1,500 bytes.
    ["slow-body-bytes-per-sec", 400, "whole, 12, slowly"],
    ["error-until", 1, "503"],
    ["crash-after", "50ms", "ECONNRESET"],
  ];

  it.each(FAULTS)("%s, by a header of one request and by the option", async (name, value, met) => {
    const clock = new VirtualClock();
    // Long enough for a crash to come first.
    const slow = name === "crash-after" ? { "prefill-overhead": "10s" } : {};
    const sim = await start(slow, { clock });
    if (name !== "crash-after") expect(await fate(sim, clock)).toBe("whole, 12");
    await ask(`${sim.url}/admin/reset`, { body: "{}" });
    expect(await fate(sim, clock, { [`x-sim-${name}`]: String(value) })).toMatch(new RegExp(`^(?:${met})$`));
    if (name !== "crash-after") expect(await fate(sim, clock)).toBe("whole, 12");
    const configured = await start({ ...slow, [name]: value }, { clock });
    expect(await fate(configured, clock)).toMatch(new RegExp(`^(?:${met})$`));
  });

  it.each(FAULTS)("%s, by /admin/config, and off again", async (name, value, met) => {
    const clock = new VirtualClock();
    const sim = await start(name === "crash-after" ? { "prefill-overhead": "10s" } : {}, { clock });
    const off = (await config(sim))[name];
    expect((await configure(sim, { [name]: value })).status).toBe(200);
    expect(await fate(sim, clock)).toMatch(new RegExp(`^(?:${met})$`));
    if (name === "crash-after") return;
    expect((await configure(sim, { [name]: off })).status).toBe(200);
    expect(await fate(sim, clock)).toBe("whole, 12");
  });

  it("failure-types narrows the failures by header and by /admin/config", async () => {
    const clock = new VirtualClock();
    const sim = await start({ "failure-injection-rate": 100, "failure-types": ["rate_limit"] }, { clock });
    expect(await fate(sim, clock)).toBe("429");
    expect(await fate(sim, clock, { "x-sim-failure-types": "invalid_api_key" })).toBe("401");
    expect((await configure(sim, { "failure-types": ["model_not_found"] })).status).toBe(200);
    expect(await fate(sim, clock)).toBe("404");
  });
});

describe("D-69: per request and per server", () => {
  it.each([
    ["x-sim-drop-after-tokens", "many"],
    ["x-sim-failure-types", "rate_limit, boredom"],
    ["x-sim-inter-token-latency", "5"],
    ["x-sim-unheard-of", "1"],
  ])("%s: %s is refused", async (name, value) => {
    const sim = await start();
    const { status, text } = await post(sim, BODY, { [name]: value });
    expect([status, JSON.parse(text).error.type]).toEqual([400, "BadRequestError"]);
    expect((await post(sim)).status).toBe(200);
  });

  it("a header overrides the server's setting for its request only", async () => {
    const sim = await start({ "failure-injection-rate": 100 });
    expect((await post(sim, BODY, { "x-sim-failure-injection-rate": "0" })).status).toBe(200);
    const only = { "x-sim-failure-types": "rate_limit, rate_limit" };
    expect((await post(sim, BODY, only)).status).toBe(429);
    expect((await config(sim))["failure-injection-rate"]).toBe(100);
  });

  it("/admin/config takes a part of the settings, all or none", async () => {
    const sim = await start();
    const before = await config(sim);
    expect(before).toMatchObject({ "inter-token-latency": 0, "failure-injection-rate": 0, "time-scale": 1 });
    for (const wrong of [
      { "failure-injection-rate": 100, "no-such-thing": 1 },
      { "failure-injection-rate": 100, "time-scale": 0 },
      { "failure-injection-rate": 100, "max-num-seqs": 3 },
      { "inter-token-latency": 10, "inter-token-latency-std-dev": 4 },
      { "failure-injection-rate": 100, "failure-types": "boredom" },
    ]) {
      const { status, text } = await configure(sim, wrong);
      expect([status, JSON.parse(text).error.type]).toEqual([400, "BadRequestError"]);
      expect(await config(sim)).toEqual(before);
    }
    expect((await post(sim)).status).toBe(200);
    const { status, text } = await configure(sim, { "inter-token-latency": "20ms", "failure-injection-rate": 100 });
    expect([status, JSON.parse(text)]).toEqual([
      200,
      { ...before, "inter-token-latency": 20, "failure-injection-rate": 100 },
    ]);
    expect((await post(sim)).status).not.toBe(200);
    expect(sim.engine.latency.interTokenLatency).toBe(20);
  });
});
