import { webcrypto } from "node:crypto";
import { realClock } from "../../src/clock/real.ts";
import { selfSignedPair, type TlsPair } from "../../src/grpc/tls.ts";

/** An authority, and a certificate for clients that it has signed. */
export interface ClientAuthority {
  readonly ca: string;
  readonly client: TlsPair;
}

/** Makes a fresh authority that signs certificates for clients. */
export async function clientAuthority(): Promise<ClientAuthority> {
  // The library cannot be loaded by itself; whoever makes a self-signed pair has loaded it.
  await selfSignedPair(realClock);
  const x509 = await import("@peculiar/x509");
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const generate = () => webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const [caKeys, clientKeys] = await Promise.all([generate(), generate()]);
  const times = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
  const ca = await x509.X509CertificateGenerator.createSelfSigned({
    ...times,
    name: "CN=test authority",
    signingAlgorithm: algorithm,
    keys: caKeys,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
    ],
  });
  const client = await x509.X509CertificateGenerator.create({
    ...times,
    subject: "CN=prometheus",
    issuer: ca.subject,
    publicKey: clientKeys.publicKey,
    signingKey: caKeys.privateKey,
    signingAlgorithm: algorithm,
    extensions: [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth])],
  });
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", clientKeys.privateKey));
  const body = der.toString("base64").replace(/.{64}/g, "$&\n");
  const key = `-----BEGIN PRIVATE KEY-----\n${body}\n-----END PRIVATE KEY-----\n`;
  return { ca: ca.toString("pem"), client: { cert: client.toString("pem"), key } };
}
