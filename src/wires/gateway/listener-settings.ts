import { z } from "zod";
import { type ListenAddress, parseListenAddress } from "../../base/inference/listen-address.ts";

const file = (what: string) => z.string().min(1, "must name a file").describe(what);

/** The most listeners of a gateway. */
const MAX_LISTENERS = 16;

/** The section `listeners` of gateway.yaml. */
export const listenersSchema = z
  .array(
    z.strictObject({
      address: z
        .string()
        .refine(isAddress, "must be host:port, [ipv6]:port or a port, for example 127.0.0.1:8080")
        .transform((text) => parseListenAddress(text, "the address"))
        .describe("Where clients connect."),
      tls: z
        .strictObject({
          certificate: file("The certificate of the gateway and its chain, PEM; watched for changes."),
          key: file("The key of the certificate, PEM without a passphrase; watched for changes."),
          clientCa: file(
            "Authorities, PEM: only clients with a certificate of one of these may connect; watched for changes.",
          ).optional(),
        })
        .optional()
        .describe("HTTP/2 and HTTP/1.1 over TLS; without it plain HTTP/1.1."),
    }),
  )
  .min(1, "must have at least one listener")
  .max(MAX_LISTENERS);

/** The section `listeners` of gateway.yaml, checked. */
export type ListenerSettings = z.output<typeof listenersSchema>;

/** The files of a listener with TLS. */
export interface ListenerFiles {
  readonly certificate: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

/** One address on which the gateway listens. */
export interface GatewayListener extends ListenAddress {
  /** Absent = plain HTTP/1.1. */
  readonly tls?: ListenerFiles | undefined;
}

/** The listeners of checked settings. @param at makes an absolute path of a path in the file */
export function listenersOf(
  settings: ListenerSettings,
  at: (path: string) => string = (path) => path,
): readonly GatewayListener[] {
  return settings.map(({ address, tls }) => ({
    ...address,
    tls: tls && {
      certificate: at(tls.certificate),
      key: at(tls.key),
      clientCa: tls.clientCa === undefined ? undefined : at(tls.clientCa),
    },
  }));
}

function isAddress(text: string): boolean {
  try {
    parseListenAddress(text, "");
    return true;
  } catch {
    return false;
  }
}
