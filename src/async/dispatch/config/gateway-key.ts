import { readText } from "../../../base/document/read.ts";
import { SluiceError } from "../../../base/inference/errors.ts";

/** Where the key comes from that gateways ask for. */
export interface GatewayKeySource {
  /** File with the key; undefined = none. */
  readonly path: string | undefined;
  /** The name of its flag in messages. */
  readonly flag: string;
  /** The key itself, from the environment; the file wins. */
  readonly given: string | undefined;
}

/** The longest key. */
const MAX_BYTES = 4096;
/** What a header can carry as one word. */
const ONE_WORD = /^[\x21-\x7e]+$/;

/**
 * Reads the key that gateways ask for. Blanks around it do not belong to it. No message repeats the key.
 * @returns a legal header value; undefined = there is no key
 * @throws SluiceError FLAG_VALUE, or the error of an unreadable file
 */
export async function readGatewayKey({ path, flag, given }: GatewayKeySource): Promise<string | undefined> {
  const text = path === undefined ? given : await readText(path, { maxBytes: MAX_BYTES });
  if (text === undefined) return undefined;
  const key = text.trim();
  if (ONE_WORD.test(key) && key.length <= MAX_BYTES) return key;
  const where = path === undefined ? "the environment variable SLUICE_GATEWAY_KEY" : `${flag}: ${path}`;
  const problem =
    key === "" ? "it is empty" : "it has blanks, line breaks, characters that are not ASCII, or more than 4,096 bytes";
  throw new SluiceError("FLAG_VALUE", `${where} must hold exactly one key: ${problem}`);
}
