import type { ConfigSource } from "../../picker/core/config-source.ts";
import { defaultSettings, overridden, placeOf, readGatewayFile } from "./gateway-file.ts";
import type { GivenSettings } from "./gateway-keys.ts";
import { gatewayOptions } from "./gateway-options.ts";
import type { ReadSettings } from "./gateway-reload.ts";
import { settingEntries } from "./settings-view.ts";

/**
 * The settings of a gateway: those of the command line, then those of its file, then the defaults.
 * @param path of a gateway.yaml; undefined = there is none
 * @throws SluiceError DOCUMENT_..., FLAG_CONFLICT
 */
export async function readSettings(
  path: string | undefined,
  given: GivenSettings,
  env: ConfigSource["env"],
): Promise<ReadSettings> {
  const file = path === undefined ? undefined : await readGatewayFile(path);
  const settings = given.over(file?.settings ?? defaultSettings());
  return {
    settings,
    options: gatewayOptions(settings, file, env),
    warnings: file === undefined ? [] : overridden(file, given),
    entries: (inForce) => settingEntries(inForce, file, given),
    placeOf: (key) => (file === undefined ? key : placeOf(file, key)),
  };
}
