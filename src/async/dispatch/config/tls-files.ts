import { createPrivateKey, X509Certificate } from "node:crypto";
import { readText } from "../../../base/document/read.ts";
import { messageOf } from "../../../base/inference/errors.ts";

const MAX_BYTES = 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** Names of files; undefined = none. */
export interface TlsPaths {
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

export interface TlsTexts {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/**
 * Reads what a client needs for TLS, and looks whether it is that.
 * @param refuse is told what is wrong, and with which file; then what is returned is incomplete
 */
export async function readTlsFiles(
  paths: TlsPaths,
  refuse: (which: keyof TlsPaths, problem: string) => void,
): Promise<TlsTexts> {
  if ((paths.cert === undefined) !== (paths.key === undefined))
    refuse(paths.cert === undefined ? "key" : "cert", "a client certificate and its key must be given together");
  const [ca, cert, key] = await Promise.all([read("ca"), read("cert"), read("key")]);
  const certificates = ca?.match(CERTIFICATE) ?? [];
  if (ca !== undefined && (certificates.length === 0 || !certificates.every(isCertificate)))
    refuse("ca", `${paths.ca} holds no PEM certificate, or one that cannot be read`);
  const certificate = cert === undefined ? undefined : parsed(() => new X509Certificate(cert));
  if (cert !== undefined && certificate === undefined) refuse("cert", `${paths.cert} holds no PEM certificate`);
  const privateKey = key === undefined ? undefined : parsed(() => createPrivateKey(key));
  if (key !== undefined && privateKey === undefined)
    refuse("key", `${paths.key} holds no PEM private key without a passphrase`);
  if (certificate !== undefined && privateKey !== undefined && !certificate.checkPrivateKey(privateKey))
    refuse("key", `the key in ${paths.key} does not belong to the certificate in ${paths.cert}`);
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };

  async function read(which: keyof TlsPaths): Promise<string | undefined> {
    const path = paths[which];
    if (path === undefined) return undefined;
    try {
      return await readText(path, { maxBytes: MAX_BYTES });
    } catch (error) {
      refuse(which, messageOf(error));
      return undefined;
    }
  }
}

function isCertificate(text: string): boolean {
  return parsed(() => new X509Certificate(text)) !== undefined;
}

function parsed<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}
