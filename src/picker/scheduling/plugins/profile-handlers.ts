import { z } from "zod";
import { oneLine } from "../../../base/inference/errors.ts";
import { firstHeader } from "../../../base/inference/headers.ts";
import { Rejection } from "../../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import { defineProfileHandler } from "../../../base/plugin/define.ts";
import type { ProfileHandler } from "../../../base/plugin/kinds.ts";

const NOTHING: readonly string[] = [];

/** scheduling 3.7. The handler of a configuration that names none. */
export const singleProfileHandler = defineProfileHandler({
  type: "single-profile-handler",
  describe: "Runs the only profile once and uses its result.",
  create: () => ({
    pick: ({ profiles, results }) => (results.size === 0 ? profiles : NOTHING),
    processResults({ profiles, results }) {
      const name = profiles[0]!;
      const result = results.get(name);
      return result instanceof Rejection ? result : name;
    },
  }),
});

const parameters = z.strictObject({
  headerName: z
    .string()
    .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: "must be the name of a header" })
    .default("EPP-Profile")
    .describe("The request header that names the profile. Upper and lower case are the same."),
  defaultProfile: z
    .string()
    .min(1, { error: "must not be empty" })
    .default("decode")
    .describe("The profile for requests without this header or with a blank value."),
});

/** scheduling 3.7. For clients that send one request for each stage and name the profile in a header. */
export const headerProfileHandler = defineProfileHandler({
  type: "header-profile-handler",
  describe:
    "Runs the profile that a request header names; a single profile runs for every request. A name without a profile gets 429.",
  parameters,
  headers: ({ headerName }) => [headerName.toLowerCase()],
  create: ({ headerName, defaultProfile }) => new HeaderProfileHandler(headerName.toLowerCase(), defaultProfile),
});

class HeaderProfileHandler implements ProfileHandler {
  readonly #header: string;
  readonly #default: string;

  constructor(header: string, defaultProfile: string) {
    this.#header = header;
    this.#default = defaultProfile;
  }

  pick({ request, profiles, results }: Parameters<ProfileHandler["pick"]>[0]): readonly string[] {
    if (results.size > 0) return [];
    const name = this.#nameFor(request, profiles);
    return profiles.includes(name) ? [name] : [];
  }

  processResults({ request, profiles, results }: Parameters<ProfileHandler["processResults"]>[0]): string | Rejection {
    const name = this.#nameFor(request, profiles);
    const result = results.get(name);
    if (result instanceof Rejection) return result;
    if (result !== undefined) return name;
    const cause =
      firstHeader(request.headers, this.#header) === undefined
        ? `without the header ${this.#header} the profile is ${name}`
        : `the header ${this.#header} names the profile ${name}`;
    return new Rejection("denied", oneLine(`failed to find target endpoint: ${cause}, which does not exist`));
  }

  #nameFor(request: InferenceRequest, profiles: readonly string[]): string {
    return profiles.length === 1 ? profiles[0]! : (firstHeader(request.headers, this.#header) ?? this.#default);
  }
}
