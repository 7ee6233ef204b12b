import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";

/** How gateways are trusted and what they are shown (async-processor 7.3); PEM texts. */
export interface ClientTls {
  /** Trusted besides the system's authorities. */
  readonly ca?: string | undefined;
  /** Chain of the client certificate; with `key` or not at all. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** True: no certificate is checked. */
  readonly insecureSkipVerify?: boolean | undefined;
}

/**
 * Checks what is given, and returns what connections over TLS share: made when the first of them needs it, since reading
 * the system's authorities takes 0.1 s, and only once, since using them takes 25 ms.
 * @throws SluiceError FLAG_CONFLICT, TLS_FILE_INVALID, TLS_PAIR_MISMATCH
 */
export function clientContext({ ca, cert, key, insecureSkipVerify }: ClientTls): () => SecureContext {
  if ((cert === undefined) !== (key === undefined))
    throw new SluiceError("FLAG_CONFLICT", "--tls-cert and --tls-key must be given together");
  const pair = cert === undefined || key === undefined ? {} : checkedPair(cert, key);
  const own = ca === undefined ? [] : checkedAuthorities(ca);
  let context: SecureContext | undefined;
  return () => {
    context ??= createSecureContext({
      minVersion: "TLSv1.2",
      ...pair,
      ...(insecureSkipVerify ? {} : { ca: withSystemAuthorities(own) }),
    });
    return context;
  };
}

/** Node's list and the machine's, each once. */
function withSystemAuthorities(own: readonly string[]): string[] {
  return [...new Set([...own, ...getCACertificates("default"), ...getCACertificates("system")])];
}

function checkedAuthorities(ca: string): string[] {
  const problem = "--tls-ca-cert holds no PEM certificate";
  const certificates = ca.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g);
  if (certificates === null) throw new SluiceError("TLS_FILE_INVALID", problem);
  for (const certificate of certificates) read(problem, () => new X509Certificate(certificate));
  return certificates;
}

function checkedPair(cert: string, key: string): { readonly cert: string; readonly key: string } {
  const certificate = read("--tls-cert holds no PEM certificate", () => new X509Certificate(cert));
  const privateKey = read("--tls-key holds no PEM key without a passphrase", () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey))
    throw new SluiceError("TLS_PAIR_MISMATCH", "the key of --tls-key does not belong to the certificate of --tls-cert");
  return { cert, key };
}

function read<T>(problem: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new SluiceError("TLS_FILE_INVALID", `${problem}: ${messageOf(cause)}`, { cause });
  }
}
