import { didYouMean } from "../../base/document/nearest.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { FlagRow, GivenFlags } from "../common/go-flags.ts";
import type { TlsSettings } from "./serving-tls.ts";

/** TLS flags of the ext_proc port, of the metrics port (epp-protocol 13.3, 15.2, 15.3) and of the external scaler. */
export const TLS_FLAGS = [
  {
    name: "secure-serving",
    aliases: ["secureServing"],
    type: "bool",
    default: "true",
    since: "v0.3",
    help: "TLS on the ext_proc port, with a self-signed certificate unless --cert-path is given.",
  },
  {
    name: "cert-path",
    takes: "DIRECTORY",
    aliases: ["certPath"],
    type: "string",
    default: "",
    since: "v0.3",
    help: "Directory with tls.crt and tls.key.",
  },
  {
    name: "enable-cert-reload",
    type: "bool",
    default: "false",
    since: "v1.5",
    help: "Follow changes of --cert-path: new connections get the new certificate.",
  },
  {
    name: "client-ca",
    takes: "FILE",
    type: "string",
    default: "",
    since: "ours",
    help: "PEM file of the CAs that sign client certificates for the ext_proc port, watched for changes. The picker refuses other clients. Needs TLS on the port.",
  },
  {
    name: "tls-min-version",
    type: "string",
    choices: ["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"],
    default: "",
    since: "HEAD",
    help: "Lowest TLS version; values below 1.2 mean 1.2, because HTTP/2 needs it.",
  },
  {
    name: "tls-cipher-suites",
    takes: "NAMES",
    type: "list",
    default: "",
    since: "HEAD",
    help: "Cipher suites for TLS 1.2, by Go's names; those of TLS 1.3 are always on.",
  },
  {
    name: "scaler-cert-dir",
    takes: "DIRECTORY",
    type: "string",
    default: "",
    since: "ours",
    help: "Directory with tls.crt and tls.key for the port of the external scaler, watched for changes; without the flag, the port has no TLS.",
  },
  {
    name: "metrics-cert-dir",
    takes: "DIRECTORY",
    type: "string",
    default: "",
    since: "HEAD",
    help: "Directory with tls.crt and tls.key for the metrics port, watched for changes.",
  },
  {
    name: "metrics-client-ca-file",
    takes: "FILE",
    type: "string",
    default: "",
    since: "HEAD",
    help: "PEM file of the CAs that sign client certificates for the metrics port; the picker refuses other clients.",
  },
] as const satisfies readonly FlagRow[];

/**
 * Go's names of the cipher suites for TLS 1.2 and below, with OpenSSL's names. Undefined = no OpenSSL of Node.js has the suite.
 */
const SUITES: ReadonlyMap<string, string | undefined> = new Map([
  ["TLS_RSA_WITH_RC4_128_SHA", undefined],
  ["TLS_RSA_WITH_3DES_EDE_CBC_SHA", undefined],
  ["TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"],
  ["TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"],
  ["TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"],
  ["TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"],
  ["TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"],
  ["TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", undefined],
  ["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"],
  ["TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"],
  ["TLS_ECDHE_RSA_WITH_RC4_128_SHA", undefined],
  ["TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", undefined],
  ["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"],
  ["TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"],
  ["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"],
  ["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"],
  ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"],
  ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"],
  ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"],
  ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"],
  ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"],
  ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"],
  // Older names of the two suites above.
  ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"],
  ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"],
]);
const TLS_1_3 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/**
 * The TLS settings of the flags.
 * @throws SluiceError FLAG_VALUE for a cipher suite that is not available, FLAG_CONFLICT for an illegal combination
 */
export function tlsOf({ values, explicit }: GivenFlags<typeof TLS_FLAGS>): {
  readonly tls: TlsSettings;
  readonly warnings: readonly string[];
} {
  const metricsCertDir = values["metrics-cert-dir"] || undefined;
  const clientCaFile = values["metrics-client-ca-file"] || undefined;
  if (clientCaFile !== undefined && metricsCertDir === undefined)
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--metrics-client-ca-file requires --metrics-cert-dir: clients show certificates over TLS only",
    );
  const scalerCertDir = values["scaler-cert-dir"] || undefined;
  const secure = values["secure-serving"];
  const extProcClientCaFile = values["client-ca"] || undefined;
  if (extProcClientCaFile !== undefined && !secure)
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--client-ca cannot be used with --secure-serving=false: clients show certificates over TLS only",
    );
  const warnings: string[] = [];
  if (values["cert-path"] && !secure) warnings.push("--cert-path has no effect with --secure-serving=false");
  if (values["enable-cert-reload"] && !(secure && values["cert-path"]))
    warnings.push("--enable-cert-reload has no effect without --cert-path and TLS on the ext_proc port");
  if (!secure && metricsCertDir === undefined && scalerCertDir === undefined)
    for (const flag of ["tls-min-version", "tls-cipher-suites"] as const)
      if (explicit.has(flag)) warnings.push(`--${flag} has no effect: no port speaks TLS`);
  return {
    tls: {
      secureServing: secure,
      certPath: values["cert-path"] || undefined,
      certReload: values["enable-cert-reload"],
      minVersion: values["tls-min-version"] === "VersionTLS13" ? "TLSv1.3" : "TLSv1.2",
      ciphers: ciphersOf(values["tls-cipher-suites"]),
      extProcClientCaFile,
      scalerCertDir,
      metricsCertDir,
      clientCaFile,
    },
    warnings,
  };
}

/** OpenSSL's list for Go's names; undefined = the default of Node.js. */
function ciphersOf(names: readonly string[]): string | undefined {
  if (names.length === 0) return undefined;
  const chosen = names.flatMap((name) => {
    if (TLS_1_3.includes(name)) return [];
    const suite = SUITES.get(name);
    if (suite !== undefined) return [suite];
    const problem = SUITES.has(name)
      ? "is not available, because Node.js has neither RC4 nor 3DES"
      : "is not a cipher suite of Go";
    throw new SluiceError(
      "FLAG_VALUE",
      `--tls-cipher-suites: ${JSON.stringify(name.slice(0, 100))} ${problem}${didYouMean(name, OFFERED)}`,
    );
  });
  // A list without the suites of TLS 1.3 would switch TLS 1.3 off.
  return [...new Set(chosen), ...TLS_1_3].join(":");
}

const OFFERED = [...TLS_1_3, ...[...SUITES].flatMap(([name, suite]) => (suite === undefined ? [] : [name]))];
