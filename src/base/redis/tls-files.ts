import { loadCertificates, loadTlsFiles } from "../grpc/tls.ts";
import { SluiceError } from "../inference/errors.ts";
import type { RedisConnection } from "./address.ts";

/** Files in PEM format for `rediss://`; absent = the system's authorities, no client certificate. */
export interface RedisTlsFiles {
  readonly ca?: string | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}

/** The flag of each key, after the name of its section. */
const FLAGS = { ca: "ca", certificate: "cert", key: "key" } as const;

/** The first file that is given, by its key and its flag: `peers.ca (--peers-ca)`. @param section of gateway.yaml */
export function givenTlsFile(section: string, files: RedisTlsFiles): string | undefined {
  const given = (Object.keys(FLAGS) as (keyof typeof FLAGS)[]).find((key) => files[key] !== undefined);
  return given && nameOf(section, given);
}

/**
 * Checks that files fit a URL. Reads none.
 * @param section of gateway.yaml; flags begin with its name
 * @param isTls whether the URL begins with `rediss://`
 * @throws SluiceError FLAG_CONFLICT
 */
export function checkTlsFiles(section: string, files: RedisTlsFiles, isTls: boolean): void {
  const given = givenTlsFile(section, files);
  if (given !== undefined && !isTls)
    throw new SluiceError("FLAG_CONFLICT", `${given} is for TLS only: the Redis URL must begin with rediss://`);
  if ((files.certificate === undefined) !== (files.key === undefined))
    throw new SluiceError(
      "FLAG_CONFLICT",
      `give both ${nameOf(section, "certificate")} and ${nameOf(section, "key")}, or neither`,
    );
}

/** Reads the files. @throws SluiceError TLS_FILE_UNREADABLE, TLS_FILE_INVALID, TLS_PAIR_MISMATCH */
export function redisConnection(url: string, { ca, certificate, key }: RedisTlsFiles): RedisConnection {
  const tls = {
    ...(ca === undefined ? {} : { ca: loadCertificates(ca) }),
    ...(certificate === undefined || key === undefined ? {} : loadTlsFiles(certificate, key)),
  };
  return { url, tls, enableTracing: false };
}

function nameOf(section: string, key: keyof typeof FLAGS): string {
  return `${section}.${key} (--${section}-${FLAGS[key]})`;
}
