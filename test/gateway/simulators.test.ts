import { renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { freePort, onFreePorts } from "../support/free-port.ts";
import { type ShownEndpoint, startGateway, type TestGateway } from "../support/gateway.ts";
import { deadPort, type RawClient, rawClient } from "../support/loopback.ts";
import { poll } from "../support/poll.ts";
import { residentMiB, sluice, type TestProcess } from "../support/process.ts";
import { endpointsFile, portOf, type SeenRequest, type Sim, seenBy, startSims } from "../support/stack.ts";

let gateway: TestGateway | undefined;
let sims: Sim[] = [];
const clients: RawClient[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.socket.destroy();
  await gateway?.process.stop();
  await Promise.all(sims.map((sim) => sim.process.stop()));
  gateway = undefined;
  sims = [];
});

/** A gateway before simulators, one per list of flags. */
async function start(...flags: (readonly string[])[]): Promise<TestGateway> {
  sims = await Promise.all(flags.map(async (more) => (await startSims(1, more))[0]!));
  gateway = await startGateway(endpointsFile(sims.map(({ port }) => port)));
  return gateway;
}

/** A POST of a chat over a connection of its own, whose answer is looked at while it comes. */
async function post(id: string, body: string, headers = "", paused = false): Promise<RawClient> {
  const client = await rawClient(gateway!.port, { paused });
  clients.push(client);
  const lines = `host: gw\r\nx-test-id: ${id}\r\ncontent-type: application/json\r\n${headers}`;
  const length = Buffer.byteLength(body);
  client.send(`POST /v1/chat/completions HTTP/1.1\r\n${lines}content-length: ${length}\r\n\r\n${body}`);
  return client;
}

/** The one request with this id at any server, once it was seen to have ended this way. */
function ended(id: string, how: (seen: SeenRequest) => boolean): Promise<SeenRequest> {
  return poll(`the end of ${id}`, async () => (await seenBy(sims, id)).find(how));
}

const inFlight = async (): Promise<number> => {
  const { endpoints } = await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway!.adminUrl}/debug/endpoints`);
  return endpoints.reduce((sum, endpoint) => sum + endpoint.inFlight.requests, 0);
};

const dataLines = (text: string): string[] => text.split("\n").filter((line) => line.startsWith("data: "));

describe("the gateway before simulators that fail", () => {
  it.each([
    ["refuses", undefined],
    // It accepts and resets whatever comes; its metrics can't be read either, so that it is tried again and again.
    ["resets before it answers", ["--fail-connect"]],
    ["answers 503", ["--error-until", "1000000"]],
  ] as const)("D-48: one that %s is passed over, and no client notices", async (_what, flags) => {
    sims = await startSims(1);
    const bad = flags === undefined ? undefined : (await startSims(1, flags))[0]!;
    if (bad !== undefined) sims.push(bad);
    gateway = await startGateway(endpointsFile([sims[0]!.port, bad?.port ?? (await deadPort())]));
    for (let n = 0; n < 12; n++) {
      const headers = { ...JSON_HEADERS, "x-test-id": `bad-${n}` };
      const answer = await ask(`${gateway.url}/v1/chat/completions`, { headers, body: chat(`question ${n}`) });
      expect(answer.status).toBe(200);
      expect(answer.headers["x-inference-port"]).toBe(String(sims[0]!.port));
      const [served] = await seenBy([sims[0]!], `bad-${n}`);
      expect(served).toMatchObject({ status: 200, repeatedDocument: false, lengthMismatch: false });
    }
    await poll("the books are closed", async () => (await inFlight()) === 0);
  });

  it("D-48: a server that sent the header of a 200 is not replaced, whatever follows", async () => {
    await start(["--drop-after-tokens", "1"], ["--drop-after-tokens", "1"]);
    const client = await post("once", chat("hello", { stream: true }));
    await poll("the cut", client.closed);
    expect(client.text()).toMatch(/^HTTP\/1\.1 200 /);
    expect(client.text().match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(await seenBy(sims, "once")).toHaveLength(1);
  });

  it("D-53: an answer that breaks off ends in an error event and without its final chunk", async () => {
    await start(["--drop-after-tokens", "3"]);
    const client = await post("cut", chat("hello", { stream: true, max_tokens: 50 }));
    await poll("the cut", client.closed);
    const events = dataLines(client.text());
    // Role, three tokens, the error.
    expect(events).toHaveLength(5);
    expect(JSON.parse(events[4]!.slice(6))).toMatchObject({ error: { type: "upstream_error", code: 502 } });
    expect(client.text()).not.toContain("[DONE]");
    expect(client.text()).not.toMatch(/\r\n0\r\n\r\n$/);
    await poll("the books are closed", async () => (await inFlight()) === 0);
  });
});

describe("the gateway between a client and a simulator", () => {
  it("D-51: every event of a stream comes by itself, while the next is still to be made", async () => {
    await start(["--stall-after-tokens", "2", "--inter-token-latency", "50ms"]);
    // What came while the gateway stood still goes on in one chunk: on a busy machine that may be all of a stream.
    await poll("a stream that comes in several chunks", async () => {
      const client = await post("events", chat("hello", { stream: true, max_tokens: 50 }));
      // The server says nothing after these: they are here although nothing follows them.
      await poll("role and two tokens", () => dataLines(client.text()).length === 3);
      expect(client.text()).toMatch(/^HTTP\/1\.1 200 [\s\S]*content-type: text\/event-stream/);
      expect(client.closed()).toBe(false);
      client.socket.destroy();
      return (
        client
          .text()
          .split("\r\n\r\n")[1]!
          .match(/^[0-9a-f]+\r$/gm)!.length >= 2
      );
    });
  });

  it.each(["destroy", "resetAndDestroy"] as const)(
    "D-52: a client that leaves by %s ends its sequence at the server, streaming or not",
    async (how) => {
      await start(["--stall-after-tokens", "2"]);
      for (const stream of [true, false]) {
        const id = `left-${stream}`;
        const client = await post(id, chat("hello", { stream, max_tokens: 50 }));
        if (stream) await poll("the first tokens", () => dataLines(client.text()).length === 3);
        else await poll("it runs", async () => (await seenBy(sims, id)).length === 1);
        client.socket[how]();
        await ended(id, ({ aborted }) => aborted);
      }
      await poll("the books are closed", async () => (await inFlight()) === 0);
      await poll("nothing runs at the server", async () =>
        (await ask(`${sims[0]!.url}/metrics`)).text.includes('vllm:num_requests_running{model_name="sim"} 0\n'),
      );
      // What was cut is not used again: the next request is served as a whole.
      await getJson(`${gateway!.url}/v1/models`);
    },
  );

  it("D-54: 100 MiB for each of ten clients that do not read: less than 5 MiB each are held, and all of it arrives", async () => {
    // About 180 bytes per event.
    const tokens = 600_000;
    await start(["--inter-token-latency", "0", "--max-model-len", "1000000", "--prefill-overhead", "0"]);
    const long = chat("hello", { stream: true, max_tokens: tokens });
    // What ten streams cost once, in code, buffers and the young part of the heap, is there before the first measurement.
    const short = chat("hello", { stream: true, max_tokens: 50_000 });
    const warm = await Promise.all(
      Array.from({ length: 10 }, (_, n) => post(`warm-${n}`, short, "connection: close\r\n")),
    );
    await poll("the warm-up", () => warm.every((client) => client.closed()), 60_000);
    const { pid } = gateway!.process;
    const before = await residentMiB(pid);
    const slow: RawClient[] = [];
    for (let n = 0; n < 10; n++) slow.push(await post(`slow-${n}`, long, "connection: close\r\n", true));
    // The server has made its tokens long before anybody takes them, and waits.
    const made = async (): Promise<boolean> => {
      const page = (await ask(`${sims[0]!.url}/metrics`)).text;
      return page.includes('vllm:num_requests_running{model_name="sim"} 0\n') && (await inFlight()) === 10;
    };
    await poll("all are made", made, 60_000);
    // A gateway that reads on without its clients grows for seconds, to 1,000 MiB.
    let held = 0;
    let still = 0;
    await poll(
      "everything stands still",
      async () => {
        // Its answer says that the gateway has had a turn since the last look.
        expect(await inFlight()).toBe(10);
        const now = (await residentMiB(pid)) - before;
        still = Math.abs(now - held) < 1 ? still + 1 : 0;
        held = now;
        return still === 40;
      },
      60_000,
    );
    expect(held).toBeLessThan(10 * 5);

    const reader = slow.pop()!;
    for (const client of slow) client.socket.destroy();
    let bytes = 0;
    let tail = "";
    reader.socket.removeAllListeners("data");
    reader.socket.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      tail = (tail + chunk.subarray(-64).toString("latin1")).slice(-64);
    });
    reader.socket.resume();
    await poll("the last byte", reader.closed, 60_000);
    expect(tail).toMatch(/data: \[DONE\]\n\n\r\n0\r\n\r\n$/);
    expect(bytes).toBeGreaterThan(100 * 1024 * 1024);
    await poll("the books are closed", async () => (await inFlight()) === 0);
  });

  it("D-59: one connection serves GET, HEAD, OPTIONS and POST, refusals and 100-continue, one after the other", async () => {
    await start([]);
    const client = await rawClient(gateway!.port);
    clients.push(client);
    let from = 0;
    /** Sends, and waits until what came since matches. */
    const say = async (bytes: string, until: RegExp): Promise<string> => {
      from = client.text().length;
      client.send(bytes);
      await poll(`${until} behind ${bytes.slice(0, 20)}`, () => until.test(client.text().slice(from)));
      return client.text().slice(from);
    };
    const get = await say("GET /v1/models HTTP/1.1\r\nhost: gw\r\n\r\n", /"object":"list".*\}$/s);
    expect(get).toMatch(/^HTTP\/1\.1 200 /);
    const ownHead = await say("HEAD /v1/models HTTP/1.1\r\nhost: gw\r\n\r\n", /\r\n\r\n/);
    expect(ownHead).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n\r\n$/);
    // The simulator does not know the path, nor the method after it. The gateway relays its answers, that to HEAD without a body.
    const head = await say("HEAD /version HTTP/1.1\r\nhost: gw\r\n\r\n", /\r\n\r\n/);
    expect(head).toMatch(/^HTTP\/1\.1 404 [\s\S]*content-length: [1-9][\s\S]*\r\n\r\n$/);
    const options = await say("OPTIONS /v1/models HTTP/1.1\r\nhost: gw\r\n\r\n", /\}\}$/);
    expect(options).toMatch(/^HTTP\/1\.1 405 [\s\S]*allow: GET/);
    const body = chat("hello");
    const lines = `host: gw\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`;
    const begin = `POST /v1/chat/completions HTTP/1.1\r\n${lines}`;
    expect(await say(`${begin}\r\n${body}`, /"usage".*\}$/s)).toMatch(/^HTTP\/1\.1 200 /);
    expect(await say(`${begin}\r\n${body.replace("{", "[")}`, /\}\}$/)).toMatch(/^HTTP\/1\.1 400 /);
    const asked = await say(`${begin}expect: 100-continue\r\n\r\n`, /\r\n\r\n/);
    expect(asked).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    expect(await say(body, /"usage".*\}$/s)).toMatch(/^HTTP\/1\.1 200 /);
    expect(client.closed()).toBe(false);
  });
});

describe("D-58: addresses that no server has", () => {
  const entry = (address: string, port: number): string =>
    `endpoints:\n- { name: only, address: "${address}", port: ${port} }\n`;
  const BAD: readonly (readonly [string, string])[] = [
    ["unspecified", entry("0.0.0.0", 8000)],
    ["unspecified, IPv6", entry("::", 8000)],
    ["multicast", entry("224.0.0.1", 8000)],
    ["link-local", entry("169.254.169.254", 8000)],
    ["link-local, IPv6", entry("[fe80::1]", 8000)],
    ["port 0", entry("127.0.0.1", 0)],
    ["a mistyped address", entry("10.0.0.256", 8000)],
  ];
  const told = /endpoints\.yaml:2:\d+: endpoints\[0\]\.(?:address|port): must/g;

  it("are dropped from a running gateway, which then answers 503 no-endpoint, and refused at start", async () => {
    sims = await startSims(1);
    const file = endpointsFile([sims[0]!.port]);
    gateway = await startGateway(file);
    const { url, process } = gateway;
    const status = async (): Promise<number> => (await ask(`${url}/v1/models`)).status;
    /** As a whole: half a file would be one more that is told about. */
    const replace = (text: string): void => {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    };
    for (const [index, [name, text]] of BAD.entries()) {
      // Names are good, and so is loopback: both are what --endpoints takes besides.
      replace(entry(index % 2 === 0 ? "localhost" : "127.0.0.1", sims[0]!.port));
      await poll(`an endpoint before ${name}`, async () => (await status()) === 200);
      replace(text);
      await poll(`none after ${name}`, async () => (await status()) === 503);
      await poll(`the reason for ${name}`, () => (process.stderr.match(told) ?? []).length === index + 1);
      const refused = await ask(`${url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat("x") });
      expect([refused.status, refused.headers["x-gateway-error"]]).toEqual([503, "no-endpoint"]);
      expect(refused.headers["x-llm-d-request-dropped-reason"]).toBe("rejected-no-endpoints");
    }
    const late = sluice("gateway", "--endpoints", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0");
    expect((await late.ended()).code).toBe(1);
    expect(late.stderr).toMatch(told);
  });
});

describe("sluice sim --instances 4", () => {
  let process: TestProcess | undefined;
  afterEach(() => process?.stop());

  it("D-74: four ports in a row in one process, each with a queue, a cache and metrics of its own", async () => {
    const started = await onFreePorts(async () => {
      const first = await freePort(4);
      const flags = ["--instances", "4", "--port", String(first), "--max-num-seqs", "1", "--stall-after-tokens", "1"];
      const one = sluice("sim", "--host", "127.0.0.1", ...flags);
      await one.until("all four to listen", () => (one.stdout.match(/listening/g) ?? []).length === 4);
      return { one, first };
    });
    process = started.one;
    const ports = [0, 1, 2, 3].map((n) => started.first + n);
    const lines = process.stdout.split("\n").filter((line) => line.startsWith("listening"));
    expect(lines.map((line) => portOf(/address=(\S+)/.exec(line)![1]!)).sort()).toEqual(ports);
    expect(new Set(lines.map((line) => /pid=(\d+)/.exec(line)![1]))).toEqual(new Set([String(process.pid)]));

    const open = (port: number): void => {
      const socket = connect(port, "127.0.0.1");
      clients.push({ socket } as RawClient);
      const body = JSON.stringify({ prompt: "word ".repeat(64), max_tokens: 5, ignore_eos: true, stream: true });
      socket.on("error", () => {});
      socket.write(`POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    };
    const load = async (port: number): Promise<(number | undefined)[]> => {
      const page = (await ask(`http://127.0.0.1:${port}/metrics`)).text;
      const value = (name: string) => Number(new RegExp(`^vllm:${name}\\{.*\\} (\\S+)$`, "m").exec(page)?.[1]);
      return [value("num_requests_running"), value("num_requests_waiting"), value("prefix_cache_hits_total")];
    };
    for (const n of [1, 2, 3]) {
      for (let k = 0; k < n; k++) open(ports[0]!);
      await poll("the queue grows", async () => (await load(ports[0]!))[1] === (n * (n + 1)) / 2 - 1);
    }
    open(ports[2]!);
    await poll("one runs on the third", async () => (await load(ports[2]!))[0] === 1);
    expect(await Promise.all(ports.map(load))).toEqual([
      [1, 5, 0],
      [0, 0, 0],
      [1, 0, 0],
      [0, 0, 0],
    ]);
  });
});
