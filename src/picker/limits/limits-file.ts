import { dirname } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch, fileSignature } from "../../base/document/folder-watch.ts";
import { readDocument } from "../../base/document/read.ts";
import { validate } from "../../base/document/validate.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { type LimitsSettings, limitsSchema } from "./limits-settings.ts";

/** The longest file of limits. */
const MAX_BYTES = 1 << 20;

/** Reads a file of limits. @throws SluiceError for a file that cannot be read, and DOCUMENT_INVALID with every fault and its place */
export async function readLimits(file: string): Promise<LimitsSettings> {
  const document = await readDocument(file, { maxBytes: MAX_BYTES });
  return validate(document, limitsSchema, { what: "limits file" });
}

/** What follows a file of limits. */
interface LimitsFollower {
  readonly file: string;
  /** The signature of the file before it was read. */
  readonly seen: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Puts the limits in force. */
  use(settings: LimitsSettings): void;
  /** The file is broken, and the limits in force stay. False: it is whole again. */
  refused(broken: boolean): void;
}

/** Follows the file: a saved change is in force from the next request on, and a broken file changes nothing. @returns a stop */
export async function followLimits({ file, seen, clock, log, use, refused }: LimitsFollower): Promise<() => void> {
  const watch = new FolderWatch({
    folder: dirname(file),
    clock,
    signature: () => fileSignature(file),
    async changed() {
      try {
        const settings = await readLimits(file);
        use(settings);
        refused(false);
        log.info({ file, rules: settings.rules.length }, "the gateway uses the changed limits");
      } catch (error) {
        refused(true);
        const problem = error instanceof SluiceError ? error.message : messageOf(error);
        log.error({ file }, `the gateway refuses the changed limits and keeps the old limits: ${problem}`);
      }
    },
    unwatchable: (text) => log.warn({}, `limits file: ${text}`),
  });
  await watch.start(seen);
  return () => watch.close();
}
