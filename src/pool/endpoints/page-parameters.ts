import { z } from "zod";
import { duration } from "../../base/plugin/define.ts";
import { MIN_INTERVAL } from "./cadence.ts";

/** A path on one line of an HTTP request. */
const PATH = /^\/[!-~]{0,2047}$/;

// Parameters that sources of pages share (scheduling 1.8).

/** Schema of the scheme of a page. @param standard the default */
export function scheme(standard: "http" | "https") {
  return z.enum(["http", "https"], { error: "scheme must be http or https" }).default(standard);
}

/** Schema of the path of a page: begins with a slash, no blanks. @param standard the default */
export function path(standard: string) {
  return z
    .string(`path must be a string such as ${standard}`)
    .regex(PATH, `path must begin with a slash and have no blanks; write for example ${standard}`)
    .default(standard);
}

/** Schema of a port from 1 to 65535, without a default. */
export function port() {
  return z
    .int("port must be a whole number from 1 to 65535")
    .min(1, "port must be from 1 to 65535; leave it out for the default")
    .max(65535, "port must be from 1 to 65535");
}

/** Schema of `insecureSkipVerify`: true accepts any certificate. @param standard the default */
export function insecure(standard: boolean) {
  return z.boolean("insecureSkipVerify must be true or false").default(standard);
}

/** Schema of the time between two fetches. Out: milliseconds; undefined when absent. */
export function interval() {
  return duration()
    .optional()
    .describe(
      "Time between two fetches from an endpoint, busy or idle, at least 50ms; absent or 0s = the value of --refresh-metrics-interval.",
    );
}

/** The files of TLS. `checkPair` checks them. */
export const TLS_FILES = {
  caCertPath: file("caCertPath").describe(
    "PEM file with the authorities of the servers' certificates; empty = the system's.",
  ),
  clientCertPath: file("clientCertPath").describe("PEM file with the client certificate for servers."),
  clientKeyPath: file("clientKeyPath").describe("PEM file with the private key of clientCertPath."),
} as const;

/** For sources without files of TLS. */
export const NO_TLS_FILES = { caCertPath: "", clientCertPath: "", clientKeyPath: "" } as const;

function file(name: string) {
  return z.string(`${name} must be the path of a file`).default("");
}

interface TlsSettings {
  readonly scheme: "http" | "https";
  readonly insecureSkipVerify: boolean;
  readonly caCertPath: string;
  readonly clientCertPath: string;
  readonly clientKeyPath: string;
  readonly interval?: number | undefined;
}

/** A certificate needs its key, and a key its certificate. */
export function checkPair(
  { clientCertPath, clientKeyPath }: Pick<TlsSettings, "clientCertPath" | "clientKeyPath">,
  context: z.RefinementCtx,
): void {
  if ((clientCertPath === "") === (clientKeyPath === "")) return;
  const given = clientCertPath === "" ? "clientKeyPath" : "clientCertPath";
  const missing = clientCertPath === "" ? "clientCertPath" : "clientKeyPath";
  context.addIssue({ code: "custom", path: [given], message: `${given} needs ${missing}, too; give both or none` });
}

/** Hints on the parameters of a source of pages. @param insecureStandard the default of `insecureSkipVerify` */
export function notesOf(settings: TlsSettings, insecureStandard = true): readonly string[] {
  const { scheme, insecureSkipVerify, caCertPath, clientCertPath } = settings;
  const notes: string[] = [...shortInterval(settings.interval)];
  if (scheme === "http") {
    const idle = [
      ...(insecureSkipVerify === insecureStandard ? [] : ["insecureSkipVerify"]),
      ...(caCertPath === "" ? [] : ["caCertPath"]),
      ...(clientCertPath === "" ? [] : ["clientCertPath", "clientKeyPath"]),
    ];
    if (idle.length > 0)
      notes.push(
        `these have no effect over http: ${idle.join(", ")}; write scheme: https if the pages are served over TLS`,
      );
  } else if (insecureSkipVerify && caCertPath !== "")
    notes.push(
      insecureStandard
        ? "caCertPath has no effect while insecureSkipVerify is true, its default; write insecureSkipVerify: false"
        : "caCertPath has no effect while insecureSkipVerify is true; write insecureSkipVerify: false",
    );
  return notes;
}

/** @param interval milliseconds */
function shortInterval(interval: number | undefined): readonly string[] {
  if (!interval || interval >= MIN_INTERVAL) return [];
  return [`interval ${interval}ms is raised to ${MIN_INTERVAL}ms, the minimum`];
}
