import { z } from "zod";

/** Fields as the reference's files have them: absent, null, "" and 0 all mean the default, since Go cannot tell them apart. */

export function text<D extends string | undefined>(fallback: D) {
  return z
    .string()
    .nullish()
    .transform((value): string | D => value || fallback);
}

export const requiredText = z.string().min(1);

/** A whole number. Negative ones are refused, which the reference does not do (async-processor 5.2.1). */
export function count<D extends number | undefined>(fallback: D, { least = 1, most = 2 ** 31 - 1 } = {}) {
  return z
    .int()
    .nullish()
    .transform((value, context): number | D => {
      if (!value) return fallback;
      if (value >= least && value <= most) return value;
      context.addIssue({ code: "custom", message: `must be from ${least} to ${most}, got ${value}` });
      return z.NEVER;
    });
}

export function bool(fallback: boolean) {
  return z
    .boolean()
    .nullish()
    .transform((value) => value ?? fallback);
}

/** Address of a gateway: absolute, since paths are joined to it. */
export const gatewayUrl = requiredText.superRefine((value, context) => {
  if (value === "" || isHttpUrl(value)) return;
  const problem = "must be an absolute URL that begins with http:// or https://, such as http://gateway:8080";
  context.addIssue({ code: "custom", message: value.includes("@") ? problem : `${problem}, got ${shown(value)}` });
});

export function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && URL.canParse(value);
}

function shown(value: string): string {
  return JSON.stringify(value.length <= 80 ? value : `${value.slice(0, 77)}...`);
}
