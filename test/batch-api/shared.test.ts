import { afterAll, beforeAll, describe, it } from "vitest";
import {
  expectEventsOnce,
  isCancelledAnywhere,
  isHandedOver,
  runsInGateway,
  SharedRig,
  survivesKill,
} from "./shared.cases.ts";

describe("servers that share a Redis and a bucket", () => {
  let rig: SharedRig;

  beforeAll(async () => {
    rig = await SharedRig.start();
  });
  afterAll(() => rig?.stop());

  it("take over from one that is killed together with the store", () => survivesKill(rig, 60));

  it("hand over when one of them ends", () => isHandedOver(rig, 40));

  it("have a gateway beside them that does the same", () => runsInGateway(rig, 40));

  it("cancel a batch of each other, and tell each end once", async () => {
    await isCancelledAnywhere(rig, 40);
    expectEventsOnce(rig);
  });
});
