import { SluiceError } from "../inference/errors.ts";
import { parseRedisUrl, type RedisAddress } from "./address.ts";

/** The name of processes that share and are given none. */
export const DEFAULT_SHARED_NAME = "default";
/** What a name may be: it becomes a part of keys of the store, between braces. */
export const SHARED_NAME = /^[\w.:/-]{1,253}$/;
/** The same for people. */
export const SHARED_NAME_FORM = "must be 1 to 253 letters, digits, or any of . _ : / -";

/**
 * Reads the URL of a store that processes share.
 * @param what they share
 * @throws SluiceError REDIS_URL_INVALID, also for options without effect
 */
export function sharedStoreAddress(url: string, what: "replicas" | "batches"): RedisAddress {
  const address = parseRedisUrl(url);
  const [odd] = address.ignored;
  if (odd !== undefined)
    throw new SluiceError(
      "REDIS_URL_INVALID",
      `remove the option ${JSON.stringify(odd)} from the store URL of the ${what}: it has no effect`,
    );
  return address;
}
