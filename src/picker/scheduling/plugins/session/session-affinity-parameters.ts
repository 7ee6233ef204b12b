import { z } from "zod";
import { firstHeader, type HeaderList } from "../../../../base/inference/headers.ts";
import type { PluginReference } from "../../../../base/plugin/kinds.ts";

const seconds = z.number().positive({ error: "must be greater than 0" });

/** A request header, in lower case as Sluice keeps it. */
export const headerName = z
  .string()
  .trim()
  .min(1, { error: "must not be empty" })
  .transform((given) => given.toLowerCase());

/** The name of an attribute and also of the plugin that writes it. */
const AGENT_IDENTITY = "agent-identity";

const source = z
  .strictObject({
    header: headerName.optional(),
    attribute: z
      // The session-id-producer's key has a published name and a name in sluice.
      .enum(["SessionIDDataKey", "session-id", AGENT_IDENTITY], {
        error: "names no attribute with a session; write SessionIDDataKey (of a session-id-producer) or agent-identity",
      })
      .optional(),
    producer: z.string().min(1, { error: "must not be empty" }).optional(),
  })
  .superRefine(({ header, attribute, producer }, context) => {
    if ((header === undefined) === (attribute === undefined))
      context.addIssue({ code: "custom", message: "takes exactly one of header and attribute" });
    else if (header !== undefined && producer !== undefined)
      context.addIssue({ code: "custom", path: ["producer"], message: "goes with attribute, not with header" });
  });

/** One source of the session. */
export type SessionSource = z.output<typeof source>;

/** Parameters of all plugins of session affinity (scheduling 3.9.2). */
export const sessionAffinityParameters = z.strictObject({
  strategy: z
    .enum(["encoded_endpoint_header", "session_id"])
    .default("encoded_endpoint_header")
    .describe(
      "How Sluice finds the endpoint of a session: by a token from the header of an earlier answer, or by an id that clients choose.",
    ),
  encodedEndpointHeaderConfig: z
    .strictObject({ header: headerName.prefault("x-session-token") })
    .prefault({})
    .describe(
      "For encoded_endpoint_header: `{header}` (`x-session-token`), the header of the token in requests and responses.",
    ),
  sessionIdConfig: z
    .strictObject({
      sources: z
        .array(source)
        .min(1, { error: "must list at least one" })
        .max(16)
        .refine((sources) => new Set(sources.filter(isSessionId).map(pluginOf)).size <= 1, {
          error: "name several session-id-producers; name only one",
        })
        .prefault([{ header: "x-session-id" }])
        .describe("Where the id is."),
      evictionTtlSeconds: seconds.default(300),
      evictionSweepSeconds: seconds.default(10),
    })
    .prefault({})
    .describe(
      "For session_id: `sources` is a list of `{header}` (`x-session-id`), `{attribute: SessionIDDataKey, producer}` or `{attribute: agent-identity}`; the first that is not blank counts. `producer` is the name of a session-id-producer, if the name differs from the type. Sluice forgets a session that is idle for `evictionTtlSeconds` (300); the search for idle sessions runs every `evictionSweepSeconds` (10).",
    ),
  profileName: z
    .string()
    .default("")
    .describe("The session keeps the first endpoint of this profile; empty = the endpoint that serves."),
});

export type SessionAffinityParameters = z.output<typeof sessionAffinityParameters>;

/** Whether a source is the key of a session-id-producer. */
export function isSessionId({ attribute }: SessionSource): boolean {
  return attribute !== undefined && attribute !== AGENT_IDENTITY;
}

/** Returns the name of the plugin that knows the attribute of a source. */
export function pluginOf({ attribute, producer }: SessionSource): string {
  return producer ?? (attribute === AGENT_IDENTITY ? AGENT_IDENTITY : "session-id-producer");
}

/** Returns the plugins that the sources name. */
export function sessionAffinityReferences(parameters: SessionAffinityParameters): readonly PluginReference[] {
  if (parameters.strategy !== "session_id") return [];
  return parameters.sessionIdConfig.sources.flatMap((source, at) => {
    if (source.attribute === undefined) return [];
    const path = ["sessionIdConfig", "sources", at, source.producer === undefined ? "attribute" : "producer"];
    return [{ path, name: pluginOf(source), kind: isSessionId(source) ? "producer" : "request-header-processor" }];
  });
}

/** Sluice ignores longer ids, because clients choose them and the process keeps them. */
export const MAX_SESSION_ID = 256;

/** Returns the value of the first header in `names` (lower case) that holds an id that is neither blank nor too long. */
export function sessionIdIn(headers: HeaderList, names: readonly string[]): string | undefined {
  for (const name of names) {
    const id = firstHeader(headers, name);
    if (id !== undefined && id.length <= MAX_SESSION_ID) return id;
  }
  return undefined;
}
