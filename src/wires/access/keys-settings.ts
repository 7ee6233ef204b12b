import { z } from "zod";
import { duration } from "../../base/document/duration-schema.ts";

/**
 * The algorithms of signatures that a token may have. `none` proves nothing, and a key of HS256 and the like is a secret that a
 * public list of keys cannot hold: who accepts both kinds lets a client sign with the public key.
 */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
] as const;
const DEFAULT_ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"] as const;
/** Most issuers: the unknown issuer of a token is looked up among them. */
const MAX_ISSUERS = 16;
/** Milliseconds by which the clocks of issuer and gateway may differ at most. */
const MAX_TOLERANCE = 600_000;

const text = z.string().min(1).max(1024);
const claim = z
  .union([text, z.array(text).min(1).max(8)], "expected the name of a claim, or a list of names that lead to it")
  .transform((path) => (typeof path === "string" ? [path] : path));
/** The names that lead to a claim. */
export type ClaimPath = readonly string[];

/** Where the keys of an issuer are: a file, or an address that nobody on the way can change. */
const jwks = text.refine((place) => !isUrl(place) || isSafeUrl(place), {
  error:
    "expected a file or an https:// address; http:// is for loopback only, because a program that changes the answer could sign tokens",
});

/** An issuer of tokens. */
const TokenSettings = z.strictObject({
  issuer: text.describe("The exact value of the claim `iss`."),
  audience: z
    .union([text, z.array(text).min(1).max(16)], "expected a string or a list of strings")
    .transform((one) => (typeof one === "string" ? [one] : one))
    .describe("Accepted values of the claim `aud`: a token must have one of them."),
  jwks: jwks.describe("The public keys of the issuer (JSON Web Key Set, RFC 7517): a file, or an https address."),
  algorithms: z
    .array(z.enum(ALGORITHMS))
    .min(1)
    .default([...DEFAULT_ALGORITHMS])
    .describe("The signature algorithms that the gateway accepts."),
  clockTolerance: duration()
    .refine((ms) => ms <= MAX_TOLERANCE, "must be at most 10m")
    .default(30_000)
    .describe("How far the clocks of issuer and gateway may differ, at most 10m."),
  claims: z
    .strictObject({
      name: claim.optional().describe("The claim with the name of the caller; default `sub`."),
      models: claim
        .optional()
        .describe("The claim with the models: a list, or names with blanks between. Absent = every model."),
      objective: claim.optional(),
      priority: claim.optional(),
      fairnessId: claim.optional(),
    })
    .default({})
    .describe("The claims that take the place of the fields of a key."),
  choosesFlow: z
    .boolean()
    .default(false)
    .describe("Whether the gateway obeys the objective and fairness headers of the client."),
});
export type TokenSettings = z.output<typeof TokenSettings>;

/** The section `keys` of gateway.yaml: who may send requests. */
export const KeysSettings = z.strictObject({
  file: text.optional().describe("The keys file of `sluice keys`; watched for changes."),
  jwt: z.array(TokenSettings).max(MAX_ISSUERS).default([]).describe("Issuers whose tokens the gateway accepts."),
  open: z
    .boolean()
    .default(false)
    .describe("Without keys: also listen on addresses that other machines reach, and let every client send requests."),
});
export type KeysSettings = z.output<typeof KeysSettings>;

/** Whether the place of keys is an address, and no file. */
export function isUrl(place: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(place);
}

function isSafeUrl(place: string): boolean {
  const url = URL.parse(place);
  if (url === null) return false;
  return (
    url.protocol === "https:" || (url.protocol === "http:" && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname))
  );
}
