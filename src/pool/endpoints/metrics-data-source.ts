import { z } from "zod";
import { defineDataSource, duration } from "../../base/plugin/define.ts";
import type { DataSource } from "../../base/plugin/kinds.ts";
import { MIN_INTERVAL } from "./cadence.ts";

/** A path on one line of an HTTP request. */
const PATH = /^\/[!-~]{0,2047}$/;

const parameters = z
  .strictObject({
    scheme: z
      .enum(["http", "https"], { error: "scheme must be http or https" })
      .default("http")
      .describe("Scheme of the metrics pages: http or https."),
    path: z
      .string("path must be a text such as /metrics")
      .regex(PATH, "path must begin with a slash and have no blanks; write for example /metrics")
      .default("/metrics")
      .describe("Path of the metrics pages."),
    port: z
      .int("port must be a whole number from 1 to 65535")
      .min(1, "port must be from 1 to 65535; leave it out for the endpoint's own")
      .max(65535, "port must be from 1 to 65535")
      .optional()
      .describe("Port of the metrics pages; absent = the endpoint's own."),
    insecureSkipVerify: z
      .boolean("insecureSkipVerify must be true or false")
      .default(true)
      .describe("Read pages over https without checking the servers' certificates."),
    caCertPath: file("caCertPath").describe(
      "PEM file with the authorities that servers' certificates are checked against; empty = the system's.",
    ),
    clientCertPath: file("clientCertPath").describe("PEM file with the certificate that is shown to servers."),
    clientKeyPath: file("clientKeyPath").describe("PEM file with the private key of that certificate."),
    interval: duration()
      .optional()
      .describe(
        "Time between two scrapes of an endpoint, busy or idle, at least 50ms; absent or 0s = as --refresh-metrics-interval.",
      ),
  })
  .superRefine(({ clientCertPath, clientKeyPath }, context) => {
    if ((clientCertPath === "") === (clientKeyPath === "")) return;
    const given = clientCertPath === "" ? "clientKeyPath" : "clientCertPath";
    const missing = clientCertPath === "" ? "clientCertPath" : "clientKeyPath";
    context.addIssue({ code: "custom", path: [given], message: `${given} needs ${missing}, too; give both or none` });
  });

type Settings = z.output<typeof parameters>;

/** scheduling 1.2, 1.8 */
export const metricsDataSource = defineDataSource({
  type: "metrics-data-source",
  describe: "Fetches the metrics pages of the endpoints. The files it names are read at start.",
  parameters,
  notes: notesOf,
  create: ({ interval, port, ...settings }): DataSource => ({ ...settings, port, interval: interval || undefined }),
});

function file(name: string) {
  return z.string(`${name} must be the path of a file`).default("");
}

function notesOf({ scheme, insecureSkipVerify, caCertPath, clientCertPath, interval }: Settings): readonly string[] {
  const notes: string[] = [];
  if (interval && interval < MIN_INTERVAL)
    notes.push(`interval ${interval}ms is raised to ${MIN_INTERVAL}ms, the minimum`);
  if (scheme === "http") {
    const idle = [
      ...(insecureSkipVerify ? [] : ["insecureSkipVerify"]),
      ...(caCertPath === "" ? [] : ["caCertPath"]),
      ...(clientCertPath === "" ? [] : ["clientCertPath", "clientKeyPath"]),
    ];
    if (idle.length > 0)
      notes.push(`without effect over http: ${idle.join(", ")}; write scheme: https if the pages are served over TLS`);
  } else if (insecureSkipVerify && caCertPath !== "")
    notes.push(
      "caCertPath has no effect while insecureSkipVerify is true, its default; write insecureSkipVerify: false",
    );
  return notes;
}
