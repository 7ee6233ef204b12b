import { stat } from "node:fs/promises";

/** What a file is: device, inode, size, times; "" when it cannot be found. Any change of its content changes the text. */
export async function fileSignature(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch {
    return "";
  }
}
