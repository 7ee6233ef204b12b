import { resolve } from "node:path";
import type { z } from "zod";
import type { Document } from "../../base/document/document.ts";
import { readDocument } from "../../base/document/read.ts";
import { check, type Violation } from "../../base/document/validate.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { redisConnection } from "../../base/redis/tls-files.ts";
import { readLimits } from "../../picker/limits/limits-file.ts";
import { limitsStore } from "../../picker/limits/limits-store.ts";
import { readKeySet } from "../access/access.ts";
import { keysIn, MAX_KEYS_BYTES } from "../access/key-entry.ts";
import { isUrl, KeysSettings } from "../access/keys-settings.ts";
import { checkEntry } from "./access-switch.ts";
import { withKeysPaths, withListenerPaths, withTlsPaths } from "./gateway-file.ts";
import { valueAt } from "./gateway-keys.ts";
import { gatewaySettings } from "./gateway-settings.ts";
import { GatewayTls } from "./gateway-tls.ts";
import { listenersOf } from "./listener-settings.ts";

/**
 * Checks the certificates, keys and limits that a gateway.yaml names, and who may enter, as a start does. A section with a fault
 * of its own is left out; the other sections are checked.
 * @returns the faults of all files
 */
export async function namedFileFaults(document: Document, folder: string): Promise<SluiceError[]> {
  const faults: SluiceError[] = [];
  const { batch, listeners, limits, peers, servers } = gatewaySettings.shape;
  const addresses = sectionOf(document, "listeners", listeners);
  const doors = addresses && listenersOf(withListenerPaths(addresses, folder));
  for (const door of doors ?? []) await collect(faults, () => void new GatewayTls([door], undefined));
  const tls = sectionOf(document, "servers", servers)?.tls;
  if (tls !== undefined) await collect(faults, () => void new GatewayTls([], withTlsPaths(tls, folder)));
  const keys = sectionOf(document, "keys", KeysSettings.prefault({}));
  if (keys !== undefined) {
    const { file, jwt } = withKeysPaths(keys, folder);
    if (doors !== undefined) await collect(faults, () => checkEntry(doors, keys));
    if (file !== undefined)
      await collect(faults, async () => void keysIn(await readDocument(file, { maxBytes: MAX_KEYS_BYTES })));
    for (const { jwks } of jwt) if (!isUrl(jwks)) await collect(faults, () => readKeySet(jwks));
  }
  const store = sectionOf(document, "peers", peers);
  if (store !== undefined) await collect(faults, () => void redisConnection("", withTlsPaths(store, folder)));
  const queued = sectionOf(document, "batch", batch);
  if (queued !== undefined) await collect(faults, () => void redisConnection("", withTlsPaths(queued, folder)));
  const quotas = sectionOf(document, "limits", limits);
  if (quotas !== undefined)
    await collect(faults, async () => {
      const { file, redis } = quotas;
      const inFile = file === undefined ? undefined : (await readLimits(resolve(folder, file))).redis;
      limitsStore({ redis, tls: withTlsPaths(quotas, folder) }, inFile);
    });
  return faults;
}

function sectionOf<S extends z.ZodType>(document: Document, key: string, schema: S): z.output<S> | undefined {
  return check(valueAt(document.value, key), schema, [key], [] as Violation[])?.output;
}

async function collect(faults: SluiceError[], step: () => unknown): Promise<void> {
  try {
    await step();
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    faults.push(error);
  }
}
