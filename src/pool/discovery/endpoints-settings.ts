import { z } from "zod";
import { readAddress } from "../endpoints/address.ts";
import { MAX_NAME, NAME_FORM } from "../endpoints/endpoints-file.ts";
import { type EndpointSpec, endpointId } from "../endpoints/pool-endpoint.ts";
import { type DnsSettings, dnsSettings } from "./dns-settings.ts";
import { exactlyOne, labelsField, modelsField, portField } from "./endpoint-fields.ts";
import { type SlurmSettings, slurmSettings } from "./slurm-settings.ts";

/** The most entries of an inline list: the registry holds as many endpoints. */
const MAX_ENTRIES = 4096;

const nameField = z.string().max(MAX_NAME).regex(NAME_FORM, "must not be empty or hold blanks or slashes");

const entrySettings = z
  .strictObject({
    name: nameField,
    namespace: nameField.default("default"),
    address: z
      .string()
      .transform((text, context) => {
        const read = readAddress(text, "lenient");
        if ("address" in read) return read.address;
        context.addIssue({ code: "custom", message: read.problem });
        return z.NEVER;
      })
      .describe("An IP address or a host name."),
    port: portField.describe("For requests and for /metrics."),
    scheme: z.enum(["http", "https"]).optional().describe("Default https where `servers.tls` is given, else http."),
    labels: labelsField,
    models: modelsField,
  })
  .transform(
    ({ models, scheme, ...rest }): EndpointSpec => ({
      ...rest,
      rank: 0,
      ...(scheme === undefined ? {} : { scheme }),
      ...(models === undefined ? {} : { models }),
    }),
  );

const listSettings = z
  .array(entrySettings)
  .max(MAX_ENTRIES)
  .superRefine((entries, context) => {
    const seen = new Set<string>();
    for (const [i, entry] of entries.entries()) {
      const id = endpointId(entry);
      if (seen.has(id))
        context.addIssue({ code: "custom", path: [i, "name"], message: `endpoint ${id} is listed twice` });
      seen.add(id);
    }
  });

/** Where the endpoints come from. */
export type EndpointsSettings =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "list"; readonly endpoints: readonly EndpointSpec[] }
  | ({ readonly kind: "dns" } & DnsSettings)
  | ({ readonly kind: "slurm" } & SlurmSettings);

/** The section `endpoints` of a configuration. */
export const endpointsSettings = z
  .strictObject({
    file: z.string().min(1).optional().describe("An endpoints file, watched for changes."),
    list: listSettings.optional().describe("The endpoints themselves, as in an endpoints file."),
    dns: dnsSettings.optional().describe("DNS names that lead to the servers."),
    slurm: slurmSettings.optional().describe("Hosts of Slurm, or of any host list."),
  })
  .superRefine(exactlyOne(["file", "list", "dns", "slurm"]))
  .transform(({ file, list, dns, slurm }): EndpointsSettings => {
    if (dns !== undefined) return { kind: "dns", ...dns };
    if (slurm !== undefined) return { kind: "slurm", ...slurm };
    return list === undefined ? { kind: "file", path: file ?? "" } : { kind: "list", endpoints: list };
  });
