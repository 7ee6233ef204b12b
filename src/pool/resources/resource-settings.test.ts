import { describe, expect, it } from "vitest";
import { RESOURCE_DEFAULTS, type ResourceFlags, resourceSettings } from "./resource-settings.ts";

const settings = (flags: Partial<ResourceFlags> = {}) =>
  resourceSettings({ directory: "dir", pool: {}, legacyCriticality: false, ...RESOURCE_DEFAULTS, ...flags });

function failure(flags: Partial<ResourceFlags>): string {
  try {
    settings(flags);
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return `${code}: ${message}`;
  }
  return "none";
}

describe("the flags about API objects", () => {
  it("have the defaults of docs/spec/decisions.md, and are nothing without --resources", () => {
    expect(settings()).toEqual({
      directory: "dir",
      pool: {},
      namespace: "default",
      matching: "auto",
      standardShedAt: 2,
      legacyCriticality: false,
    });
    expect(settings({ directory: undefined, modelMatching: "off", standardShedAt: "2.0" })).toBeUndefined();
  });

  it.each([
    ["1", 1],
    ["1.5", 1.5],
    ["300", 300],
  ])("take the saturation %s", (text, standardShedAt) => {
    expect(settings({ standardShedAt: text })).toMatchObject({ standardShedAt });
  });

  it.each(["0.99", "0", "-1", "", "high", "1e3", "NaN", "Infinity", "99999999"])("refuse the saturation %j", (text) => {
    expect(failure({ standardShedAt: text })).toMatch(
      /^FLAG_VALUE: --standard-shed-at is ".*"; give a number from 1 to 1000000, /,
    );
  });

  it("refuse unknown words and say what was meant", () => {
    expect(failure({ modelMatching: "enforced" })).toBe(
      'FLAG_VALUE: --model-matching is "enforced"; it takes auto, enforce, off; did you mean `enforce`?',
    );
    expect(failure({ pool: { group: "inference.networking.k8s.com" } })).toMatch(
      /^FLAG_VALUE: --pool-group is .* takes /,
    );
  });

  it("refuse what only API objects can give, where there are none", () => {
    for (const [flags, name] of [
      [{ modelMatching: "enforce" }, "--model-matching enforce"],
      [{ standardShedAt: "3" }, "--standard-shed-at"],
      [{ legacyCriticality: true }, "--legacy-criticality"],
    ] as const)
      expect(failure({ directory: undefined, ...flags })).toBe(
        `FLAG_CONFLICT: ${name} applies to InferenceModels; give --resources FOLDER with InferenceModels`,
      );
  });
});
