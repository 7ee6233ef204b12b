import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SecureContextOptions } from "node:tls";
import { messageOf, SluiceError } from "../inference/errors.ts";
import type { GrpcTls } from "./transport.ts";

/** A certificate chain and its private key, both PEM. */
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
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
