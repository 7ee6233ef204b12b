import { Pool } from "undici";
import { expect } from "vitest";
import type { Variant } from "../../src/wires/envoy/options.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { startEnvoy } from "../support/envoy.ts";
import { freePort, onFreePorts } from "../support/free-port.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";
import { type Epp, endpointsFile, startEpp, startSims } from "../support/stack.ts";

/** Requests at a time, each on a connection that is kept. */
const STRANDS = 32;
const KILLS = 4;
const DRAIN_SECONDS = 8;

/** What became of a request that was not simply answered. Times are monotonic milliseconds. */
interface Failure {
  readonly what: "refused" | "cut" | "wrong";
  readonly detail: string;
  readonly start: number;
  readonly end: number;
}

/** A span in which the picker was away or about to end. */
interface Absence {
  readonly cause: "kill" | "drain";
  /** When the last request may have met the picker alive, and when the next one did. */
  readonly from: number;
  readonly gone: number;
  readonly until: number;
}

/** Mixed traffic over kept connections: answers in one piece, streams, large prompts, and clients that hang up. */
class Traffic {
  readonly failures: Failure[] = [];
  good = 0;
  hungUp = 0;
  #next = 0;
  #stopped = false;
  readonly #pool: Pool;
  readonly #strands: Promise<void>[];

  constructor(url: string) {
    const limit = fixedLimit(60_000);
    this.#pool = new Pool(url, { connections: STRANDS, pipelining: 1, headersTimeout: limit, bodyTimeout: limit });
    this.#strands = Array.from({ length: STRANDS }, async () => {
      while (!this.#stopped) {
        const failed = await this.#one(this.#next++);
        if (failed) await new Promise((resolve) => setTimeout(resolve, 500));
      }
    });
  }

  /** Requests that Envoy answered as it should. */
  get done(): number {
    return this.good + this.hungUp;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#strands);
    await this.#pool.destroy();
  }

  /** Waits until `count` requests were answered. */
  async reach(count: number): Promise<void> {
    while (this.done < count) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  /** Waits until each strand has learnt something. */
  async round(): Promise<void> {
    const over = (): number => this.done + this.failures.length;
    const before = over();
    while (over() < before + STRANDS) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  /** @returns whether it failed */
  async #one(n: number): Promise<boolean> {
    const start = performance.now();
    const fail = (what: Failure["what"], detail: string): true => {
      this.failures.push({ what, detail: detail.slice(0, 300), start, end: performance.now() });
      return true;
    };
    const kind = n % 20;
    const tokens = kind === 19 ? 60 : 1 + (n % 8);
    const stream = kind >= 14 && kind !== 18;
    const text = kind === 13 ? `${n} ${"long ".repeat(8000)}` : `question ${n}`;
    const more = { max_tokens: tokens, stream, ...(stream ? { stream_options: { include_usage: true } } : {}) };
    let answered = false;
    try {
      const answer = await this.#pool.request(
        kind === 18
          ? { method: "GET", path: "/v1/models" }
          : { method: "POST", path: "/v1/chat/completions", headers: JSON_HEADERS, body: chat(text, more) },
      );
      answered = true;
      if (answer.statusCode === 200 && kind === 17) {
        // A client that hangs up in the middle of a stream.
        answer.body.on("error", () => {});
        answer.body.destroy();
        this.hungUp++;
        return false;
      }
      const body = await answer.body.text();
      if (answer.statusCode !== 200) return fail("refused", `${answer.statusCode} ${body}`);
      const problem =
        kind === 18 ? modelsProblem(body) : stream ? streamProblem(body, tokens) : answerProblem(body, tokens);
      if (problem !== "") return fail("wrong", problem);
      this.good++;
      return false;
    } catch (error) {
      return fail("cut", `${answered ? "in the middle of the answer" : "before the answer"}: ${String(error)}`);
    }
  }
}

function modelsProblem(body: string): string {
  return body.includes('"sim"') ? "" : `no model in ${body}`;
}

function answerProblem(body: string, tokens: number): string {
  const answer = JSON.parse(body) as { usage?: { completion_tokens?: number } };
  const written = answer.usage?.completion_tokens;
  return written === tokens ? "" : `${tokens} tokens were asked for, ${written} came`;
}

/** Every event of a stream, its usage and its end. */
function streamProblem(body: string, tokens: number): string {
  const events = body.split("\n\n").filter((event) => event !== "");
  if (events.at(-1) !== "data: [DONE]") return `the stream ends with ${events.at(-1)}`;
  const written = /"completion_tokens":(\d+)/.exec(events.at(-2) ?? "")?.[1];
  return Number(written) === tokens ? "" : `${tokens} tokens were asked for, ${written} came`;
}

/** Where a failure comes from; undefined = nothing that was done to the picker explains it. */
function explain({ start, end }: Failure, absences: readonly Absence[], failOpen: boolean): string | undefined {
  for (const { cause, from, gone, until } of absences) {
    if (cause === "kill" && start <= gone && end >= from) return "in flight at a kill";
    // Fail-closed: nobody can answer while no picker listens. A drain has to be over before anybody may notice.
    if (!failOpen && start >= from && start <= until && end >= gone) return `no picker after a ${cause}`;
  }
  return undefined;
}

/**
 * Sends `requests` requests through Envoy with a shipped configuration, kills and restarts the picker four times meanwhile, and
 * drains it at the end. Every request that was not answered rightly must be explained by a kill; fail-closed also by the
 * time in which no picker listened.
 */
export async function endure(variant: Variant, requests: number): Promise<void> {
  const failOpen = variant === "override-host";
  const running: { stop(): Promise<unknown> }[] = [];
  try {
    const sims = await startSims(3, ["--max-num-seqs", "256", "--inter-token-latency", "1"]);
    running.push(...sims.map(({ process }) => process));
    const serverPorts = sims.map(({ port }) => port);
    const endpoints = endpointsFile(serverPorts);
    const args = [
      ...[`--secure-serving=${variant === "tls"}`, `--drain-timeout=${DRAIN_SECONDS}s`],
      ...(failOpen ? ["--max-endpoints=3"] : []),
    ];
    let epp: Epp = await onFreePorts(async () => startEpp(endpoints, await freePort(), args));
    running.push({ stop: () => epp.process.stop() });
    const envoy = await startEnvoy({ variant, eppPort: epp.port, serverPorts });
    running.push(envoy.process);
    const url = `http://127.0.0.1:${envoy.port}`;
    await envoy.findsPickers();
    await poll("the first answer", async () => (await ask(`${url}/v1/models`)).status === 200);

    const traffic = new Traffic(url);
    running.push(traffic);
    const absences: Absence[] = [];
    for (let kill = 1; kill <= KILLS; kill++) {
      await traffic.reach((requests * kill) / (KILLS + 2));
      const from = performance.now();
      await epp.process.stop("SIGKILL");
      const gone = performance.now();
      // Some traffic without a picker.
      await traffic.round();
      epp = await startEpp(endpoints, epp.port, args);
      absences.push({ cause: "kill", from, gone, until: performance.now() });
    }
    await traffic.reach(requests);
    // The drain: nothing may fail before it is over, whoever is asked.
    const from = performance.now();
    epp.process.child.kill("SIGTERM");
    await epp.process.ended(60_000);
    await traffic.stop();
    const over = from + DRAIN_SECONDS * 1000;
    absences.push({ cause: "drain", from, gone: over, until: Number.POSITIVE_INFINITY });

    const explained = new Map<string, number>();
    const unexplained: Failure[] = [];
    for (const failure of traffic.failures) {
      const why = explain(failure, absences, failOpen);
      if (why === undefined) unexplained.push(failure);
      else explained.set(`${failure.what}, ${why}`, (explained.get(`${failure.what}, ${why}`) ?? 0) + 1);
    }
    const counts = [...explained].map(([why, count]) => `${count} ${why}`).join("; ");
    process.stdout.write(
      `${variant}: ${traffic.good} answered, ${traffic.hungUp} hung up by the client; ${counts || "none failed"}; ${unexplained.length} unexplained\n`,
    );
    expect(unexplained).toEqual([]);
    const inFlight = traffic.failures.filter((failure) =>
      explain(failure, absences, failOpen)?.startsWith("in flight"),
    ).length;
    expect(inFlight).toBeLessThanOrEqual(STRANDS * KILLS);
    // Who hung up is not computed for any longer.
    for (const sim of sims)
      await poll("the model servers to be idle", async () =>
        /^vllm:num_requests_running\S* 0$/m.test((await ask(`${sim.url}/metrics`)).text),
      );
  } finally {
    for (const one of running.reverse()) await one.stop();
  }
}
