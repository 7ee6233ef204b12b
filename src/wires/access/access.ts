import { dirname } from "node:path";
import { request } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch, fileSignature } from "../../base/document/folder-watch.ts";
import { readText } from "../../base/document/read.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Authenticate } from "../proxy/options.ts";
import { FollowedKeys } from "./followed-keys.ts";
import { type AccessEvents, Gatekeeper } from "./gatekeeper.ts";
import { IssuerKeys, keySetIn } from "./issuer-keys.ts";
import { isUrl, type KeysSettings, type TokenSettings } from "./keys-settings.ts";
import { type Issuer, Tokens } from "./tokens.ts";

/** Milliseconds for one read of an issuer's keys, and the largest answer, bytes. */
const READ_LIMIT = 5_000;
const MAX_SET_BYTES = 1024 * 1024;

/** Who may send requests, while the gateway runs. */
export interface Access {
  readonly authenticate: Authenticate;
  /** The priorities that keys state, and those of tokens so far. */
  priorities(): Iterable<number>;
  /** Whether requests of a key use only the room that others leave. */
  hasBackground(): boolean;
  close(): void;
}

interface AccessParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: AccessEvents;
  /** `priorities` has changed. */
  changed(): void;
}

/** The most priorities of tokens that get a name in flow control. An issuer that writes more has a fault. */
const MAX_TOKEN_PRIORITIES = 64;

/**
 * Reads and follows the keys of the settings. Keys at an address are read later, with the first token: an issuer that is down
 * stops no start.
 * @returns undefined where the settings name no keys: clients need none
 * @throws SluiceError DOCUMENT_... for a file that is missing or wrong
 */
export async function startAccess(
  { file, jwt }: Pick<KeysSettings, "file" | "jwt">,
  { clock, log, events, changed }: AccessParts,
): Promise<Access | undefined> {
  if (file === undefined && jwt.length === 0) return undefined;
  const stops: (() => void)[] = [];
  const close = (): void => {
    for (const stop of stops.splice(0)) stop();
  };
  try {
    const keys = file === undefined ? undefined : new FollowedKeys({ file, clock, log, changed });
    if (keys !== undefined) {
      stops.push(() => keys.close());
      await keys.start();
    }
    const issuers: Issuer[] = [];
    for (const settings of jwt) {
      const issuer = isUrl(settings.jwks)
        ? remoteKeys(settings, clock, log)
        : await fileKeys(settings, clock, log, stops);
      issuers.push({ settings, keys: issuer });
    }
    const tokens = issuers.length === 0 ? undefined : new Tokens(clock, issuers);
    const ofTokens = new Set<number>();
    const { authenticate } = new Gatekeeper({
      ...{ clock, keys, tokens },
      events: {
        refused: (reason) => events.refused(reason),
        admitted(by, caller) {
          events.admitted(by, caller);
          const { priority } = caller;
          if (by === "key" || priority === undefined || ofTokens.has(priority)) return;
          if (ofTokens.size >= MAX_TOKEN_PRIORITIES) return;
          ofTokens.add(priority);
          changed();
        },
      },
    });
    return {
      authenticate,
      priorities: () => [...(keys?.table.priorities ?? []), ...ofTokens],
      hasBackground: () => keys?.table.hasBackground === true,
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

function remoteKeys({ jwks }: TokenSettings, clock: Clock, log: Logger): IssuerKeys {
  return new IssuerKeys({ place: jwks, clock, log, read: () => fetched(jwks) });
}

/** Reads the keys of an issuer from a file. @throws SluiceError DOCUMENT_... */
export async function readKeySet(file: string): Promise<void> {
  keySetIn(await readText(file, { maxBytes: MAX_SET_BYTES }), file);
}

async function fileKeys(
  { jwks }: TokenSettings,
  clock: Clock,
  log: Logger,
  stops: (() => void)[],
): Promise<IssuerKeys> {
  const read = (): Promise<string> => readText(jwks, { maxBytes: MAX_SET_BYTES });
  const seen = await fileSignature(jwks);
  // A file that is wrong is an error of the start; later, the old keys count.
  await readKeySet(jwks);
  const keys = new IssuerKeys({ place: jwks, clock, log, read });
  const watch = new FolderWatch({
    folder: dirname(jwks),
    clock,
    signature: () => fileSignature(jwks),
    changed: () => keys.readNow(),
    unwatchable: (text) => log.warn({ file: jwks }, `keys of a token issuer: ${text}`),
  });
  stops.push(() => watch.close());
  await keys.readNow();
  await watch.start(seen);
  return keys;
}

/** The text at an address. A redirect is an error: the operator names the place that is trusted. */
async function fetched(url: string): Promise<string> {
  const { statusCode, body } = await request(url, {
    headers: { accept: "application/jwk-set+json, application/json" },
    signal: AbortSignal.timeout(READ_LIMIT),
    headersTimeout: READ_LIMIT,
    bodyTimeout: READ_LIMIT,
  });
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of body as AsyncIterable<Buffer>) {
    size += piece.length;
    // Leaving the loop destroys the body, and with it the connection.
    if (size > MAX_SET_BYTES)
      throw new SluiceError("DOCUMENT_TOO_BIG", `${url} answered more than ${MAX_SET_BYTES} bytes`);
    pieces.push(piece);
  }
  if (statusCode !== 200) throw new SluiceError("DOCUMENT_UNREADABLE", `${url} answered ${statusCode}`);
  return Buffer.concat(pieces).toString("utf8");
}
