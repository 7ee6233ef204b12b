import { describe, expect, it } from "vitest";
import { HeaderList } from "../inference/headers.ts";
import { objectivesFromFlags } from "./objectives.ts";
import { resolveModel } from "./resolve.ts";

const objectives = objectivesFromFlags(["interactive=10", "batch=-1"]);
const resolve = (headers: Record<string, string>) =>
  resolveModel("llama", HeaderList.of(Object.entries(headers)), objectives);

describe("resolveModel", () => {
  it("asks for the model as received, priority 0 and the default flow when nothing else is said (E-107)", () => {
    expect(resolve({})).toEqual({
      targetModel: "llama",
      objective: "",
      priority: 0,
      shedAt: Number.POSITIVE_INFINITY,
      fairnessId: "default-flow",
    });
  });

  it("takes the priority of the objective named by either header (E-106)", () => {
    expect(resolve({ "x-llm-d-inference-objective": "interactive" })).toMatchObject({
      objective: "interactive",
      priority: 10,
    });
    expect(resolve({ "X-Gateway-Inference-Objective": "batch" })).toMatchObject({ objective: "batch", priority: -1 });
  });

  it("gives an unknown objective priority 0 and no name (E-106, S-73)", () => {
    expect(resolve({ "x-llm-d-inference-objective": "made-up" })).toMatchObject({ objective: "", priority: 0 });
  });

  it("prefers the x-llm-d names over the aliases (E-107, S-73)", () => {
    expect(
      resolve({
        "x-gateway-inference-objective": "interactive",
        "x-llm-d-inference-objective": "batch",
        "x-gateway-inference-fairness-id": "alias",
        "x-llm-d-inference-fairness-id": "tenant-a",
      }),
    ).toMatchObject({ objective: "batch", priority: -1, fairnessId: "tenant-a" });
  });

  it("treats an empty value as absent and falls through to the alias (E-107)", () => {
    expect(
      resolve({
        "x-llm-d-inference-objective": "",
        "x-gateway-inference-objective": "batch",
        "x-llm-d-inference-fairness-id": " ",
      }),
    ).toMatchObject({ objective: "batch", fairnessId: "default-flow" });
    expect(resolve({ "x-gateway-inference-fairness-id": "tenant-b" }).fairnessId).toBe("tenant-b");
  });
});
