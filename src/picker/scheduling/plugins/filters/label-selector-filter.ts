import { defineFilter } from "../../../../base/plugin/define.ts";
import type { Filter } from "../../../../base/plugin/kinds.ts";
import { labelSelector, selects } from "./label-selector.ts";

/** scheduling 3.15 */
export const labelSelectorFilter = defineFilter({
  type: "label-selector-filter",
  describe: "Keeps endpoints whose labels match a Kubernetes label selector; an empty selector keeps all.",
  parameters: labelSelector,
  create: byLabels,
});

/** The older name of `label-selector-filter` (scheduling 3.15). */
export const byLabelSelector = defineFilter({
  type: "by-label-selector",
  describe: "Deprecated name of label-selector-filter.",
  deprecated: "write label-selector-filter, with the same parameters",
  parameters: labelSelector,
  create: byLabels,
});

function byLabels(selector: Parameters<typeof selects>[0]): Filter {
  return {
    filter({ candidates: { endpoints, count }, keep }) {
      for (let i = 0; i < count; i++) if (!selects(selector, endpoints[i]!.labels)) keep[i] = 0;
    },
  };
}
