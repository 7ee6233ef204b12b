import { expect, it } from "vitest";
import { Adapters, MAX_ADAPTERS } from "./adapters.ts";

it("knows at most 1,024 adapters, and takes another one when one was unloaded", () => {
  const adapters = new Adapters([]);
  for (let i = 0; i < MAX_ADAPTERS; i++) adapters.load({ name: `a${i}`, path: "/" });
  expect(() => adapters.load({ name: "more", path: "/" })).toThrow("1024 LoRA adapters are loaded");
  adapters.unload("a0");
  adapters.load({ name: "more", path: "/" });
  expect(adapters.list()).toHaveLength(MAX_ADAPTERS);
});
