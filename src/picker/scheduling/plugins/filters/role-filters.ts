import { defineFilter } from "../../../../base/plugin/define.ts";
import { labelOf } from "./label-selector.ts";

/** The label of a pod that says for which stages of disaggregated serving it is there (scheduling 3.7.1). */
const ROLE = "llm-d.ai/role";

/** scheduling 3.15 */
export const decodeFilter = roleFilter(
  "decode-filter",
  ["decode", "prefill-decode", "both", "encode-prefill-decode"],
  true,
);
/** scheduling 3.15 */
export const prefillFilter = roleFilter("prefill-filter", [
  "prefill",
  "encode-prefill",
  "prefill-decode",
  "both",
  "encode-prefill-decode",
]);
/** scheduling 3.15 */
export const encodeFilter = roleFilter("encode-filter", ["encode", "encode-prefill", "encode-prefill-decode"]);

function roleFilter(type: string, roles: readonly string[], allowsNoLabel = false) {
  const listed = roles.map((role) => `\`${role}\``).join(", ");
  const accepted = new Set(roles);
  return defineFilter({
    type,
    describe: `Keeps endpoints whose label \`${ROLE}\` is one of ${listed}${allowsNoLabel ? ", and those without it" : ""}.`,
    create: () => ({
      filter({ candidates: { endpoints, count }, keep }) {
        for (let i = 0; i < count; i++) {
          const role = labelOf(endpoints[i]!.labels, ROLE);
          if (!(role === undefined ? allowsNoLabel : accepted.has(role))) keep[i] = 0;
        }
      },
    }),
  });
}
