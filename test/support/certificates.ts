import { webcrypto } from "node:crypto";
import type { Extension } from "@peculiar/x509";
import type { TlsPair } from "../../src/base/grpc/tls.ts";
import { loadX509 } from "./x509.ts";

/** An authority, and what it has signed. */
export interface ClientAuthority {
  readonly ca: string;
  readonly client: TlsPair;
  /** For `localhost` and 127.0.0.1. */
  readonly server: TlsPair;
}

/** Makes a fresh authority that signs a certificate for a client and one for a server. */
export async function clientAuthority(): Promise<ClientAuthority> {
  const x509 = await loadX509();
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const generate = () => webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const caKeys = await generate();
  const times = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
  const ca = await x509.X509CertificateGenerator.createSelfSigned({
    ...times,
    name: "CN=test authority",
    signingAlgorithm: algorithm,
    keys: caKeys,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      // All authorities have one name: by these a client finds the right one.
      await x509.SubjectKeyIdentifierExtension.create(caKeys.publicKey),
    ],
  });
  const issue = async (subject: string, extensions: Extension[]): Promise<TlsPair> => {
    const keys = await generate();
    const certificate = await x509.X509CertificateGenerator.create({
      ...times,
      subject,
      issuer: ca.subject,
      publicKey: keys.publicKey,
      signingKey: caKeys.privateKey,
      signingAlgorithm: algorithm,
      extensions: [...extensions, await x509.AuthorityKeyIdentifierExtension.create(caKeys.publicKey)],
    });
    const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
    const body = der.toString("base64").replace(/.{64}/g, "$&\n");
    return {
      cert: certificate.toString("pem"),
      key: `-----BEGIN PRIVATE KEY-----\n${body}\n-----END PRIVATE KEY-----\n`,
    };
  };
  const usage = (purpose: string) => new x509.ExtendedKeyUsageExtension([purpose]);
  const names = new x509.SubjectAlternativeNameExtension([
    { type: "dns", value: "localhost" },
    { type: "ip", value: "127.0.0.1" },
  ]);
  return {
    ca: ca.toString("pem"),
    client: await issue("CN=prometheus", [usage(x509.ExtendedKeyUsage.clientAuth)]),
    server: await issue("CN=localhost", [usage(x509.ExtendedKeyUsage.serverAuth), names]),
  };
}
