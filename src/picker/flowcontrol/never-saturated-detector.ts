import { defineSaturationDetector } from "../../base/plugin/define.ts";

/** Not a published type: v0.3 had no saturation, its tree alone said who is refused (scheduling 5.1). */
export const neverSaturatedDetector = defineSaturationDetector({
  type: "never-saturated-detector",
  describe: "Never saturated: what is sheddable is left to the profile's filters.",
  create: () => ({ saturation: () => 0 }),
});
