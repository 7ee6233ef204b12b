import { z } from "zod";
import { firstHeader } from "../../../base/inference/headers.ts";
import { DECODE_ROLES, PREFILL_ROLES, ROLE_LABEL } from "../../../base/inference/roles.ts";
import { defineFilter, defineScorer } from "../../../base/plugin/define.ts";
import type { Filter } from "../../../base/plugin/kinds.ts";
import { headerName } from "./session/session-affinity-parameters.ts";

type Labels = Readonly<Record<string, string>>;

const requirement = z
  .strictObject({
    key: z.string().min(1, { error: "must not be empty" }),
    operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]),
    values: z.array(z.string()).nullish(),
  })
  .superRefine(({ operator, values }, context) => {
    const takesValues = operator === "In" || operator === "NotIn";
    const given = (values ?? []).length > 0;
    if (takesValues === given) return;
    const message = given ? `must be empty with the operator ${operator}` : `must name at least one with ${operator}`;
    context.addIssue({ code: "custom", path: ["values"], message });
  });

type Requirement = z.output<typeof requirement>;

/** A label selector as in Kubernetes. */
const labelSelector = z.strictObject({
  matchLabels: z.record(z.string(), z.string()).nullish().describe("Labels and their required values."),
  matchExpressions: z
    .array(requirement)
    .nullish()
    .describe(
      "Conditions on labels; all must hold: `{key, operator, values}`; operator `In`, `NotIn`, `Exists` or `DoesNotExist`. An endpoint without the label matches every `NotIn`.",
    ),
});

/** Whether labels meet all conditions of a selector. A selector without conditions takes all. */
function selects({ matchLabels, matchExpressions }: z.output<typeof labelSelector>, labels: Labels): boolean {
  for (const key in matchLabels) if (labelOf(labels, key) !== matchLabels[key]) return false;
  for (const condition of matchExpressions ?? []) if (!holds(condition, labelOf(labels, condition.key))) return false;
  return true;
}

/** Returns the value of a label, or undefined. Inherited properties of an object are no labels. */
export function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

function holds({ operator, values }: Requirement, value: string | undefined): boolean {
  if (operator === "Exists") return value !== undefined;
  if (operator === "DoesNotExist") return value === undefined;
  const listed = value !== undefined && values?.includes(value) === true;
  return operator === "In" ? listed : !listed;
}

/** scheduling 3.15 */
export const byLabel = defineFilter({
  type: "by-label",
  describe: "Deprecated: keeps endpoints by the value of one label.",
  deprecated:
    "write label-selector-filter, with a condition `{key, operator: In, values}` for the label; `allowsNoLabel` has no counterpart there",
  parameters: z.strictObject({
    label: z.string().min(1, { error: "must not be empty" }).describe("The label."),
    validValues: z.array(z.string()).nullish().describe("The values of the endpoints to keep."),
    allowsNoLabel: z.boolean().default(false).describe("Also keep endpoints without the label."),
  }),
  notes: ({ label, validValues, allowsNoLabel }) =>
    allowsNoLabel || (validValues ?? []).length > 0
      ? []
      : [`it keeps no endpoint: in validValues, list the values of ${label} that are wanted`],
  create: ({ label, validValues, allowsNoLabel }) => {
    const valid = new Set(validValues);
    return {
      filter({ candidates: { endpoints, count }, keep }) {
        for (let i = 0; i < count; i++) {
          const value = labelOf(endpoints[i]!.labels, label);
          if (!(value === undefined ? allowsNoLabel : valid.has(value))) keep[i] = 0;
        }
      },
    };
  },
});

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

/** scheduling 3.15 */
export const decodeFilter = roleFilter("decode-filter", DECODE_ROLES, true);
/** scheduling 3.15 */
export const prefillFilter = roleFilter("prefill-filter", PREFILL_ROLES);
/** scheduling 3.15 */
export const encodeFilter = roleFilter("encode-filter", ["encode", "encode-prefill", "encode-prefill-decode"]);

function roleFilter(type: string, roles: readonly string[], allowsNoLabel = false) {
  const listed = roles.map((role) => `\`${role}\``).join(", ");
  const accepted = new Set(roles);
  return defineFilter({
    type,
    describe: `Keeps endpoints whose label \`${ROLE_LABEL}\` is one of ${listed}${allowsNoLabel ? ", and endpoints without it" : ""}.`,
    create: () => ({
      filter({ candidates: { endpoints, count }, keep }) {
        for (let i = 0; i < count; i++) {
          const role = labelOf(endpoints[i]!.labels, ROLE_LABEL);
          if (!(role === undefined ? allowsNoLabel : accepted.has(role))) keep[i] = 0;
        }
      },
    }),
  });
}

/** scheduling 3.9 */
export const headerLabelAffinityScorer = defineScorer({
  type: "header-label-affinity-scorer",
  describe: "Prefers endpoints with a label whose value is the value of a request header.",
  parameters: z.strictObject({
    headerName: headerName.describe("The header. Without a value in the request, all endpoints score 0."),
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
