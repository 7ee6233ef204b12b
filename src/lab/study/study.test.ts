import { describe, expect, it } from "vitest";
import { CATALOGUE } from "./catalogue.ts";
import type { Policy } from "./policies.ts";
import { type SimulateFlags, simulateSettings } from "./simulate-settings.ts";
import { runStudy, type StudyPlan, type StudyProgress } from "./study.ts";

function planOf(flags: SimulateFlags, workloads: readonly string[] = ["hot-prefix"]): StudyPlan {
  return simulateSettings(workloads, { duration: "1s", servers: "2", cold: true, seeds: "1", ...flags }, CATALOGUE);
}

/** A configuration as a policy of that name. */
function policyOf(name: string, configText: string): Policy {
  return { name, about: name, source: { configText } };
}

const RENDERED = policyOf(
  "rendered",
  `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- name: tokens
  type: token-producer
  parameters: {vllm: {url: "http://127.0.0.1:1"}}
- type: active-request-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: active-request-scorer}
  - {pluginRef: max-score-picker}
`,
);

describe("a study", () => {
  it("plays all policies with a seed before the next seed, and all seeds of a rate before the next rate", async () => {
    const plan = planOf({ policy: ["round-robin", "default"], rate: ["4", "8"], seeds: "2" });
    const { runs } = await runStudy(plan);
    expect(runs.map(({ rate, seed, policy }) => `${rate} ${seed} ${policy}`)).toEqual([
      ...["4 1 round-robin", "4 1 default", "4 2 round-robin", "4 2 default"],
      ...["8 1 round-robin", "8 1 default", "8 2 round-robin", "8 2 default"],
    ]);
    // The policies have the same arrivals, the seeds have not.
    const lengths = runs.slice(0, 4).map(({ requests, outputTokens }) => `${requests} ${outputTokens}`);
    expect([lengths[0], lengths[2]]).toEqual([lengths[1], lengths[3]]);
    expect(lengths[0]).not.toBe(lengths[2]);
  });

  it("gives the same figures again, however they are cut into seeds and rates", async () => {
    const flags = { policy: ["default"], rate: ["6"] };
    const figures = async (plan: StudyPlan) =>
      (await runStudy(plan)).runs.filter(({ seed }) => seed === 2).map(({ seconds: _, ...rest }) => rest);
    expect(await figures(planOf({ ...flags, seed: "2" }))).toEqual(await figures(planOf({ ...flags, seeds: "2" })));
  });

  it.each([
    ["cut in its next slice", 1000, 3],
    ["kept when one slice holds all of it", 0, 4],
  ])("that is ended has what was finished by then; the run that has begun is %s", async (_, sliceMs, finished) => {
    const ending = new AbortController();
    let now = 0;
    const plan = planOf({ policy: ["round-robin", "least-request"], rate: ["4"], seeds: "5" });
    const study = await runStudy(plan, {
      signal: ending.signal,
      clock: { now: () => (now += sliceMs) },
      onProgress: ({ done }) => done === 3 && ending.abort(),
    });
    expect(study.runs.length).toBe(finished);
    expect(study.speed).toBeUndefined();
    for (const { requests, finished } of study.runs) expect(finished).toBe(requests);
  });

  it("reports its progress in numbers, from none to all", async () => {
    const told: StudyProgress[] = [];
    const plan = planOf({ policy: ["round-robin", "default"], rate: ["4", "12"] });
    await runStudy(plan, { onProgress: (progress) => told.push(progress) });
    const shares = told.map(({ share }) => share);
    expect(shares).toEqual(shares.toSorted((a, b) => a - b));
    expect(shares.at(-1)).toBeCloseTo(1, 6);
    expect(told.at(-1)).toMatchObject({ done: 3, total: 4, running: "hot-prefix at 12, default, seed 1" });
  });

  it.each(["hot-prefix", "conversations"])(
    "of %s at a rate at which nothing comes has runs without figures",
    async (name) => {
      const shares: number[] = [];
      const { runs, speed } = await runStudy(planOf({ policy: ["default"], rate: ["0.01"], servers: "1" }, [name]), {
        onProgress: ({ share }) => shares.push(share),
      });
      expect(runs[0]).toMatchObject({ requests: 0, finished: 0, maxToMeanLoad: 1, makespan: Number.NaN });
      expect(shares.every((share) => share >= 0 && share <= 1)).toBe(true);
      expect(speed).toBeUndefined();
    },
  );

  it("refuses a policy that waits for a service before each decision, before anything is played", async () => {
    const played: StudyProgress[] = [];
    const plan = { ...planOf({ policy: ["round-robin"], rate: ["4"] }) };
    const study = runStudy(
      { ...plan, policies: [...plan.policies, RENDERED] },
      { onProgress: (one) => played.push(one) },
    );
    await expect(study).rejects.toMatchObject({
      code: "FLAG_VALUE",
      message: expect.stringContaining("policy rendered cannot be simulated: before each decision it waits for"),
    });
    expect(played).toEqual([]);
  });

  it("says what is wrong with a configuration before anything is played", async () => {
    const plan = planOf({ policy: ["round-robin"], rate: ["4"] });
    const study = runStudy({ ...plan, policies: [...plan.policies, policyOf("broken", "kind: Nothing")] });
    await expect(study).rejects.toMatchObject({ code: expect.stringMatching(/^DOCUMENT_/) });
  });
});
