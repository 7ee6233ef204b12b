import { formatPosition } from "../../base/document/document.ts";
import { redacted, withoutKeys } from "../../base/inference/secrets.ts";
import type { SettingEntry } from "../admin/feed/config.ts";
import type { GatewayFile } from "./gateway-file.ts";
import { GATEWAY_KEY_NAMES, GATEWAY_KEYS, type GatewayKey, type GivenSettings, valueAt } from "./gateway-keys.ts";
import type { GatewaySettings } from "./gateway-settings.ts";

/** The longest value that is shown, in characters. */
const MAX_VALUE = 4096;

/**
 * Every key of a gateway.yaml with its value in force and the origin of it, sorted. Passwords and users of URLs are left out.
 * @param inForce keys that need a restart still have their old values in it
 * @param file as it was read last; undefined = there is none
 */
export function settingEntries(
  inForce: GatewaySettings,
  file: GatewayFile | undefined,
  given: GivenSettings,
): readonly SettingEntry[] {
  return [...GATEWAY_KEY_NAMES].sort().map((name) => {
    const isOfFile = file !== undefined && valueAt(file.document.value, name) !== undefined;
    const source = given.has(name) ? "flag" : isOfFile ? "file" : "default";
    return {
      name,
      value: valueText(inForce, name),
      source,
      place:
        source === "flag"
          ? GATEWAY_KEYS[name].flag
          : source === "file"
            ? formatPosition(file!.document.positionOf(name.split(".")))
            : null,
      change: file === undefined ? null : GATEWAY_KEYS[name].change,
    };
  });
}

/** The value of a key as JSON, without secrets; `null` where there is none. */
export function valueText(settings: GatewaySettings, key: GatewayKey): string {
  const text = withoutKeys(JSON.stringify(redacted(valueAt(settings, key) ?? null)));
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}...` : text;
}

/** One line for each key that differs: `- key: old` and `+ key: new`. */
export function settingsDifference(
  before: GatewaySettings,
  after: GatewaySettings,
  keys: readonly GatewayKey[],
): string[] {
  return keys.flatMap((key) => [`- ${key}: ${valueText(before, key)}`, `+ ${key}: ${valueText(after, key)}`]);
}
