import { describe, expect, it } from "vitest";
import { CATALOGUE } from "./catalogue.ts";
import { replaySettings } from "./replay-settings.ts";

describe("replaySettings", () => {
  it("replays the files with the built-in configuration and one seed by default", () => {
    expect(replaySettings({}, CATALOGUE)).toEqual({
      source: { configFile: undefined, profile: undefined, allowExperimental: false },
      options: { seeds: [1] },
    });
  });

  it("passes each flag on", () => {
    const flags = {
      ...{ configFile: ["new.yaml"], recordedWith: "old.yaml", allowExperimentalPlugins: true, field: ["model=m"] },
      ...{ servers: "4", engine: "llama-3-8b-h100", policy: ["random,default", "random"], seeds: "2", seed: "7" },
      ...{ rate: ["2.5"], promptTokens: "900" },
    };
    const { source, options } = replaySettings(flags, CATALOGUE);
    expect(source).toEqual({ configFile: "new.yaml", profile: undefined, allowExperimental: true });
    expect(options).toMatchObject({
      ...{ recordedWith: { configFile: "old.yaml", allowExperimental: true }, fields: ["model=m"], servers: 4 },
      ...{ preset: { name: "llama-3-8b-h100" }, seeds: [7, 8], rate: 2.5, promptTokens: 900 },
    });
    expect(options.policies?.map(({ name }) => name)).toEqual(["random", "default"]);
    expect(replaySettings({ profile: "sticky-until-saturated" }, CATALOGUE).source.profile).toBe(
      "sticky-until-saturated",
    );
  });

  it.each([
    [
      { engine: "llama-3-8b-h10" },
      '--engine "llama-3-8b-h10" is not a known engine preset; did you mean `llama-3-8b-h100`?',
    ],
    [{ policy: ["defult"] }, '--policy "defult" is not a known policy; did you mean `default`?'],
    [{ servers: "none" }, '--servers is "none"; give a whole number from 1 to 512'],
    [{ seeds: "0" }, '--seeds is "0"; give a whole number from 1 to 100'],
    [{ rate: ["fast"] }, '--rate is "fast"; give numbers from 0.01 to 10000'],
  ])("says what is wrong with %j", (flags, told) => {
    expect(() => replaySettings(flags, CATALOGUE)).toThrow(told);
  });
});
