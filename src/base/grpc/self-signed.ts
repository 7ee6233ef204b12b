import { generateKeyPair, type KeyObject, randomBytes, sign } from "node:crypto";
import { promisify } from "node:util";
import type { Clock } from "../clock/clock.ts";
import type { TlsPair } from "./tls.ts";

const TEN_YEARS_MS = 10 * 365 * 24 * 3600 * 1000;

/** Tags of DER (X.690). */
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OBJECT_IDENTIFIER = 0x06;
const UTF8_STRING = 0x0c;
const UTC_TIME = 0x17;
const GENERALIZED_TIME = 0x18;
const SEQUENCE = 0x30;
const SET = 0x31;
const VERSION_FIELD = 0xa0;
const EXTENSIONS_FIELD = 0xa3;

const TRUE = Buffer.from([0x01, 1, 0xff]);
const VERSION_3 = der(INTEGER, [2]);
const ECDSA_WITH_SHA256 = der(SEQUENCE, identifier(42, 134, 72, 206, 61, 4, 3, 2));
const ORGANISATION = identifier(85, 4, 10);
const KEY_USAGE = identifier(85, 29, 15);
const BASIC_CONSTRAINTS = identifier(85, 29, 19);
const EXTENDED_KEY_USAGE = identifier(85, 29, 37);
const SERVER_AUTH = identifier(43, 6, 1, 5, 5, 7, 3, 1);
/** Digital signature and key encipherment: the first and the third bit, behind the number of unused bits. */
const SIGNS_AND_ENCIPHERS = [5, 0b1010_0000];

/** The extensions of a server that is no authority. */
const EXTENSIONS = der(
  SEQUENCE,
  der(SEQUENCE, BASIC_CONSTRAINTS, TRUE, der(OCTET_STRING, der(SEQUENCE))),
  der(SEQUENCE, KEY_USAGE, TRUE, der(OCTET_STRING, der(BIT_STRING, SIGNS_AND_ENCIPHERS))),
  der(SEQUENCE, EXTENDED_KEY_USAGE, der(OCTET_STRING, der(SEQUENCE, SERVER_AUTH))),
);

const newKeys = promisify(generateKeyPair);

/**
 * A fresh certificate for serving when none is configured: ECDSA P-256, organisation `Inference Ext`, no names, server
 * authentication, ten years from now. Data planes do not verify it. Source: epp-protocol 15.2, which allows ECDSA in place
 * of RSA.
 *
 * The certificate is always the same but for key, number and times. A library for certificates of all kinds would take a fifth of
 * the CPU time of a start.
 */
export async function selfSignedPair(clock: Clock): Promise<TlsPair> {
  const { publicKey, privateKey } = await newKeys("ec", { namedCurve: "P-256" });
  const key = String(privateKey.export({ format: "pem", type: "pkcs8" }));
  return { cert: pemOf(certificate(publicKey, privateKey, clock.wall())), key };
}

/** The certificate as DER (RFC 5280 4.1). @param now Unix milliseconds */
function certificate(publicKey: KeyObject, privateKey: KeyObject, now: number): Buffer {
  const name = der(SEQUENCE, der(SET, der(SEQUENCE, ORGANISATION, der(UTF8_STRING, Buffer.from("Inference Ext")))));
  const content = der(
    SEQUENCE,
    der(VERSION_FIELD, VERSION_3),
    der(INTEGER, serialNumber()),
    ECDSA_WITH_SHA256,
    name,
    der(SEQUENCE, time(now), time(now + TEN_YEARS_MS)),
    name,
    publicKey.export({ format: "der", type: "spki" }),
    der(EXTENSIONS_FIELD, EXTENSIONS),
  );
  return der(SEQUENCE, content, ECDSA_WITH_SHA256, der(BIT_STRING, [0], sign("sha256", content, privateKey)));
}

/** 126 random bits: at most 20 bytes, positive, and without a zero byte in front (RFC 5280 4.1.2.2). */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = (bytes[0]! & 0x7f) | 0x40;
  return bytes;
}

/** Two digits for the year until 2049, four from then on (RFC 5280 4.1.2.5). @param ms Unix milliseconds */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return text < "2050" ? der(UTC_TIME, Buffer.from(text.slice(2))) : der(GENERALIZED_TIME, Buffer.from(text));
}

/** @param bytes of the name; the first holds two of its numbers */
function identifier(...bytes: readonly number[]): Buffer {
  return der(OBJECT_IDENTIFIER, bytes);
}

/** An element: its tag, its length, and what it holds. */
function der(tag: number, ...parts: readonly (Uint8Array | readonly number[])[]): Buffer {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const size = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function pemOf(bytes: Buffer): string {
  const lines = bytes.toString("base64").replace(/.{64}(?=.)/g, "$&\n");
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}
