import { z } from "zod";
import { SluiceError } from "../../base/inference/errors.ts";
import { parseRedisUrl } from "../../base/redis/address.ts";

/** The most rules: each request is compared with all of them. */
const MAX_RULES = 256;
/** The longest name of a key or model in a rule, in characters. */
const MAX_NAME = 256;
/** The highest figure of a limit. Sums of larger ones would lose whole requests to rounding. */
const MAX_AMOUNT = 1_000_000_000_000;
const LIMITS = ["requestsPerMinute", "tokensPerMinute", "inFlight"] as const;

const amount = (about: string) => z.int().min(1).max(MAX_AMOUNT).optional().describe(about);
const selector = (about: string) => z.string().min(1).max(MAX_NAME).optional().describe(about);

const rule = z
  .strictObject({
    key: selector(
      'The name of a key. "*" = one counter for each key, or for each client address if there are no keys; absent = one counter for all.',
    ),
    model: selector(
      'The name of a model; each adapter is a separate model. "*" = one counter for each model; absent = one counter for all models.',
    ),
    requestsPerMinute: amount("The most requests in a minute."),
    tokensPerMinute: amount("The most tokens in a minute, of prompts and answers together."),
    inFlight: amount("The most requests that run at the same time, queued ones included."),
  })
  .refine((value) => LIMITS.some((name) => value[name] !== undefined), {
    message: `limits nothing; give at least one of ${LIMITS.join(", ")}`,
  });

/** The content of the file of `--limits`. */
export const limitsSchema = z
  .strictObject({
    redis: z
      .string()
      .superRefine((url, context) => {
        try {
          parseRedisUrl(url);
        } catch (error) {
          if (!(error instanceof SluiceError)) throw error;
          context.addIssue({ code: "custom", message: error.message });
        }
      })
      .optional()
      .describe(
        "URL of the Redis or Valkey server through which gateways share their counts; absent = the store of `peers`, if any, else each gateway counts alone.",
      ),
    rules: z
      .array(rule)
      .max(MAX_RULES)
      .default([])
      .describe("The limits. Every rule that matches a request applies to it."),
  })
  .superRefine(({ rules }, context) => {
    const seen = new Map<string, number>();
    for (const [i, { key, model }] of rules.entries()) {
      const both = JSON.stringify([key, model]);
      const before = seen.get(both);
      if (before === undefined) seen.set(both, i);
      else
        context.addIssue({
          code: "custom",
          path: ["rules", i],
          message: `has the same key and model as rules[${before}]; write the limits of both into one rule`,
        });
    }
  });

export type LimitsSettings = z.output<typeof limitsSchema>;

/** The section `limits` of gateway.yaml: the content of that file, or its path. */
export const limitsSection = limitsSchema
  .safeExtend({
    file: z
      .string()
      .min(1)
      .optional()
      .describe("Path of a limits file, in place of `rules`. The gateway follows its changes."),
    ca: z.string().min(1).optional().describe("Authorities of the certificate of this Redis, PEM file."),
    certificate: z
      .string()
      .min(1)
      .optional()
      .describe("The certificate that the gateway shows to this Redis, PEM file."),
    key: z.string().min(1).optional().describe("The key of this certificate, PEM file."),
  })
  .superRefine(({ file, rules }, context) => {
    if (file !== undefined && rules.length > 0)
      context.addIssue({ code: "custom", path: ["rules"], message: "give at most one of `file` and `rules`" });
  });
export type LimitRule = LimitsSettings["rules"][number];

/** The rule in messages and labels: `key=team-a model=*`. */
export function ruleName({ key, model }: Pick<LimitRule, "key" | "model">): string {
  const parts = [...(key === undefined ? [] : [`key=${key}`]), ...(model === undefined ? [] : [`model=${model}`])];
  return parts.length === 0 ? "all" : parts.join(" ");
}
