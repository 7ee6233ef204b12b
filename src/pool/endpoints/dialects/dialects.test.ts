import { describe, expect, it } from "vitest";
import { UNKNOWN_METRICS } from "../../../base/inference/endpoint.ts";
import { Dialects } from "./dialects.ts";

const LABEL = "llm-d.ai/engine-type";
const LEGACY = "inference.networking.k8s.io/engine-type";

describe("Dialects (S-12)", () => {
  it("goes by the label, then by the legacy one; an unknown engine is taken for vLLM", () => {
    const dialects = new Dialects();
    const nameOf = (labels: Record<string, string>): string => dialects.of(labels).name;
    expect(nameOf({ [LABEL]: "sglang" })).toBe("sglang");
    expect(nameOf({ [LEGACY]: "trtllm-serve" })).toBe("trtllm-serve");
    expect(nameOf({ [LABEL]: "sglang", [LEGACY]: "triton" })).toBe("sglang");
    expect(nameOf({ [LABEL]: "foo", [LEGACY]: "triton" })).toBe("vllm");
    expect(nameOf({ [LABEL]: "toString" })).toBe("vllm");
    expect(nameOf({ app: "x" })).toBe("vllm");
    expect(nameOf({})).toBe("vllm");
  });

  it("goes by another label and to another default where it is told to; the legacy label still counts", () => {
    const dialects = new Dialects([{ name: "own", queued: "q" }], { engineLabelKey: "engine", defaultEngine: "own" });
    const nameOf = (labels: Record<string, string>): string => dialects.of(labels).name;
    expect(nameOf({ engine: "sglang", [LEGACY]: "triton" })).toBe("sglang");
    expect(nameOf({ [LABEL]: "sglang", [LEGACY]: "triton" })).toBe("triton");
    expect(nameOf({ [LABEL]: "sglang" })).toBe("own");
    expect(nameOf({ engine: "foo" })).toBe("own");
    expect(nameOf({ engine: "vllm" })).toBe("vllm");
  });

  it("refuses a default engine that it does not know", () => {
    expect(() => new Dialects([], { defaultEngine: "foo" })).toThrow(
      'the default engine "foo" is not known; there are vllm, sglang, trtllm-serve, triton-tensorrt-llm, triton',
    );
  });

  it("gives endpoints of one engine one dialect", () => {
    const dialects = new Dialects();
    expect(dialects.of({ [LABEL]: "sglang" })).toBe(dialects.of({ [LABEL]: "sglang" }));
    expect(dialects.of({ [LABEL]: "foo" })).toBe(dialects.of({}));
  });

  it("takes a mapping of the same name in place of the built-in one, others besides", () => {
    const dialects = new Dialects([
      { name: "vllm", queued: "mine" },
      { name: "own", queued: "also_mine" },
    ]);
    expect(dialects.of({ [LABEL]: "own" }).name).toBe("own");
    expect(dialects.of({ [LABEL]: "sglang" }).name).toBe("sglang");
    const page = Buffer.from("mine 4\nvllm:num_requests_waiting 5\n");
    const read = dialects.of({ [LABEL]: "foo" }).createReader();
    expect(read.read(page, page.length, UNKNOWN_METRICS, 0).metrics.waiting).toBe(4);
  });

  it("refuses a wrong specification when it is made", () => {
    expect(() => new Dialects([{ name: "own", queued: "m{a}" }])).toThrow(
      /invalid label pair "a" in specification "m\{a\}"/,
    );
  });
});
