import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import type { KeysSettings } from "../../wires/access/keys-settings.ts";
import { collect } from "./command.ts";

/** The options of `sluice gateway` about who may send requests. */
export interface KeysOptions {
  readonly keys?: string;
  readonly jwtIssuer?: string;
  readonly jwtAudience?: string;
  readonly jwtJwks?: string;
  readonly jwtClaim: readonly string[];
  readonly open: boolean;
}

const CLAIMS = ["name", "models", "objective", "priority", "fairnessId"] as const;

/** Adds the options that say who may send requests. */
export function withKeysOptions(command: Command): Command {
  return command
    .option("--keys <file>", "file of `sluice keys` that says who may send requests; reloaded on changes")
    .option("--jwt-issuer <issuer>", "also accept tokens (JWT) whose claim iss has this value")
    .option("--jwt-audience <audience>", "the value that the claim aud of these tokens must have")
    .option("--jwt-jwks <place>", "the public keys of the issuer: a file or an https address")
    .option("--jwt-claim <field=claim>", `the claim that sets one of ${CLAIMS.join(", ")}; repeatable`, collect, [])
    .option(
      "--open",
      "without keys: listen on addresses that other machines reach, and let every client send requests",
      false,
    );
}

/** @throws SluiceError FLAG_MISSING, FLAG_VALUE */
export async function keysSettingsFrom(options: KeysOptions): Promise<KeysSettings> {
  const { keys, jwtIssuer, jwtAudience, jwtJwks, jwtClaim, open } = options;
  if (keys === "") throw new SluiceError("FLAG_VALUE", '--keys is ""; give a file that `sluice keys add` created');
  const parts = { "--jwt-issuer": jwtIssuer, "--jwt-audience": jwtAudience, "--jwt-jwks": jwtJwks };
  const missing = Object.entries(parts).filter(([, value]) => value === undefined);
  const none = missing.length === 3;
  if (!none && missing.length > 0)
    throw new SluiceError("FLAG_MISSING", `tokens need ${missing.map(([flag]) => flag).join(" and ")}, too`);
  if (none && jwtClaim.length > 0)
    throw new SluiceError("FLAG_MISSING", "--jwt-claim needs --jwt-issuer, --jwt-audience and --jwt-jwks");
  const jwt = none
    ? []
    : [
        {
          issuer: jwtIssuer!,
          audience: jwtAudience!,
          jwks: jwtJwks!,
          claims: Object.fromEntries(jwtClaim.map(claimIn)),
        },
      ];
  // Loaded on use: `sluice sim` needs none of it.
  const { KeysSettings: schema } = await import("../../wires/access/keys-settings.ts");
  const read = schema.safeParse({ file: keys, jwt, open });
  if (read.success) return read.data;
  const { path, message } = read.error.issues[0]!;
  throw new SluiceError("FLAG_VALUE", `--jwt-${String(path[2])}: ${message}`);
}

function claimIn(text: string): readonly [string, string] {
  const equals = text.indexOf("=");
  const field = CLAIMS.find((name) => name === text.slice(0, equals));
  if (field !== undefined && equals < text.length - 1) return [field, text.slice(equals + 1)];
  throw new SluiceError(
    "FLAG_VALUE",
    `--jwt-claim is ${JSON.stringify(text.slice(0, 100))}; write FIELD=CLAIM, with one of the fields ${CLAIMS.join(", ")}`,
  );
}
