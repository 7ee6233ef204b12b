import { describe, expect, it } from "vitest";
import {
  type Answers,
  checksum,
  fingerprint,
  mean,
  playNamed,
  quantile,
  type Sent,
} from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { ANSWER, FIRST_PROMPT, GAP_SECONDS, NEXT_QUESTION, TURNS } from "./conversations.ts";
import { joined } from "./prompt-text.ts";

/** Whole sessions, and short texts instead of the prompts: a day's worth of them would fill the memory. */
interface Turn {
  readonly session: string;
  readonly at: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

function turnsOf(seed: number, rate: number, durationMs: number): Map<string, Turn[]> {
  const sessions = new Map<string, Turn[]>();
  playNamed("conversations", {
    ...{ seed, rate, durationMs, keep: false, answers: () => 0 },
    saw({ session, prompt, outputTokens }, at) {
      const turn = { session: session!, at, promptTokens: prompt.length / 4, outputTokens };
      sessions.set(session!, [...(sessions.get(session!) ?? []), turn]);
    },
  });
  return sessions;
}

function bySession(sent: readonly Sent[]): Map<string, Sent[]> {
  const sessions = new Map<string, Sent[]>();
  for (const one of sent) {
    const { session } = one.request;
    sessions.set(session!, [...(sessions.get(session!) ?? []), one]);
  }
  return sessions;
}

describe("the conversations workload", () => {
  it("has prompts that begin with the prompt and the answer before them, byte for byte", () => {
    let later = 0;
    for (const turns of bySession(playNamed("conversations", { rate: 0.5 })).values())
      turns.slice(1).forEach(({ request }, i) => {
        const before = turns[i]!.request;
        const history = joined(before.prompt, before.answer!);
        expect(request.prompt.length).toBeGreaterThan(history.length);
        expect(checksum(request.prompt.subarray(0, history.length))).toBe(checksum(history));
        later++;
      });
    expect(later).toBeGreaterThan(50);
  });

  it("shares the system prompt's 512 tokens among sessions and nothing else", () => {
    const firsts = playNamed("conversations", { rate: 1, durationMs: 300_000 }).filter(
      ({ request }) => request.kind === "first turn",
    );
    const heads = new Set(firsts.map(({ request }) => checksum(request.prompt.subarray(0, 512 * 4))));
    const next = new Set(firsts.map(({ request }) => checksum(request.prompt.subarray(512 * 4, 528 * 4))));
    expect(heads.size).toBe(1);
    expect(next.size).toBe(firsts.length);
    expect(firsts.length).toBeGreaterThan(200);
  });

  it("has sessions as long, prompts as large and pauses as long as the trace", () => {
    // Four hours, so that hardly a session is cut short.
    const sessions = [...turnsOf(1, 0.25, 4 * 3_600_000).values()];
    const firsts = sessions.map((turns) => turns[0]!);
    const steps = sessions.flatMap((turns) => turns.slice(1).map((turn, i) => ({ turn, before: turns[i]! })));
    expect(Math.abs(sessions.length - 3600)).toBeLessThan(180);
    const near = (values: readonly number[], of: { at(share: number): number }, within: number): void => {
      for (const share of [0.25, 0.5, 0.75, 0.9])
        expect(Math.abs(quantile(values, share) / of.at(share) - 1), `at ${share}`).toBeLessThan(within);
    };
    near(
      firsts.map(({ promptTokens }) => promptTokens),
      FIRST_PROMPT,
      0.12,
    );
    near(
      sessions.flat().map(({ outputTokens }) => outputTokens),
      ANSWER,
      0.08,
    );
    near(
      steps.map(({ turn, before }) => (turn.at - before.at) / 1000),
      GAP_SECONDS,
      0.1,
    );
    near(
      steps.map(({ turn, before }) => turn.promptTokens - before.promptTokens - before.outputTokens),
      NEXT_QUESTION,
      0.35,
    );
    const once = sessions.filter(({ length }) => length === 1).length / sessions.length;
    expect(Math.abs(once - 0.6985)).toBeLessThan(0.025);
    expect(Math.abs(mean(sessions.map(({ length }) => length)) - 1.65)).toBeLessThan(0.12);
  });

  it("has quantiles whose means are those of the trace, so nothing is lost between them", () => {
    const meanOf = (of: { at(share: number): number }, round = (value: number): number => value): number =>
      mean(Array.from({ length: 100_000 }, (_, i) => round(of.at((i + 0.5) / 100_000))));
    expect(Math.abs(meanOf(FIRST_PROMPT) / 11_224 - 1)).toBeLessThan(0.05);
    expect(Math.abs(meanOf(ANSWER) / 343 - 1)).toBeLessThan(0.05);
    expect(Math.abs(meanOf(GAP_SECONDS) / 227 - 1)).toBeLessThan(0.05);
    expect(Math.abs(meanOf(NEXT_QUESTION) / 1455 - 1)).toBeLessThan(0.07);
    expect(Math.abs(meanOf(TURNS, Math.floor) / 1.65 - 1)).toBeLessThan(0.03);
  });

  it("has the same dialogues however fast they are answered, and never asks before an answer is read", () => {
    const answers: Answers = (number) => 20_000 + (number % 11) * 8000;
    const quick = bySession(playNamed("conversations", { rate: 0.5, answers: () => 0 }));
    const slow = bySession(playNamed("conversations", { rate: 0.5, answers }));
    expect([...slow.keys()]).toEqual([...quick.keys()]);
    let late = 0;
    for (const [session, turns] of slow) {
      const same = quick.get(session)!;
      expect(turns.length).toBeLessThanOrEqual(same.length);
      turns.forEach(({ request, at }, i) => {
        expect(fingerprint(request, 0)).toBe(fingerprint(same[i]!.request, 0));
        expect(at).toBeGreaterThanOrEqual(same[i]!.at);
        if (i > 0) expect(at - turns[i - 1]!.at).toBeGreaterThanOrEqual(21_000);
        if (at > same[i]!.at) late++;
      });
    }
    expect(late).toBeGreaterThan(3);
  });

  it("ends a session whose turn is refused", () => {
    const sent = playNamed("conversations", { rate: 0.5, answers: () => "rejected" });
    expect(sent.every(({ request }) => request.kind === "first turn")).toBe(true);
    expect(new Set(sent.map(({ request }) => request.session)).size).toBe(sent.length);
  });

  it("stays within a context window of 131,072 tokens", () => {
    const turns = [...turnsOf(5, 1, 3_600_000).values()].flat();
    const most = Math.max(...turns.map(({ promptTokens, outputTokens }) => promptTokens + outputTokens));
    expect(most).toBeGreaterThan(100_000);
    expect(most).toBeLessThanOrEqual(131_072);
  });
});
