import { createPrivateKey, randomBytes, webcrypto, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SecureContextOptions } from "node:tls";
import type { Clock } from "../clock/clock.ts";
import { messageOf, SluiceError } from "../inference/errors.ts";
import type { GrpcTls } from "./transport.ts";

/** A certificate chain and its private key, both PEM. */
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

const TEN_YEARS_MS = 10 * 365 * 24 * 3600 * 1000;

/**
 * A fresh certificate for serving when none is configured: ECDSA P-256, organisation `Inference Ext`, no names, server
 * authentication, ten years from now. Data planes do not verify it. Source: epp-protocol 15.2, which allows ECDSA in place
 * of RSA.
 */
export async function selfSignedPair(clock: Clock): Promise<TlsPair> {
  const x509 = await loadX509();
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const now = clock.wall();
  // A serial number is at most 20 bytes and positive (RFC 5280 4.1.2.2): 128 random bits behind a zero bit.
  const serial = randomBytes(16);
  serial[0]! &= 0x7f;
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial.toString("hex"),
    name: "O=Inference Ext",
    notBefore: new Date(now),
    notAfter: new Date(now + TEN_YEARS_MS),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
    ],
  });
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" }).export({ format: "pem", type: "pkcs8" });
  return { cert: certificate.toString("pem"), key: String(key) };
}

/**
 * The library, loaded when it is needed (140 ms). While it loads, its dependency container calls two functions of a metadata
 * polyfill, and only for the constructor parameters of classes that have none. This code provides the two functions for that
 * time, so that no polyfill stays in the process.
 */
async function loadX509(): Promise<typeof import("@peculiar/x509")> {
  const reflect: Record<string, unknown> = Reflect as unknown as Record<string, unknown>;
  const lent = ["getMetadata", "getOwnMetadata"].filter((name) => !(name in Reflect));
  for (const name of lent) reflect[name] = () => undefined;
  try {
    return await import("@peculiar/x509");
  } finally {
    for (const name of lent) delete reflect[name];
  }
}

/**
 * The pair in `directory`: `tls.crt` and `tls.key`, as a Kubernetes secret of type `kubernetes.io/tls` is mounted.
 * @throws SluiceError TLS_FILE_UNREADABLE, TLS_FILE_INVALID, or TLS_PAIR_MISMATCH when the key belongs to another certificate
 */
export function loadTlsPair(directory: string): TlsPair {
  return loadTlsFiles(join(directory, "tls.crt"), join(directory, "tls.key"));
}

/** The pair in two PEM files. @throws SluiceError as `loadTlsPair` */
export function loadTlsFiles(certFile: string, keyFile: string): TlsPair {
  const cert = read(certFile);
  const key = read(keyFile);
  const certificate = parse(certFile, "PEM certificate", () => new X509Certificate(cert));
  const privateKey = parse(keyFile, "PEM private key without a passphrase", () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new SluiceError(
      "TLS_PAIR_MISMATCH",
      `the key in ${keyFile} does not belong to the certificate in ${certFile}`,
    );
  }
  return { cert, key };
}

/**
 * The certificates in `file`, PEM: the authorities whose clients may connect.
 * @throws SluiceError TLS_FILE_UNREADABLE; TLS_FILE_INVALID when one of them is no certificate, or the file has none
 */
export function loadCertificates(file: string): string {
  const text = read(file);
  const certificates = text.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [text];
  for (const certificate of certificates) parse(file, "PEM certificate", () => new X509Certificate(certificate));
  return text;
}

/** Options for Node's TLS servers, set at creation and again when the certificate changes. */
export function contextOf({ cert, key, minVersion, ciphers }: GrpcTls): SecureContextOptions {
  return { cert, key, minVersion: minVersion ?? "TLSv1.2", ...(ciphers === undefined ? {} : { ciphers }) };
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new SluiceError("TLS_FILE_UNREADABLE", `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

function parse<T>(file: string, what: string, parser: () => T): T {
  try {
    return parser();
  } catch (error) {
    throw new SluiceError("TLS_FILE_INVALID", `${file} holds no ${what}: ${messageOf(error)}`, { cause: error });
  }
}
