import { z } from "zod";

const file = (what: string) => z.string().min(1, "must name a file").describe(what);

/** The section `servers` of gateway.yaml. */
export const serversSchema = z.strictObject({
  tls: z
    .strictObject({
      ca: file(
        "Authorities of the servers' certificates, PEM; default those of Node.js; watched for changes.",
      ).optional(),
      serverName: z
        .string()
        .min(1, "must be a host name")
        .optional()
        .describe("The name in the servers' certificates, also sent as SNI; default the host name of each endpoint."),
      certificate: file("The certificate that the gateway shows to the servers, PEM; watched for changes.").optional(),
      key: file("The key of that certificate, PEM without a passphrase; watched for changes.").optional(),
    })
    .refine(({ certificate, key }) => (certificate === undefined) === (key === undefined), {
      message: "certificate and key belong together",
    })
    .optional()
    .describe("Endpoints speak TLS, except those with `scheme: http`."),
});

/** The files and names for TLS to model servers. */
export interface ServerTlsFiles {
  readonly ca?: string | undefined;
  readonly serverName?: string | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}
