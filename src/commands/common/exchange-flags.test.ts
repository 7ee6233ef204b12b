import { describe, expect, it } from "vitest";
import { BUDGET_DEFAULTS } from "../../picker/exchange/byte-budget.ts";
import {
  BODY_FLAGS,
  bodySettingsFrom,
  bodySettingsOf,
  MEMORY_FLAGS,
  memoryLimitFrom,
  memoryLimitOf,
} from "./exchange-flags.ts";
import { parseGoFlags } from "./go-flags.ts";

const epp = (...args: string[]) => bodySettingsOf(parseGoFlags(args, BODY_FLAGS, {}));
const GATEWAY = {
  ...{ bodyBudget: "256Mi", smallBody: "64Ki", smallBodyReserve: "64Mi", bodyMinRate: "1Ki", bodyStallWindow: "10s" },
};

describe("the flags of the byte budget", () => {
  it("default to the budget's own defaults, in both commands", () => {
    expect(epp()).toEqual(BUDGET_DEFAULTS);
    expect(bodySettingsFrom(GATEWAY)).toEqual(BUDGET_DEFAULTS);
  });

  it("set everything there is to set", () => {
    const all = { limit: 1_048_576, small: 1000, reserve: 2000, minRate: 0, window: 500 };
    expect(
      epp(
        ...["--body-budget=1Mi", "--small-body=1000", "--small-body-reserve=2k"],
        ...["--body-min-rate=0", "--body-stall-window=500ms"],
      ),
    ).toEqual(all);
    expect(
      bodySettingsFrom({
        ...{ bodyBudget: "1Mi", smallBody: "1000", smallBodyReserve: "2k", bodyMinRate: "0", bodyStallWindow: "500ms" },
      }),
    ).toEqual(all);
  });

  it.each([
    ["--body-budget=1Ki", { bodyBudget: "1Ki" }],
    ["--body-budget=lots", { bodyBudget: "lots" }],
    ["--body-stall-window=1ms", { bodyStallWindow: "1ms" }],
    ["--small-body=-1", { smallBody: "-1" }],
    ["--small-body=65Mi", { smallBody: "65Mi" }],
  ])("refuse %s", (flag, options) => {
    const refusal = expect.objectContaining({ code: "FLAG_VALUE" });
    expect(() => epp(flag)).toThrow(refusal);
    expect(() => bodySettingsFrom({ ...GATEWAY, ...options })).toThrow(refusal);
  });
});

describe("the flag of the memory limit", () => {
  const memory = (...args: string[]) => memoryLimitOf(parseGoFlags(args, MEMORY_FLAGS, {}));

  it.each([
    ["512Mi", 512 * 1024 * 1024],
    ["192Mi", 192 * 1024 * 1024],
    ["0", 0],
  ])("takes %s, in both commands", (memoryLimit, bytes) => {
    expect(memory(`--memory-limit=${memoryLimit}`)).toBe(bytes);
    expect(memoryLimitFrom({ memoryLimit })).toBe(bytes);
  });

  it("is absent by default, which is not 0", () => {
    expect(memory()).toBeUndefined();
    expect(memoryLimitFrom({})).toBeUndefined();
  });

  it.each(["191Mi", "1", "-1", "much"])("refuses %s", (memoryLimit) => {
    const refusal = expect.objectContaining({ code: "FLAG_VALUE" });
    expect(() => memory(`--memory-limit=${memoryLimit}`)).toThrow(refusal);
    expect(() => memoryLimitFrom({ memoryLimit })).toThrow(refusal);
  });
});
