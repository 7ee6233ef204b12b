import { afterAll, beforeAll, describe, it } from "vitest";
import {
  expectEventsOnce,
  isCancelledAnywhere,
  isHandedOver,
  outlivesHalt,
  SharedRig,
  survivesKill,
} from "./shared.cases.ts";

describe("servers that share a Redis and a bucket, for long", () => {
  let rig: SharedRig;

  beforeAll(async () => {
    rig = await SharedRig.start();
  });
  afterAll(() => rig?.stop());

  it("keep their promises over 20 rounds", { timeout: 1_800_000 }, async () => {
    for (let round = 0; round < 20; round++) {
      await survivesKill(rig, 3000);
      await isHandedOver(rig, 1000);
      await outlivesHalt(rig, 300);
      await isCancelledAnywhere(rig, 1000);
      expectEventsOnce(rig);
    }
  });
});
