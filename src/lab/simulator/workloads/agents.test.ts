import { describe, expect, it } from "vitest";
import {
  checksum,
  countBy,
  playNamed,
  type Sent,
} from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { joined } from "./prompt-text.ts";

const ROLE_BYTES = 6000 * 4;

describe("the agents workload", () => {
  const sent = playNamed("agents", { rate: 0.5 });
  const sessions = new Map<string, Sent[]>();
  for (const one of sent) {
    const name = one.request.session!;
    sessions.set(name, [...(sessions.get(name) ?? []), one]);
  }

  it("has prompts that begin with the prompt and the answer before them, byte for byte, and grow up to 120,000 tokens", () => {
    let most = 0;
    for (const steps of sessions.values())
      steps.slice(1).forEach(({ at, request }, i) => {
        const { at: before, request: last } = steps[i]!;
        const history = joined(last.prompt, last.answer!);
        expect(at).toBeGreaterThanOrEqual(before + 1000);
        expect(request.prompt.length).toBeGreaterThan(history.length);
        expect(checksum(request.prompt.subarray(0, history.length))).toBe(checksum(history));
        most = Math.max(most, request.prompt.length / 4 + request.outputTokens);
      });
    expect(most).toBeGreaterThan(60_000);
    expect(most).toBeLessThanOrEqual(120_000);
  });

  it("shares a role's 6,000 tokens among the sessions of that role and nothing else", () => {
    const firsts = sent.filter(({ request }) => request.kind === "first step").map(({ request }) => request.prompt);
    expect(firsts).toHaveLength(sessions.size);
    expect(firsts.length).toBeGreaterThan(40);
    expect(countBy(firsts, (prompt) => String(checksum(prompt.subarray(0, ROLE_BYTES)))).size).toBe(8);
    const next = firsts.map((prompt) => checksum(prompt.subarray(ROLE_BYTES, ROLE_BYTES + 64)));
    expect(new Set(next).size).toBe(firsts.length);
  });

  it("sends the same sessions whatever the answers take, and ends a session that is refused", () => {
    const slow = playNamed("agents", { rate: 0.5, answers: () => 9000 });
    const key = ({ request }: Sent): string => `${request.session} ${checksum(request.prompt)}`;
    const known = new Set(sent.map(key));
    expect(slow.length).toBeLessThan(sent.length);
    expect(slow.filter((one) => !known.has(key(one)))).toEqual([]);
    const refused = playNamed("agents", { rate: 0.5, answers: () => "rejected" });
    expect(refused.map(({ request }) => request.kind)).toEqual(refused.map(() => "first step"));
  });
});
