import { z } from "zod";
import type { Random } from "../../../base/clock/random.ts";
import type { Document } from "../../../base/document/document.ts";
import { check, invalid, type Violation, validate } from "../../../base/document/validate.ts";
import { HOP_BY_HOP_HEADERS } from "../../../base/inference/headers.ts";
import { FairnessStamp, type MakeMergePolicy } from "./merge-policy.ts";
import { RandomRobin } from "./random-robin.ts";
import { TierPriority } from "./tier-priority.ts";

const FILE = { what: "request merge policy file" };
const NAME = /^[\w!#$%&'*+.^`|~-]{1,256}$/;
/** Headers that frame and address a request; a message's value would break it. */
const TAKEN: ReadonlySet<string> = new Set([...HOP_BY_HOP_HEADERS, "content-length", "content-type", "host"]);

const headerName = z
  .string()
  .refine((name) => NAME.test(name), "is not a legal header name: use at most 256 letters, digits and !#$%&'*+-.^_`|~")
  .refine((name) => !TAKEN.has(name.toLowerCase()), "names a header that HTTP itself uses");

const fairness = {
  /** Empty = no header. */
  fairness_header: headerName
    .or(z.literal(""))
    .default("x-llm-d-inference-fairness-id")
    .describe("Request header for the fairness ID; empty = no header."),
  fairness_attribute: z.string().default("userid").describe("Metadata entry of a message with the fairness ID."),
};

const ROBIN = z.strictObject(fairness);
const TIERS = z
  .strictObject({
    ...fairness,
    priority_header: headerName.default("x-gateway-priority").describe("Request header for the priority of the tier."),
    tier_label: z.string().default("tier").describe("Message label that names the tier."),
  })
  .refine((it) => it.fairness_header === "" || it.fairness_header.toLowerCase() !== it.priority_header.toLowerCase(), {
    path: ["priority_header"],
    message: "names the same header as `fairness_header`",
  });

/** The parameters of each merge policy. */
export const MERGE_POLICIES = { "random-robin": ROBIN, "tier-priority": TIERS } as const;

const POLICY = z.strictObject({
  type: z.enum(["random-robin", "tier-priority"]),
  parameters: z.unknown().optional(),
});

/**
 * The merge policy that a file of `--request-merge-policy-config-file` describes (async-processor 6.1).
 * @param document undefined = `random-robin` with its defaults
 * @throws SluiceError DOCUMENT_INVALID for unknown keys and types, and for header names that no request can carry
 */
export function mergePolicy(document: Document | undefined, random: Random): MakeMergePolicy {
  if (document === undefined) return randomRobin(ROBIN.parse({}), random);
  const { type, parameters } = validate(document, POLICY, FILE);
  if (type === "random-robin") return randomRobin(read(document, parameters, ROBIN), random);
  const { fairness_header, fairness_attribute, priority_header, tier_label } = read(document, parameters, TIERS);
  const options = {
    ...{ priorityHeader: priority_header, tierLabel: tier_label },
    fairness: new FairnessStamp(fairness_header, fairness_attribute),
  };
  return (queues, workers) => new TierPriority(queues, workers, options);
}

function randomRobin(parameters: z.output<typeof ROBIN>, random: Random): MakeMergePolicy {
  const stamp = new FairnessStamp(parameters.fairness_header, parameters.fairness_attribute);
  return (queues, workers) => new RandomRobin(queues, workers, random, stamp);
}

function read<S extends z.ZodType>(document: Document, parameters: unknown, schema: S): z.output<S> {
  const violations: Violation[] = [];
  const found = check(parameters ?? {}, schema, ["parameters"], violations);
  if (found === undefined) throw invalid(document, violations, FILE.what);
  return found.output;
}
