import { z } from "zod";

const seconds = z.number().positive({ error: "must be greater than 0" });

/** A header of requests, in lower case as they are kept. */
export const headerName = z
  .string()
  .min(1, { error: "must not be empty" })
  .transform((given) => given.toLowerCase());

/** Parameters of everything that keeps sessions with their endpoint (scheduling 3.9.2). */
export const sessionAffinityParameters = z.strictObject({
  strategy: z
    .enum(["encoded_endpoint_header", "session_id"])
    .default("encoded_endpoint_header")
    .describe(
      "How a session knows its endpoint: clients send back the token that each answer carries in a header, or a table here goes by an id that clients choose.",
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
        .array(
          z.strictObject({
            header: headerName,
            attribute: z.never({ error: "is not supported yet; name a header" }).optional(),
            producer: z.never({ error: "is not supported yet; name a header" }).optional(),
          }),
        )
        .min(1, { error: "must list at least one" })
        .max(16)
        .prefault([{ header: "x-session-id" }])
        .describe("Where the id is looked for."),
      evictionTtlSeconds: seconds.default(300),
      evictionSweepSeconds: seconds.default(10),
    })
    .prefault({})
    .describe(
      "For session_id: `sources`, a list of `{header}` (`x-session-id`) of which the first that is not blank counts; `evictionTtlSeconds` (300) after which an idle session is forgotten; `evictionSweepSeconds` (10) between two looks for such.",
    ),
  profileName: z.string().default("").describe("Accepted; there is one profile."),
});

export type SessionAffinityParameters = z.output<typeof sessionAffinityParameters>;
