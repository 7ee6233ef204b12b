/**
 * A stand-in for extproc-load where it cannot be built: the same flags as far as bench/extproc.ts uses them, the same
 * figures. It is much slower than the C client and may itself be what limits the rate; CPU per exchange stays comparable
 * within one run.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { GrpcClient } from "../../test/support/grpc-client.ts";
import { field } from "./wire.ts";

const { values } = parseArgs({
  options: {
    addr: { type: "string", default: "127.0.0.1:9002" },
    "server-pid": { type: "string" },
    duration: { type: "string", default: "5" },
    warmup: { type: "string", default: "2" },
    streams: { type: "string", default: "64" },
    "body-bytes": { type: "string", default: "1024" },
    "shared-prefix": { type: "string", default: "0" },
    groups: { type: "string", default: "10" },
    "response-chunks": { type: "string", default: "0" },
    "pick-only": { type: "boolean", default: false },
    reset: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});

const PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
/** Bytes of body in one message, and chunks that may be under way unanswered. */
const PIECE = 16_384;
const WINDOW = 8;
const END = Buffer.from([0x10, 1]);
const header = (key: string, value: string): Buffer =>
  field(1, Buffer.concat([field(1, Buffer.from(key)), field(3, Buffer.from(value))]));
const headers = (number: number, pairs: readonly (readonly [string, string])[]): Buffer =>
  field(number, field(1, Buffer.concat(pairs.map(([key, value]) => header(key, value)))));

const bodyBytes = Number(values["body-bytes"]);
const chunks = Number(values["response-chunks"]);
const REQUEST_HEADERS = headers(2, [
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
  ["content-type", "application/json"],
  ["content-length", String(bodyBytes)],
]);
const RESPONSE_HEADERS = headers(3, [
  [":status", "200"],
  ["content-type", chunks > 0 ? "text/event-stream" : "application/json"],
]);
const CHUNK = field(5, field(1, Buffer.from(`data: {"choices":[{"delta":{"content":"${"x".repeat(140)}"}}]}\n\n`)));
const LAST = field(5, Buffer.concat([field(1, Buffer.from(chunks > 0 ? "data: [DONE]\n\n" : '{"usage":{}}')), END]));

/** The n-th request body, in messages: a prefix shared inside its group, then text of its own. */
function bodyMessages(n: number): Buffer[] {
  const shell = ['{"model":"m","messages":[{"role":"user","content":"', '"}]}'];
  const room = bodyBytes - shell[0]!.length - shell[1]!.length;
  const shared = Math.floor(room * Number(values["shared-prefix"]));
  const group = `group ${n % Number(values.groups)} `;
  const text =
    group.repeat(Math.ceil(shared / group.length)).slice(0, shared) +
    `own ${n} `.repeat(Math.ceil(room / 6)).slice(0, room - shared);
  const body = Buffer.from(shell[0] + text + shell[1]);
  const messages: Buffer[] = [];
  for (let at = 0; at < body.length; at += PIECE) {
    const piece = field(1, body.subarray(at, at + PIECE));
    messages.push(field(4, at + PIECE >= body.length ? Buffer.concat([piece, END]) : piece));
  }
  return messages;
}

const [host, port] = values.addr.split(":") as [string, string];
if (host !== "127.0.0.1") throw new Error("the load goes to this machine only");
const client = await GrpcClient.connect(Number(port));
let started = 0;
let done = 0;
let errors = 0;
const picks: number[] = [];
const immediate: Record<string, number> = {};

/** Reads replies until one of the field `number`; an immediate response is counted and ends the exchange. */
async function until(call: ReturnType<GrpcClient["open"]>, number: number): Promise<boolean> {
  for (;;) {
    const reply = await call.next();
    if (reply === undefined) return false;
    if (reply[0]! >> 3 === 7) {
      immediate.any = (immediate.any ?? 0) + 1;
      return false;
    }
    if (reply[0]! >> 3 === number) return true;
  }
}

async function exchange(n: number): Promise<void> {
  const call = client.open(PROCESS);
  const begin = performance.now();
  call.send(REQUEST_HEADERS);
  for (const message of bodyMessages(n)) call.send(message);
  let fine = await until(call, 1);
  picks.push((performance.now() - begin) * 1000);
  if (fine && !values["pick-only"]) {
    call.send(RESPONSE_HEADERS);
    fine = await until(call, 2);
    for (let sent = 0; fine && sent < chunks; sent++) {
      call.send(CHUNK);
      if (sent >= WINDOW) fine = await until(call, 4);
    }
    call.send(LAST);
    for (let left = Math.min(chunks, WINDOW); fine && left >= 0; left--) fine = await until(call, 4);
  }
  if (values.reset) call.reset(2);
  else call.halfClose();
  if (fine) done++;
  else errors++;
}

/** CPU of the server so far, in microseconds; ticks are 10 ms. */
function serverCpu(): number {
  if (values["server-pid"] === undefined) return Number.NaN;
  const fields = readFileSync(`/proc/${values["server-pid"]}/stat`, "utf8").split(") ")[1]!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

let running = true;
const strands = Array.from({ length: Number(values.streams) }, async () => {
  while (running) await exchange(started++);
});
await new Promise((resolve) => setTimeout(resolve, Number(values.warmup) * 1000));
const before = { done, cpu: serverCpu(), at: performance.now() };
picks.length = 0;
await new Promise((resolve) => setTimeout(resolve, Number(values.duration) * 1000));
const measured = done - before.done;
const figures = {
  rps: (measured * 1000) / (performance.now() - before.at),
  srv_us_req: (serverCpu() - before.cpu) / measured,
  errors,
  immediate,
  pick_us: { p99: Math.round([...picks].sort((a, b) => a - b)[Math.floor(picks.length * 0.99)] ?? 0) },
};
running = false;
await Promise.all(strands);
client.close();
console.log(JSON.stringify(figures));
