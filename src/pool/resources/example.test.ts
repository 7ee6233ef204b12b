import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { ResourceDirectory } from "./resource-directory.ts";
import { ResourceStore } from "./resource-store.ts";

it("examples/resources loads without a warning and means what its comments say", async () => {
  const warnings: string[] = [];
  const store = new ResourceStore({ notice: (text) => warnings.push(text) });
  const path = fileURLToPath(new URL("../../../examples/resources", import.meta.url));
  const log = { warn: (text: string) => void warnings.push(text), info() {} };
  const directory = new ResourceDirectory({ path, store, clock: new VirtualClock(), log });
  await directory.start();
  directory.close();
  expect(warnings).toEqual([]);
  expect(store.pool?.meta.name).toBe("llama");
  expect([store.objective("interactive"), store.objective("batch")]).toEqual([10, -1]);
  const first = { next: () => 0, below: () => 89 };
  const last = { next: () => 0, below: () => 90 };
  for (const name of ["llama", "llama-2"])
    expect([first, last].map((random) => store.rewrite(name)?.draw?.draw(random))).toEqual([
      "llama-3-8b",
      "llama-3-8b-tuned",
    ]);
  expect(store.model("summaries")?.model.criticality).toBe("Sheddable");
  expect(store.modelSeen).toBe(false);
});
