import { z } from "zod";
import { firstHeader } from "../../../../base/inference/headers.ts";
import { defineScorer } from "../../../../base/plugin/define.ts";
import { labelOf } from "../filters/label-selector.ts";
import { headerName } from "../session-affinity-parameters.ts";

/** scheduling 3.9 */
export const headerLabelAffinityScorer = defineScorer({
  type: "header-label-affinity-scorer",
  describe: "Prefers endpoints one of whose labels has the value of a request header.",
  parameters: z.strictObject({
    headerName: headerName.describe("The header; without it, or when it is empty, all score 0."),
    labelKey: z.string().min(1, { error: "must not be empty" }).describe("The label."),
  }),
  headers: ({ headerName }) => [headerName],
  create: ({ headerName, labelKey }) => ({
    score({ request, candidates: { endpoints, count }, out }) {
      const wanted = firstHeader(request.headers, headerName);
      if (wanted === undefined) return;
      for (let i = 0; i < count; i++) out[i] = labelOf(endpoints[i]!.labels, labelKey) === wanted ? 1 : 0;
    },
  }),
});
