import { describe, expect, it } from "vitest";
import { parseLabelSelector } from "./label-selector.ts";

const VLLM = { app: "vllm", tier: "gold", "llm-d.ai/role": "decode", empty: "" };

describe("label selectors (api-resources 3.1)", () => {
  it.each([
    ["app=vllm", true],
    ["app==vllm", true],
    [" app = vllm , tier = gold ", true],
    ["app=vllm,tier=iron", false],
    ["app!=vllm", false],
    ["gone!=x", true],
    ["gone=", false],
    ["empty=", true],
    ["app in (sglang, vllm)", true],
    ["app in (sglang),tier=gold", false],
    ["gone in (a)", false],
    ["tier notin (iron,tin)", true],
    ["gone notin (a)", true],
    ["llm-d.ai/role", true],
    ["!llm-d.ai/role", false],
    ["!gone", true],
    ["! gone,app", true],
    ["empty in ()", true],
  ])("%s: %s", (text, fits) => {
    expect(parseLabelSelector(text)(VLLM)).toBe(fits);
  });

  it.each([
    ["", "is empty; write for example app=vllm"],
    ["app=vllm,", '"" is not one of key=value'],
    ["app vllm", '"app vllm" is not one of'],
    ["app in vllm", '"app in vllm" is not one of'],
    ["app in (a b)", '"a b" cannot be the value of a label'],
    ["app=a=b", '"app=a=b" is not one of'],
    ["-x=1", '"-x=1" is not one of'],
    ["app in (a", '"app in (a" is not one of'],
    [Array.from({ length: 65 }, (_, i) => `k${i}`).join(), "has more than 64 requirements"],
  ])("refuses %j: %s", (text, problem) => {
    expect(() => parseLabelSelector(text)).toThrow(problem);
  });
});
