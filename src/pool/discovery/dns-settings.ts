import { isIP } from "node:net";
import { z } from "zod";
import { duration } from "../../base/document/duration-schema.ts";
import { splitHostPort } from "../endpoints/address.ts";
import { exactlyOne, labelsField, modelsField, portField } from "./endpoint-fields.ts";

/** The most names, and the most DNS servers. */
const MAX_NAMES = 64;
const MAX_SERVERS = 8;
/** Milliseconds: a shorter interval loads the DNS servers without being sooner than their answers. */
const LEAST_INTERVAL = 1000;

const domainName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*\.?$/i, "must be a DNS name")
  .refine((name) => isIP(name) === 0, "must be a DNS name, not an address; `list` takes addresses");

const nameSettings = z
  .strictObject({
    srv: domainName.optional().describe("The name of SRV records, which have hosts and ports: _vllm._tcp.example.org."),
    host: domainName.optional().describe("The name of A and AAAA records; needs port."),
    port: portField.optional(),
    labels: labelsField,
    models: modelsField,
  })
  .superRefine(exactlyOne(["srv", "host"]))
  .superRefine(({ srv, host, port }, context) => {
    if (host !== undefined && port === undefined)
      context.addIssue({ code: "custom", path: [], message: "`host` needs `port`: A and AAAA records have no port" });
    if (srv !== undefined && port !== undefined)
      context.addIssue({ code: "custom", path: ["port"], message: "SRV records have the port; leave it out" });
  })
  .transform(({ srv, host, port, labels, models }) =>
    srv === undefined
      ? ({ kind: "host", name: host ?? "", port: port ?? 0, labels, models } as const)
      : ({ kind: "srv", name: srv, labels, models } as const),
  );

/** The section `dns`: names that Sluice asks again at an interval. */
export const dnsSettings = z.strictObject({
  names: z.array(nameSettings).min(1).max(MAX_NAMES),
  interval: duration({ min: LEAST_INTERVAL })
    .prefault("30s")
    .describe("The time between two DNS queries for a name. The TTL of the records has no effect."),
  servers: z
    .array(
      z
        .string()
        .refine(
          (text) => isIP(text) !== 0 || isIP(splitHostPort(text)?.address ?? "") !== 0,
          "must be the IP address of a DNS server, with or without a port: 10.0.0.2:53, [fd00::2]:53",
        ),
    )
    .max(MAX_SERVERS)
    .default([])
    .describe("The DNS servers; default: those of the system."),
});

export type DnsSettings = z.output<typeof dnsSettings>;
/** One name whose records are endpoints. */
export type DnsName = DnsSettings["names"][number];
