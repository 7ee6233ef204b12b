import { describe, expect, it } from "vitest";
import { madeModel } from "../../../test/support/resources/made.cases.ts";
import { ModelTable } from "./model-table.ts";

const made = (name: string, modelName: string, created: number) =>
  madeModel(name, modelName, { meta: { creationTimestamp: created } });

describe("ModelTable by itself; the rest of its rules is in resource-store.test.ts", () => {
  it("leaves nothing under the old model name of an object that is put again (R-12)", () => {
    const table = new ModelTable();
    table.put(made("a", "chat", 1));
    table.put(made("a", "code", 1));
    expect([table.get("chat"), table.get("code")?.model.meta.name]).toEqual([undefined, "a"]);
    table.remove("default/a");
    expect([table.get("chat"), table.get("code")]).toEqual([undefined, undefined]);
  });

  it("chooses anew when the winner itself is put again, younger (R-11)", () => {
    const table = new ModelTable();
    for (const [name, created] of [
      ["a", 1],
      ["b", 2],
      ["c", 3],
    ] as const)
      table.put(made(name, "chat", created));
    table.put(made("a", "chat", 9));
    expect(table.get("chat")?.model.meta.name).toBe("b");
    table.put(made("b", "chat", 10));
    expect(table.get("chat")?.model.meta.name).toBe("c");
  });
});
