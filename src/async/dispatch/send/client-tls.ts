import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { readText } from "../../../base/document/read.ts";
import { messageOf } from "../../../base/inference/errors.ts";

/**
 * Trusted authorities and client certificate towards gateways (async-processor 7.3); PEM texts as `readTlsFiles` returns them.
 */
export interface ClientTls extends TlsTexts {
  /** True: no certificate is checked. */
  readonly insecureSkipVerify?: boolean | undefined;
}

/** Names of files; undefined = none. */
export interface TlsPaths {
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

interface TlsTexts {
  /** Trusted in addition to the system's authorities. */
  readonly ca?: string;
  /** Chain of the client certificate; with `key` or not at all. */
  readonly cert?: string;
  readonly key?: string;
}

const MAX_BYTES = 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/**
 * The TLS context that connections share. The first connection that needs it makes it, because reading the system's authorities
 * takes 0.1 s. It is made only once, because using them takes 25 ms.
 */
export function clientContext({ ca, cert, key, insecureSkipVerify }: ClientTls): () => SecureContext {
  let context: SecureContext | undefined;
  return () => {
    context ??= createSecureContext({
      minVersion: "TLSv1.2",
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
      ...(insecureSkipVerify ? {} : { ca: withSystemAuthorities(certificatesIn(ca)) }),
    });
    return context;
  };
}

/** The lists of Node.js and of the machine, each authority once. */
function withSystemAuthorities(own: readonly string[]): string[] {
  return [...new Set([...own, ...getCACertificates("default"), ...getCACertificates("system")])];
}

/**
 * Reads and checks the files that a TLS client needs.
 * @param refuse gets each error with its file; the returned value is then incomplete
 */
export async function readTlsFiles(
  paths: TlsPaths,
  refuse: (which: keyof TlsPaths, problem: string) => void,
): Promise<TlsTexts> {
  if ((paths.cert === undefined) !== (paths.key === undefined))
    refuse(paths.cert === undefined ? "key" : "cert", "a client certificate and its key must be given together");
  const [ca, cert, key] = await Promise.all([read("ca"), read("cert"), read("key")]);
  const authorities = certificatesIn(ca);
  if (ca !== undefined && (authorities.length === 0 || !authorities.every((text) => certificateOf(text) !== undefined)))
    refuse("ca", `${paths.ca} must hold one or more readable PEM certificates`);
  const certificate = cert === undefined ? undefined : certificateOf(cert);
  if (cert !== undefined && certificate === undefined) refuse("cert", `${paths.cert} holds no PEM certificate`);
  const privateKey = key === undefined ? undefined : parsed(() => createPrivateKey(key));
  if (key !== undefined && privateKey === undefined)
    refuse("key", `${paths.key} must hold a PEM private key without a passphrase`);
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

function certificatesIn(text: string | undefined): readonly string[] {
  return text?.match(CERTIFICATE) ?? [];
}

function certificateOf(text: string): X509Certificate | undefined {
  return parsed(() => new X509Certificate(text));
}

function parsed<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}
