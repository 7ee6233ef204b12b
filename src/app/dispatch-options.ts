/** What the front door needs of the dispatcher's configuration: `cli/` sees no other room than this one. */
export {
  type ConfigDocument,
  parseConfigDocument,
  readConfigDocument,
} from "../dispatch/config/config-document.ts";
export { type DispatchFile, readDispatchFile, type SectionName } from "../dispatch/config/dispatch-file.ts";
export { isHttpUrl } from "../dispatch/config/fields.ts";
export { loadDispatchOptions } from "../dispatch/config/load-options.ts";
export type { DispatchOptions } from "../dispatch/config/options.ts";
export { TRANSPORTS, type TransportName } from "../dispatch/config/transport-schemas.ts";
export { redacted } from "../dispatch/gates/redact.ts";
