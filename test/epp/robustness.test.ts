import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BareEpp, ExtProcClient, exchange, startBareEpp } from "../support/epp-process.ts";
import { encodeRequest, headerMap } from "../support/extproc-client.ts";
import { growthMiB } from "../support/growth.ts";
import { framed, GrpcClient } from "../support/grpc-client.ts";
import { fixedLimit } from "../support/slowness.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
const [OK, UNKNOWN, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL] = [0, 2, 8, 12, 13];

let sims: Sim[];
let epp: BareEpp;
beforeAll(async () => {
  sims = await startSims(1);
  epp = await startBareEpp(endpointsFile(sims.map((sim) => sim.port)), [
    "--secure-serving=false",
    "--grpc-max-recv-msg-size=1Mi",
  ]);
});
afterAll(() => Promise.all([epp, ...(sims ?? [])].map((part) => part?.process.stop())));

/** Runs `misdeed` on a connection of its own, then checks that another is served as if nothing had been. */
async function survives(misdeed: (client: GrpcClient) => Promise<void>): Promise<void> {
  const client = await GrpcClient.connect(epp.port);
  try {
    await misdeed(client);
  } finally {
    client.close();
  }
  const next = await ExtProcClient.connect(epp.port);
  expect(await exchange(next)).toBe(`127.0.0.1:${sims[0]!.port}`);
  next.close();
  expect(epp.process.exit).toBeUndefined();
}

describe("sluice epp stays up", () => {
  it("for bytes that are no message (E-95)", () =>
    survives(async (client) => {
      for (const bytes of [
        Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        Buffer.from("garbage"),
        Buffer.alloc(64, 0xff),
      ]) {
        const call = client.open(PATH);
        call.send(bytes);
        const end = await call.end;
        expect(end.status).toBe(UNKNOWN);
        expect(end.message).toMatch(/^cannot receive stream request: /);
      }
    }));

  it("for frames that are cut off or lie about themselves", () =>
    survives(async (client) => {
      const cut = client.open(PATH);
      await cut.sendRaw(framed(Buffer.alloc(100)).subarray(0, 50));
      cut.halfClose();
      expect((await cut.end).status).toBe(INTERNAL);
      const flag = client.open(PATH);
      await flag.sendRaw(Buffer.from([7, 0, 0, 0, 1, 0]));
      expect((await flag.end).status).toBe(INTERNAL);
      const compressed = client.open(PATH);
      await compressed.sendRaw(framed(Buffer.from("not gzip"), true));
      expect((await compressed.end).status).toBe(INTERNAL);
    }));

  it("for a message above the limit of --grpc-max-recv-msg-size, and takes one just below (E-07, D-83)", () =>
    survives(async (client) => {
      const large = client.open(PATH);
      large.send(Buffer.alloc((1 << 20) + 1));
      expect((await large.end).status).toBe(RESOURCE_EXHAUSTED);
      const announced = client.open(PATH);
      await announced.sendRaw(Buffer.from([0, 0xff, 0xff, 0xff, 0xff]));
      expect((await announced.end).status).toBe(RESOURCE_EXHAUSTED);
      const fits = client.open(PATH);
      fits.send(encodeRequest({ requestBody: { body: Buffer.alloc((1 << 20) - 100, 0x20), endOfStream: true } }));
      expect(await fits.next()).toBeDefined();
      expect((await fits.end).status).toBe(OK);
    }));

  it("for services and methods nobody knows", () =>
    survives(async (client) => {
      for (const path of ["/a.B/C", "/", `${PATH}/x`, PATH.toLowerCase()])
        expect((await client.unary(path, Buffer.alloc(0))).end.status, path).toBe(UNIMPLEMENTED);
    }));

  it("for bytes that are no HTTP/2", () =>
    survives(async () => {
      for (const bytes of [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\u0000".repeat(100),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
      ]) {
        const socket = connect({ host: "127.0.0.1", port: epp.port });
        await new Promise<void>((resolve) => {
          socket.on("error", () => {});
          socket.on("close", () => resolve());
          socket.on("data", () => {});
          socket.end(Buffer.from(bytes, "latin1"));
        });
      }
    }));

  it("for connections that are dropped in the middle of everything", () =>
    survives(async () => {
      for (let i = 0; i < 20; i++) {
        const client = await ExtProcClient.connect(epp.port);
        const stream = client.open();
        stream.requestHeaders([[":path", "/v1/chat/completions"]]);
        if (i % 2 === 0) stream.requestBody('{"model":"sim","messages":[{"role":"user","content":"x"}]}', i % 4 === 0);
        client.close();
      }
    }));

  it("for absurd headers", () =>
    survives(async (client) => {
      const many = Array.from({ length: 5000 }, (_, i) => [`x-${i}`, "v"] as const);
      const call = client.open(PATH);
      call.send(
        encodeRequest({
          requestHeaders: { headers: headerMap([...many, ["x-long", "y".repeat(200_000)]]), endOfStream: true },
        }),
      );
      const reply = await call.next();
      expect(reply).toBeDefined();
      call.reset(2);
      await call.end;
    }));

  it("for rounds of 10,000 bad requests, without growing: at most 32 MiB in one of three", {
    timeout: fixedLimit(180_000),
  }, async () => {
    const client = await ExtProcClient.connect(epp.port);
    const tally = new Map<string, number>();
    const one = async (n: number): Promise<void> => {
      const stream = client.open();
      let outcome: string;
      if (n % 5 === 4) {
        stream.call.send(Buffer.from(`garbage ${n}`));
        outcome = `grpc ${(await stream.call.end).status}`;
      } else {
        const kind = n % 5;
        stream.requestHeaders(
          [
            [":path", kind === 3 ? "/v1/completions" : "/v1/chat/completions"],
            ["x-request-id", `bad-${n}`],
            ["x-gateway-inference-objective", `made-up-${n}`],
          ],
          false,
          kind === 2 ? { modes: { request: 77, response: 4 } } : {},
        );
        stream.requestBody(kind === 0 ? `{"broken ${n}` : `{"model":"m-${n}","pad":"${"p".repeat(2000)}"}`, true);
        outcome = `http ${(await stream.next())?.immediateResponse?.status.code}`;
        stream.reset();
      }
      tally.set(outcome, (tally.get(outcome) ?? 0) + 1);
    };
    const run = async (from: number, to: number): Promise<void> => {
      let next = from;
      const worker = async (): Promise<void> => {
        while (next < to) await one(next++);
      };
      await Promise.all(Array.from({ length: 20 }, worker));
    };
    await run(0, 1000);
    expect(Object.fromEntries(tally)).toEqual({ "http 400": 600, "http 501": 200, "grpc 2": 200 });
    const grown = await growthMiB(epp.process.pid, 32, async (round) => {
      tally.clear();
      await run(10_000 * (round + 1), 10_000 * (round + 2));
      expect(Object.fromEntries(tally)).toEqual({ "http 400": 6000, "http 501": 2000, "grpc 2": 2000 });
    });
    expect(grown).toBeLessThanOrEqual(32);
    expect(await exchange(client)).toBe(`127.0.0.1:${sims[0]!.port}`);
    client.close();
  });

  it("and writes no line about what clients did", () => {
    expect(epp.process.stderr + epp.process.stdout).not.toMatch(/internal error/);
  });
});
