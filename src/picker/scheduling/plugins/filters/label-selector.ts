import { z } from "zod";

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

/** A selector of labels as Kubernetes writes them. */
export const labelSelector = z.strictObject({
  matchLabels: z.record(z.string(), z.string()).nullish().describe("Labels and the values they must have."),
  matchExpressions: z
    .array(requirement)
    .nullish()
    .describe(
      "Conditions on labels, all of which must hold: `{key, operator, values}`; operator `In`, `NotIn`, `Exists` or `DoesNotExist`. A label that is not there is `NotIn` everything.",
    ),
});

/** Whether labels have everything that a selector asks for; one that asks for nothing takes all. */
export function selects({ matchLabels, matchExpressions }: z.output<typeof labelSelector>, labels: Labels): boolean {
  for (const key in matchLabels) if (labelOf(labels, key) !== matchLabels[key]) return false;
  for (const condition of matchExpressions ?? []) if (!holds(condition, labelOf(labels, condition.key))) return false;
  return true;
}

/** The value of a label, or undefined: no label is what every object inherits. */
export function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

function holds({ operator, values }: Requirement, value: string | undefined): boolean {
  if (operator === "Exists") return value !== undefined;
  if (operator === "DoesNotExist") return value === undefined;
  const listed = value !== undefined && values?.includes(value) === true;
  return operator === "In" ? listed : !listed;
}
