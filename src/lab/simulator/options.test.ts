import { describe, expect, it } from "vitest";
import {
  IGNORED_VLLM_FLAGS,
  liveSettings,
  parseSimOptions,
  SIM_OPTIONS,
  withFaults,
  withLiveSettings,
} from "./options.ts";

describe("parseSimOptions", () => {
  it("defaults of the table", () => {
    expect(parseSimOptions({})).toMatchObject({
      model: "sim",
      port: 8000,
      maxModelLen: 131072,
      maxRequestBodySizeMb: 64,
      maxNumSeqs: 16,
      kvCacheSize: 4096,
      blockSize: 16,
      maxWaitingQueueLength: 1000,
      maxLoras: 1,
    });
    for (const { name, help, default: fallback } of SIM_OPTIONS) {
      expect([name, help.length > 0, fallback === undefined]).toEqual([name, true, false]);
    }
  });

  it("reads words as a command line has them", () => {
    expect(
      parseSimOptions({
        port: "9001",
        "inter-token-latency": "1m1.5s",
        "prefill-time-per-token": "250us",
        "prefill-overhead": "7",
        "time-factor-under-load": "2.5",
        "enable-kvcache": "false",
        "failure-types": "rate_limit",
        "lora-modules": ["a=/x=y", '{"name": "b", "path": "/b", "base_model_name": "sim"}'],
        model: undefined,
      }),
    ).toMatchObject({
      port: 9001,
      interTokenLatency: 61_500,
      prefillTimePerToken: 0.25,
      prefillOverhead: 7,
      timeFactorUnderLoad: 2.5,
      enableKvcache: false,
      failureTypes: ["rate_limit"],
      loraModules: [
        { name: "a", path: "/x=y" },
        { name: "b", path: "/b" },
      ],
      model: "sim",
    });
  });

  it("takes its identity from the environment if no option sets it", () => {
    const env = { POD_NAME: "p", POD_NAMESPACE: "n", PYTHONHASHSEED: "7" };
    expect(parseSimOptions({ "pod-name": "q" }, env)).toMatchObject({ podName: "q", podNamespace: "n", hashSeed: "7" });
  });

  it("accepts and ignores the flags of vLLM on its list", () => {
    const raw = Object.fromEntries(IGNORED_VLLM_FLAGS.map((name) => [name, "4"]));
    expect(parseSimOptions(raw)).toEqual(parseSimOptions({}));
    expect(IGNORED_VLLM_FLAGS).toContain("no-enable-prefix-caching");
  });

  it.each([
    [{ "max-seqs": 1 }, 'unknown option "max-seqs"'],
    [{ port: "eighty" }, "port: "],
    [{ port: 65536 }, "port: "],
    [{ "max-num-seqs": 1.5 }, "max-num-seqs: "],
    [{ "max-num-seqs": "" }, "max-num-seqs: "],
    [{ "inter-token-latency": "-1ms" }, "inter-token-latency: "],
    [{ "inter-token-latency": "10 parsecs" }, "inter-token-latency: "],
    [{ "time-scale": 0 }, "time-scale: "],
    [{ "time-factor-under-load": 0.5 }, "time-factor-under-load: "],
    [{ mode: "loud" }, "mode: "],
    [{ "enable-kvcache": "perhaps" }, "enable-kvcache: "],
    [{ "failure-types": ["boredom"] }, "failure-types: "],
    [{ "lora-modules": ["nameless"] }, "lora-modules: "],
    [{ "lora-modules": ['{"name": "a,b", "path": "/"}'] }, "lora-modules: "],
    [{ "lora-modules": Array(257).fill("a=b") }, "lora-modules: "],
    [
      { "time-to-first-token": 100, "time-to-first-token-std-dev": 31 },
      "time-to-first-token-std-dev: 31 ms is more than 30 %",
    ],
    [{ "max-loras": 4, "max-cpu-loras": 2 }, "max-cpu-loras: 2 is less than max-loras (4)"],
  ])("refuses %j", (raw, message) => {
    expect(() => parseSimOptions(raw)).toThrowError(expect.objectContaining({ code: "SIM_OPTION" }));
    expect(() => parseSimOptions(raw)).toThrow(message);
  });
});

it("live settings are failures and latency; a change returns new options and leaves the old ones", () => {
  const before = parseSimOptions({});
  const names = Object.keys(liveSettings(before));
  expect(names).toContain("prefill-overhead");
  expect(names).toContain("error-until");
  expect(names).not.toContain("max-num-seqs");
  const after = withLiveSettings(before, { "prefill-overhead": "1s", "stall-after-tokens": 3 });
  expect([after.prefillOverhead, after.stallAfterTokens, before.prefillOverhead]).toEqual([1000, 3, 20]);
  expect(() => withLiveSettings(before, { port: 1 })).toThrow("cannot be changed while the server runs");
  expect(() => withFaults(before, { "prefill-overhead": 1 })).toThrow("cannot be set by a request");
});
