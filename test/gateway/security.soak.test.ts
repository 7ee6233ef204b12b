import { mkdtempSync, writeFileSync } from "node:fs";
import type { ClientHttp2Session } from "node:http2";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Pool } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClientAuthority, clientAuthority } from "../support/certificates.ts";
import { chat, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { newKeys } from "../support/keys.ts";
import { poll } from "../support/poll.ts";
import { ROOT, residentMiB, TestProcess } from "../support/process.ts";
import { endpointsFile, portOf, type Sim, startSims } from "../support/stack.ts";
import { askSession, h2Session } from "../support/tls-client.ts";

const CHAT = "/v1/chat/completions";
/** Requests in one phase. Phases of peace and of attack alternate. */
const SAMPLES = 200;
const ROUNDS = 3;
const LIMIT_MS = 600_000;
const ATTACKER = join(ROOT, "test/support/h2-attacker.ts");
const GUESSER = join(ROOT, "test/support/key-guesser.ts");
/** Those that any server of HTTP/2 must stand; the others are about gRPC. */
const FLOODS = [
  "rapid reset",
  "continuation without end",
  "continuation in pieces",
  "ping",
  "settings",
  "empty frames",
  "goaway",
  "window updates",
];

let sims: Sim[] = [];
let gateway: TestGateway;
let secure: TestGateway;
let authority: ClientAuthority;
let sink: TestProcess;
let target: TestProcess;
let ports: { readonly sink: number; readonly target: number };
let key = "";

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-attacks-"));
  authority = await clientAuthority();
  for (const [name, text] of Object.entries(authority.server)) writeFileSync(join(folder, name), text);
  const keys = await newKeys("team-a");
  key = keys.key;
  sims = await startSims(1);
  const endpoints = endpointsFile(sims.map(({ port }) => port));
  gateway = await startGateway(endpoints, ["--keys", keys.file]);
  const pair = ["--tls-cert", join(folder, "cert"), "--tls-key", join(folder, "key")];
  secure = await startGateway(endpoints, ["--keys", keys.file, ...pair]);
  sink = new TestProcess(process.execPath, [ATTACKER, "sink"]);
  target = new TestProcess(process.execPath, [GUESSER, "target"]);
  ports = { sink: portOf(await sink.listening("sink")), target: portOf(await target.listening("target")) };
});
afterAll(() =>
  Promise.all([gateway, secure, ...sims, { process: sink }, { process: target }].map((one) => one?.process?.stop())),
);

/** One request of an honest client. */
type Ask = () => Promise<unknown>;

async function times(ask: Ask, into: number[]): Promise<void> {
  for (let n = 0; n < SAMPLES; n++) {
    const began = performance.now();
    expect(await ask()).toBe(200);
    into.push(performance.now() - began);
  }
}

/** Measures while a program runs. @returns what it said */
async function beside(args: readonly string[], says: string, ask: Ask, into: number[]): Promise<string> {
  const attacker = new TestProcess(process.execPath, [...args]);
  try {
    await attacker.until("the attack", () => attacker.stdout.includes(says));
    await times(ask, into);
    expect(attacker.exit).toBeUndefined();
    return attacker.stdout;
  } finally {
    await attacker.stop();
  }
}

const p99 = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(0.99 * (values.length - 1))]!;

/** The p99 under attack is within three times that beside a program that does as much to another server. */
function withstood(name: string, quiet: readonly number[], attacked: readonly number[]): void {
  process.stdout.write(
    `${name}: p99 ${p99(quiet).toFixed(2)} ms in peace, ${p99(attacked).toFixed(2)} ms under attack\n`,
  );
  expect(p99(attacked)).toBeLessThanOrEqual(3 * p99(quiet));
}

describe("others are served as fast, within three times, under", () => {
  it("10,000 guesses of keys in a second", { timeout: LIMIT_MS }, async () => {
    const pool = new Pool(gateway.url, { connections: 1 });
    const headers = { ...JSON_HEADERS, authorization: `Bearer ${key}` };
    const ask = async () => {
      const answer = await pool.request({ method: "POST", path: CHAT, headers, body: chat("hello") });
      await answer.body.dump();
      return answer.statusCode;
    };
    const [quiet, attacked]: [number[], number[]] = [[], []];
    await times(ask, []);
    let guessed = 0;
    for (let round = 0; round < ROUNDS; round++) {
      await beside([GUESSER, String(ports.target), "10000"], "guessed 5", ask, quiet);
      const said = await beside([GUESSER, String(gateway.port), "10000"], "guessed 5", ask, attacked);
      guessed += Number(/guessed (\d+)\s*$/.exec(said)?.[1] ?? 0);
    }
    await pool.destroy();
    process.stdout.write(`${guessed} guesses were answered\n`);
    expect(guessed).toBeGreaterThan(ROUNDS * SAMPLES);
    withstood("guesses", quiet, attacked);
  });

  it.each(FLOODS)("a flood over HTTP/2: %s", { timeout: LIMIT_MS }, async (name) => {
    const one: ClientHttp2Session = h2Session({ port: secure.port, ca: authority.ca });
    const post = { ":method": "POST", ":path": CHAT, ...JSON_HEADERS, authorization: `Bearer ${key}` };
    const ask = async () => (await askSession(one, post, chat("hello"))).headers[":status"];
    const [quiet, attacked]: [number[], number[]] = [[], []];
    await times(ask, []);
    for (let round = 0; round < ROUNDS; round++) {
      await beside([ATTACKER, name, String(ports.sink)], "attacking", ask, quiet);
      await beside([ATTACKER, name, String(secure.port), "tls"], "attacking", ask, attacked);
    }
    one.destroy();
    withstood(name, quiet, attacked);
  });
});

describe("10,000 idle and 1,000 stalled connections", () => {
  it("keep no client out, and cost less than 400 MiB", { timeout: LIMIT_MS }, async () => {
    const ask = async () => {
      const answer = await fetch(`${gateway.url}${CHAT}`, {
        method: "POST",
        headers: { ...JSON_HEADERS, "x-api-key": key, connection: "close" },
        body: chat("hello"),
      });
      await answer.text();
      return answer.status;
    };
    expect(await ask()).toBe(200);
    const before = await residentMiB(gateway.process.pid);
    const held: Socket[] = [];
    for (let n = 0; n < 11_000; n++) {
      // Of many addresses: one address alone gets half of the places.
      const socket = connect({ port: gateway.port, host: "127.0.0.1", localAddress: `127.0.1.${1 + (n % 100)}` });
      socket.on("error", () => {});
      held.push(socket);
      if (n >= 10_000) {
        const begun = `POST ${CHAT} HTTP/1.1\r\nhost: gw\r\n`;
        socket.write(n % 2 === 0 ? begun : `${begun}x-api-key: ${key}\r\ncontent-length: 1000\r\n\r\n{"a`);
      }
      if (n % 500 === 499) {
        await poll("the connections", () => held.every(({ connecting }) => !connecting));
        expect(await ask()).toBe(200);
      }
    }
    expect((await residentMiB(gateway.process.pid)) - before).toBeLessThan(400);
    for (let n = 0; n < 50; n++) expect(await ask()).toBe(200);
    for (const socket of held) socket.destroy();
    expect(await ask()).toBe(200);
  });
});
