/** A structural schema as CustomResourceDefinitions carry it (OpenAPI v3), as far as ours use it. */
export interface Schema {
  readonly type: "object" | "array" | "string" | "integer";
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly [keyword: string]: unknown;
}

/** Keywords beside `type`, such as `default`, `maxItems`, `x-kubernetes-list-type`. */
export type Keywords = Readonly<Record<string, unknown>>;
type Fields = Readonly<Record<string, Schema>>;

const PATTERN = {
  group: "^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
  kind: "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
  namespace: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
  labelValue: "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
  controllerName:
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\\/[A-Za-z0-9\\/\\-._~%!$&'()*+,;=:]+$",
  conditionType:
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
  conditionReason: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
} as const;

export const text = (description: string, keywords: Keywords = {}): Schema => ({
  description,
  type: "string",
  ...keywords,
});

export const choice = (description: string, values: readonly string[], keywords: Keywords = {}): Schema =>
  text(description, { enum: values, ...keywords });

export const integer = (description: string, keywords: Keywords = {}): Schema => ({
  description,
  type: "integer",
  ...keywords,
});

/** @param required fields that must be there; `optional` those that need not */
export const object = (description: string, required: Fields, optional: Fields = {}, more: Keywords = {}): Schema => ({
  description,
  type: "object",
  ...(Object.keys(required).length > 0 && { required: Object.keys(required) }),
  properties: { ...required, ...optional },
  ...more,
});

export const list = (description: string, items: Schema, keywords: Keywords = {}): Schema => ({
  description,
  type: "array",
  ...keywords,
  items,
});

/** A list of which everything is replaced at once. */
export const ATOMIC: Keywords = { "x-kubernetes-list-type": "atomic" };
/** A list of objects that are told apart by one field. */
export const keyedBy = (field: string): Keywords => ({
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": [field],
});
/** A rule in CEL. */
export const rule = (expression: string, message: string): Keywords => ({
  "x-kubernetes-validations": [{ rule: expression, message }],
});

// The shared scalar types (api-resources 1.1).
export const group = (description: string, value: string): Schema =>
  text(description, { default: value, maxLength: 253, pattern: PATTERN.group });
export const kindName = (description: string, value: string): Schema =>
  text(description, { default: value, minLength: 1, maxLength: 63, pattern: PATTERN.kind });
export const objectName = (description: string): Schema => text(description, { minLength: 1, maxLength: 253 });
export const namespace = (description: string): Schema =>
  text(description, { minLength: 1, maxLength: 63, pattern: PATTERN.namespace });
export const controllerName = (description: string): Schema =>
  text(description, { minLength: 1, maxLength: 253, pattern: PATTERN.controllerName });
export const port = (description: string): Schema =>
  integer(description, { format: "int32", minimum: 1, maximum: 65_535 });
export const weight = (description: string): Schema =>
  integer(description, { format: "int32", minimum: 1, maximum: 1_000_000 });
export const labels = (description: string, keywords: Keywords = {}): Schema => ({
  description,
  type: "object",
  ...keywords,
  additionalProperties: text("A label value; may be empty.", { maxLength: 63, pattern: PATTERN.labelValue }),
});

const condition = object(
  "What is known about one aspect of the object.",
  {
    type: text("The aspect, such as Accepted.", { maxLength: 316, pattern: PATTERN.conditionType }),
    status: choice("Whether it holds.", ["True", "False", "Unknown"]),
    reason: text("Why, as one word for programs.", { minLength: 1, maxLength: 1024, pattern: PATTERN.conditionReason }),
    message: text("Why, as a sentence for people; may be empty.", { maxLength: 32_768 }),
    lastTransitionTime: text("When `status` last changed.", { format: "date-time" }),
  },
  {
    observedGeneration: integer("The metadata.generation that was looked at.", { format: "int64", minimum: 0 }),
  },
);

/** A list of conditions (api-resources 1.2). @param keywords such as its default */
export const conditions = (description: string, keywords: Keywords = {}): Schema =>
  list(description, condition, { maxItems: 8, ...keyedBy("type"), ...keywords });

/** The condition of an object that no controller has looked at. @param type it differs between kinds */
export const pending = (type: string) => ({
  type,
  status: "Unknown",
  reason: "Pending",
  message: "Waiting for controller",
  lastTransitionTime: "1970-01-01T00:00:00Z",
});
