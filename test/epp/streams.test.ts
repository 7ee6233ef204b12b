import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../support/client.ts";
import { samplesOf } from "../support/core.ts";
import { type BareEpp, ExtProcClient, exchange, route, startBareEpp } from "../support/epp-process.ts";
import { growthMiB } from "../support/growth.ts";
import { poll } from "../support/poll.ts";
import { residentMiB } from "../support/process.ts";
import { fixedLimit } from "../support/slowness.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const [SESSIONS, STREAMS] = [10, 10_000];
const EXCHANGES = 20_000;

let sims: Sim[];
let epp: BareEpp;
beforeAll(async () => {
  sims = await startSims(1);
  const endpoints = endpointsFile(sims.map((sim) => sim.port));
  epp = await startBareEpp(endpoints, ["--secure-serving=false", "--enable-grpc-stream-metrics"]);
});
afterAll(() => Promise.all([epp, ...(sims ?? [])].map((part) => part?.process.stop())));

const samples = async () => samplesOf((await ask(`${epp.adminUrl}/metrics`)).text);
/** All refusals and failures of exchanges so far. */
const errors = async () =>
  [...(await samples())].filter(([name]) => name.startsWith("llm_d_epp_request_error_total")).length;

describe("sluice epp under many streams", () => {
  it(`holds ${STREAMS} streams over ${SESSIONS} connections: none refused, at most 200 KiB each, all of them served (D-27)`, {
    timeout: fixedLimit(120_000),
  }, async () => {
    const before = await residentMiB(epp.process.pid);
    const clients = await Promise.all(Array.from({ length: SESSIONS }, () => ExtProcClient.connect(epp.port)));
    const streams = clients.flatMap((client) => Array.from({ length: STREAMS / SESSIONS }, () => client.open()));
    for (const stream of streams)
      stream.requestHeaders([
        [":method", "POST"],
        [":path", "/v1/chat/completions"],
        ["content-type", "application/json"],
      ]);
    await poll("all streams", async () => (await samples()).get("llm_d_epp_extproc_streams_inflight") === STREAMS);
    const each = (((await residentMiB(epp.process.pid)) - before) * 1024) / STREAMS;
    expect(each).toBeLessThan(200);
    for (const stream of streams) stream.requestBody('{"model":"m","messages":[{"role":"user","content":"hi"}]}', true);
    const replies = await Promise.all(streams.map((stream) => stream.next()));
    expect(replies.filter((reply) => reply?.requestHeaders === undefined)).toEqual([]);
    for (const stream of streams) stream.reset();
    for (const client of clients) expect(client.grpc.goaways).toBe(0);
    await poll("their ends", async () => (await samples()).get("llm_d_epp_extproc_streams_inflight") === 0);
    expect(await errors()).toBe(0);
    const next = await ExtProcClient.connect(epp.port);
    expect(await exchange(next)).toBe(`127.0.0.1:${sims[0]!.port}`);
    for (const client of [...clients, next]) client.close();
  });

  it(`serves ${EXCHANGES} exchanges on one connection, each ended by a reset: no GOAWAY, no error, no line in the log, no memory kept (E-09, D-81)`, {
    timeout: fixedLimit(120_000),
  }, async () => {
    const client = await ExtProcClient.connect(epp.port);
    const complete = async () => (await samples()).get('sluice_exchanges_total{outcome="complete"}') ?? 0;
    const completeBefore = await complete();
    const run = async (count: number, code: number): Promise<void> => {
      let left = count;
      const lane = async (): Promise<void> => {
        while (left-- > 0) {
          const stream = client.open();
          await route(stream);
          stream.responseHeaders([[":status", "204"]], true);
          expect((await stream.next())?.responseHeaders).toBeDefined();
          stream.reset(code);
        }
      };
      await Promise.all(Array.from({ length: 32 }, lane));
    };
    await run(EXCHANGES / 4, 2);
    const logged = epp.process.stderr.length;
    let sent = EXCHANGES / 4;
    const grown = await growthMiB(epp.process.pid, 48, async () => {
      await run(EXCHANGES / 4, 2);
      await run(EXCHANGES / 2, 0);
      sent += (EXCHANGES * 3) / 4;
    });
    expect(grown).toBeLessThanOrEqual(48);
    expect(client.grpc.goaways).toBe(0);
    // A metrics page that was not read in time, on a busy machine, is no news of a stream.
    const lines = epp.process.stderr.slice(logged).split("\n");
    expect(
      lines.filter(
        (line) =>
          line !== "" &&
          !/"(endpoint is (up|blind|down)|an endpoint of the pool|every endpoint of the pool)/.test(line),
      ),
    ).toEqual([]);
    expect(await errors()).toBe(0);
    await poll("the last reset", async () => (await samples()).get("llm_d_epp_extproc_streams_inflight") === 0);
    expect((await complete()) - completeBefore).toBe(sent);
    client.close();
  });

  it("takes a body of 8 MiB in one message, and gives it back (E-07, D-83)", async () => {
    const client = await ExtProcClient.connect(epp.port);
    const stream = client.open();
    stream.requestHeaders([
      [":method", "POST"],
      [":path", "/v1/chat/completions"],
    ]);
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "x".repeat(8 << 20) }] });
    stream.requestBody(body, true);
    expect((await stream.next())?.requestHeaders).toBeDefined();
    const received: Buffer[] = [];
    for (let end = false; !end; ) {
      const chunk = (await stream.next())?.requestBody.response.bodyMutation.streamedResponse;
      received.push(chunk.body);
      end = chunk.endOfStream === true;
    }
    expect(Buffer.concat(received).equals(Buffer.from(body))).toBe(true);
    stream.reset();
    client.close();
  });
});
