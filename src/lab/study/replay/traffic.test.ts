import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type RecordedRun,
  recordedRun,
  recordLines,
  savedText,
} from "../../../../test/support/study/replay/recorded.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { PRESETS } from "../../simulator/batching/config.ts";
import type { WorkloadRequest } from "../../simulator/workloads/workload.ts";
import { AccessFields } from "./access-fields.ts";
import { AccessLog } from "./access-log.ts";
import { RecordedText, recordedTraffic, type TrafficOptions } from "./recorded-traffic.ts";
import { type ReplayOptions, replayRecorded } from "./replay-recorded.ts";
import type { ReplayStudy } from "./replay-result.ts";
import { replayStudyText } from "./replay-text.ts";

const AT = Date.UTC(2026, 2, 1);
const [preset] = PRESETS;

/** An entry of a JSON access log. @param at milliseconds after the start */
function entryAt(at: number, more: object = {}): object {
  return {
    ...{
      start_time: new Date(AT + at).toISOString(),
      method: "POST",
      path: "/v1/chat/completions",
      response_code: 200,
    },
    ...{ duration: 2000, upstream_host: `10.0.0.${(at % 3) + 1}:8000`, prompt_tokens: 100, completion_tokens: 20 },
    ...more,
  };
}

function trafficOf(entries: readonly object[], options: Partial<TrafficOptions> = {}) {
  const log = new AccessLog();
  const fields = new AccessFields();
  for (const entry of entries) log.add(fields.entry({ ...entry }) as never);
  return recordedTraffic(log.requests, { preset: preset!, ...options });
}

/** What it sends, and when. */
function sentBy(traffic: ReturnType<typeof trafficOf>, rate = traffic.definition.rates[0]!) {
  const clock = new VirtualClock();
  const sent: (WorkloadRequest & { readonly at: number })[] = [];
  const workload = traffic.definition.make({ rate, durationMs: traffic.definition.durationMs, servers: 1 });
  workload.start({ clock, random: new SeededRandom(1), send: (request) => sent.push({ ...request, at: clock.now() }) });
  clock.run();
  return sent;
}

const shared = (a: Uint8Array, b: Uint8Array): number => {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return Math.floor(at / 4);
};

describe("recorded traffic", () => {
  it("arrives at the recorded times, in their order however the log has them, and as fast as is asked", () => {
    const traffic = trafficOf([entryAt(5000), entryAt(0), entryAt(9999), entryAt(2500)]);
    expect(traffic.definition).toMatchObject({ durationMs: 10_000, rates: [0.4], preset: preset!.name });
    expect(traffic.summary).toMatchObject({ requests: 4, from: AT, durationMs: 10_000, rate: 0.4 });
    expect(sentBy(traffic).map(({ at }) => at)).toEqual([0, 2500, 5000, 9999]);
    expect(sentBy(traffic, 0.8).map(({ at }) => at)).toEqual([0, 1250, 2500, 4999.5]);
  });

  it("has the lengths that were logged, and never more than fits the engine", () => {
    const { maxModelLen } = preset!.config;
    const lengths = (more: object): number[] => {
      const { prompt, outputTokens } = sentBy(trafficOf([entryAt(0, more)]))[0]!;
      return [prompt.length / 4, outputTokens];
    };
    expect(lengths({})).toEqual([100, 20]);
    expect(lengths({ prompt_tokens: 0, completion_tokens: 0 })).toEqual([1, 1]);
    expect(lengths({ prompt_tokens: 1e9, completion_tokens: 1e9 })).toEqual([maxModelLen - 1, 1]);
    expect(lengths({ prompt_tokens: 30_000, completion_tokens: 1e9 })).toEqual([30_000, maxModelLen - 30_000]);
  });

  it("guesses lengths that were not logged from bytes and time, and says so", () => {
    const bare = { prompt_tokens: null, completion_tokens: null, duration: 1e6 };
    const guessed = (more: object) => trafficOf([entryAt(0, { ...bare, ...more })]).summary;
    expect(guessed({ bytes_received: 4000, bytes_sent: 2400 })).toMatchObject({
      ...{ promptTokens: 1000, outputTokens: 500, guessedPrompts: 1, guessedOutputs: 1 },
    });
    const stream = { bytes_sent: 400 + 220 * 30, response_content_type: "text/event-stream" };
    expect(guessed(stream)).toMatchObject({ outputTokens: 30, promptTokens: 1024 });
    expect(guessed(stream).notes.join()).toContain("does not say how long 1 prompts were: each counts as 1024 tokens");
    // A stream that is not marked as one: no more tokens than the engine takes steps in that time.
    const long = guessed({ bytes_sent: 1e6, duration: 1350 });
    expect(long.outputTokens).toBe(100);
    expect(long.notes.join()).toContain("Sluice guesses the answers of 1 requests");
    expect(guessed({ path: "/v1/embeddings", bytes_sent: 1e6 })).toMatchObject({ outputTokens: 1, guessedOutputs: 0 });
    const given = trafficOf([entryAt(0, bare)], { promptTokens: 7 });
    expect(given.summary.promptTokens).toBe(7);
    expect(trafficOf([entryAt(0)]).summary).toMatchObject({ guessedPrompts: 0, guessedOutputs: 0 });
  });

  it("lets a later turn of a session begin with the one before it and its answer", () => {
    const turn = (at: number, session: string, tokens: number) =>
      entryAt(at, { session_id: session, prompt_tokens: tokens });
    const traffic = trafficOf([turn(0, "a", 100), turn(1, "b", 300), turn(2, "a", 400), turn(3, "a", 50)]);
    const [first, other, second, cut] = sentBy(traffic);
    expect(shared(first!.prompt, second!.prompt)).toBe(100);
    expect(Buffer.from(second!.prompt).includes(first!.answer!)).toBe(true);
    expect(Buffer.from(second!.prompt).subarray(400, 480).equals(first!.answer!)).toBe(true);
    expect(shared(first!.prompt, other!.prompt)).toBe(0);
    expect(shared(cut!.prompt, second!.prompt)).toBe(50);
    expect(second!.session).toBe("a");
    expect(traffic.summary.sessions).toBe(2);
    expect(traffic.summary.notes.join()).toContain("turns of one conversation");
  });

  it("shares nothing where no session is logged, and says so", () => {
    const traffic = trafficOf([entryAt(0), entryAt(1), entryAt(2)]);
    const prompts = sentBy(traffic).map(({ prompt }) => prompt);
    for (const [at, one] of prompts.entries())
      for (const other of prompts.slice(at + 1)) expect(shared(one, other)).toBe(0);
    expect(traffic.summary.notes.join()).toContain("shows nothing about prefix caches");
    const mixed = trafficOf([entryAt(0, { session_id: "a" }), entryAt(1)]);
    expect(mixed.summary.notes.join()).toContain("1 requests belong to no session");
  });

  it("takes the most frequent model for the base and the others for adapters, and tenants for whom fairness is", () => {
    const traffic = trafficOf(
      ["m", "m", "x", "y", "m"].map((model, at) => entryAt(at, { model, user_id: `u${at % 2}` })),
    );
    expect(sentBy(traffic).map(({ adapter }) => adapter)).toEqual([undefined, undefined, "x", "y", undefined]);
    expect(sentBy(traffic).map(({ tenant }) => tenant)).toEqual(["u0", "u1", "u0", "u1", "u0"]);
    expect(traffic.definition.loraSlots).toBe(2);
    expect(traffic.summary.notes.join()).toContain(
      "Sluice treats m as the base model and the 2 other models as LoRA adapters of m",
    );
    const many = trafficOf(Array.from({ length: 100 }, (_, at) => entryAt(at, { model: `m${at}` })));
    expect(many.definition.loraSlots).toBe(63);
    expect(sentBy(many).filter(({ adapter }) => adapter === undefined)).toHaveLength(37);
  });

  it("plays the busiest day of a log, so that a few wrong times do no harm", () => {
    const day = 24 * 3_600_000;
    const traffic = trafficOf([entryAt(-1000 * day), ...[0, 1, 2, 3].map((at) => entryAt(at)), entryAt(2 * day)]);
    expect(traffic.outside).toBe(2);
    expect(traffic.summary).toMatchObject({ requests: 4, from: AT, durationMs: 4 });
  });
});

describe("the text of recorded prompts", () => {
  const text = new RecordedText();

  it("is the same for the same number, whatever part of it is asked for, and of whole words", () => {
    fc.assert(
      fc.property(fc.nat(200_000), fc.nat(3000), fc.nat(3000), (number, a, b) => {
        const [from, to] = [Math.min(a, b), Math.max(a, b)];
        const whole = text.tokens(number, 0, to);
        expect(Buffer.from(text.tokens(number, from, to)).equals(whole.subarray(from * 4))).toBe(true);
        expect(Buffer.from(whole).toString("latin1")).toMatch(/^([a-z]{3} )*$/);
      }),
      { numRuns: 50 },
    );
  });

  it("tells numbers apart in its first tokens", () => {
    fc.assert(
      fc.property(fc.nat(3_000_000), fc.nat(3_000_000), (a, b) => {
        const same = Buffer.from(text.tokens(a, 0, 4)).equals(text.tokens(b, 0, 4));
        expect(same).toBe(a === b);
      }),
    );
  });

  it("goes on beyond its tape", () => {
    const long = text.tokens(31, 0, 600_000);
    expect(long).toHaveLength(2_400_000);
    expect(long.at(-1)).toBe(0x20);
  });
});

describe("an access log through another configuration", () => {
  const conversations = Array.from({ length: 60 }, (_, at) =>
    entryAt(at * 100, { session_id: `c${at % 10}`, prompt_tokens: 1000 + 400 * Math.floor(at / 10) }),
  );
  const lines = (entries: readonly object[]): string => entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");
  const played = (text: string, options: ReplayOptions = {}, profile?: string): Promise<ReplayStudy> =>
    replayRecorded([savedText(text)], { profile }, options);

  it("is simulated on as many servers as it names, under the usual policies and the one that is tried", async () => {
    const study = await played(lines(conversations), {}, "sticky-until-saturated");
    const { log, study: simulated } = study.traffic!;
    expect(log).toMatchObject({ requests: 60, sessions: 10, beyond: 0, recorded: { p50: 2000, p99: 2000 } });
    expect(simulated.policies.map(({ name }) => name)).toEqual(["round-robin", "default", "sticky-until-saturated"]);
    expect(simulated.workloads).toMatchObject([{ name: "recorded", servers: 3, durationMs: 5901 }]);
    for (const run of simulated.runs) expect(run).toMatchObject({ requests: 60, finished: 60, promptTokens: 2000 });
    const [roundRobin, ours] = simulated.runs;
    // In turn over three servers, each of ten conversations comes back to where it was every third time.
    expect(ours!.hitRate).toBeGreaterThan(roundRobin!.hitRate * 1.3);
    expect(roundRobin!.hitRate).toBeGreaterThan(0.1);
    const text = replayStudyText(study).replace(/\s+/g, " ");
    expect(text).toMatch(/The access log has 60 requests to play, 5\.90? s of them from 2026-03-01T00:00:00\.000Z/);
    expect(text).toMatch(/as recorded 2\.00? s 2\.00? s 2\.00? s 20 to 20/);
    expect(text).toContain("60 requests per run, prompts of 2,000 tokens and answers of 20 on average");
  });

  it("is the same simulation each time", async () => {
    const runs = async () =>
      (await played(lines(conversations))).traffic!.study.runs.map(({ seconds, ...run }) => ({ ...run, seconds: 0 }));
    expect(await runs()).toEqual(await runs());
  });

  it("is not played twice where the built-in configuration is tried", async () => {
    const study = await played(lines(conversations.slice(0, 6)), { servers: 5, seeds: [3] });
    expect(study.traffic!.study.policies.map(({ name }) => name)).toEqual(["round-robin", "default"]);
    expect(study.traffic!.study.workloads[0]!.servers).toBe(5);
    expect(study.traffic!.study.runs.map(({ seed }) => seed)).toEqual([3, 3]);
  });

  it("asks for the number of servers where it names none, and says that one leaves no choice", async () => {
    const common = 'a - - [01/Mar/2026:12:00:00 +0000] "POST /v1/completions HTTP/1.1" 200 900\n';
    await expect(played(common)).rejects.toMatchObject({
      code: "FLAG_MISSING",
      message: expect.stringContaining("--servers"),
    });
    const one = await played(common.repeat(3), { servers: 1 });
    expect(one.traffic!.log.notes.at(-1)).toMatch(/^With one server there is no choice/);
    expect(one.traffic!.log.recorded).toBeUndefined();
    expect(replayStudyText(one)).toMatch(/\nas recorded +- +- +- +-\n/);
  });

  it("says what there is instead where nothing can be played", async () => {
    const gets = lines([entryAt(0, { method: "GET" }), entryAt(1, { response_code: 500 })]);
    await expect(played(gets)).rejects.toMatchObject({
      code: "REPLAY_INPUT",
      message: expect.stringContaining("1 x GET requests, 1 x answered with 500"),
    });
    await expect(played("")).rejects.toMatchObject({
      message: expect.stringContaining("has nothing to replay: no line has an entry. Give records"),
    });
    await expect(played("# only\n\n# comments\n")).rejects.toMatchObject({ code: "REPLAY_INPUT" });
    await expect(played("what\nis this\n")).rejects.toMatchObject({
      message: expect.stringMatching(
        /has nothing to replay: 2 lines cannot be read; the first is line 1\. Give records/,
      ),
    });
    await expect(replayRecorded([`${import.meta.dirname}/nowhere`], {})).rejects.toMatchObject({
      code: "DOCUMENT_MISSING",
    });
    await expect(replayRecorded(["/tmp"], {})).rejects.toMatchObject({ code: "DOCUMENT_UNREADABLE" });
  });

  it("may share its file with recorded decisions, and with lines of other formats", async () => {
    const decisions: RecordedRun = { decisions: 5 };
    const envoy =
      '[2026-03-01T00:00:09.000Z] "POST /v1/completions HTTP/1.1" 200 - 1739 1201 380 - "-" "-" "29e9" "host" "10.0.0.1:8000"\n';
    const study = await played(`${recordLines(recordedRun(decisions))}${lines([entryAt(0)])}${envoy}{broken\n`);
    expect(study.decisions).toMatchObject({ replayed: 5, elsewhere: 0 });
    expect(study.traffic!.log).toMatchObject({ requests: 2, durationMs: 9001 });
    expect(study.broken).toMatchObject({ count: 1, first: [{ place: "line 8" }] });
    const only = await played(`${recordLines(recordedRun(decisions))}${lines([entryAt(0, { method: "GET" })])}`);
    expect(only).toMatchObject({ traffic: undefined, notPlayed: [{ what: "GET requests", count: 1 }] });
    expect(replayStudyText(only)).toContain("Nothing in the access log can be played: 1 x GET requests.");
  });
});
